//! Messages and what hooks print are cut: no part of a known secret is left at the cut.

use punie_core::ids::RequestId;
use punie_text::output::SecretBoundaries;
use punie_text::redact::{Redactor, Secret};
use punie_tool::ToolContext;
use serde_json::{Value, json};

use super::bench::Bench;
use crate::harness::tools::{call_with, reply_text};

const SECRET: &str = "zq81Kf93hfWx72Lmna";

/// What a tool answers, before the whole is masked.
async fn answer(bench: &Bench, tool: &str, args: Value) -> String {
    let redactor = Redactor::new([Secret::new(SECRET.to_owned())]);
    let cx = ToolContext {
        secret_boundaries: SecretBoundaries::new(&redactor),
        ..ToolContext::for_detached_call(RequestId::new())
    };
    match call_with(&bench.tools, tool, args, cx).await {
        Ok(reply) => reply_text(&reply).to_owned(),
        Err(refused) => refused.model_text().to_owned(),
    }
}

fn assert_hidden(text: &str) {
    let parts = SECRET
        .as_bytes()
        .windows(4)
        .map(|part| std::str::from_utf8(part).expect("ASCII"));
    let shown: Vec<&str> = parts.filter(|part| text.contains(part)).collect();
    assert!(shown.is_empty(), "{shown:?} in {text}");
}

/// Wherever it is cut, the cut goes through one but for a sign in so many.
fn full_of_them(times: usize) -> String {
    format!("{SECRET}.").repeat(times)
}

#[tokio::test]
async fn no_part_of_a_secret_is_left_where_a_message_is_cut() {
    let bench = Bench::new();
    for start in ["", "....", "........."] {
        let message = format!(
            "subject\n\n{start}{}\n{start}{}",
            full_of_them(300),
            full_of_them(900)
        );
        bench.git(&["commit", "-q", "--allow-empty", "-m", &message]);
        let shown = answer(&bench, "GitShow", json!({"path": "repo", "ref": "HEAD"})).await;
        assert_contains!(shown, "subject");
        assert_hidden(&shown);
    }
}

#[tokio::test]
async fn no_part_of_a_secret_is_left_where_what_a_hook_prints_is_cut() {
    let bench = Bench::new();
    bench.write("a.txt", "x\n");
    bench.git(&["add", "a.txt"]);
    let prints = |times: usize| format!("yes {SECRET}. | head -n {times} | tr -d '\\n'");
    // The last prints more than is held of it.
    for script in [
        prints(300),
        prints(2_000),
        format!("printf ....; {}", prints(2_000)),
        prints(20_000),
    ] {
        bench.hook("pre-commit", &format!("{script}; exit 1"));
        let shown = answer(&bench, "GitCommit", json!({"path": "repo", "message": "x"})).await;
        assert_contains!(shown, "printed");
        assert_hidden(&shown);
    }
    bench.hook("pre-commit", &prints(2_000));
    let shown = answer(&bench, "GitCommit", json!({"path": "repo", "message": "x"})).await;
    assert_starts_with!(shown, "Committed");
    assert_hidden(&shown);
}
