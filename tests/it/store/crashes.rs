//! A kill of a program that installs, updates, uninstalls or restores a package. A kill at each rename is tested beside
//! `TreeChange`.

use std::ffi::OsStr;
use std::fs;

use serde_json::json;

use super::{ENABLED, skill_package};
use crate::harness::process::RunningProgram;
use crate::harness::stage::RunnerFixture;

/// The last line of the installed skill; empty if there is none.
fn installed_text(setup: &RunnerFixture) -> String {
    let text = fs::read_to_string(setup.setting.home.join("skills/notes/SKILL.md"));
    let text = text.unwrap_or_default();
    text.lines().last().unwrap_or_default().to_owned()
}

/// Kills a command at a failpoint, and lets the next start of the runner complete or take back the change. Returns the
/// installed text, after a check that nothing else is left.
async fn kill_and_recover(setup: &RunnerFixture, args: &[&str], point: &str) -> String {
    let kill = format!("{point}=kill");
    let armed = [("PUNIE_FAILPOINTS", OsStr::new(&kill))];
    let killed = RunningProgram::start_with(&setup.setting, args, &armed);
    let killed = killed.end().await;
    assert_eq!(killed.code, None, "{point} {args:?}: {killed:?}");
    setup.once().await;
    let state = setup.setting.home.join("state");
    let records = fs::read_to_string(state.join("packages.json")).unwrap_or_default();
    assert!(!records.contains("\"pending\":{"), "{point}: {records}");
    let count = |folder: &str| fs::read_dir(state.join(folder)).expect("a folder").count();
    assert_eq!(count("packages/staging"), 0, "{point} {args:?}");
    let listed = setup.command(&["--json", "packages"]).await.out;
    let removed = listed.matches("\"state\":\"removed\"").count();
    assert_eq!(count("packages/removed"), removed, "{point}: {listed}");
    installed_text(setup)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_a_kill_cut_off_is_completed_by_the_next_start() {
    let [one, two] = ["One.", "Two."].map(|text| skill_package("1.0.0", text).to_string());
    let notes = json!({"type": "skill", "localId": "notes"}).to_string();
    let changes: [(&[&str], &str); 4] = [
        (&["--json", "call", "InstallSkillPackage", &one], "One."),
        (&["--json", "call", "InstallSkillPackage", &two], "Two."),
        (&["--json", "call", "UninstallPackage", &notes], ""),
        (&["packages", "restore", "skill", "notes"], "Two."),
    ];
    let points = [
        "packages.recorded",
        "tree.placed",
        "tree.moved",
        "packages.complete",
    ];
    for point in points {
        let setup = RunnerFixture::with_config(ENABLED).await;
        for (args, text) in changes {
            let installed = kill_and_recover(&setup, args, point).await;
            assert_eq!(installed, text, "{point} {args:?}");
        }
        // Before its record, nothing of a change has begun.
        let installed = kill_and_recover(&setup, changes[0].0, "packages.staged").await;
        assert_eq!(installed, "Two.");
    }
}
