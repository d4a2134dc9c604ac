//! Uninstalling packages, and restoring them.

use punie_core::clock::{Clock, ExpiryClock};
use serde_json::json;

use super::{ENABLED, StoreFixture, read_files, render_files, skill_package};
use crate::harness::process::EndedProgram;
use crate::harness::stage::RunnerFixture;

#[tokio::test]
async fn only_what_a_package_installed_is_removed() {
    let store = StoreFixture::new();
    store.write("skills/mine/SKILL.md", "Mine.\n");
    let uninstall = "UninstallPackage";
    let (code, text) = store
        .refused(uninstall, &json!({"type": "skill", "localId": "mine"}))
        .await;
    assert_eq!(code, "not_found");
    assert!(text.contains("only the owner removes it"), "{text}");
    let (code, _) = store
        .refused(uninstall, &json!({"type": "theme", "localId": "none"}))
        .await;
    assert_eq!(code, "not_found");
    store
        .install("InstallSkillPackage", &skill_package("1", "One."))
        .await;
    let wrong = json!({"packageId": "other", "type": "skill", "localId": "notes"});
    let (_, text) = store.refused(uninstall, &wrong).await;
    assert!(text.contains("belongs to the package \"pack\""), "{text}");
    let said = store
        .call(uninstall, &json!({"type": "mod", "localId": "x"}))
        .await
        .expect("a note");
    assert_eq!(
        (&said["uninstalled"], &said["requiresRevert"]),
        (&json!(false), &json!(true))
    );
    assert!(
        said["note"]
            .as_str()
            .expect("text")
            .contains("SelfModRevert")
    );
}

fn success_output(ended: EndedProgram) -> String {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.out
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_removed_comes_back_with_the_owners_changes() {
    let setup = RunnerFixture::with_unpaired_device(ENABLED).await;
    let call = async |tool: &str, args: &str| setup.command(&["--json", "call", tool, args]).await;
    success_output(
        call(
            "InstallSkillPackage",
            &skill_package("1.0.0", "One.").to_string(),
        )
        .await,
    );
    let folder = setup.setting.home.join("skills/notes");
    std::fs::write(folder.join("more.md"), "Mine.\n").expect("written");
    let before = render_files(&read_files(&folder));
    let listed = setup.command(&["--json", "packages"]).await.json();
    assert_eq!(
        (&listed["state"], &listed["id"]),
        (&json!("changed"), &json!("notes"))
    );
    assert_eq!(listed["changes"], json!(["added more.md"]));
    let table = success_output(setup.command(&["packages"]).await);
    for words in ["notes", "pack", "1.0.0", "changed since: added more.md"] {
        assert!(table.contains(words), "{words}: {table}");
    }
    success_output(call("UninstallPackage", r#"{"type":"skill","localId":"notes"}"#).await);
    assert!(!folder.exists());
    let listed = setup.command(&["--json", "packages"]).await.json();
    assert_eq!(listed["state"], "removed");
    success_output(
        setup
            .command(&["packages", "restore", "skill", "notes"])
            .await,
    );
    assert_eq!(render_files(&read_files(&folder)), before);

    // The restored package is managed again: it can be uninstalled, and a restore does not replace it.
    let again = setup
        .command(&["packages", "restore", "skill", "notes"])
        .await;
    assert_eq!(again.code, Some(1), "{again:?}");
    let out = success_output(
        setup
            .command(&["packages", "uninstall", "skill", "notes"])
            .await,
    );
    assert!(out.contains("packages restore skill notes"), "{out}");
    success_output(
        call(
            "InstallSkillPackage",
            &skill_package("2.0.0", "Two.").to_string(),
        )
        .await,
    );
    let there = setup
        .command(&["packages", "restore", "skill", "notes"])
        .await;
    assert_eq!(there.code, Some(1), "{there:?}");
    assert!(there.log.contains("Uninstall it first"), "{there:?}");
    let bad = setup
        .command(&["packages", "restore", "skill", "../x"])
        .await;
    assert_eq!(bad.code, Some(2), "{bad:?}");
}

#[tokio::test]
async fn of_replaced_versions_the_last_is_kept() {
    let store = StoreFixture::new();
    let removed = store.home.join("state/packages/removed");
    let count = || std::fs::read_dir(&removed).expect("a folder").count();
    for (version, left) in [("1", 0), ("2", 1), ("3", 1), ("4", 1)] {
        store
            .install("InstallSkillPackage", &skill_package(version, version))
            .await;
        assert_eq!(count(), left, "version {version}");
    }
    let gone = json!({"type": "skill", "localId": "notes"});
    store
        .call("UninstallPackage", &gone)
        .await
        .expect("removed");
    assert_eq!(
        count(),
        2,
        "the uninstalled version must be kept beside the replaced one"
    );
}

#[tokio::test]
async fn a_removed_package_is_kept_for_its_time() {
    let store = StoreFixture::new();
    store
        .install("InstallSkillPackage", &skill_package("1", "One."))
        .await;
    store
        .call(
            "UninstallPackage",
            &json!({"type": "skill", "localId": "notes"}),
        )
        .await
        .expect("removed");
    let removed = store.home.join("state/packages/removed");
    assert_eq!(std::fs::read_dir(&removed).expect("a folder").count(), 1);
    // With a day to keep, the package is still there. With no time to keep, it is removed.
    let home = punie_home::Home::open_home(&store.home).expect("a home");
    for (keep, left) in [(86_400, 1), (0, 0)] {
        if left == 0 {
            let file = store.home.join("state/packages.json");
            let text = std::fs::read_to_string(&file).expect("records");
            let envelope: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let mut records = envelope["data"].clone();
            records["removed"][0]["atMs"] = json!(1);
            std::fs::write(&file, records.to_string()).expect("written");
        }
        let clock = Clock::system();
        let now_ms = clock.now_ms();
        let clock = ExpiryClock::from_known_time(clock, Some(now_ms));
        let packages =
            punie_home::PackageStore::in_home(&home, std::time::Duration::from_secs(keep))
                .with_expiry_clock(&clock);
        packages.recover_changes().expect("a home");
        assert_eq!(std::fs::read_dir(&removed).expect("a folder").count(), left);
    }
}

#[tokio::test]
async fn a_damaged_record_refuses_changes_and_stays() {
    let store = StoreFixture::new();
    store
        .install("InstallSkillPackage", &skill_package("1", "One."))
        .await;
    let file = store.home.join("state/packages.json");
    std::fs::write(&file, "{\"sha256\": \"torn").expect("written");
    let calls = [
        ("InstallSkillPackage", skill_package("2", "Two.")),
        (
            "UninstallPackage",
            json!({"type": "skill", "localId": "notes"}),
        ),
    ];
    for (tool, args) in &calls {
        let (code, text) = store.refused(tool, args).await;
        assert_eq!(code, "io", "{text}");
        for words in ["packages cannot be changed", "is damaged", "mv "] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
    // The previous version of the record works, as the text advises.
    std::fs::rename(store.home.join("state/packages.json.previous"), &file).expect("moved");
    assert_eq!(
        store
            .install("InstallSkillPackage", &skill_package("2", "Two."))
            .await,
        "updated"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_with_a_damaged_record_does_everything_else() {
    let setup = RunnerFixture::with_config(ENABLED).await;
    std::fs::write(setup.setting.home.join("state/packages.json"), "torn").expect("written");
    setup.write("a.txt", "Text.\n");
    let read = setup
        .ask(crate::harness::caller::ToolCall::new(
            "Read",
            &json!({"file_path": "a.txt"}),
        ))
        .await;
    setup.once().await;
    assert_eq!(setup.answer(&read).await.outcome, "ok");
    let listed = setup.command(&["packages"]).await;
    assert_eq!(listed.code, Some(78), "{listed:?}");
    assert!(listed.log.contains("is damaged"), "{listed:?}");
}
