//! ReadOutput: pages, the tail, matching lines, and refusals.

use punie_core::ids::RequestId;
use punie_tool::{CallLane, ErrorCode, ToolContext, ToolEffect};
use serde_json::json;

use super::{expect_error, read_output, state_tools};
use crate::harness::tools::{build_registry, call_with};
use crate::output::{numbered_lines, output_store, store_text};

#[tokio::test]
async fn a_page_is_numbered_and_says_how_to_go_on() {
    let (_dir, store) = output_store();
    let handle = store_text(&store, &numbered_lines(500));
    let page = read_output(&store, json!({"handle": handle, "offset": 201, "limit": 2})).await;
    let expected = format!(
        "{handle} (500 lines, 4.2 KB)\n   201\tline 201\n   202\tline 202\nShowing 201-202 of 500. Continue with offset=203."
    );
    assert_eq!(page, expected);
    let last = read_output(&store, json!({"handle": handle, "offset": 499})).await;
    assert_ends_with!(last, "   500\tline 500\nShowing 499-500 of 500.");
    let past = read_output(&store, json!({"handle": handle, "offset": 501})).await;
    assert_ends_with!(past, "There is no line 501: the output has 500 lines.");
}

#[tokio::test]
async fn every_line_is_reached_by_following_the_footer() {
    let (_dir, store) = output_store();
    let content: String = (1..=3_000)
        .flat_map(|n| ["w".repeat(n % 190), "\n".to_owned()])
        .collect();
    let handle = store_text(&store, &content);
    let mut offset = 1;
    let mut seen = String::new();
    loop {
        let args = json!({"handle": handle, "offset": offset, "limit": 10_000, "max_chars": 5_000});
        let page = read_output(&store, args).await;
        assert!(
            page.chars().count() <= 5_000,
            "{} characters",
            page.chars().count()
        );
        for line in page.lines().filter_map(|line| line.split_once('\t')) {
            seen.push_str(line.1);
            seen.push('\n');
        }
        let Some((_, next)) = page.rsplit_once("Continue with offset=") else {
            break;
        };
        offset = next.trim_end_matches('.').parse::<u64>().expect("a number");
    }
    assert_eq!(seen, content);
}

#[tokio::test]
async fn the_tail_is_what_came_last() {
    let (_dir, store) = output_store();
    for end in ["", "the end"] {
        let handle = store_text(&store, &(numbered_lines(30_000) + end));
        let total = if end.is_empty() { "30,000" } else { "30,001" };
        let page = read_output(&store, json!({"handle": handle, "tail": 2})).await;
        assert_contains!(
            page,
            &format!(
                "-{} of {total}. Earlier lines: offset=",
                total.replace(',', "")
            )
        );
        assert_eq!(page.lines().count(), 4);
        let args = json!({"handle": handle, "tail": 10_000, "max_chars": 1_000});
        let many = read_output(&store, args).await;
        assert!(
            many.chars().count() <= 1_000 && many.contains(" 30000\tline 30000\n"),
            "{many}"
        );
    }
    let handle = store_text(&store, "");
    assert_ends_with!(
        read_output(&store, json!({"handle": handle, "tail": 5})).await,
        "Nothing was printed (so far)."
    );
}

#[tokio::test]
async fn a_pattern_finds_lines_with_context() {
    let (_dir, store) = output_store();
    let handle = store_text(&store, &numbered_lines(100));
    let args = json!({"handle": handle, "pattern": "line (20|5)0?$", "context": 1, "limit": 2});
    let found = read_output(&store, args).await;
    let expected = format!(
        "{handle} (100 lines, 792 bytes)\n     4-\tline 4\n     5\tline 5\n     6-\tline 6\n--\n    19-\tline 19\n    20\tline 20\n    21-\tline 21\n3 matching lines, 2 shown. Continue with offset=50."
    );
    assert_eq!(found, expected);
    let args = json!({"handle": handle, "pattern": "line (20|5)0?$", "context": 0, "offset": 50});
    let rest = read_output(&store, args).await;
    assert_ends_with!(
        rest,
        "\n    50\tline 50\n3 matching lines, the last 1 shown."
    );
    let none = read_output(&store, json!({"handle": handle, "pattern": "LINE"})).await;
    assert_contains!(none, "No line matches");
    let (code, text) = expect_error(&store, json!({"handle": handle, "pattern": "("})).await;
    assert!(
        code == ErrorCode::InvalidArgs && text.contains("not a usable regular expression"),
        "{text}"
    );
}

#[tokio::test]
async fn a_giant_line_can_be_searched_and_read_by_column() {
    let (_dir, store) = output_store();
    let mut line = "é".repeat(200_000);
    line.push_str("needle");
    line.push_str(&"z".repeat(300_000));
    let handle = store_text(&store, &format!("before\n{line}\nafter needle\n"));
    let args = json!({"handle": handle, "pattern": "needle", "context": 0, "max_chars": 4_000});
    let found = read_output(&store, args).await;
    assert_contains!(found, "     2\t[long line, match at column=200001] é");
    assert_contains!(found, "     3\tafter needle\n2 matching lines.");
    let args = json!({"handle": handle, "offset": 2, "limit": 1, "column": 200_001});
    let page = read_output(&store, args).await;
    assert_contains!(
        page,
        "     2\tneedlezzz",
        "[... column=202001 of 500,006 characters"
    );
    let whole = read_output(&store, json!({"handle": handle, "max_chars": 1_000})).await;
    assert!(
        whole.chars().count() <= 1_000 && whole.contains("Continue with offset=2."),
        "{whole}"
    );
    let args = json!({"handle": handle, "offset": 2, "max_chars": 1_000});
    let alone = read_output(&store, args).await;
    assert!(
        alone.chars().count() <= 1_000
            && alone.contains("Showing 2-2 of 3. Continue with offset=3."),
        "{alone}"
    );
}

#[tokio::test]
async fn an_unknown_handle_says_how_long_outputs_are_kept() {
    let (_dir, store) = output_store();
    let (code, text) = expect_error(&store, json!({"handle": "out_0123456789ab"})).await;
    assert!(
        code == ErrorCode::NotFound && text.contains("kept for 7 days"),
        "{text}"
    );
    let (code, text) = expect_error(&store, json!({"handle": "../secrets"})).await;
    assert!(
        code == ErrorCode::InvalidArgs && text.contains("is not a handle"),
        "{text}"
    );
    let args = json!({"handle": "out_0123456789ab", "tail": 1, "pattern": "x"});
    let (code, _) = expect_error(&store, args).await;
    assert_eq!(code, ErrorCode::InvalidArgs);
}

#[tokio::test]
async fn a_cancelled_call_reads_nothing() {
    let (_dir, store) = output_store();
    let handle = store_text(&store, "text");
    let cx = ToolContext::for_detached_call(RequestId::new());
    cx.cancel.cancel();
    let tools = build_registry(state_tools(&store));
    let error = call_with(&tools, "ReadOutput", json!({"handle": handle}), cx)
        .await
        .expect_err("cancelled");
    assert_error!(error, Cancelled);
}

#[test]
fn the_tool_bypasses_the_queue_and_changes_nothing() {
    let (_dir, store) = output_store();
    let tools = build_registry(state_tools(&store));
    let spec = tools
        .find("ReadOutput")
        .expect("it is registered")
        .tool_spec()
        .clone();
    assert_eq!(spec.lane, CallLane::Control);
    assert_eq!(spec.effect, ToolEffect::Reads);
    assert_eq!(spec.domain, "state");
    for example in spec.examples {
        assert!(
            tools
                .find("ReadOutput")
                .expect("it is registered")
                .decode_call(example)
                .is_ok(),
            "{example}"
        );
    }
}

#[tokio::test]
async fn colours_and_progress_are_left_out_unless_raw_is_asked_for() {
    let (_dir, store) = output_store();
    let handle = store_text(
        &store,
        "\x1b[32mok\x1b[0m one\r\n 17%\r 18%\nplain\ttext\r\n",
    );
    let page = read_output(&store, json!({"handle": handle})).await;
    assert_contains!(
        page,
        "     1\tok one\n     2\t 18%\n     3\tplain\ttext\nShowing 1-3 of 3.\n["
    );
    assert_ends_with!(page, "raw=true shows them]");
    let plain = read_output(&store, json!({"handle": handle, "offset": 3})).await;
    assert_ends_with!(plain, "     3\tplain\ttext\nShowing 3-3 of 3.");
    let args = json!({"handle": handle, "pattern": "one", "context": 0});
    let found = read_output(&store, args).await;
    assert_contains!(found, "     1\tok one\n1 matching line.\n[");
    let raw = read_output(&store, json!({"handle": handle, "raw": true})).await;
    assert_contains!(raw, "\x1b[32mok", " 17%\r 18%");
    assert_lacks!(raw, "raw=true");
}
