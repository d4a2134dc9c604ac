//! Text of others as the person at the device sees it: escapes, titles, the clipboard, reversed text, invisible
//! characters.

use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

/// A title, the clipboard (OSC 52), a colour, a C1 escape, delete, both text directions, zero-width characters, and
/// hidden tags.
const STEERING: &str = "a\u{1b}]0;owned\u{7}b\u{1b}]52;c;cm0gLXJm\u{1b}\\c\u{1b}[31md\u{9b}31me\u{7f}f\u{202e}g\u{2066}h\
                        \u{200b}i\u{e0041}\u{e007f}j\u{feff}k\u{85}l\u{61c}m";

/// Returns true if nothing in the text controls a terminal or hides characters.
fn is_plain(text: &str) -> bool {
    text.chars().all(|c| {
        c == '\n'
            || !(c.is_control()
                || matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}')
                || matches!(c, '\u{61C}' | '\u{FEFF}' | '\u{E0000}'..='\u{E007F}'))
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h102_what_others_wrote_steers_no_terminal() {
    let setup =
        RunnerFixture::with_config("[policy]\nask = [\"Bash\"]\n[log]\nfile = \"always\"\n").await;
    let relay = Relay::before(&setup.setting.url).await;
    relay.rule(|path, _| match path {
        "events:appendResult" => {
            CallFate::refuse(&json!({ "code": "PAYLOAD_REFUSED", "message": STEERING }))
        }
        "devices:heartbeat" => CallFate::say(
            "418 No",
            "content-type: application/json\r\n",
            &json!({"message": STEERING}).to_string(),
        ),
        _ => CallFate::Pass,
    });
    let runner = setup.run_at(&relay.url);
    // The title of the first call's question is the command. The backend refuses the second call's answer with this
    // text.
    let asked = setup.ask_bash(&format!("echo {STEERING}")).await;
    let read = setup
        .ask(ToolCall::new("Read", &json!({ "file_path": STEERING })))
        .await;
    wait_for_some("the question", async || {
        let open = setup.command(&["--json", "approvals"]).await.out;
        Some(()).filter(|()| open.contains("owned"))
    })
    .await;
    // The caller reads the question as plain text too.
    let question = setup.caller.next_question().await;
    let title = question["title"].as_str().expect("a title");
    assert!(
        is_plain(title) && title.contains("\\u{202e}") && title.contains("\\u{e0041}"),
        "{title}"
    );
    let which = question["permissionId"].as_str().expect("an id");
    wait_until("the refusal in the log", || runner.log().contains("owned")).await;
    let mut seen = Vec::new();
    for args in [
        &["status"][..],
        &["--json", "status"],
        &["history"],
        &["--json", "history"],
        &["history", &read],
        &["--json", "history", &read],
        &["history", &asked],
        &["approvals"],
        &["--json", "approvals"],
        &["approvals", "show", which],
        &["--json", "approvals", "show", which],
        &["logs", "-n", "1000"],
        &["--json", "logs", "-n", "1000"],
    ] {
        let ended = setup.command(args).await;
        assert!(is_plain(&ended.out), "{args:?}: {:?}", ended.out);
        assert!(is_plain(&ended.log), "{args:?}: {:?}", ended.log);
        if ended.out.contains("owned") {
            seen.push(args.join(" "));
        }
    }
    let kept =
        std::fs::read_to_string(setup.setting.home.join("logs/punie-runner.log")).expect("a log");
    assert!(
        is_plain(&kept) && kept.contains("owned"),
        "the log file must show plain text"
    );
    assert!(is_plain(&runner.log()), "stderr must show plain text");
    for shown in [
        "approvals",
        "--json approvals",
        &format!("approvals show {which}"),
        &format!("--json approvals show {which}"),
        "logs -n 1000",
        "--json logs -n 1000",
    ] {
        assert!(
            seen.contains(&shown.to_owned()),
            "{shown} does not show the text, so it proves nothing: {seen:?}"
        );
    }
    assert!(
        seen.iter().any(|args| args.starts_with("history")),
        "{seen:?}"
    );
    // The refusal of a command shows the backend's text.
    relay.rule(|_, _| CallFate::refuse(&json!({ "code": "DEVICE_REVOKED", "message": STEERING })));
    let refused = setup.command_at(&relay.url, &["pair", STEERING]).await;
    assert!(
        refused.log.contains("owned") && is_plain(&refused.log),
        "{:?}",
        refused.log
    );
    assert!(is_plain(&refused.out), "{:?}", refused.out);
}
