//! Two homes side by side, and a third in the user's folder: each has its own packages.

use std::ffi::OsStr;

use serde_json::json;

use super::{read_files, render_files, skill_package, theme_package};
use crate::harness::process::RunningProgram;
use crate::harness::stage::RunnerFixture;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_path_is_of_the_given_home() {
    let setup = RunnerFixture::with_unpaired_device(super::ENABLED).await;
    let folder = tempfile::tempdir().expect("a folder");
    let user = folder.path().join("user");
    let homes = ["a", "b"].map(|name| folder.path().join(name));
    for home in homes.iter().chain([&user.join(".punie")]) {
        std::fs::create_dir_all(home).expect("made");
        std::fs::write(home.join("config.toml"), super::ENABLED).expect("written");
    }
    std::fs::create_dir_all(user.join(".punie/skills/notes")).expect("made");
    std::fs::write(user.join(".punie/skills/notes/SKILL.md"), "The user's.\n").expect("written");
    let before = render_files(&read_files(&user));
    let run = async |home: &std::path::Path, args: &[&str]| {
        let variables: [(&str, &OsStr); 2] =
            [("HOME", user.as_ref()), ("PUNIE_HOME", home.as_ref())];
        let ended = RunningProgram::start_with(&setup.setting, args, &variables)
            .end()
            .await;
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
        ended
    };
    for (home, text) in homes.iter().zip(["In a.", "In b."]) {
        let canvas = json!({"packageId": "pack", "workspaceId": "chart"});
        let plugin = json!({"pluginId": "probe", "manifest": {"command": ["bash"]}});
        for (tool, args) in [
            ("InstallSkillPackage", skill_package("1.0.0", text)),
            ("InstallThemePackage", theme_package(text)),
            ("InstallCanvasPackage", canvas),
            ("InstallPluginPackage", plugin),
        ] {
            run(home, &["--json", "call", tool, &args.to_string()]).await;
        }
    }
    let skill_of = |home: &std::path::Path| {
        std::fs::read_to_string(home.join("skills/notes/SKILL.md")).unwrap_or_default()
    };
    assert!(skill_of(&homes[0]).ends_with("In a.\n") && skill_of(&homes[1]).ends_with("In b.\n"));
    run(&homes[0], &["packages", "uninstall", "canvas", "chart"]).await;
    run(&homes[0], &["packages", "uninstall", "skill", "notes"]).await;
    assert!(!homes[0].join("apps/chart").exists() && homes[1].join("apps/chart").is_dir());
    run(&homes[0], &["packages", "restore", "skill", "notes"]).await;
    let listed = run(&homes[1], &["--json", "packages"]).await;
    assert_eq!(listed.out.lines().count(), 4, "{listed:?}");
    assert_eq!(
        render_files(&read_files(&user)),
        before,
        "the user's folder must not change"
    );
    assert!(
        !setup.setting.home.join("apps").exists(),
        "the runner's own home must not change"
    );
}
