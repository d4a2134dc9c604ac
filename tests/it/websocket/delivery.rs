//! Calls and results over connections that end at bad moments: each effect happens once, and each result is sent until
//! it arrives.

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::harness::wait::wait_until;
use crate::harness::worker::WorkerProcess;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_has_not_arrived_is_sent_on_the_next_connection() {
    let worker = WorkerProcess::new().await;
    let _runner = worker.run();
    let mut line = worker.accept().await;
    let slow = "until [ -e go ]; do sleep 0.02; done; echo ran | tee -a effects";
    line.call("slow", "run_command", &json!({ "command": slow }))
        .await;
    line.call(
        "quick",
        "run_command",
        &json!({"command": "echo quick | tee -a effects"}),
    )
    .await;
    let both = || is_journalled(&worker, "slow") && is_journalled(&worker, "quick");
    wait_until("the calls to be in the journal", both).await;
    // The connection ends without a close frame while the call runs.
    drop(line);
    worker.write("go", "");
    let mut line = worker.accept().await;
    let (status, output) = line.result("slow").await;
    assert!(status == "success" && output.contains("ran"), "{output}");
    assert_contains!(line.result("quick").await.1, "quick");
    assert_eq!(
        worker.read("effects"),
        "ran\nquick\n",
        "in the order of the calls, each once"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_whose_arrival_nobody_confirmed_is_sent_again_and_is_the_same() {
    let worker = WorkerProcess::new().await;
    let runner = worker.run();
    let mut line = worker.accept().await;
    line.call(
        "once",
        "run_command",
        &json!({"command": "echo ran >> effects; date +%s%N"}),
    )
    .await;
    let first = line.result("once").await;
    // The worker has not read the ping after the result, so it has sent no pong.
    drop(line);
    let mut line = worker.accept().await;
    assert_eq!(line.result("once").await, first);
    // The same call sent again, in another spelling of its JSON, gets the same result again.
    line.say(&format!(
        r#"{{"args":{{"command":"{}"}},"id":"once","tool":"run_command","type":"tool_call"}}"#,
        "echo ran >> effects; date +%s%N"
    ))
    .await;
    assert_eq!(line.result("once").await, first);
    runner.kill();
    let _runner = worker.run();
    let mut line = worker.accept().await;
    line.call(
        "once",
        "run_command",
        &json!({"command": "echo ran >> effects; date +%s%N"}),
    )
    .await;
    assert_eq!(
        line.result("once").await,
        first,
        "also from the next life of the runner"
    );
    assert_eq!(worker.read("effects"), "ran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_id_with_other_arguments_is_not_run() {
    let worker = WorkerProcess::new().await;
    let _runner = worker.run();
    let mut line = worker.accept().await;
    line.done(
        "x",
        "run_command",
        &json!({"command": "echo one >> effects"}),
    )
    .await;
    line.call(
        "x",
        "run_command",
        &json!({"command": "echo two >> effects"}),
    )
    .await;
    let told = line.frame().await;
    assert_fields!(told, {"type": "error", "tool_call_id": "x"});
    assert_eq!(worker.read("effects"), "one\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_sent_again_while_it_runs_runs_once() {
    let worker = WorkerProcess::new().await;
    let _runner = worker.run();
    let slow = json!({"command": "echo ran >> effects; until [ -e go ]; do sleep 0.02; done"});
    for _ in 0..4 {
        let mut line = worker.accept().await;
        line.call("slow", "run_command", &slow).await;
        wait_until("the call to be in the journal", || {
            is_journalled(&worker, "slow")
        })
        .await;
    }
    wait_until("its beginning", || worker.file("effects").exists()).await;
    worker.write("go", "");
    let mut line = worker.accept().await;
    line.call("slow", "run_command", &slow).await;
    assert_eq!(line.result("slow").await.0, "success");
    assert_eq!(worker.read("effects"), "ran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_a_stopped_runner_are_sent_by_the_next_and_a_pass_serves_what_comes() {
    let worker = WorkerProcess::new().await;
    let runner = worker.run();
    let mut line = worker.accept().await;
    line.call(
        "a",
        "run_command",
        &json!({"command": "echo ran >> effects"}),
    )
    .await;
    // The worker reads nothing, so the result cannot have arrived. The shell creates the file before it writes, and
    // ends with the runner.
    wait_until("its effect", || worker.read("effects") == "ran\n").await;
    runner.kill();
    drop(line);
    let serving = async {
        let mut line = worker.accept().await;
        line.done("b", "write_file", &json!({"path": "b", "content": "b"}))
            .await;
        let a = line.result("a").await;
        // The pass ends with a close frame or with the end of the connection.
        assert!(matches!(
            line.message().await,
            None | Some(Message::Close(_))
        ));
        a
    };
    let (pass, _a) = tokio::join!(worker.command(&["--once", "--json"]), serving);
    assert_eq!(pass.code, Some(0), "{pass:?}");
    assert_fields!(pass.json(), {"polled": 1, "pending": 0});
    assert_eq!(worker.read("effects"), "ran\n");
    assert_eq!(worker.read("b"), "b");
}

fn is_journalled(worker: &WorkerProcess, id: &str) -> bool {
    let id = punie_core::ids::RequestId::parse(id).expect("an id");
    let reader = punie_engine::journal::JournalReader::open_read_only(
        &worker.setting.home.join("state/journal.sqlite3"),
    );
    reader
        .ok()
        .and_then(|reader| reader.request_record(&id).ok().flatten())
        .is_some()
}
