//! The requests that a device with a pinned key runs: those signed for it with that key, in time, and no others.

use std::time::{SystemTime, UNIX_EPOCH};

use punie_core::ids::{ConversationId, DeviceId, RequestId};
use punie_engine::journal::RequestState;
use punie_tool::request::{RequestSession, SignedRequest, public_key_from_seed};
use serde_json::{Value, json};

use super::rows_about;
use crate::harness::caller::{CallAnswer, ToolCall};
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;
use crate::harness::worker::WorkerProcess;

const KEY: [u8; 32] = [42; 32];

/// Sets up a device that requires signatures by `KEY`.
async fn signing_fixture() -> RunnerFixture {
    let key = public_key_from_seed(&KEY);
    RunnerFixture::with_config(&format!("[backend]\nrequest_key = \"{key}\"\n")).await
}

fn now_ms() -> i64 {
    let age = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    i64::try_from(age.as_millis()).expect("milliseconds in 63 bits")
}

/// A request, with the fields that its signature covers.
#[derive(Clone)]
struct SignedOrder {
    id: RequestId,
    device: String,
    tool: &'static str,
    args: String,
    issued_at_ms: i64,
    deadline_ms: Option<i64>,
    conversation: Option<&'static str>,
    agent_type: Option<&'static str>,
    session: Option<RequestSession>,
}

impl SignedOrder {
    fn bash(setup: &RunnerFixture, command: &str) -> Self {
        Self {
            id: RequestId::new(),
            device: setup.caller.device.clone(),
            tool: "Bash",
            args: json!({ "command": command }).to_string(),
            issued_at_ms: now_ms(),
            deadline_ms: None,
            conversation: None,
            agent_type: None,
            session: None,
        }
    }

    fn sign(&self, key: &[u8; 32]) -> String {
        let conversation = self
            .conversation
            .map(|id| ConversationId::parse(id).expect("an id"));
        let device = DeviceId::parse(self.device.clone()).expect("an id");
        let signed = SignedRequest {
            request: &self.id,
            device: &device,
            tool: self.tool,
            args: &self.args,
            issued_at_ms: self.issued_at_ms,
            deadline_ms: self.deadline_ms,
            conversation: conversation.as_ref(),
            agent_type: self.agent_type,
            session: self.session.as_ref(),
        };
        signed.sign_with_seed(key)
    }

    /// Returns the call that carries this order and signature.
    #[expect(
        clippy::cast_precision_loss,
        reason = "milliseconds since 1970 are far below 2^53"
    )]
    fn signed_call(&self, signature: &str) -> ToolCall {
        let args: Value = serde_json::from_str(&self.args).expect("JSON");
        let mut ask = ToolCall::new(self.tool, &args)
            .with("requestId", json!(self.id.as_str()))
            .with("args", json!(self.args))
            .with("issuedAtMs", json!(self.issued_at_ms as f64))
            .with("signature", json!(signature));
        if let Some(deadline) = self.deadline_ms {
            ask = ask.with("deadlineMs", json!(deadline as f64));
        }
        for (field, value) in [
            ("conversationId", self.conversation),
            ("agentType", self.agent_type),
        ] {
            if let Some(value) = value {
                ask = ask.with(field, json!(value));
            }
        }
        if let Some(session) = &self.session {
            ask = ask.with("session", json!(session));
        }
        ask
    }
}

/// Checks that a request is refused with this code and text, that nothing ran, and that the audit has the refusal.
async fn expect_refusal(
    setup: &RunnerFixture,
    ask: ToolCall,
    code: &str,
    words: &str,
) -> CallAnswer {
    let id = setup.ask(ask).await;
    let answer = setup.answer(&id).await;
    assert_contains!(answer.expect_error(code), words);
    assert_eq!(setup.read("effects"), "", "nothing ran");
    let fields = ["event", "who", "decision", "code", "rule"];
    let wanted = [format!("refused caller denied {code} backend.request_key")];
    wait_until(
        &format!("{wanted:?} in {:?}", rows_about(setup, &id, &fields)),
        || rows_about(setup, &id, &fields) == wanted,
    )
    .await;
    answer
}

/// A change to an order after it was signed.
type Change = fn(&mut SignedOrder);

const EFFECT: &str = "echo ran >> effects";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h97_a_request_signed_with_the_pinned_key_is_run_and_one_without_is_not() {
    let setup = signing_fixture().await;
    let _runner = setup.run();
    expect_refusal(
        &setup,
        ToolCall::bash(EFFECT),
        "policy_denied",
        "has no signature",
    )
    .await;
    let order = SignedOrder::bash(&setup, EFFECT);
    let read = ToolCall::new("Read", &json!({ "file_path": "a" }));
    expect_refusal(&setup, read, "policy_denied", "Read was not run").await;
    let id = setup.ask(order.signed_call(&order.sign(&KEY))).await;
    setup.answer(&id).await.expect_ok();
    assert_eq!(setup.read("effects"), "ran\n");
    let status = setup.status().await;
    assert_eq!(status["requestAuth"], "signed");
    wait_until("a heartbeat with `requestAuth: signed`", || {
        let db = setup.database();
        let health: String = db
            .query_row("select health from presence", [], |row| row.get(0))
            .unwrap_or_default();
        health.contains("\"requestAuth\":\"signed\"")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h97_everything_that_is_signed_is_part_of_it() {
    let setup = signing_fixture().await;
    let _runner = setup.run();
    let whole = |setup: &RunnerFixture| SignedOrder {
        deadline_ms: Some(now_ms() + 60_000),
        conversation: Some("talk"),
        agent_type: Some("main"),
        session: Some(RequestSession {
            client: "A".to_owned(),
            folders: vec![setup.setting.workspace.clone()],
        }),
        ..SignedOrder::bash(setup, EFFECT)
    };
    let changes: [(&str, Change); 11] = cases! {
        ("id", |order| order.id = RequestId::new()),
        ("tool", |order| order.tool = "run_command"),
        ("args", |order| { order.args = json!({ "command": "echo RAN >> effects" }).to_string(); }),
        ("spaces in args", |order| order.args.push(' ')),
        ("issued", |order| order.issued_at_ms += 1),
        ("deadline", |order| { order.deadline_ms = order.deadline_ms.map(|at| at + 1); }),
        ("conversation", |order| order.conversation = Some("other")),
        ("agent", |order| order.agent_type = None),
        ("no session", |order| order.session = None),
        ("client", |order| { order.session.as_mut().expect("a session").client = "B".into(); }),
        ("folders", |order| {
            let session = order.session.as_mut().expect("a session");
            session.folders.push("/".into());
        }),
    };
    for (what, change) in changes {
        let mut order = whole(&setup);
        let signature = order.sign(&KEY);
        change(&mut order);
        let answer = expect_refusal(
            &setup,
            order.signed_call(&signature),
            "policy_denied",
            "the signature of this one is not",
        )
        .await;
        assert_eq!(answer.outcome, "error", "{what}");
    }
    for signature in ["", "x", "AAAA", &whole(&setup).sign(&[43; 32])] {
        let order = whole(&setup);
        expect_refusal(
            &setup,
            order.signed_call(signature),
            "policy_denied",
            "the signature of this one is not",
        )
        .await;
    }
    let order = whole(&setup);
    let id = setup.ask(order.signed_call(&order.sign(&KEY))).await;
    setup.answer(&id).await.expect_ok();
    assert_eq!(setup.read("effects"), "ran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h96_a_request_signed_for_another_device_is_refused_and_audited() {
    let setup = signing_fixture().await;
    let _runner = setup.run();
    let order = SignedOrder {
        device: "another-device".to_owned(),
        ..SignedOrder::bash(&setup, EFFECT)
    };
    let signature = order.sign(&KEY);
    expect_refusal(
        &setup,
        order.signed_call(&signature),
        "policy_denied",
        "for this request at this device",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h97_an_expired_request_is_refused_by_this_machines_clock_too() {
    let setup = signing_fixture().await;
    // The backend's clock is an hour behind, so nothing has expired there.
    setup.advance_backend(-3_600_000);
    let _runner = setup.run();
    let long_ago = now_ms() - 20 * 60_000;
    let old = SignedOrder {
        issued_at_ms: long_ago,
        ..SignedOrder::bash(&setup, EFFECT)
    };
    expect_refusal(
        &setup,
        old.signed_call(&old.sign(&KEY)),
        "expired",
        "expired",
    )
    .await;
    let late = SignedOrder {
        deadline_ms: Some(now_ms() - 6 * 60_000),
        ..SignedOrder::bash(&setup, EFFECT)
    };
    expect_refusal(
        &setup,
        late.signed_call(&late.sign(&KEY)),
        "expired",
        "expired",
    )
    .await;
    let early = SignedOrder {
        issued_at_ms: now_ms() + 10 * 60_000,
        ..SignedOrder::bash(&setup, EFFECT)
    };
    expect_refusal(
        &setup,
        early.signed_call(&early.sign(&KEY)),
        "policy_denied",
        "in the future",
    )
    .await;
    // A signed deadline holds, however long ago the request was issued.
    let lasting = SignedOrder {
        issued_at_ms: long_ago,
        deadline_ms: Some(now_ms() + 60_000),
        ..SignedOrder::bash(&setup, EFFECT)
    };
    let id = setup.ask(lasting.signed_call(&lasting.sign(&KEY))).await;
    setup.answer(&id).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h97_what_was_signed_and_run_is_not_run_again_after_its_time_when_the_journal_is_lost() {
    let setup = signing_fixture().await;
    let runner = setup.run();
    let order = SignedOrder {
        deadline_ms: Some(now_ms() + 60_000),
        ..SignedOrder::bash(&setup, EFFECT)
    };
    let id = setup.ask(order.signed_call(&order.sign(&KEY))).await;
    setup.answer(&id).await.expect_ok();
    runner.terminate();
    runner.end().await;
    for entry in std::fs::read_dir(setup.setting.home.join("state")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.display().to_string().contains("journal.sqlite3") {
            std::fs::remove_file(path).expect("removed");
        }
    }
    // The backend offers the request again with a later deadline and time, neither of which was signed.
    let db = setup.database();
    db.execute("delete from results", []).expect("changed");
    let later = 3_600_000;
    db.execute(
        "update requests set state = 'open', lease_id = null, deadline_ms = deadline_ms + ?1, created_at_ms = created_at_ms + ?1",
        [later],
    )
    .expect("changed");
    drop(db);
    let _runner = setup.run();
    setup.answer(&id).await.expect_error("policy_denied");
    assert_eq!(setup.read("effects"), "ran\n", "the command ran once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_needs_no_signature_since_it_only_stops() {
    let setup = signing_fixture().await;
    let _runner = setup.run();
    let order = SignedOrder::bash(&setup, "echo ran > effects; sleep 600");
    let id = setup.ask(order.signed_call(&order.sign(&KEY))).await;
    setup.wait_for_line_in("effects").await;
    setup.caller.cancel(&id).await;
    assert_eq!(setup.answer(&id).await.outcome, "cancelled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn send_signs_with_a_key_that_keygen_made_and_the_device_has_pinned() {
    let setup = RunnerFixture::with_config("[backend]\n#key\n").await;
    let file = setup.setting.home.with_file_name("caller.key");
    let file = file.to_str().expect("text");
    let made = setup.command(&["--json", "keygen", file]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let public = made.json()["publicKey"].as_str().expect("a key").to_owned();
    let again = setup.command(&["keygen", file]).await;
    assert_ne!(again.code, Some(0), "a key is not written over: {again:?}");
    let bits = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(file).expect("there").permissions(),
    );
    assert_eq!(bits & 0o777, 0o600);
    setup.configure("#key", &format!("request_key = \"{public}\""));
    let _runner = setup.run();
    let tokens = setup.setting.tokens().join("caller");
    std::fs::write(&tokens, &setup.caller.token).expect("written");
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("set");
    let args = json!({ "command": EFFECT }).to_string();
    let plain = setup.command(&["send", "Bash", &args]).await;
    assert_eq!(plain.code, Some(1), "{plain:?}");
    assert_eq!(setup.read("effects"), "", "{plain:?}");
    let signed = setup
        .command(&[
            "send",
            "--sign-key",
            file,
            "--conversation",
            "talk",
            "Bash",
            &args,
        ])
        .await;
    assert_eq!(signed.code, Some(0), "{signed:?}");
    assert_eq!(setup.read("effects"), "ran\n", "{signed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pinned_key_that_is_none_keeps_the_runner_from_starting() {
    let setup = RunnerFixture::with_config("[backend]\n#key\n").await;
    setup.configure("#key", "request_key = \"not a key\"");
    let ended = setup.run().end().await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert_contains!(ended.log, "request_key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h96_a_request_that_names_another_device_is_refused_and_audited() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let mut said = false;
    relay.rule(move |path, _| {
        if path != "events:listForDevice" || std::mem::replace(&mut said, true) {
            return CallFate::Pass;
        }
        let request = json!({
            "requestId": "strayed", "deviceId": "another-device", "toolName": "Bash",
            "args": json!({ "command": EFFECT }).to_string(), "createdAtMs": now_ms(), "cancelled": false, "attempt": 0,
        });
        let event = json!({ "seq": "1", "type": "tool_request", "requestId": "strayed", "request": request });
        let page = json!({ "status": "success", "value": { "events": [event], "cursor": "1", "isDone": true } });
        CallFate::say("200 OK", "content-type: application/json\r\n", &page.to_string())
    });
    let _runner = setup.run_at(&relay.url);
    let told = || rows_about(&setup, "strayed", &["event", "decision", "code"]);
    // The backend has no such request and refuses the answer too. The audit has rows for both.
    wait_until("the refusal in the audit", || {
        told()
            .first()
            .is_some_and(|told| told == "refused denied invalid_args")
    })
    .await;
    setup.bash("true").await.expect_ok();
    assert_eq!(setup.read("effects"), "");
    wait_until("the answer to the backend", || relay.posts("strayed").0 > 0).await;
    let posts = relay.calls("events:appendResult");
    let post = posts
        .iter()
        .find(|call| call.args["requestId"] == "strayed")
        .expect("a post");
    assert_contains!(post.args["payload"].to_string(), "it is for another device");
}

#[cfg(feature = "websocket")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h97_over_a_websocket_which_has_no_place_for_signatures_nothing_is_run() {
    let worker = WorkerProcess::new().await;
    let file = worker.setting.home.join("config.toml");
    let text = std::fs::read_to_string(&file).expect("a configuration");
    let key = format!(
        "[backend]\nrequest_key = \"{}\"",
        public_key_from_seed(&KEY)
    );
    std::fs::write(&file, text.replacen("[backend]", &key, 1)).expect("written");
    let _runner = worker.run();
    let mut line = worker.accept().await;
    let said = line
        .fails("call-1", "Bash", &json!({ "command": EFFECT }))
        .await;
    assert_contains!(said, "has no signature");
    assert_eq!(worker.read("effects"), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h97_what_was_accepted_before_the_key_was_pinned_is_checked_with_it_before_it_begins() {
    let setup = RunnerFixture::with_config("[backend]\n# no key\n").await;
    let order = SignedOrder::bash(&setup, "echo signed >> effects");
    for point in ["unsigned", "signed"] {
        let id = if point == "signed" {
            setup.ask(order.signed_call(&order.sign(&KEY))).await
        } else {
            setup.ask_bash("echo unsigned >> effects").await
        };
        // The runner accepts the request and is killed before the call begins.
        let runner = setup.run_armed(&setup.setting.url, "accept.after=kill");
        runner.end().await;
        assert_eq!(setup.state(&id), Some(RequestState::Accepted));
        if point == "unsigned" {
            setup.configure(
                "# no key",
                &format!("request_key = \"{}\"", public_key_from_seed(&KEY)),
            );
        }
        let runner = setup.run();
        let answer = setup.answer(&id).await;
        if point == "unsigned" {
            assert_contains!(answer.expect_error("policy_denied"), "has no signature");
        } else {
            answer.expect_ok();
        }
        runner.terminate();
        runner.end().await;
        if point == "unsigned" {
            assert_eq!(setup.read("effects"), "", "nothing ran");
            continue;
        }
        assert_eq!(setup.read("effects"), "signed\n");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h97_a_task_that_was_begun_before_the_key_was_pinned_is_not_run_after_that() {
    // The number of tasks that run at once.
    const AT_ONCE: usize = 8;
    for is_pinned in [true, false] {
        let setup = RunnerFixture::with_config("[backend]\n# no key\n").await;
        let runner = setup.run();
        let mut tasks = Vec::new();
        let blocks = "touch up; until [ -e go ]; do sleep 0.02; done";
        for command in [blocks; AT_ONCE].into_iter().chain(["echo ran >> effects"]) {
            let args = json!({ "tool": "Bash", "args": { "command": command } });
            let id = setup.ask(ToolCall::new("Task", &args)).await;
            setup.answer(&id).await.expect_ok();
            tasks.push(format!("{id}-task"));
            wait_until("a first task to run", || setup.file("up").exists()).await;
        }
        setup
            .wait_for_state(&tasks[AT_ONCE], RequestState::Accepted)
            .await;
        runner.kill();
        if is_pinned {
            setup.configure(
                "# no key",
                &format!("request_key = \"{}\"", public_key_from_seed(&KEY)),
            );
        }
        let runner = setup.run();
        setup.write("go", "");
        let over = |id: &str| {
            !matches!(
                setup.state(id),
                Some(RequestState::Accepted | RequestState::Started)
            )
        };
        wait_until("all tasks to end", || tasks.iter().all(|task| over(task))).await;
        assert_eq!(setup.read("effects"), if is_pinned { "" } else { "ran\n" });
        runner.terminate();
        runner.end().await;
    }
}
