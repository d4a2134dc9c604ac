//! Bridges with real Node programs, a real runner and a real npm: deployed, restarted, confined, and replaced.
#![cfg(target_os = "linux")]

mod deploying;
mod npm_registry;
mod running;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::contract::node_is_required;
use crate::harness::process::EndedProgram;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_for_some;

/// Returns whether the test cannot run, for lack of Node. Where Node is required, that is a failure.
fn lacks_node() -> bool {
    let has_all = ["node", "npm"].iter().all(|program| {
        let asked = Command::new(program).arg("--version").output();
        asked.is_ok_and(|output| output.status.success())
    });
    assert!(has_all || !node_is_required(), "node and npm are missing");
    if !has_all {
        let _ = writeln!(std::io::stderr(), "SKIPPED: node and npm are missing");
    }
    !has_all
}

/// Writes the code of a bundle and returns the bundle's folder.
fn write_bundle(setup: &RunnerFixture, name: &str, code: &str) -> PathBuf {
    let folder = setup.setting.logs.join("bundles").join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("bridge.js"), code).expect("written");
    folder
}

/// Deploys a bundle with these further arguments.
async fn deploy_bridge(
    setup: &RunnerFixture,
    name: &str,
    bundle: &std::path::Path,
    beside: &[&str],
) -> EndedProgram {
    let bundle = bundle.display().to_string();
    let args = ["--json", "bridges", "deploy", name, &bundle];
    setup.command(&[&args, beside].concat()).await
}

async fn bridges_command(setup: &RunnerFixture, args: &[&str]) -> EndedProgram {
    let ended = setup
        .command(&[&["--json", "bridges"], args].concat())
        .await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended
}

/// Returns the entry of `bridges list` for a bridge.
async fn find_listed(setup: &RunnerFixture, name: &str) -> Option<Value> {
    let ended = bridges_command(setup, &["list"]).await;
    let lines = ended.out.lines();
    let lines = lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.into_iter().find(|line| line["name"] == name)
}

/// Waits for a file in a bridge's data folder and returns its text. The bridge must create the file complete.
async fn read_data(setup: &RunnerFixture, name: &str, file: &str) -> String {
    let path = setup
        .setting
        .home
        .join("bridges")
        .join(name)
        .join("data")
        .join(file);
    wait_for_some(file, async || std::fs::read_to_string(&path).ok()).await
}
