//! A home that others could read or change: the program refuses to start on it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::harness::stage::RunnerFixture;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
}

fn file_mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h104_a_home_that_is_open_to_others_is_not_started_on_and_left_as_it_is() {
    let setup = RunnerFixture::new().await;
    let home = &setup.setting.home;
    setup.ask_bash("echo ran >> effects").await;
    for (place, loose) in [
        ("state", 0o755),
        ("state", 0o710),
        ("state", 0o707),
        ("keys", 0o755),
        ("keys/device.ed25519", 0o644),
        ("keys/device.ed25519", 0o640),
        ("keys/device.ed25519", 0o602),
        ("tokens", 0o750),
        ("state/outputs", 0o755),
        ("", 0o777),
        ("", 0o720),
    ] {
        let path = home.join(place);
        let before = file_mode(&path);
        set_mode(&path, loose);
        for args in [&["run"][..], &["--once"]] {
            let ended = setup.command(args).await;
            assert_eq!(ended.code, Some(77), "{place} {loose:o}: {ended:?}");
            let said = format!("{}{}", ended.out, ended.log);
            assert_contains!(said, "chmod", place; "{place} {loose:o}");
        }
        assert_eq!(
            file_mode(&path),
            loose,
            "the program must not change the mode: {place}"
        );
        set_mode(&path, before);
    }
    assert_eq!(setup.read("effects"), "", "no command may run");
    setup.once().await;
    assert_eq!(
        setup.read("effects"),
        "ran\n",
        "with the old modes, the program must start"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h104_a_home_of_another_user_is_not_started_on() {
    if !crate::harness::left_out::can_be_tried(
        "H104, a home of another user",
        (!rustix::process::geteuid().is_root()).then_some("only root can give files away"),
    ) {
        return;
    }
    let setup = RunnerFixture::new().await;
    for place in ["state", "keys/device.ed25519", ""] {
        let path = setup.setting.home.join(place);
        std::os::unix::fs::chown(&path, Some(65_534), None).expect("given away");
        let ended = setup.command(&["run"]).await;
        assert_eq!(ended.code, Some(77), "{place}: {ended:?}");
        std::os::unix::fs::chown(&path, Some(0), None).expect("taken back");
    }
}
