//! What a command answers: its output, whole or cut, and how it ended.

use punie_text::redact::MASK;

use super::*;

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this process");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .expect("a peak");
    line.split_ascii_whitespace()
        .nth(1)
        .expect("a number")
        .parse()
        .expect("a number")
}

#[tokio::test]
async fn a_command_answers_with_its_output_and_how_it_ended() {
    let bench = Bench::new();
    let (text, meta) = bench.bash("echo out; echo err >&2; echo out again").await;
    assert_eq!(
        text, "out\nerr\nout again",
        "in the order they came, and nothing beside it"
    );
    assert_eq!(meta.exit_code, Some(0));

    assert_eq!(
        bench.bash("true").await.0,
        "Command completed successfully (no output)."
    );

    let (text, meta) = bench.bash("echo half; exit 3").await;
    assert_starts_with!(text, "half\nExit code 3 (");
    assert_eq!(meta.exit_code, Some(3));

    let (text, meta) = bench.bash("no-such-program-here").await;
    assert_contains!(text, "Exit code 127", "not found");
    assert_eq!(meta.exit_code, Some(127));
    assert_contains!(bench.bash("/etc/passwd").await.0, "could not be executed");
}

#[tokio::test]
async fn a_signal_is_named() {
    let bench = Bench::new();
    let (text, meta) = bench.bash("echo last words; kill -SEGV $$").await;
    assert_starts_with!(text, "last words\nKilled by SIGSEGV");
    assert_eq!(meta.signal.as_deref(), Some("SIGSEGV"));
    assert_eq!(meta.exit_code, None);
    let (text, _) = bench.bash("bash -c 'kill -KILL $$'; exit $?").await;
    assert_contains!(text, "Exit code 137", "SIGKILL");
}

#[tokio::test]
async fn input_is_empty_or_what_was_given() {
    let bench = Bench::new();
    assert_eq!(
        bench.bash("cat; read line || echo no input").await.0,
        "no input"
    );
    let large = "all work and no play\n".repeat(20_000);
    let counted = bench
        .text("Bash", json!({"command": "wc -c", "stdin": large}))
        .await;
    assert_eq!(counted.trim(), large.len().to_string());
    // One that does not read it is not held up by it.
    assert_eq!(
        bench
            .text("Bash", json!({"command": "echo done", "stdin": large}))
            .await,
        "done"
    );
}

/// In a process of its own, since what other tests hold would count too.
#[test]
fn a_hundred_megabytes_cost_no_memory_and_lose_neither_head_nor_tail() {
    let alone = std::process::Command::new(std::env::current_exe().expect("the tests"))
        .args([
            "--exact",
            "--ignored",
            "--test-threads=1",
            "shell::answers::alone_a_hundred_megabytes",
        ])
        .output()
        .expect("a process");
    let said = String::from_utf8_lossy(&alone.stdout);
    assert!(
        alone.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[tokio::test]
#[ignore = "run by a_hundred_megabytes_cost_no_memory_and_lose_neither_head_nor_tail"]
async fn alone_a_hundred_megabytes() {
    let bench = Bench::new();
    bench.bash("seq 1 1000").await;
    let before = peak_kib();
    let (text, meta) = bench.bash("seq 1 14000000").await;
    let grown = peak_kib().saturating_sub(before);
    assert_starts_with!(text, "1\n2\n3\n");
    assert_ends_with!(text, "\n13999999\n14000000");
    assert!(text.len() <= 30_000);
    assert!(
        meta.truncated && meta.omitted_bytes > Some(100_000_000),
        "{meta:?}"
    );
    let handle = meta.handle.expect("a handle");
    assert_contains!(text, &handle; "the marker names it");
    assert!(grown < 64 * 1024, "the peak grew by {grown} KiB");
    let kept = std::fs::metadata(bench.outputs.path().join(handle))
        .expect("the kept output")
        .len();
    assert_eq!(kept, 114_888_897, "every byte is kept");
}

#[tokio::test]
async fn something_that_prints_for_ever_does_not_delay_the_answer() {
    let bench = Bench::new();
    let (text, meta) = bench
        .bash(&format!("yes & {}; exit 4", once_it_is("yes")))
        .await;
    assert!(
        meta.output_incomplete && meta.exit_code == Some(4),
        "{meta:?}"
    );
    assert_contains!(text, "Still running: yes (pid ");
    bench.text("KillShell", json!({"shell_id": "sh_1"})).await;
}

#[tokio::test]
async fn what_is_masked_reaches_neither_the_answer_nor_the_disk() {
    let bench = Bench::masking("t0p-secret-value");
    let command = "echo t0p-secret-value and t0p-secret-value";
    let (text, meta) = bench.bash(command).await;
    assert_eq!(text, format!("{MASK} and {MASK}"));
    assert_eq!(meta.redactions, Some(2));
    let kept = std::fs::read_dir(bench.outputs.path())
        .expect("the store")
        .next()
        .expect("one")
        .expect("one");
    assert_eq!(
        std::fs::read_to_string(kept.path()).expect("text"),
        format!("{MASK} and {MASK}\n")
    );
}

#[tokio::test]
async fn nul_bytes_are_left_out_and_told() {
    let bench = Bench::new();
    assert_eq!(
        bench.bash(r"printf 'one\0two\0'").await.0,
        "onetwo\n[2 NUL bytes left out]"
    );
    assert_eq!(
        bench.bash("head -c 3000000 /dev/zero").await.0,
        "[2.8 MB of NUL bytes left out]"
    );
    let failed = bench.bash("head -c 70000 /dev/zero; exit 3").await.0;
    assert_starts_with!(failed, "[68 KB of NUL bytes left out]\nExit code 3 (");
    let raw = bench
        .text("Bash", json!({"command": r"printf '\0\0'", "raw": true}))
        .await;
    assert_lacks!(raw, "left out");
}

#[tokio::test]
async fn binary_data_is_one_line_and_kept() {
    let bench = Bench::new();
    // The first byte is no line end, which would be a line of text of its own, and comes together with the rest.
    let command = r"echo begun; { printf '\211'; head -c 4999999 /dev/urandom; } > data; cat data; printf '\n'; seq 1 9; echo the end";
    let (text, meta) = bench.bash(command).await;
    let (first, rest) = text
        .strip_prefix("begun\n[")
        .and_then(|rest| rest.split_once("]\n"))
        .expect(&text);
    assert_contains!(first, ", 4.7 MB, not shown; its first bytes: "; "{text}");
    assert_ends_with!(rest, "1\n2\n3\n4\n5\n6\n7\n8\n9\nthe end"; "{text}");
    assert!(
        meta.omitted_bytes > Some(4_900_000) && meta.truncated,
        "{meta:?}"
    );
    let handle = meta.handle.expect("it is kept");
    let kept = std::fs::metadata(bench.outputs.path().join(&handle))
        .expect("its file")
        .len();
    assert_eq!(kept, 6 + 5_000_000 + 1 + 18 + 8);
    let end = bench
        .text("ReadOutput", json!({"handle": handle, "tail": 3}))
        .await;
    assert_contains!(end, "the end");
}

#[tokio::test]
async fn letters_at_the_end_of_a_piece_of_binary_data_end_it_only_if_no_more_follows() {
    let bench = Bench::new();
    let command = r"{ printf '\211'; head -c 3999 /dev/urandom; printf '\001abcd\n'; } > part; cat part; sleep 0.3; cat part";
    let (text, _) = bench.bash(command).await;
    assert_contains!(text, ", 7.8 KB, not shown; ");
    assert_ends_with!(text, "]\nabcd");
    assert_eq!(text.matches("not shown").count(), 1, "{text}");
}

#[tokio::test]
async fn a_binary_file_is_told_by_its_kind_size_and_first_bytes() {
    let bench = Bench::new();
    let command = r"{ printf '\211PNG\r\n\032\n'; head -c 300 /dev/urandom; } > p.png; cat p.png";
    let (text, _) = bench.bash(command).await;
    assert_starts_with!(
        text,
        "[a PNG image, 308 bytes, not shown; its first bytes: 89 50 4e 47 0d 0a 1a 0a "
    );
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[tokio::test]
async fn escapes_go_unless_they_are_asked_for() {
    let bench = Bench::new();
    let command = r"printf '\033[31mred\033[0m\n10%%\r100%%\n'";
    assert_eq!(bench.bash(command).await.0, "red\n100%");
    let raw = bench
        .text("Bash", json!({"command": command, "raw": true}))
        .await;
    assert_contains!(raw, "\u{1b}[31m");
}
#[tokio::test]
async fn run_command_takes_a_line_or_a_program_with_its_arguments() {
    let bench = Bench::new();
    assert_eq!(
        bench
            .text("run_command", json!({"command": "echo $((1 + 2)) | cat"}))
            .await,
        "3"
    );
    let literal = bench
        .text(
            "run_command",
            json!({"command": "printf", "args": ["%s|", "two words", "$HOME"]}),
        )
        .await;
    assert_eq!(literal, "two words|$HOME|");
    let reply = bench
        .call("run_command", json!({"command": "false", "args": []}))
        .await
        .expect("it ran");
    assert_eq!(reply.meta.exit_code, Some(1));
    assert_starts_with!(tools::reply_text(&reply), "Exit code 1");
    assert_error!(
        bench
            .call(
                "run_command",
                json!({"command": "no-such-program", "args": []}),
            )
            .await
            .expect_err("no program"),
        NotFound
    );
    let left = bench
        .text(
            "run_command",
            json!({"command": format!("sleep 60 & {}; echo $!", once_it_is("sleep"))}),
        )
        .await;
    assert_contains!(left, "Ended with the command: sleep 60");
    assert!(!is_there(left.lines().next().expect("a pid")));
}
