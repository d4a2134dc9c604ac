//! The rows that a runner and its owner write into the audit.

use serde_json::{Value, json};

use super::{audit_paths, rows_about, rows_of};
use crate::harness::caller::{ToolCall, http_client};
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

/// Runs `audit verify` and returns its exit code and its report.
async fn verify_audit(setup: &RunnerFixture) -> (Option<i32>, Value) {
    let ended = setup.command(&["--json", "audit", "verify"]).await;
    (ended.code, ended.json())
}

/// Waits until this row is among the rows about a request.
async fn expect_row(setup: &RunnerFixture, id: &str, fields: &[&str], wanted: &str) {
    let seen = || rows_about(setup, id, fields);
    wait_until(&format!("{wanted:?} in {:?}", seen()), || {
        seen().iter().any(|row| row == wanted)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_has_its_decision_its_end_and_neither_arguments_nor_result() {
    let setup = RunnerFixture::new().await;
    setup.write("note.txt", "what-it-read\n");
    let runner = setup.run();
    let command = "echo what-it-said; exit 3";
    let bash = setup
        .ask(
            ToolCall::bash(command)
                .in_conversation("talk")
                .with("agentType", json!("main")),
        )
        .await;
    setup.answer(&bash).await.expect_ok();
    let read = setup
        .ask(ToolCall::new("Read", &json!({ "file_path": "note.txt" })).in_conversation("talk"))
        .await;
    setup.answer(&read).await;
    let outside = setup
        .ask(ToolCall::new("Read", &json!({ "file_path": "/etc/shadow" })).in_conversation("talk"))
        .await;
    setup.answer(&outside).await;
    let args = json!({ "what": "what-it-asked" });
    let unknown = setup.ask(ToolCall::new("NoSuchTool", &args)).await;
    let refused = setup.answer(&unknown).await;
    runner.stop().await;
    let fields = [
        "event", "who", "toolName", "decision", "code", "outcome", "exitCode", "attempt",
    ];
    assert_eq!(
        rows_about(&setup, &bash, &fields),
        [
            "begun caller Bash allowed - - - 1",
            "answered caller Bash - - ok 3 1"
        ]
    );
    assert_eq!(
        rows_about(&setup, &read, &fields),
        [
            "begun caller Read allowed - - - 1",
            "answered caller Read - - ok - 1"
        ]
    );
    assert_eq!(
        rows_about(&setup, &outside, &fields),
        [
            "begun caller Read allowed - - - 1",
            "answered caller Read denied outside_workspace error - 1"
        ]
    );
    assert_eq!(
        rows_about(&setup, &unknown, &fields),
        ["answered caller NoSuchTool denied unknown_tool error - -"]
    );
    let more = ["conversationId", "agentType", "argsHash", "bytes"];
    let args = json!({ "command": command }).to_string();
    let hash = punie_engine::audit::sha256_text(&args);
    assert_eq!(
        rows_about(&setup, &bash, &more[..3])[0],
        format!("talk main {hash}")
    );
    assert_eq!(
        rows_about(&setup, &unknown, &more[3..])[0],
        refused.raw.len().to_string()
    );
    let confinements = rows_about(&setup, &bash, &["confinement"]);
    assert!(
        confinements.iter().all(|level| level != "-"),
        "{confinements:?}"
    );
    let events: Vec<Value> = rows_of(&setup)
        .into_iter()
        .map(|row| row["event"].clone())
        .collect();
    assert_eq!(events.first(), Some(&json!("started")));
    assert_eq!(events.last(), Some(&json!("stopped")));
    let text = std::fs::read_to_string(audit_paths(&setup).rows).expect("rows");
    assert_lacks!(text, "what-it", "note.txt", "shadow", "echo");
    let (code, report) = verify_audit(&setup).await;
    assert_eq!(code, Some(0));
    assert_eq!(report["sound"], true);
    assert_eq!(report["headSigned"], "by_this_device");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h105_verify_names_the_row_that_was_edited_and_exits_with_one() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    setup.bash("true").await;
    runner.terminate();
    runner.end().await;
    let file = audit_paths(&setup).rows;
    let text = std::fs::read_to_string(&file).expect("rows");
    std::fs::write(
        &file,
        text.replacen("\"toolName\":\"Bash\"", "\"toolName\":\"Read\"", 1),
    )
    .expect("written");
    let ended = setup.command(&["audit", "verify"]).await;
    assert_eq!(ended.code, Some(1));
    let begun = rows_of(&setup)
        .iter()
        .position(|row| row["event"] == "begun")
        .expect("a row")
        + 1;
    assert_contains!(ended.out, &format!("row {begun} was edited"));
    let (code, report) = verify_audit(&setup).await;
    assert_eq!(code, Some(1));
    assert_eq!(report["fault"]["flaw"], "edited");
    assert_eq!(report["fault"]["seq"], json!(begun));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_said_yes_and_who_said_no_stand_in_the_audit() {
    let setup = RunnerFixture::with_config("[policy]\nask = [\"executes\"]\n").await;
    let _runner = setup.run();
    let id = setup.ask_bash("true").await;
    let question = wait_for_some("a question", async || {
        let list = setup.command(&["--json", "approvals"]).await.out;
        Some(
            serde_json::from_str::<Value>(list.lines().next()?).ok()?["id"]
                .as_str()?
                .to_owned(),
        )
    })
    .await;
    assert_eq!(
        setup.command(&["approvals", "allow", &question]).await.code,
        Some(0)
    );
    setup.answer(&id).await.expect_ok();
    let fields = ["event", "who", "decision", "by", "code", "rule", "detail"];
    expect_row(&setup, &id, &fields, "approval owner - - - - allow_once").await;
    expect_row(
        &setup,
        &id,
        &fields,
        "begun caller asked device - policy.ask -",
    )
    .await;
    let id = setup.ask_bash("true").await;
    let question = setup.caller.next_question().await;
    setup.caller.choose(&question, "reject_once").await;
    setup.answer(&id).await.expect_error("policy_denied");
    expect_row(
        &setup,
        &id,
        &fields,
        "answered caller denied - policy_denied policy.ask -",
    )
    .await;
    assert_eq!(verify_audit(&setup).await.0, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owners_switch_the_trash_and_undo_stand_in_the_audit() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let args = json!({ "file_path": "a.txt", "content": "a\n" });
    let write = setup.ask(ToolCall::new("Write", &args)).await;
    setup.answer(&write).await;
    let told = |event: &str| rows_of(&setup).iter().any(|row| row["event"] == event);
    for (words, events) in [
        (&["pause", "--now"][..], &["pause", "held", "stop"][..]),
        (&["resume"], &["resume", "released"]),
        (&["undo", &write], &["undo"]),
        (&["trash", "empty", "--yes"], &["trash_emptied"]),
    ] {
        let ended = setup.command(words).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        for event in events {
            wait_until(&format!("{event} in the audit"), || told(event)).await;
        }
    }
    assert_eq!(
        rows_about(&setup, &write, &["event", "who"])
            .last()
            .map(String::as_str),
        Some("undo owner")
    );
    let end = &write[write.len() - 8..];
    let of_write = ["audit", "list", "--json", "--request"];
    let by_end = setup.command(&[&of_write[..], &[end]].concat()).await;
    let by_id = setup.command(&[&of_write[..], &[&write]].concat()).await;
    assert!(
        by_end.out.contains("\"undo\"") && by_end.out == by_id.out,
        "{by_end:?}"
    );
    // A resume that changes nothing writes no row.
    setup.command(&["resume"]).await;
    let resumes = rows_of(&setup)
        .iter()
        .filter(|row| row["event"] == "resume")
        .count();
    assert_eq!(resumes, 1);
    drop(runner);
    assert_eq!(verify_audit(&setup).await.0, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_taken_back_is_no_call_that_was_denied() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let id = setup.ask_bash("sleep 600").await;
    expect_row(&setup, &id, &["event"], "begun").await;
    setup.caller.cancel(&id).await;
    assert_eq!(setup.answer(&id).await.outcome, "cancelled");
    expect_row(&setup, &id, &["event", "who"], "cancelled caller").await;
    expect_row(
        &setup,
        &id,
        &["event", "code", "decision"],
        "answered cancelled -",
    )
    .await;
    drop(runner);
    assert_eq!(verify_audit(&setup).await.0, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h105_a_runner_that_is_killed_leaves_rows_that_follow_from_each_other() {
    for point in [
        "accept.after",
        "start.after",
        "finish.before",
        "finish.after",
        "audit.written",
    ] {
        let setup = RunnerFixture::new().await;
        let relay = Relay::before(&setup.setting.url).await;
        let runner = setup.run_armed(&relay.url, &format!("{point}=kill@1"));
        let id = setup.ask_bash("echo ran >> effects").await;
        let ended = runner.end().await;
        assert_eq!(ended.code, None, "{point} was not reached: {ended:?}");
        let (code, report) = verify_audit(&setup).await;
        assert_eq!(code, Some(0), "{point}: {report}");
        let _runner = setup.run_at(&relay.url);
        setup.answer(&id).await;
        expect_row(&setup, &id, &["event"], "answered").await;
        let told = rows_about(&setup, &id, &["event"]);
        // A call that ran has its row, and the kill lost none.
        let ran = setup.read("effects").lines().count();
        let begun = told.iter().filter(|event| *event == "begun").count();
        assert!(begun >= ran.max(1), "{point}: ran {ran} times, {told:?}");
        let (code, report) = verify_audit(&setup).await;
        assert_eq!(code, Some(0), "{point}: {report}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_outlives_the_journal_and_tells_of_the_gap() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let id = setup.ask_bash("true").await;
    setup.answer(&id).await;
    runner.terminate();
    runner.end().await;
    for entry in std::fs::read_dir(setup.setting.home.join("state")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.display().to_string().contains("journal.sqlite3") {
            std::fs::remove_file(path).expect("removed");
        }
    }
    let _runner = setup.run();
    setup.bash("true").await;
    assert_eq!(rows_about(&setup, &id, &["event"]), ["begun", "answered"]);
    assert_eq!(verify_audit(&setup).await.0, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_carries_the_head_with_which_rows_cut_off_are_missed() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    setup.bash("true").await;
    // A runner that stops sends a last heartbeat.
    runner.stop().await;
    let health = setup.caller.health().await;
    let head = health["audit"].as_str().expect("a head").to_owned();
    let known = ["--json", "audit", "verify", "--head", &head];
    assert_eq!(setup.command(&known).await.code, Some(0));
    // An attacker with an older head can make a shortened file consistent, but it cannot match the head at the backend.
    let files = audit_paths(&setup);
    std::fs::remove_file(&files.head).expect("removed");
    let text = std::fs::read_to_string(&files.rows).expect("rows");
    std::fs::write(
        &files.rows,
        text.lines().next().expect("a row").to_owned() + "\n",
    )
    .expect("written");
    assert_eq!(
        verify_audit(&setup).await.0,
        Some(1),
        "`verify` fails without a head"
    );
    let ended = setup.command(&known).await;
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.json()["fault"]["seq"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_is_narrowed_to_a_request_and_a_time() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let ids = [setup.ask_bash("true").await, setup.ask_bash("true").await];
    for id in &ids {
        setup.answer(id).await;
    }
    runner.terminate();
    runner.end().await;
    let listed = async |args: &[&str]| -> Vec<Value> {
        let ended = setup
            .command(&[&["--json", "audit", "list"], args].concat())
            .await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended
            .out
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    };
    assert_eq!(listed(&[]).await, rows_of(&setup));
    let one = listed(&["--request", &ids[1]]).await;
    assert_eq!(one.len(), 2);
    assert!(
        one.iter().all(|row| row["requestId"] == ids[1].as_str()),
        "{one:?}"
    );
    assert_eq!(
        listed(&["--request", &ids[1][20..]]).await,
        one,
        "the end of an id is enough"
    );
    let at_ms = one[1]["atMs"].as_i64().expect("a time");
    let late = listed(&["--since", &at_ms.to_string()]).await;
    assert!(
        late.iter().all(|row| row["atMs"].as_i64() >= Some(at_ms)) && !late.is_empty(),
        "{late:?}"
    );
    assert_eq!(
        listed(&["--within", "5"]).await.len(),
        rows_of(&setup).len()
    );
    let table = setup
        .command(&["audit", "list", "--request", &ids[0]])
        .await
        .out;
    assert!(
        table.contains("begun") && table.contains("decision") | table.contains("DECISION"),
        "{table}"
    );
}

/// Sends a recorded heartbeat again, as an eavesdropper would, and returns the backend's error code.
async fn replay_request(setup: &RunnerFixture, beat: &Value) -> Value {
    let body = json!({ "path": "devices:heartbeat", "args": beat, "format": "json" }).to_string();
    let post = http_client().post(format!("{}/api/mutation", setup.setting.url));
    let reply = post
        .header("content-type", "application/json")
        .body(body)
        .send()
        .await
        .expect("a reply");
    let envelope: Value = serde_json::from_str(&reply.text().await.expect("a body")).expect("JSON");
    envelope["errorData"]["code"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h98_a_heartbeat_that_somebody_sends_again_is_refused_and_brings_nobody_online() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let runner = setup.run_at(&relay.url);
    wait_until("a heartbeat", || {
        relay
            .calls("devices:heartbeat")
            .iter()
            .any(|call| call.answer["status"] == "success")
    })
    .await;
    let beats = relay.calls("devices:heartbeat");
    let beat = beats
        .iter()
        .find(|call| call.answer["status"] == "success")
        .expect("an accepted heartbeat")
        .args
        .clone();
    assert_ne!(beat["online"], false);
    runner.stop().await;
    assert!(!setup.caller.sees_online().await, "the runner went offline");
    assert_eq!(replay_request(&setup, &beat).await, "SIGNATURE_REPLAYED");
    setup.advance_backend(6 * 60_000);
    assert_eq!(replay_request(&setup, &beat).await, "SIGNATURE_STALE");
    assert!(!setup.caller.sees_online().await);
    // The signature covers the time.
    let mut moved = beat.clone();
    moved["signedAtMs"] = json!(beat["signedAtMs"].as_f64().expect("a time") + 6.0 * 60_000.0);
    assert_eq!(replay_request(&setup, &moved).await, "BAD_SIGNATURE");
    assert!(!setup.caller.sees_online().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h98_a_heartbeat_that_the_backend_refuses_as_stale_or_repeated_stands_in_the_audit() {
    for code in ["SIGNATURE_STALE", "SIGNATURE_REPLAYED"] {
        let setup = RunnerFixture::new().await;
        let relay = Relay::before(&setup.setting.url).await;
        let mut refused = false;
        relay.rule(move |path, _| {
            if path == "devices:heartbeat" && !std::mem::replace(&mut refused, true) {
                return CallFate::refuse(&json!({ "code": code, "message": "no" }));
            }
            CallFate::Pass
        });
        let _runner = setup.run_at(&relay.url);
        let told = || {
            rows_of(&setup).into_iter().any(|row| {
                row["event"] == "heartbeat_refused"
                    && row["who"] == "backend"
                    && row["code"] == code
            })
        };
        wait_until(&format!("{code} in the audit"), told).await;
        let again = || {
            relay
                .calls("devices:heartbeat")
                .iter()
                .any(|call| call.answer["status"] == "success")
        };
        wait_until("a second heartbeat, signed anew", again).await;
        assert_eq!(verify_audit(&setup).await.0, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_the_backend_will_not_take_stands_in_the_audit() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    relay.rule(|path, _| match path {
        "events:appendResult" => {
            CallFate::refuse(&json!({ "code": "RESULT_EXISTS", "message": "another one" }))
        }
        _ => CallFate::Pass,
    });
    let _runner = setup.run_at(&relay.url);
    let id = setup.ask_bash("true").await;
    expect_row(
        &setup,
        &id,
        &["event", "who", "code"],
        "undeliverable backend RESULT_EXISTS",
    )
    .await;
    assert_eq!(verify_audit(&setup).await.0, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn safe_mode_stands_in_the_audit() {
    let setup = RunnerFixture::new().await;
    setup.configure("crashes = 0", "crashes = 1");
    let runner = setup.run();
    setup.bash("true").await;
    runner.kill();
    let _runner = setup.run();
    let told = || {
        rows_of(&setup)
            .iter()
            .any(|row| row["event"] == "held" && row["detail"] == "safe mode")
    };
    wait_until("safe mode in the audit", told).await;
    assert_eq!(setup.command(&["resume"]).await.code, Some(0));
    wait_until("the end of safe mode in the audit", || {
        rows_of(&setup).iter().any(|row| row["event"] == "released")
    })
    .await;
    // A killed runner writes no `stopped` row.
    let lives: Vec<Value> = rows_of(&setup)
        .into_iter()
        .map(|row| row["event"].clone())
        .collect();
    assert_eq!(lives.iter().filter(|event| *event == "started").count(), 2);
    assert!(!lives.contains(&json!("stopped")));
}
