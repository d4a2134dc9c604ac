//! Faults at the start of the program: each cause has its exit code and a message with the remedy.

use std::path::Path;

use crate::harness::process::ProcessSetting;
use crate::harness::process::{EndedProgram, RunningProgram};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

/// Checks that the program ended with this code and logged these words.
fn assert_ends(ended: &EndedProgram, code: i32, words: &[&str]) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    for word in words {
        assert_contains!(ended.log, word);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_is_away_at_the_start_is_tried_until_it_comes() {
    let mut setup = RunnerFixture::new().await;
    let id = setup.ask_bash("echo found").await;
    setup.stop_backend().await;
    assert_ends(&setup.command(&["--once"]).await, 69, &[&setup.setting.url]);
    let runner = setup.run();
    wait_until("three failed polls", || {
        runner.log().matches("could not be polled").count() >= 3
    })
    .await;
    setup.start_backend().await;
    setup.answer(&id).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_pairing_code_is_refused_and_the_right_one_works() {
    let setup = RunnerFixture::with_unpaired_device("").await;
    let wrong = "does not accept this pairing code";
    let none = "is not paired with";
    for (args, words) in [
        (&["run", "--pairing-code", "WRONG-CODE"][..], wrong),
        (&["run"], none),
        (&["--once"], none),
        (&["pair", "WRONG-CODE"], wrong),
    ] {
        let advice = "then run: punie-runner pair CODE";
        assert_ends(&setup.command(args).await, 77, &[words, advice]);
    }
    let paired = setup.command(&["pair", setup.pairing_code()]).await;
    assert_eq!(paired.code, Some(0), "{paired:?}");
    assert_eq!(setup.once().await["pending"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_gone_is_opened_anew() {
    let setup = RunnerFixture::new().await;
    let token = setup.setting.tokens().join("device");
    let spoil: [&dyn Fn(); 3] = [
        &|| std::fs::remove_file(&token).expect("removed"),
        &|| std::fs::write(&token, "a token of somebody else").expect("overwritten"),
        &|| {
            let db = setup.database();
            db.execute("update devices set token_hash = zeroblob(32)", [])
                .expect("changed");
        },
    ];
    for spoil in spoil {
        let id = setup.ask_bash("echo ran >> effects").await;
        spoil();
        assert_eq!(setup.once().await["delivered"], 1);
        setup.answer(&id).await.expect_ok();
    }
    // The same while the runner runs: it posts the result under the new session.
    let _runner = setup.run();
    let id = setup
        .ask_bash("echo begun > begun; until [ -e go ]; do sleep 0.02; done")
        .await;
    setup.wait_for_line_in("begun").await;
    spoil[2]();
    setup.write("go", "");
    setup.answer(&id).await.expect_ok();
    setup.bash("echo again").await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_device_is_refused() {
    let setup = RunnerFixture::new().await;
    setup
        .database()
        .execute("update devices set revoked = 1", [])
        .expect("revoked");
    assert_ends(&setup.command(&["--once"]).await, 77, &["revoked"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f55_a_second_instance_gives_way_and_names_the_first() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    runner.wait_for_log("the runner is up").await;
    let status = setup.command(&["--json", "status"]).await.json();
    assert_eq!(status["running"], true, "{status}");
    let pid = status["pid"].as_u64().expect("a process id").to_string();
    for args in [&["run"][..], &["--once"]] {
        assert_ends(&setup.command(args).await, 75, &[&pid]);
    }
    setup.bash("echo unharmed").await.expect_ok();
    runner.kill();
    // A lock whose holder was killed is free.
    assert_eq!(setup.once().await["pending"], 0);
    let status = setup.command(&["--json", "status"]).await.json();
    assert_fields!(status, {"running": false, "inFlight": 0});
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_that_cannot_be_written_ends_the_program() {
    let setup = RunnerFixture::new().await;
    // No user can create folders there, not even root.
    let nowhere = ProcessSetting {
        home: Path::new("/proc/punie/home").to_owned(),
        ..setup.setting.clone()
    };
    let ended = RunningProgram::start(&nowhere, &["run"]).end().await;
    assert_ends(&ended, 73, &["/proc/punie/home", "--home"]);
    let journal = setup.setting.home.join("state/journal.sqlite3");
    if journal.exists() {
        std::fs::remove_file(&journal).expect("removed");
    }
    std::fs::create_dir(&journal).expect("something in its place");
    assert_ends(&setup.command(&["run"]).await, 73, &["journal.sqlite3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_configuration_or_identity_ends_the_program_and_is_left_alone() {
    let setup = RunnerFixture::new().await;
    let home = &setup.setting.home;
    for (file, broken, words) in cases! {
        ("config.toml", "[limits]\nreads = \"many\"\n", &["config.toml", "limits.reads"][..]),
        ("config.toml", "[limits\n", &["config.toml", "TOML"]),
        ("device.json", "{\"id\":", &["device.json", "damaged"]),
        ("keys/device.ed25519", "not a key", &["device.ed25519"]),
    } {
        let path = home.join(file);
        let whole = std::fs::read(&path).expect("there");
        std::fs::write(&path, broken).expect("broken");
        assert_ends(&setup.command(&["run"]).await, 78, words);
        assert_eq!(
            std::fs::read_to_string(&path).expect("there"),
            broken,
            "{file} was touched"
        );
        std::fs::write(&path, whole).expect("mended");
    }
    assert_eq!(setup.once().await["pending"], 0);
}
