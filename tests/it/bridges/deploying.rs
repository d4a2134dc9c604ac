//! Deployments of bridges: refusals, the use of npm, and a kill at every step.

use std::ffi::OsStr;
use std::path::Path;

use super::npm_registry::NpmRegistry;
use super::{bridges_command, deploy_bridge, find_listed, lacks_node, read_data, write_bundle};
use crate::harness::process::{EndedProgram, RunningProgram};
use crate::harness::stage::RunnerFixture;

/// Deploys with these environment variables: the address of the registry, or the failpoints that end the process.
async fn deploy_with(
    setup: &RunnerFixture,
    bundle: &Path,
    beside: &[&str],
    variables: &[(&str, &str)],
) -> EndedProgram {
    let bundle = bundle.display().to_string();
    let args = ["--json", "bridges", "deploy", "fresh", &bundle];
    let variables: Vec<(&str, &OsStr)> = variables
        .iter()
        .map(|(name, value)| (*name, OsStr::new(*value)))
        .collect();
    RunningProgram::start_with(&setup.setting, &[&args, beside].concat(), &variables)
        .end()
        .await
}

/// Returns the names in a folder of the home, sorted.
fn names_in(setup: &RunnerFixture, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(setup.setting.home.join(folder));
    let entries = entries.into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn dependencies_are_pinned_and_nothing_of_them_runs_at_the_deployment() {
    if lacks_node() {
        return;
    }
    let setup = RunnerFixture::new().await;
    let ran = setup.file("ran");
    let script = format!(
        "echo ran > {}; echo ran > ran; echo ran > ../ran",
        ran.display()
    );
    let scripts = format!(
        r#"{{"name":"scripted","version":"1.2.3","dependencies":{{"inner":"^1.0.0"}},
            "scripts":{{"preinstall":"{script}","install":"{script}","postinstall":"{script}"}}}}"#
    );
    let inner = r#"{"name":"inner","version":"1.0.5"}"#;
    let elsewhere = r#"{"name":"elsewhere","version":"1.0.0","dependencies":{"inner":"URL/inner/-/inner-1.0.5.tgz"}}"#;
    let registry = NpmRegistry::start(&[
        (&scripts, "module.exports = 'outer ' + require('inner');"),
        (inner, "module.exports = 'inner';"),
        (elsewhere, ""),
    ])
    .await;
    let settings = [("npm_config_registry", registry.url.as_str())];
    let bundle = write_bundle(
        &setup,
        "fresh",
        "const fs = require('fs'), said = process.env.PUNIE_BRIDGE_DATA + '/said';\n\
         fs.writeFileSync(said + '.part', require('scripted'));\n\
         fs.renameSync(said + '.part', said);",
    );
    let refused = deploy_with(
        &setup,
        &bundle,
        &["--dependency", "elsewhere@1.0.0"],
        &settings,
    )
    .await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.log.contains("does not come from the registry"),
        "{refused:?}"
    );
    let missing = deploy_with(
        &setup,
        &bundle,
        &["--dependency", "scripted@9.9.9"],
        &settings,
    )
    .await;
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert_eq!(names_in(&setup, "bridges"), [""; 0], "nothing is deployed");
    let deployed = deploy_with(
        &setup,
        &bundle,
        &["--dependency", "scripted@1.2.3"],
        &settings,
    )
    .await;
    assert_eq!(deployed.code, Some(0), "{deployed:?}");
    assert!(!ran.exists(), "a script ran");
    let code = setup.setting.home.join("bridges/fresh/code");
    assert!(!code.join("ran").exists() && !code.join("node_modules/scripted/ran").exists());
    let lock = std::fs::read_to_string(code.join("package-lock.json")).expect("a lock file");
    assert!(lock.contains("sha512-") && lock.contains("1.0.5"), "{lock}");
    // The same dependencies get the same versions, because the lock file is used again.
    std::fs::write(bundle.join("more.js"), "").expect("written");
    let again = deploy_with(
        &setup,
        &bundle,
        &["--dependency", "scripted@1.2.3"],
        &settings,
    )
    .await;
    assert_eq!(again.code, Some(0), "{again:?}");
    let same = std::fs::read_to_string(code.join("package-lock.json")).expect("a lock file");
    assert_eq!(same, lock);
    assert_eq!(names_in(&setup, "state/bridges/staging"), [""; 0]);
    bridges_command(&setup, &["start", "fresh"]).await;
    let _runner = setup.run();
    assert_eq!(read_data(&setup, "fresh", "said").await, "outer inner");
}

#[tokio::test]
async fn what_cannot_be_pinned_or_named_is_refused() {
    let setup = RunnerFixture::with_unpaired_device("").await;
    let bundle = write_bundle(&setup, "plain", "");
    for (name, beside) in [
        ("../escape", &[][..]),
        ("Upper", &[]),
        ("fine", &["--dependency", "left-pad@^1.0.0"]),
        (
            "fine",
            &["--dependency", "left-pad@git+https://example.org/x.git"],
        ),
        ("fine", &["--dependency", "left-pad"]),
        ("fine", &["--host", "a b"]),
        ("fine", &["--secret", "NODE_OPTIONS=bot"]),
        ("fine", &["--secret", "PATH=bot"]),
        ("fine", &["--secret", "BOT"]),
    ] {
        let refused = deploy_bridge(&setup, name, &bundle, beside).await;
        assert_eq!(refused.code, Some(2), "{name} {beside:?}: {refused:?}");
    }
    // With this file npm would run a program although its scripts are off.
    std::fs::write(bundle.join(".npmrc"), "script-shell=./evil\n").expect("written");
    let refused = deploy_bridge(&setup, "fine", &bundle, &[]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.log.contains(".npmrc would tell npm"), "{refused:?}");
    assert_eq!(names_in(&setup, "bridges"), [""; 0]);
    // A link in place of a bridge's folder is not followed.
    std::fs::remove_file(bundle.join(".npmrc")).expect("removed");
    let place = setup.setting.home.join("bridges/linked");
    std::os::unix::fs::symlink(&setup.setting.workspace, &place).expect("a link");
    let refused = deploy_bridge(&setup, "linked", &bundle, &[]).await;
    assert_eq!(refused.code, Some(78), "{refused:?}");
    assert_eq!(
        std::fs::read_dir(&setup.setting.workspace)
            .expect("there")
            .count(),
        0
    );
}

#[tokio::test]
async fn a_kill_at_every_step_leaves_the_old_or_the_new_bridge() {
    let setup = RunnerFixture::with_unpaired_device("").await;
    let old = write_bundle(&setup, "old", "old");
    let new = write_bundle(&setup, "new", "new");
    let code = setup.setting.home.join("bridges/fresh/code/bridge.js");
    for (point, left) in [
        ("bridge.copied", "old"),
        ("bridge.installed", "old"),
        ("bridge.decided", "new"),
        ("tree.placed", "new"),
        ("bridge.recorded", "new"),
    ] {
        let deployed = deploy_with(&setup, &old, &[], &[]).await;
        assert_eq!(deployed.code, Some(0), "{deployed:?}");
        let before = find_listed(&setup, "fresh").await.expect("deployed");
        let kill = format!("{point}=kill");
        let killed = deploy_with(&setup, &new, &[], &[("PUNIE_FAILPOINTS", &kill)]).await;
        assert_eq!(killed.code, None, "{point}: {killed:?}");
        // The next command completes the deployment or takes it back.
        let after = find_listed(&setup, "fresh").await.expect("deployed");
        assert_eq!(
            std::fs::read_to_string(&code).expect("code"),
            left,
            "{point}"
        );
        assert_eq!(
            after["sha256"] == before["sha256"],
            left == "old",
            "{point}"
        );
        assert_eq!(
            names_in(&setup, "state/bridges/staging"),
            [""; 0],
            "{point}"
        );
        assert_eq!(names_in(&setup, "bridges"), ["fresh"], "{point}");
    }
    for point in ["bridge.decided", "tree.moved", "bridge.recorded"] {
        deploy_with(&setup, &old, &[], &[]).await;
        let kill = format!("{point}=kill");
        let remove = ["bridges", "remove", "fresh"];
        let armed = [("PUNIE_FAILPOINTS", OsStr::new(&kill))];
        let killed = RunningProgram::start_with(&setup.setting, &remove, &armed)
            .end()
            .await;
        assert_eq!(killed.code, None, "{point}: {killed:?}");
        assert_eq!(find_listed(&setup, "fresh").await, None, "{point}");
        for folder in ["bridges", "state/bridges/staging"] {
            assert_eq!(names_in(&setup, folder), [""; 0], "{point}");
        }
    }
}
