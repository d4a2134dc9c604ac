//! Text on its way out: the kept outputs and ReadOutput over them; the sealing of a reply has a file of its own.
#![expect(clippy::disallowed_methods, reason = "a test looks at the files that the store leaves")]

mod sealing;

use std::path::Path;
use std::time::{Duration, SystemTime};

use punie_runner::handlers::state;
use punie_runner::ids::RequestId;
use punie_runner::output::{Budget, FindError, Limits, OutputStore};
use punie_runner::tool::{Effect, ErrorCode, Lane, ToolCx};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::tools::{call, call_with, registry, text};

fn store() -> (TempDir, OutputStore) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let store = OutputStore::open(&dir.path().join("outputs")).expect("the store opens");
    (dir, store)
}

fn lines(count: usize) -> String {
    (1..=count).fold(String::new(), |text, n| text + &format!("line {n}\n"))
}

async fn read(store: &OutputStore, args: Value) -> String {
    let tools = registry(state_tools(store));
    text(&call(&tools, "ReadOutput", args).await.expect("an answer")).to_owned()
}

async fn refused(store: &OutputStore, args: Value) -> (ErrorCode, String) {
    let tools = registry(state_tools(store));
    let error = call(&tools, "ReadOutput", args).await.expect_err("a refusal");
    (error.code(), error.text().to_owned())
}

fn kept(store: &OutputStore, content: &str) -> String {
    store.keep(&RequestId::new(), 0, content).expect("it is kept").as_str().to_owned()
}

// The store.

#[test]
fn a_handle_is_the_same_after_a_restart_and_names_no_path() {
    let (_dir, store) = store();
    let request = RequestId::parse("req-1").expect("an id");
    let handle = OutputStore::handle(&request, 0);
    assert_eq!(handle, OutputStore::handle(&request, 0));
    assert_ne!(handle, OutputStore::handle(&request, 1));
    assert_eq!(handle.as_str().len(), "out_".len() + 12);
    for text in
        ["../../etc/passwd", "out_../../../x", "out_0123456789AB", "out_0123", "", "out_0123456789ab/"]
    {
        assert!(matches!(store.find(text), Err(FindError::Malformed)), "{text}");
    }
    assert!(matches!(store.find(handle.as_str()), Err(FindError::Unknown)));
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_what_is_kept() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, store) = store();
    let handle = kept(&store, "private");
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let folder = dir.path().join("outputs");
    assert_eq!((mode(&folder), mode(&folder.join(handle))), (0o700, 0o600));
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    OutputStore::open(&folder).expect("it opens again");
    assert_eq!(mode(&folder), 0o700);
}

#[test]
fn what_is_flushed_can_be_read_while_the_rest_is_written() {
    let (_dir, store) = store();
    let mut spool = store.create(&RequestId::new(), 0).expect("a spool");
    spool.write(b"first\n");
    spool.flush();
    spool.write(b"second\n");
    let mut kept = store.find(spool.handle().as_str()).expect("it is there");
    assert_eq!(kept.totals().expect("read").lines, 1);
    assert_eq!(spool.written(), 13);
    drop(spool);
    assert_eq!(kept.totals().expect("read").lines, 2);
}

#[test]
fn one_output_stops_at_its_limit_and_says_so() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let limits = Limits { each: 100_000, ..Limits::default() };
    let store = OutputStore::with_limits(dir.path(), limits).expect("the store opens");
    let mut spool = store.create(&RequestId::new(), 0).expect("a spool");
    for _ in 0..300 {
        spool.write(&[b'x'; 999]);
    }
    assert_eq!(spool.written(), 100_000);
    assert!(spool.cut_short().expect("a reason").contains("only the first 97 KB"), "{:?}", spool.cut_short());
    let mut kept = store.find(spool.handle().as_str()).expect("it is there");
    assert_eq!(kept.totals().expect("read").bytes, 100_000);
}

#[test]
fn the_oldest_outputs_go_first_but_none_that_is_being_written() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let limits = Limits { all: 250_000, ..Limits::default() };
    let store = OutputStore::with_limits(dir.path(), limits).expect("the store opens");
    let mut running = store.create(&RequestId::new(), 0).expect("a spool");
    running.write(&vec![b'r'; 70_000]);
    running.flush();
    let handles: Vec<String> = (0..3).map(|_| kept(&store, &"x".repeat(80_000))).collect();
    let there = |handle: &str| store.find(handle).is_ok();
    assert!(there(running.handle().as_str()) && !there(&handles[0]));
    assert!(there(&handles[1]) && there(&handles[2]));
    running.write(&vec![b'r'; 190_000]);
    running.flush();
    assert!(running.cut_short().expect("a reason").contains("in all"), "{:?}", running.cut_short());
    assert!(there(running.handle().as_str()) && !there(&handles[1]) && !there(&handles[2]));
    let refused = store.keep(&RequestId::new(), 0, &"x".repeat(200_000)).expect_err("no room is left");
    assert_eq!(refused.kind(), std::io::ErrorKind::QuotaExceeded);
}

#[test]
fn an_output_that_is_too_old_is_gone_after_a_start() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let store = OutputStore::open(dir.path()).expect("the store opens");
    let (old, young) = (kept(&store, "old"), kept(&store, "young"));
    std::fs::write(dir.path().join("notes.txt"), "of someone else").expect("written");
    let week = Duration::from_hours(7 * 24 + 1);
    for name in [old.as_str(), "notes.txt"] {
        let file = std::fs::File::options().write(true).open(dir.path().join(name)).expect("opened");
        file.set_modified(SystemTime::now() - week).expect("aged");
    }
    let store = OutputStore::open(dir.path()).expect("the store opens again");
    assert!(matches!(store.find(&old), Err(FindError::Unknown)));
    assert!(store.find(&young).is_ok());
    assert!(dir.path().join("notes.txt").exists());
}

#[test]
fn recovery_finds_what_a_killed_call_had_printed() {
    let (dir, store) = store();
    let request = RequestId::new();
    let mut spool = store.create(&request, 0).expect("a spool");
    spool.write(lines(5_000).as_bytes());
    spool.flush();
    let again = OutputStore::open(&dir.path().join("outputs")).expect("the store opens again");
    let handle = OutputStore::handle(&request, 0);
    let tail = again.tail_text(&handle, 50).expect("read").expect("it is there");
    assert!(
        tail.starts_with("line ") && tail.ends_with("line 4999\nline 5000\n") && tail.len() <= 50,
        "{tail}"
    );
    let clipped = again.clipped(&handle, Budget::chars(Some(1_000))).expect("read").expect("it is there");
    assert!(clipped.text.contains(&format!("handle=\"{handle}\"")), "{}", clipped.text);
    assert_eq!(again.tail_text(&OutputStore::handle(&request, 1), 50).expect("read"), None);
}

// ReadOutput.

#[tokio::test]
async fn a_page_is_numbered_and_says_how_to_go_on() {
    let (_dir, store) = store();
    let handle = kept(&store, &lines(500));
    let page = read(&store, json!({"handle": handle, "offset": 201, "limit": 2})).await;
    let expected = format!(
        "{handle} (500 lines, 4.2 KB)\n   201\tline 201\n   202\tline 202\nShowing 201-202 of 500. Continue with offset=203."
    );
    assert_eq!(page, expected);
    let last = read(&store, json!({"handle": handle, "offset": 499})).await;
    assert!(last.ends_with("   500\tline 500\nShowing 499-500 of 500."), "{last}");
    let past = read(&store, json!({"handle": handle, "offset": 501})).await;
    assert!(past.ends_with("There is no line 501: the output has 500 lines."), "{past}");
}

#[tokio::test]
async fn every_line_is_reached_by_following_the_footer() {
    let (_dir, store) = store();
    let content: String = (1..=3_000).flat_map(|n| ["w".repeat(n % 190), "\n".to_owned()]).collect();
    let handle = kept(&store, &content);
    let (mut offset, mut seen) = (1, String::new());
    loop {
        let page =
            read(&store, json!({"handle": handle, "offset": offset, "limit": 10_000, "max_chars": 5_000}))
                .await;
        assert!(page.chars().count() <= 5_000, "{} characters", page.chars().count());
        for line in page.lines().filter_map(|line| line.split_once('\t')) {
            seen.push_str(line.1);
            seen.push('\n');
        }
        let Some((_, next)) = page.rsplit_once("Continue with offset=") else { break };
        offset = next.trim_end_matches('.').parse::<u64>().expect("a number");
    }
    assert_eq!(seen, content);
}

#[tokio::test]
async fn the_tail_is_what_came_last() {
    let (_dir, store) = store();
    for end in ["", "the end"] {
        let handle = kept(&store, &(lines(30_000) + end));
        let total = if end.is_empty() { "30,000" } else { "30,001" };
        let page = read(&store, json!({"handle": handle, "tail": 2})).await;
        assert!(
            page.contains(&format!("-{} of {total}. Earlier lines: offset=", total.replace(',', ""))),
            "{page}"
        );
        assert_eq!(page.lines().count(), 4);
        let many = read(&store, json!({"handle": handle, "tail": 10_000, "max_chars": 1_000})).await;
        assert!(many.chars().count() <= 1_000 && many.contains(" 30000\tline 30000\n"), "{many}");
    }
    let handle = kept(&store, "");
    assert!(
        read(&store, json!({"handle": handle, "tail": 5})).await.ends_with("Nothing was printed (so far).")
    );
}

#[tokio::test]
async fn a_pattern_finds_lines_with_context() {
    let (_dir, store) = store();
    let handle = kept(&store, &lines(100));
    let found =
        read(&store, json!({"handle": handle, "pattern": "line (20|5)0?$", "context": 1, "limit": 2})).await;
    let expected = format!(
        "{handle} (100 lines, 792 bytes)\n     4-\tline 4\n     5\tline 5\n     6-\tline 6\n--\n    19-\tline 19\n    20\tline 20\n    21-\tline 21\n3 matching lines, 2 shown. Continue with offset=50."
    );
    assert_eq!(found, expected);
    let rest =
        read(&store, json!({"handle": handle, "pattern": "line (20|5)0?$", "context": 0, "offset": 50}))
            .await;
    assert!(rest.ends_with("\n    50\tline 50\n3 matching lines, the last 1 shown."), "{rest}");
    let none = read(&store, json!({"handle": handle, "pattern": "LINE"})).await;
    assert!(none.contains("No line matches"), "{none}");
    let (code, text) = refused(&store, json!({"handle": handle, "pattern": "("})).await;
    assert!(code == ErrorCode::InvalidArgs && text.contains("not a usable regular expression"), "{text}");
}

#[tokio::test]
async fn a_giant_line_can_be_searched_and_read_by_column() {
    let (_dir, store) = store();
    let mut line = "é".repeat(200_000);
    line.push_str("needle");
    line.push_str(&"z".repeat(300_000));
    let handle = kept(&store, &format!("before\n{line}\nafter needle\n"));
    let found =
        read(&store, json!({"handle": handle, "pattern": "needle", "context": 0, "max_chars": 4_000})).await;
    assert!(found.contains("     2\t[long line, match at column=200001] é"), "{found}");
    assert!(found.contains("     3\tafter needle\n2 matching lines."), "{found}");
    let page = read(&store, json!({"handle": handle, "offset": 2, "limit": 1, "column": 200_001})).await;
    assert!(
        page.contains("     2\tneedlezzz") && page.contains("[... column=202001 of 500,006 characters"),
        "{page}"
    );
    let whole = read(&store, json!({"handle": handle, "max_chars": 1_000})).await;
    assert!(whole.chars().count() <= 1_000 && whole.contains("Continue with offset=2."), "{whole}");
    let alone = read(&store, json!({"handle": handle, "offset": 2, "max_chars": 1_000})).await;
    assert!(
        alone.chars().count() <= 1_000 && alone.contains("Showing 2-2 of 3. Continue with offset=3."),
        "{alone}"
    );
}

#[tokio::test]
async fn an_unknown_handle_says_how_long_outputs_are_kept() {
    let (_dir, store) = store();
    let (code, text) = refused(&store, json!({"handle": "out_0123456789ab"})).await;
    assert!(code == ErrorCode::NotFound && text.contains("kept for 7 days"), "{text}");
    let (code, text) = refused(&store, json!({"handle": "../secrets"})).await;
    assert!(code == ErrorCode::InvalidArgs && text.contains("is not a handle"), "{text}");
    let (code, _) = refused(&store, json!({"handle": "out_0123456789ab", "tail": 1, "pattern": "x"})).await;
    assert_eq!(code, ErrorCode::InvalidArgs);
}

#[tokio::test]
async fn a_cancelled_call_reads_nothing() {
    let (_dir, store) = store();
    let handle = kept(&store, "text");
    let cx = ToolCx::detached(RequestId::new());
    cx.cancel.cancel();
    let tools = registry(state_tools(&store));
    let error = call_with(&tools, "ReadOutput", json!({"handle": handle}), cx).await.expect_err("cancelled");
    assert_eq!(error.code(), ErrorCode::Cancelled);
}

#[test]
fn the_tool_bypasses_the_queue_and_changes_nothing() {
    let (_dir, store) = store();
    let tools = registry(state_tools(&store));
    let spec = tools.find("ReadOutput").expect("it is registered").spec().clone();
    assert_eq!((spec.lane, spec.effect, spec.domain), (Lane::Control, Effect::Reads, "state"));
    for example in spec.examples {
        assert!(tools.find("ReadOutput").expect("it is registered").decode(example).is_ok(), "{example}");
    }
}

fn state_tools(outputs: &OutputStore) -> Vec<punie_runner::tool::Entry> {
    let board = std::sync::Arc::new(state::board::NoTasks);
    state::tools(state::StateDeps { outputs: outputs.clone(), board })
}
