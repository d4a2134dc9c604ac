//! A kill at every step of an install, an update, an uninstall and a restore.

use std::ffi::OsStr;

use serde_json::{Value, json};

use super::{ENABLED, read_files, render_files, skill_package, theme_package};
use crate::harness::process::RunningProgram;
use crate::harness::stage::RunnerFixture;

/// One kind of package, with an old and a new version.
struct PackageCase {
    kind: &'static str,
    id: &'static str,
    place: &'static str,
    tool: &'static str,
    old: Value,
    new: Value,
}

fn package_cases() -> [PackageCase; 2] {
    [
        PackageCase {
            kind: "skill",
            id: "notes",
            place: "skills",
            tool: "InstallSkillPackage",
            old: skill_package("1.0.0", "Old."),
            new: skill_package("2.0.0", "New."),
        },
        PackageCase {
            kind: "theme",
            id: "dusk",
            place: "themes",
            tool: "InstallThemePackage",
            old: theme_package("old"),
            new: theme_package("new"),
        },
    ]
}

/// Renders the installed files of this kind of package.
fn installed_state(setup: &RunnerFixture, case: &PackageCase) -> String {
    let folder = setup.setting.home.join(case.place);
    if folder.exists() {
        render_files(&read_files(&folder))
    } else {
        String::new()
    }
}

async fn run_program(setup: &RunnerFixture, args: &[&str]) {
    let ended = setup.command(args).await;
    assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
}

/// Kills a command at a failpoint. Checks the installed files after the kill and after the next start, and that nothing
/// else is left.
async fn kill_and_check(
    setup: &RunnerFixture,
    case: &PackageCase,
    args: &[&str],
    point: &str,
    after: &str,
) {
    let before = installed_state(setup, case);
    let armed = [("PUNIE_FAILPOINTS", OsStr::new(point))];
    let ended = RunningProgram::start_with(&setup.setting, args, &armed)
        .end()
        .await;
    assert_eq!(ended.code, None, "{point}: {ended:?}");
    let now = installed_state(setup, case);
    assert!(now == before || now == after, "{point}: {now}");
    setup.once().await;
    let now = installed_state(setup, case);
    // Without a record, nothing has begun. With one, the next start completes the change.
    let expected = if point.starts_with("packages.staged") {
        &*before
    } else {
        after
    };
    assert_eq!(now, expected, "{point}");
    let folder = setup.setting.home.join("state");
    let records = std::fs::read_to_string(folder.join("packages.json")).unwrap_or_default();
    assert!(!records.contains("\"pending\":{"), "{point}: {records}");
    let staged = std::fs::read_dir(folder.join("packages/staging")).expect("a folder");
    assert_eq!(staged.count(), 0, "{point}");
    let removed = std::fs::read_dir(folder.join("packages/removed")).expect("a folder");
    let known = setup.command(&["--json", "packages"]).await.out;
    let known = known
        .lines()
        .filter(|line| line.contains("\"state\":\"removed\""))
        .count();
    assert_eq!(removed.count(), known, "{point}");
}

/// Runs these commands without a kill, in a home of their own, and returns the installed files.
async fn final_state(case: &PackageCase, steps: &[Vec<String>]) -> String {
    let setup = RunnerFixture::with_unpaired_device(ENABLED).await;
    for step in steps {
        run_program(&setup, &step.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    installed_state(&setup, case)
}

fn owned_words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

async fn check_change(
    case: &PackageCase,
    before: &[Vec<String>],
    change: Vec<String>,
    points: &[&str],
) {
    let mut steps = before.to_vec();
    steps.push(change.clone());
    let after = final_state(case, &steps).await;
    for point in points {
        let setup = RunnerFixture::with_config(ENABLED).await;
        for step in before {
            run_program(&setup, &step.iter().map(String::as_str).collect::<Vec<_>>()).await;
        }
        let change: Vec<&str> = change.iter().map(String::as_str).collect();
        let point = format!("packages.{point}=kill");
        kill_and_check(&setup, case, &change, &point, &after).await;
        // The next install works as if there had been no kill.
        let again = setup
            .command(&["--json", "call", case.tool, &case.new.to_string()])
            .await;
        assert_eq!(again.code, Some(0), "{point}: {again:?}");
    }
}

fn install_words(case: &PackageCase, args: &Value) -> Vec<String> {
    owned_words(&["--json", "call", case.tool, &args.to_string()])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w55_a_kill_at_every_step_of_an_install_leaves_nothing_or_all() {
    for case in package_cases() {
        let points = ["staged", "recorded", "moved", "complete"];
        check_change(&case, &[], install_words(&case, &case.new), &points).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w55_a_kill_at_every_step_of_an_update_leaves_the_old_or_the_new() {
    for case in package_cases() {
        let points = ["staged", "recorded", "put_in_place", "moved", "complete"];
        let before = [install_words(&case, &case.old)];
        check_change(&case, &before, install_words(&case, &case.new), &points).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w55_a_kill_at_every_step_of_an_uninstall_or_a_restore_loses_nothing() {
    let points = ["recorded", "moved", "complete"];
    for case in package_cases() {
        let args = json!({"type": case.kind, "localId": case.id}).to_string();
        let uninstall = owned_words(&["--json", "call", "UninstallPackage", &args]);
        let before = [install_words(&case, &case.old)];
        check_change(&case, &before, uninstall.clone(), &points).await;
        let before = [install_words(&case, &case.old), uninstall];
        let restore = owned_words(&["--json", "packages", "restore", case.kind, case.id]);
        check_change(&case, &before, restore, &points).await;
    }
}
