//! `uninstall`: the files that it removes, and those that it reports as left. Service managers are tested in
//! service.rs.
#![cfg(unix)]

use crate::harness::process::RunningProgram;
use crate::harness::stage::RunnerFixture;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uninstall_names_what_is_left_and_removes_the_home_only_when_told() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let home = setup.setting.home.clone();
    let device = setup.status().await["deviceId"]
        .as_str()
        .expect("an id")
        .to_owned();
    for args in [
        &["uninstall"][..],
        &["uninstall", "--remove-home", "--dry-run"],
    ] {
        let said = setup.command(args).await;
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_contains!(
            said.out,
            &format!("operator devices revoke {device}"),
            "- the program "
        );
        assert!(home.join("device.json").is_file());
    }
    let asked = setup.command(&["uninstall", "--remove-home"]).await;
    assert_eq!(asked.code, Some(2), "nobody can be asked: {asked:?}");
    let held = setup
        .command(&["uninstall", "--remove-home", "--yes"])
        .await;
    assert_eq!(held.code, Some(75), "a runner runs: {held:?}");
    assert!(
        home.join("device.json").is_file() && held.log.contains("stop its runner"),
        "{held:?}"
    );
    runner.terminate();
    runner.end().await;
    let gone = setup
        .command(&["--json", "uninstall", "--remove-home", "--yes"])
        .await;
    assert_eq!(gone.code, Some(0), "{gone:?}");
    assert_eq!(gone.json()["removed"][0], home.display().to_string());
    assert!(!home.exists() && setup.setting.workspace.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uninstall_removes_no_folder_that_is_no_home_or_holds_the_users() {
    let setup = RunnerFixture::new().await;
    let home = setup.setting.home.clone();
    let args = ["uninstall", "--remove-home", "--yes"];
    setup.once().await;
    let user = [("HOME", home.as_os_str())];
    let refused = RunningProgram::start_with(&setup.setting, &args, &user);
    let refused = refused.end().await;
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(
        refused.log.contains("lies in it") && home.join("device.json").is_file(),
        "{refused:?}"
    );
    std::fs::rename(home.join("device.json"), home.join("aside")).expect("moved");
    let refused = setup.command(&args).await;
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(
        refused.log.contains("device.json") && home.join("aside").is_file(),
        "{refused:?}"
    );
}
