//! The WebSocket backend with a worker on Node (`tests/conformance/synapse`), which reads and changes a repository over
//! connections that drop. The test needs Node and `npm ci` in that folder. Without them it is skipped with a note on
//! stderr, or fails under `PUNIE_REQUIRE_CLIENTS=1`.

use std::fs::File;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::process::{ProcessSetting, RunningProgram};
use crate::harness::wait::wait_for_some;

const TOKEN: &str = "the-token-of-the-synapse-worker";

/// The path of the worker's script, or `None` where it cannot run.
fn find_script() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/synapse");
    let node = Command::new("node")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let missing = if !node.is_ok_and(|status| status.success()) {
        "Node is not installed"
    } else if !folder.join("node_modules/ws").is_dir() {
        "run `npm ci` in tests/conformance/synapse first"
    } else {
        return Some(folder.join("worker.mjs"));
    };
    let required = std::env::var_os("PUNIE_REQUIRE_CLIENTS").is_some_and(|wish| wish == "1");
    assert!(
        !required,
        "the Synapse worker is required and cannot run: {missing}"
    );
    #[expect(
        clippy::print_stderr,
        reason = "whoever runs the tests should know what was not tested"
    )]
    {
        eprintln!("SKIPPED: the conversation with a Synapse worker: {missing}");
    }
    None
}

fn run_git(folder: &Path, args: &[&str]) {
    let who = ["-c", "user.name=Test", "-c", "user.email=test@example.com"];
    let done = Command::new("git")
        .args(who)
        .args(args)
        .current_dir(folder)
        .output()
        .expect("git runs");
    assert!(
        done.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

fn make_folder(path: PathBuf) -> PathBuf {
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&path)
        .expect("a folder");
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_on_node_holds_its_conversation_over_connections_that_drop() {
    let Some(find_script) = find_script() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a folder");
    let [home, workspace, logs] =
        ["home", "work", "logs"].map(|name| make_folder(dir.path().join(name)));
    std::fs::write(dir.path().join("outside"), "mine\n").expect("written");
    std::fs::write(workspace.join("README.md"), "# A repository\n").expect("written");
    run_git(&workspace, &["init", "-q"]);
    run_git(&workspace, &["add", "."]);
    run_git(&workspace, &["commit", "-q", "-m", "begin"]);
    std::fs::write(
        home.join("config.toml"),
        "[backend]\nkind = \"websocket\"\n",
    )
    .expect("written");
    let mut options = File::options();
    let token = make_folder(home.join("tokens")).join("backend");
    let mut token = options
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(token)
        .expect("opened");
    std::io::Write::write_all(&mut token, TOKEN.as_bytes()).expect("written");

    let out = dir.path().join("worker.out");
    let err = dir.path().join("worker.err");
    let mut worker = Command::new("node")
        .arg(find_script)
        .arg(&workspace)
        .stdin(Stdio::null())
        .stdout(File::create(&out).expect("a file"))
        .stderr(File::create(&err).expect("a file"))
        .spawn()
        .expect("node starts");
    let said = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let port = wait_for_some("the worker's port", async || {
        said(&out).split_once('\n').map(|(port, _)| port.to_owned())
    })
    .await;
    let url = format!("ws://127.0.0.1:{port}/synapse");
    let setting = ProcessSetting {
        home,
        workspace,
        url,
        logs,
        roots: None,
    };
    let runner = RunningProgram::start(&setting, &["run"]);
    let ended = wait_for_some("the end of the conversation", async || {
        worker.try_wait().expect("the worker's state")
    })
    .await;
    assert!(
        ended.success() && said(&out).ends_with("ok\n"),
        "{}\n{}",
        said(&err),
        runner.log()
    );
}
