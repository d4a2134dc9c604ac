//! Where a text is cut before it is masked, no part of a known secret is left: it is masked as a whole or not shown.

use proptest::prelude::*;
use punie_core::ids::{RequestId, ToolName};
use punie_text::output::{OutputStore, SecretBoundaries};
use punie_text::redact::{MASK, Redactor, Secret};
use punie_tool::ToolContext;
use punie_tool::request::{CallFailure, CallOutcome, SealContext};
use serde_json::{Value, json};

use super::Bench;
use crate::harness::tools::call_with;

const SECRET: &str = "zq81Kf93hfWx72Lmna";

/// A bench whose answers are sealed as the runner seals them, with one known secret.
struct Masked {
    bench: Bench,
    redactor: Redactor,
    store: OutputStore,
}

impl Masked {
    fn new(secret: &str) -> Self {
        let bench = Bench::new();
        let store = OutputStore::open_output_folder(&bench.outside.join("outputs")).unwrap();
        Self {
            bench,
            redactor: Redactor::new([Secret::new(secret.to_owned())]),
            store,
        }
    }

    /// What the caller is answered.
    async fn answer(&self, tool: &str, args: Value) -> String {
        let cx = ToolContext {
            secret_boundaries: SecretBoundaries::new(&self.redactor),
            ..ToolContext::for_detached_call(RequestId::new())
        };
        let request = cx.request.clone();
        let outcome = match call_with(&self.bench.tools, tool, args, cx).await {
            Ok(reply) => CallOutcome::Ok(reply),
            Err(error) => CallOutcome::Error(CallFailure::from(error)),
        };
        let sealed = outcome.seal(&SealContext {
            redactor: &self.redactor,
            store: &self.store,
            request: &request,
            tool: &ToolName::parse(tool).unwrap(),
            duration: std::time::Duration::ZERO,
            attempt: None,
        });
        let payload: Value = serde_json::from_str(sealed.payload_json()).unwrap();
        let text = payload.get("result").or(payload.get("error")).unwrap();
        text.as_str()
            .map_or_else(|| text.to_string(), str::to_owned)
    }
}

/// Nothing of the secret that does not stand in any text is there.
fn assert_hidden(text: &str) {
    let part = SECRET
        .as_bytes()
        .windows(4)
        .map(|part| std::str::from_utf8(part).unwrap());
    let shown: Vec<&str> = part.filter(|part| text.contains(part)).collect();
    assert!(shown.is_empty(), "{shown:?} in {text}");
}

#[tokio::test]
async fn a_line_that_is_cut_in_its_middle_shows_no_part_of_a_secret_at_the_cut() {
    let masked = Masked::new(SECRET);
    for dots in 980..1_003 {
        let dots = ".".repeat(dots);
        for line in [
            format!("{dots}{SECRET}{}", ".".repeat(3_000)),
            format!("{}{SECRET}{dots}", ".".repeat(3_000)),
            // Longer than what is held of a line.
            format!(
                "{dots}{SECRET}{}{SECRET}{dots}\nnext\n",
                "-".repeat(300_000)
            ),
        ] {
            masked.bench.put("f", &line);
            let shown = masked.answer("Read", json!({ "file_path": "f" })).await;
            assert_hidden(&shown);
            assert_contains!(shown, "of this line omitted");
        }
    }
    masked.bench.put(
        "f",
        format!("{}{SECRET}{}", ".".repeat(14_848), ".".repeat(20_000)),
    );
    assert_hidden(&masked.answer("read_file", json!({ "path": "f" })).await);
}

#[tokio::test]
async fn what_is_omitted_of_a_line_is_counted_with_the_secret_at_the_cut() {
    let masked = Masked::new(SECRET);
    masked.bench.put(
        "f",
        format!("{}{SECRET}{}", ".".repeat(990), "-".repeat(3_000)),
    );
    let shown = masked.answer("Read", json!({ "file_path": "f" })).await;
    let dots = ".".repeat(990);
    // 990 before and 1,000 behind of 4,008 are shown.
    let omitted = punie_text::output::number_format::format_size(4_008 - 990 - 1_000);
    let expected =
        format!("\t{dots} [... {omitted} of this line omitted; it has 4,008 characters ...] -");
    assert_contains!(shown, &expected);
}

#[tokio::test]
async fn a_column_within_a_secret_shows_it_masked_and_says_where_it_begins() {
    let masked = Masked::new(SECRET);
    masked.bench.put("env", format!("TOKEN={SECRET}\nNEXT=1\n"));
    for column in [7, 8, 15, 24] {
        let shown = masked
            .answer("Read", json!({ "file_path": "env", "column": column }))
            .await;
        assert_hidden(&shown);
        assert_contains!(shown, &format!("\n{MASK}\n"));
        assert_contains!(
            shown,
            "Showing characters 7-24 of line 1, which ends there."
        );
    }
    masked.bench.put(
        "f.json",
        format!("{{{}{SECRET}\"}}", "\"k\":1,".repeat(333)),
    );
    for column in 1_999..2_018 {
        assert_hidden(
            &masked
                .answer("Read", json!({ "file_path": "f.json", "column": column }))
                .await,
        );
    }
}

#[tokio::test]
async fn a_secret_that_is_longer_than_an_answer_is_shown_masked_and_read_past() {
    let long: String = (0..3_000_u32)
        .map(|n| char::from(b'a' + u8::try_from(n * n % 23).unwrap()))
        .collect();
    let masked = Masked::new(&long);
    masked.bench.put("f", format!("KEY={long};and this\n"));
    let ask = json!({ "file_path": "f", "column": 100, "max_chars": 1_000 });
    let shown = masked.answer("Read", ask).await;
    assert_contains!(shown, &format!("\n{MASK}\n"));
    assert_contains!(
        shown,
        "Showing characters 5-3004 of line 1. Continue with offset=1 column=3005."
    );
    let args = json!({ "file_path": "f", "column": 3_005, "max_chars": 1_000 });
    let shown = masked.answer("Read", args).await;
    assert_contains!(shown, "\n;and this\n");
}

#[tokio::test]
async fn an_edit_that_shows_a_long_line_shows_no_part_of_a_secret() {
    let masked = Masked::new(SECRET);
    for dots in 278..300 {
        let line = format!("abc {}{SECRET}", ".".repeat(dots));
        masked.bench.put("f", format!("{line}\n{line} twice\n"));
        let ambiguous = json!({ "file_path": "f", "old_string": "abc ", "new_string": "x" });
        assert_hidden(&masked.answer("Edit", ambiguous).await);
        let all = json!({ "file_path": "f", "old_string": "abc", "new_string": "abd", "replace_all": true });
        assert_hidden(&masked.answer("Edit", all).await);
        let many =
            json!({ "file_path": "f", "edits": [{ "old_string": " twice", "new_string": "" }] });
        assert_hidden(&masked.answer("MultiEdit", many).await);
    }
}

#[tokio::test]
async fn the_reason_of_a_miss_shows_no_part_of_a_secret() {
    let masked = Masked::new(SECRET);
    for dots in [0, 100, 150] {
        let dots = ".".repeat(dots);
        masked.bench.put(
            "f",
            format!(
                "first line\nTOKEN={dots}{SECRET}{}\nlast line\n",
                ".".repeat(60)
            ),
        );
        for old in [
            format!("TOKEN={dots}zq81K___"),
            format!("first line\nTOKEN={dots}zq8"),
        ] {
            let ask = json!({ "file_path": "f", "old_string": format!("{old}!\nlast"), "new_string": "x" });
            let shown = masked.answer("Edit", ask).await;
            assert_contains!(shown, "is not in");
            assert_lacks!(shown, &SECRET[7..12]);
        }
        let patch = format!(
            "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n first line\n-TOKEN={dots}zq8\n+x\n last line\n"
        );
        let shown = masked.answer("ApplyPatch", json!({ "patch": patch })).await;
        assert_lacks!(shown, &SECRET[4..9]);
    }
}

#[tokio::test]
async fn a_long_line_of_a_notebook_shows_no_part_of_a_secret() {
    let masked = Masked::new(SECRET);
    for dots in 975..1_001 {
        let line = format!("{}{SECRET}{}", ".".repeat(dots), ".".repeat(3_000));
        let cell = json!({ "cell_type": "markdown", "metadata": {}, "source": [line] });
        let notebook =
            json!({ "cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5 });
        masked.bench.put("n.ipynb", notebook.to_string());
        let shown = masked
            .answer("Read", json!({ "file_path": "n.ipynb" }))
            .await;
        assert_contains!(shown, "of this line omitted");
        assert_hidden(&shown);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_line_read_on_by_its_columns_is_masked_as_one_and_comes_whole(
        parts in prop::collection::vec(("[a-m€🦀\u{1b}]{0,900}", any::<bool>()), 1..8),
        behind in prop::sample::select(vec!["", "\nnext\n"]),
        padding in prop::sample::select(vec![0, 1 << 20]),
    ) {
        let masked = Masked::new(SECRET);
        let pieces = parts.iter().map(|(text, secret)| [text.as_str(), if *secret { SECRET } else { "" }].concat());
        let line = pieces.collect::<Vec<_>>().concat();
        // A file that is too big to be held is read in another way.
        masked.bench.put("f", format!("{line}{behind}\n{}", "\n".repeat(padding)));
        let expected = masked.redactor.mask(&line).0.into_owned();
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let (mut joined, mut column) = (String::new(), 1);
            while column <= line.chars().count() {
                let ask = json!({ "file_path": "f", "column": column, "max_chars": 1_000 });
                let shown = masked.answer("Read", ask).await;
                let (_, rest) = shown.split_once('\n').unwrap();
                let (part, footer) = rest.split_once("\n\nShowing characters ").unwrap();
                assert_starts_with!(footer, &format!("{column}-"));
                joined.push_str(part);
                let Some((_, next)) = footer.split_once(" column=") else { break };
                column = next.trim_end().trim_end_matches('.').parse().unwrap();
            }
            assert_eq!(joined, expected);
        });
    }
}
