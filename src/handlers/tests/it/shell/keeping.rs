//! What is kept of outputs when there is little room for them.

use punie_core::ids::ToolName;
use punie_text::output::OutputHandle;
use punie_text::redact::Redactor;
use punie_tool::request::{CallOutcome, SealContext};

use super::*;
use crate::harness::wait::with_enough_time;

fn small(limits: OutputLimits) -> Bench {
    Bench::keeping(limits)
}

fn printing(bytes: u32) -> String {
    format!("head -c {bytes} /dev/zero | tr '\\0' x")
}

#[tokio::test]
async fn a_shell_that_has_ended_holds_no_room() {
    let bench = small(OutputLimits {
        in_total: 1_000_000,
        ..OutputLimits::default()
    });
    for shell in 1..=3 {
        let args = json!({"command": printing(400_000), "run_in_background": true});
        bench.text("Bash", args).await;
        let end = json!({"shell_id": format!("sh_{shell}")});
        bench.shows(end, "exit code 0").await;
    }
    let (text, meta) = bench.bash("seq 1 100000").await;
    assert_eq!(meta.warnings, Vec::<String>::new(), "{text}");
    let handle = meta.handle.expect("it is kept");
    let page = bench
        .text("ReadOutput", json!({"handle": handle, "offset": 100_000}))
        .await;
    assert_contains!(page, "100000\t100000\n");
}

#[tokio::test]
async fn an_output_of_which_nothing_is_kept_names_no_handle_and_says_why() {
    let bench = small(OutputLimits {
        per_output: 100_000,
        in_total: 100_000,
        ..OutputLimits::default()
    });
    let filling = format!("{}; echo full; sleep 60", printing(100_000));
    let args = json!({"command": filling, "run_in_background": true});
    bench.text("Bash", args).await;
    let full = json!({"shell_id": "sh_1", "pattern": "full$"});
    bench.shows(full, "full\n").await;

    let cx = ToolContext::for_detached_call(RequestId::new());
    let handle = OutputStore::handle_for(&cx.request, 0);
    let call = tools::call_with(
        &bench.registry,
        "Bash",
        json!({"command": "seq 1 20000"}),
        cx,
    );
    let reply = within(call).await.expect("it ran");
    let text = tools::reply_text(&reply);
    assert_contains!(text, " omitted]\n");
    assert_lacks!(text, "ReadOutput");
    assert!(
        reply.meta.truncated && reply.meta.handle.is_none(),
        "{:?}",
        reply.meta
    );
    let [warning] = &*reply.meta.warnings else {
        panic!("{:?}", reply.meta.warnings)
    };
    assert_starts_with!(warning, "Nothing of the output is kept");
    assert_contains!(warning, "running");

    let refused =
        |handle: OutputHandle| bench.call("ReadOutput", json!({"handle": handle.as_str()}));
    let error = refused(handle.clone()).await.expect_err("nothing is kept");
    assert_error!(error, NotFound: "Nothing of the output out_", "running");
    assert!(
        !bench.outputs.path().join(handle.as_str()).exists(),
        "an empty file would look like an output"
    );

    bench
        .text("KillShell", json!({"shell_id": "sh_1", "signal": "KILL"}))
        .await;
    let (_, meta) = bench.bash("seq 1 15000").await;
    assert!(
        meta.handle.is_some() && meta.warnings.is_empty(),
        "{meta:?}"
    );
}

#[tokio::test]
async fn a_stopped_commands_output_is_as_long_as_the_call_asked_for() {
    let bench = Bench::new();
    let stopped = with_enough_time(1_000, async |timeout| {
        let command = "seq 1 100000; sleep 600";
        let args = json!({"command": command, "timeout": timeout, "max_chars": 100_000});
        let stopped = bench.call("Bash", args).await.expect_err("too long");
        (stopped.model_text().chars().count() > 90_000).then_some(stopped)
    })
    .await;
    let text = stopped.model_text().to_owned();
    let request = RequestId::new();
    let sealed = CallOutcome::Error(stopped.into()).seal(&SealContext {
        redactor: &Redactor::new([]),
        store: &OutputStore::open_output_folder(bench.outputs.path()).expect("a store"),
        request: &request,
        tool: &ToolName::parse("Bash").expect("a name"),
        duration: Duration::from_secs(1),
        attempt: Some(1),
    });
    let payload: Value = serde_json::from_str(sealed.payload_json()).expect("JSON");
    assert_eq!(payload["error"], json!(text));
    assert_eq!(payload["meta"].get("textIsFitted"), None);
}
