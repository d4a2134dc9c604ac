//! One home and two backends. Each backend has its own requests, results, cursor and tokens. Work for one is left alone
//! while the runner works for the other.

use punie_dev_backend::{
    BackendClock, CallerPermission, DevBackend, DevBackendOptions, MAX_CONNECTIONS,
};
use punie_engine::journal::RequestState;
use serde_json::{Value, json};

use crate::harness::caller::{TestCaller, ToolCall};
use crate::harness::process::{ProcessSetting, RunningProgram};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

/// A second backend that the fixture's device is paired with too.
struct SecondBackend {
    backend: DevBackend,
    caller: TestCaller,
    url: String,
}

impl SecondBackend {
    async fn new(setup: &RunnerFixture) -> Self {
        Self::at(setup, "other.sqlite3", BackendClock::from_system()).await
    }

    async fn at(setup: &RunnerFixture, database: &str, clock: BackendClock) -> Self {
        let options = DevBackendOptions {
            db: setup.setting.logs.with_file_name(database),
            port: 0,
            clock,
            holds: true,
            max_connections: MAX_CONNECTIONS,
            faults: None,
        };
        let backend = DevBackend::start_server(options).await.expect("started");
        let url = backend.listen_url().to_owned();
        let code = backend.pairing_code().expect("read").expect("open");
        let paired = setup.command_at(&url, &["--json", "pair", &code]).await;
        assert_eq!(paired.code, Some(0), "{paired:?}");
        let token = backend
            .mint_caller_token("test", CallerPermission::Both)
            .expect("a token");
        let caller = TestCaller::new(&url, token, setup.caller.device.clone());
        Self {
            backend,
            caller,
            url,
        }
    }
}

/// Runs `dev` in the home of this fixture until it has answered a request of its own.
async fn dev_answers(setup: &RunnerFixture) {
    let dev = RunningProgram::start(&setup.setting, &["dev", "--json"]);
    wait_until("dev to be ready", || dev.out().contains('\n')).await;
    let ready: Value = serde_json::from_str(dev.out().trim()).expect("JSON");
    let text = |key: &str| ready[key].as_str().expect("text").to_owned();
    let caller = TestCaller::new(&text("url"), text("callerToken"), text("deviceId"));
    let id = caller.ask(ToolCall::bash("echo dev")).await;
    caller.answer(&id).await.expect_ok();
    // By then this process has made all the posts of its start.
    dev.wait_for_log("the catalog is published").await;
    dev.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_waits_for_its_own_backend_while_the_runner_works_for_another() {
    let mut setup = RunnerFixture::new().await;
    let runner = setup.run();
    let go = setup.file("go");
    let id = setup
        .ask_bash("echo begun > begun; while [ ! -e go ]; do sleep 0.05; done; echo ran >> effects")
        .await;
    setup.wait_for_line_in("begun").await;
    setup.stop_backend().await;
    std::fs::write(&go, "").expect("written");
    setup.wait_for_state(&id, RequestState::Finished).await;
    runner.stop().await;

    dev_answers(&setup).await;
    let status = setup.status().await;
    assert_fields!(status, {"/outbox/pending": 1, "otherBackends": []});

    setup.start_backend().await;
    let _runner = setup.run();
    setup.answer(&id).await.expect_ok();
    assert_eq!(setup.read("effects"), "ran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_wait_for_one_backend_are_not_touched_by_another() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    runner.wait_for_log("the catalog is published").await;
    assert_eq!(setup.command(&["pause"]).await.code, Some(0));
    let mut asked = Vec::new();
    for n in 0..3 {
        asked.push(
            setup
                .ask(ToolCall::bash(&format!("echo {n} >> effects")).in_conversation("talk"))
                .await,
        );
    }
    for id in &asked {
        setup.wait_for_state(id, RequestState::Accepted).await;
    }
    runner.stop().await;
    assert_eq!(setup.command(&["resume"]).await.code, Some(0));

    dev_answers(&setup).await;
    for id in &asked {
        assert_eq!(setup.state(id), Some(RequestState::Accepted));
    }
    let elsewhere = setup
        .command_at("http://127.0.0.1:9", &["--json", "status"])
        .await
        .json();
    let waiting = &elsewhere["otherBackends"];
    assert_eq!(waiting.as_array().map(Vec::len), Some(1), "{elsewhere}");
    assert_fields!(waiting, {"/0/url": setup.setting.url, "/0/requests": 3});
    let words = setup
        .command_at("http://127.0.0.1:9", &["status", "-v"])
        .await
        .out;
    assert_contains!(words, &format!("3 requests wait for {}", setup.setting.url));

    let _runner = setup.run();
    for id in &asked {
        setup.answer(id).await.expect_ok();
    }
    assert_eq!(setup.read("effects"), "0\n1\n2\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_a_crash_cut_off_is_answered_to_its_own_backend() {
    let setup = RunnerFixture::new().await;
    let other = SecondBackend::new(&setup).await;
    let runner = setup.run();
    let id = setup
        .ask_bash("echo so far; echo begun > begun; sleep 600")
        .await;
    setup.wait_for_line_in("begun").await;
    setup.wait_for_stored_output(&id, "so far").await;
    runner.kill();

    let runner = setup.run_at(&other.url);
    let others = other.caller.ask(ToolCall::bash("echo there")).await;
    other.caller.answer(&others).await.expect_ok();
    assert_eq!(
        setup.state(&id),
        Some(RequestState::Started),
        "it is left to its own backend"
    );
    assert!(
        setup
            .journal()
            .expect("there")
            .child_processes()
            .expect("read")
            .is_empty(),
        "but not its processes"
    );
    runner.stop().await;

    let _runner = setup.run();
    let text = setup.answer(&id).await.expect_error("interrupted");
    assert_contains!(text, "so far");
    let listed = setup.command(&["history", "--json"]).await.out;
    assert_contains!(listed, &other.url, &setup.setting.url);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_of_a_backend_that_is_ahead_is_not_used_with_another() {
    let setup = RunnerFixture::new().await;
    let now_ms = || {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970")
    };
    let ahead = BackendClock::new(move || now_ms().as_secs_f64() * 1_000.0 + 86_400_000.0);
    let other = SecondBackend::at(&setup, "ahead.sqlite3", ahead).await;
    let runner = setup.run_at(&other.url);
    let others = other.caller.ask(ToolCall::bash("echo there")).await;
    other.caller.answer(&others).await.expect_ok();
    runner.stop().await;
    let _runner = setup.run();
    for _ in 0..2 {
        let id = setup.ask_bash("echo here").await;
        setup.answer(&id).await.expect_ok();
    }
    other.backend.stop_server().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_that_is_refused_or_lies_in_the_future_is_dropped() {
    for (cursor, words) in [
        ("18446744073709551616", "lies in the backend's future"),
        ("9000000000000000000", "lies in the backend's future"),
        ("no cursor", "refuses its cursor"),
    ] {
        let setup = RunnerFixture::new().await;
        let before = setup.ask_bash("echo ran >> effects").await;
        setup.once().await;
        let journal = setup.setting.home.join("state/journal.sqlite3");
        let journal = rusqlite::Connection::open(journal).expect("opens");
        let sql = "update backend_fact set value = ? where key = 'cursor'";
        assert_eq!(journal.execute(sql, [cursor]).expect("written"), 1);
        let runner = setup.run();
        let first = setup.ask_bash("echo 1 >> effects").await;
        assert_eq!(setup.answer(&first).await.outcome, "ok", "{cursor}");
        let second = setup.ask_bash("echo 2 >> effects").await;
        assert_eq!(setup.answer(&second).await.outcome, "ok", "{cursor}");
        runner.wait_for_log(words).await;
        assert_eq!(
            setup.read("effects"),
            "ran\n1\n2\n",
            "what is known is not run again"
        );
        setup.answer(&before).await.expect_ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_meets_another_deployment_at_the_same_address_works_for_it() {
    let mut setup = RunnerFixture::new().await;
    let other = SecondBackend::new(&setup).await;
    let runner = setup.run();
    let held = setup
        .ask_bash("echo begun > begun; while [ ! -e go ]; do sleep 0.05; done")
        .await;
    setup.wait_for_line_in("begun").await;

    // The databases change places. The call for the first backend ends while the second one answers.
    setup.stop_backend().await;
    other.backend.stop_server().await;
    let logs = setup.setting.logs.clone();
    let exchange = || {
        let place = |name: &str| logs.with_file_name(name);
        for (from, to) in [
            ("backend.sqlite3", "kept"),
            ("other.sqlite3", "backend.sqlite3"),
            ("kept", "other.sqlite3"),
        ] {
            for ending in ["", "-wal", "-shm"] {
                // A database that was closed has no `-wal` and no `-shm` file.
                let _ = std::fs::rename(
                    place(&format!("{from}{ending}")),
                    place(&format!("{to}{ending}")),
                );
            }
        }
    };
    exchange();
    setup.start_backend().await;
    let there = TestCaller::new(
        &setup.setting.url,
        other.caller.token.clone(),
        other.caller.device.clone(),
    );
    let id = there.ask(ToolCall::bash("echo for the second")).await;
    std::fs::write(setup.file("go"), "").expect("written");
    there.answer(&id).await.expect_ok();
    assert!(
        setup.state(&held) != Some(RequestState::Undeliverable),
        "it is not offered to the second"
    );
    runner
        .wait_for_log("starting anew for the backend that answers now")
        .await;
    let status = setup.status().await;
    assert_eq!(
        status["otherBackends"].as_array().map(Vec::len),
        Some(1),
        "{status}"
    );

    setup.stop_backend().await;
    exchange();
    setup.start_backend().await;
    setup.answer(&held).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_deployment_at_two_addresses_is_one_backend() {
    let setup = RunnerFixture::new().await;
    let id = setup.ask_bash("echo ran >> effects").await;
    setup.once().await;
    setup.answer(&id).await.expect_ok();
    let same = setup.setting.url.replace("127.0.0.1", "localhost");
    let runner = RunningProgram::start(
        &ProcessSetting {
            url: same.clone(),
            ..setup.setting.clone()
        },
        &["run"],
    );
    let id = setup.ask_bash("echo again >> effects").await;
    setup.answer(&id).await.expect_ok();
    assert_eq!(setup.read("effects"), "ran\nagain\n");
    let status = setup.command_at(&same, &["--json", "status"]).await.json();
    assert_eq!(status["otherBackends"], json!([]), "{status}");
    let db = rusqlite::Connection::open(setup.setting.home.join("state/journal.sqlite3"))
        .expect("opens");
    let count: u32 = db
        .query_row("select count(distinct backend) from request", [], |row| {
            row.get(0)
        })
        .expect("read");
    assert_eq!(count, 1);
    drop(runner);
}
