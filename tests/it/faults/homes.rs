//! A home folder that was copied, or that belongs to another machine.

use std::process::Command;

use serde_json::Value;

use crate::harness::process::{ProcessSetting, RunningProgram};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

/// Returns the number of processes that the backend lists for the device.
fn count_processes(setup: &RunnerFixture) -> usize {
    let text: Option<String> = setup
        .database()
        .query_row("select processes from presence", [], |row| row.get(0))
        .unwrap_or_default();
    text.and_then(|text| {
        serde_json::from_str::<Value>(&text)
            .ok()?
            .as_array()
            .map(Vec::len)
    })
    .unwrap_or(0)
}

async fn is_told(setup: &RunnerFixture, told: bool) {
    wait_for_some(
        &format!("status to say that another process is there: {told}"),
        async || {
            let degraded = setup.status().await["degraded"].clone();
            (degraded
                .as_array()
                .expect("words")
                .contains(&"other_process".into())
                == told)
                .then_some(())
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f57_a_home_that_runs_twice_is_noticed_by_both_until_one_of_them_is_gone() {
    let setup = RunnerFixture::new().await;
    let copy = ProcessSetting {
        home: setup.setting.home.with_file_name("copy"),
        workspace: setup.setting.logs.clone(),
        ..setup.setting.clone()
    };
    let copied = Command::new("cp")
        .arg("-a")
        .args([&setup.setting.home, &copy.home])
        .status();
    assert!(copied.expect("cp is there").success());
    let original = setup.run();
    wait_until("the first beat of the original", || {
        count_processes(&setup) == 1
    })
    .await;
    let second = RunningProgram::start(&copy, &["run"]);
    wait_until("the first beat of the copy", || {
        count_processes(&setup) == 2
    })
    .await;

    // A pause sends a heartbeat at once.
    let paused = RunningProgram::start(&copy, &["pause"]).end().await;
    assert_eq!(paused.code, Some(0), "{paused:?}");
    assert_eq!(setup.command(&["pause"]).await.code, Some(0));
    original
        .wait_for_log("another process with this device's identity is running")
        .await;
    is_told(&setup, true).await;
    let shown = setup.command(&["status"]).await.out;
    assert_contains!(
        shown,
        "Attention    Another process with this device's identity is running"
    );
    assert_eq!(
        RunningProgram::start(&copy, &["resume"]).end().await.code,
        Some(0)
    );
    second
        .wait_for_log("another process with this device's identity is running")
        .await;

    second.stop().await;
    assert_eq!(setup.command(&["resume"]).await.code, Some(0));
    is_told(&setup, false).await;

    // A process that replaces a crashed one is not a second process.
    original.kill();
    let again = setup.run();
    wait_until("the first beat after the crash", || {
        count_processes(&setup) == 2
    })
    .await;
    assert_eq!(setup.command(&["pause"]).await.code, Some(0));
    wait_for_some("a heartbeat that reports the pause", async || {
        let health = setup.caller.health().await;
        health["degraded"]
            .as_array()?
            .contains(&"paused".into())
            .then_some(())
    })
    .await;
    assert_eq!(
        setup.caller.health().await["degraded"],
        serde_json::json!(["paused"])
    );
    assert_lacks!(again.log(), "another process");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f57_a_home_of_another_machine_is_refused_until_it_is_a_device_of_its_own() {
    let setup = RunnerFixture::new().await;
    let file = setup.setting.home.join("device.json");
    let own = std::fs::read_to_string(&file).expect("an identity");
    let mut record: serde_json::Value = serde_json::from_str(&own).expect("JSON");
    if record.get("machine").is_none() {
        println!(
            "not shown here: this machine has no id of its own, so that nothing is bound to it"
        );
        return;
    }
    let id = setup.ask_bash("echo ran > ran").await;
    // The id of the machine that the home was copied from.
    record["machine"] = "00112233445566778899aabbccddeeff".into();
    let copied = record.to_string();
    std::fs::write(&file, &copied).expect("written");
    for args in [&["run"][..], &["--once"], &["pair", setup.pairing_code()]] {
        let ended = setup.command(args).await;
        assert_eq!(ended.code, Some(77), "{ended:?}");
        assert_contains!(ended.log, "another machine", "--new-device");
    }
    assert_eq!(
        std::fs::read_to_string(&file).expect("there"),
        copied,
        "it was left alone"
    );
    assert_eq!(
        setup.read("ran"),
        "",
        "nothing of the other machine's was run"
    );

    let paired = setup
        .command(&["--json", "pair", "--new-device", setup.pairing_code()])
        .await;
    assert_eq!(paired.code, Some(0), "{paired:?}");
    assert_ne!(
        paired.json()["deviceId"],
        record["id"],
        "a device of its own"
    );
    let pass = setup.once().await;
    assert_eq!(pass["polled"], 0, "{pass}");
    assert_eq!(setup.read("ran"), "", "{pass}");
    assert!(
        setup.caller.result(&id).await.is_none(),
        "only the other device may answer its request"
    );
}
