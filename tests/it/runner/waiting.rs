//! `send` waits for its answer without polling, and loses nothing when its socket closes.

use serde_json::json;

use crate::harness::process::{EndedProgram, RunningProgram};
use crate::harness::proxy::{ConnectionFault, FaultyProxy};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

/// Prints, and runs until a file exists.
const WAIT: &str =
    "echo begun > begun; echo first words; until [ -e go ]; do sleep 0.02; done; echo done";

fn start_send(setup: &RunnerFixture, url: &str, more: &[&str]) -> RunningProgram {
    let args = json!({ "command": WAIT }).to_string();
    let caller = &setup.caller;
    let variables = [
        ("PUNIE_CALLER_TOKEN", caller.token.as_ref()),
        ("PUNIE_DEVICE", caller.device.as_ref()),
    ];
    let setting = crate::harness::process::ProcessSetting {
        url: url.to_owned(),
        ..setup.setting.clone()
    };
    RunningProgram::start_with(
        &setting,
        &[&["--log", "off", "send", "Bash", &args], more].concat(),
        &variables,
    )
}

fn expect_answer(ended: &EndedProgram) {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out, "first words\ndone\n", "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_and_progress_are_subscribed_to_and_not_asked_for() {
    for more in [&[] as &[&str], &["--progress"]] {
        let setup = RunnerFixture::new().await;
        let _runner = setup.run();
        let send = start_send(&setup, &setup.setting.url, more);
        setup.wait_for_line_in("begun").await;
        if !more.is_empty() {
            send.wait_for_log("first words\n").await;
        }
        setup.write("go", "");
        expect_answer(&send.end().await);
        for path in ["events:getResult", "events:listProgress"] {
            assert_eq!(setup.faults.calls(path), 0, "{path} {more:?}");
        }
        assert_eq!(
            setup.faults.calls("events:appendProgress") > 0,
            !more.is_empty()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_goes_and_comes_back_costs_no_answer() {
    let mut setup = RunnerFixture::new().await;
    let _runner = setup.run();
    let send = start_send(&setup, &setup.setting.url, &["--progress"]);
    setup.wait_for_line_in("begun").await;
    send.wait_for_log("first words\n").await;
    setup.stop_backend().await;
    setup.start_backend().await;
    setup.write("go", "");
    let ended = send.end().await;
    expect_answer(&ended);
    assert_eq!(
        ended.log.matches("first words").count(),
        1,
        "shown once: {ended:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_socket_can_be_had_the_answer_is_asked_for() {
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    let proxy = FaultyProxy::before(&setup.setting.url);
    proxy.poison_those_with("GET /api/sync", ConnectionFault::ResetAsking(0));
    let send = start_send(&setup, &proxy.url, &["--progress"]);
    setup.wait_for_line_in("begun").await;
    send.wait_for_log("first words\n").await;
    wait_until("a query", || setup.faults.calls("events:getResult") > 0).await;
    setup.write("go", "");
    expect_answer(&send.end().await);
    assert!(proxy.marked_requests() > 0, "a socket was tried");
}
