//! Calls as the owner sees them: the history as a list and by request, the lines on the runner's terminal, and short
//! ids.

use std::process::Stdio;

use regex::Regex;
use serde_json::Value;

use super::{CliUser, RunningCommand, within_limit};
use crate::harness::terminal::{open_terminal, read_screen};

const NO_PUSH: &str =
    "[[rule]]\nname = \"no-push\"\ndecision = \"deny\"\ncommand = [\"git\", \"push\"]\n";

/// Sends a request, and returns its id.
async fn send_call(user: &CliUser, dev: &RunningCommand, tool: &str, args: &str) -> String {
    let sent = user
        .run_as_caller(&dev.ready, &["send", tool, args, "--json"])
        .await
        .json();
    sent["requestId"].as_str().expect("an id").to_owned()
}

async fn json_lines(user: &CliUser, args: &[&str]) -> Vec<Value> {
    let out = user.run_cli(args).await.done().out;
    out.lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}

/// Runs a command on a terminal of 80 columns, and returns the screen without colours.
async fn shown_on_terminal(user: &CliUser, args: &[&str]) -> String {
    let (ours, theirs) = open_terminal();
    let mut command = user.command(args);
    let mut child = command.stdout(theirs).spawn().expect("started");
    // The command holds a copy of the terminal's other side, which would keep the screen open.
    drop(command);
    let shown = read_screen(ours);
    let ended = within_limit(child.wait()).await.expect("waited for");
    let shown = shown.join().expect("read");
    assert!(ended.success(), "{shown}");
    // Colour codes have no width on a terminal.
    let color = Regex::new("\u{1b}\\[[0-9;]*m").expect("a pattern");
    color.replace_all(&shown, "").into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_says_what_ran_and_how_it_ended() {
    let user = CliUser::new();
    user.write("home/policy.toml", NO_PUSH);
    let dev = user.serves(&["dev", "--json"]).await;
    let caller_token = dev.ready["callerToken"].as_str().expect("a token");
    let failed = send_call(&user, &dev, "Bash", r#"{"command":"echo out; exit 7"}"#).await;
    let pushed = send_call(&user, &dev, "Bash", r#"{"command":"git push origin main"}"#).await;
    let written = send_call(
        &user,
        &dev,
        "Write",
        r#"{"file_path":"a.txt","content":"new"}"#,
    )
    .await;
    let leaky = format!(
        r#"{{"command":"echo {caller_token} ghp_{}"}}"#,
        "a1B2".repeat(9)
    );
    let leaky = send_call(&user, &dev, "Bash", &leaky).await;
    let lines = json_lines(&user, &["history", "--json"]).await;
    let line = |id: &str| {
        let found = lines.iter().find(|line| line["requestId"] == id);
        found.expect("listed").clone()
    };
    assert_eq!(
        (&line(&failed)["title"], &line(&failed)["exitCode"]),
        (&"echo out; exit 7".into(), &7.into())
    );
    assert_eq!(line(&written)["title"], "a.txt");
    assert_eq!(line(&pushed)["rule"], "no-push");
    let title = line(&leaky)["title"].as_str().expect("a title").to_owned();
    assert_contains!(title, "[REDACTED");
    assert_lacks!(title, "ghp_", caller_token);
    let listed: Vec<Value> = json_lines(&user, &["history", "--failed", "--json"])
        .await
        .into_iter()
        .map(|line| line["requestId"].clone())
        .collect();
    assert_eq!(listed, [pushed.as_str(), &failed]);
    let table = user.run_cli(&["history"]).await.done().out;
    assert_contains!(
        table,
        "exit 7",
        "denied by no-push",
        "echo out; exit 7",
        &failed
    );

    let one = user.run_cli(&["history", &failed]).await.done().out;
    assert_contains!(
        one,
        "What          echo out; exit 7",
        "Result        exit 7",
        "command: echo out; exit 7",
        "  out"
    );
    assert_lacks!(one, "punie-runner undo");
    let one = user.run_cli(&["history", &written]).await.done().out;
    let undo = format!("punie-runner undo {}\n", &written[written.len() - 8..]);
    assert_lacks!(one, "Declared");
    assert_contains!(one, "a.txt (new)", undo.as_str());
    let one = user.run_cli(&["history", &leaky]).await.done().out;
    assert_lacks!(one, "ghp_", caller_token);

    for file in std::fs::read_dir(user.path("home/state/calls")).expect("a folder") {
        let path = file.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("read");
        assert_lacks!(text, "ghp_", caller_token);
        std::fs::remove_file(path).expect("removed");
    }
    let one = user.run_cli(&["history", &failed]).await.done().out;
    assert_contains!(
        one,
        "Arguments     no longer kept",
        "What          echo out"
    );
    dev.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_who_wants_no_titles_has_none() {
    let user = CliUser::new();
    user.write("home/config.toml", "[journal]\nkeep_titles = false\n");
    let dev = user.serves(&["dev", "--json"]).await;
    let id = send_call(
        &user,
        &dev,
        "Bash",
        r#"{"command":"echo unkept-words; exit 3"}"#,
    )
    .await;
    let line = user.run_cli(&["history", "--json"]).await.done().json();
    assert_fields!(line, {"title": null, "exitCode": 3});
    let one = user.run_cli(&["history", &id]).await.done().out;
    assert_contains!(one, "Arguments     not kept");
    assert_lacks!(one, "unkept-words");
    let mut kept = std::fs::read_dir(user.path("home/state/calls")).expect("a folder");
    assert!(kept.next().is_none());
    dev.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_named_by_the_end_of_its_id_or_as_the_last() {
    let user = CliUser::new();
    let dev = user.serves(&["dev", "--json"]).await;
    let first = send_call(&user, &dev, "Write", r#"{"file_path":"a","content":"1"}"#).await;
    let last = send_call(&user, &dev, "Write", r#"{"file_path":"b","content":"1"}"#).await;
    let short = |id: &str| id[id.len() - 8..].to_owned();
    for end in [8, 6, 4] {
        let end = &first[first.len() - end..];
        let shown = user.run_cli(&["history", end]).await.done().out;
        assert_contains!(shown, &first);
    }
    let shown = user.run_cli(&["history", "@last"]).await.done().out;
    assert_contains!(shown, &last);
    let undone = user
        .run_cli(&["undo", "@last", "--json"])
        .await
        .done()
        .json();
    assert_eq!(undone["requestId"], last.as_str());
    let restored = user.text("restored");
    let copied = user
        .run_cli(&[
            "trash",
            "restore",
            &short(&first),
            "--to",
            &restored,
            "--json",
        ])
        .await;
    assert!(
        copied.out.contains(&first) || copied.err.contains("nothing"),
        "{copied:?}"
    );
    let rows = json_lines(&user, &["audit", "list", "--request", "@last", "--json"]).await;
    assert!(!rows.is_empty() && rows.iter().all(|row| row["requestId"] == last.as_str()));
    let cancelled = user
        .run_as_caller(&dev.ready, &["cancel", &short(&first), "--json"])
        .await
        .json();
    assert_fields!(cancelled, {"requestId": first.as_str(), "state": "finished"});
    user.run_cli(&["stop", "@last"])
        .await
        .refused(1, "had ended before");
    user.run_cli(&["history", "zzzzzzzz"])
        .await
        .refused(1, "knows no request");
    dev.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_to_undo_is_the_newest_that_changed_something() {
    let user = CliUser::new();
    let dev = user.serves(&["dev", "--json"]).await;
    let first = send_call(&user, &dev, "Write", r#"{"file_path":"a","content":"1"}"#).await;
    let second = send_call(&user, &dev, "Write", r#"{"file_path":"b","content":"1"}"#).await;
    let read = send_call(&user, &dev, "Read", r#"{"file_path":"a"}"#).await;
    for (id, path) in [(&second, "b"), (&first, "a")] {
        let short = &id[id.len() - 8..];
        for args in [&["undo", "@last", "--dry-run"][..], &["undo", "@last"]] {
            let said = user.run_cli(args).await.done().out;
            let taken =
                format!("The newest request with something to undo: {short}, Write {path}\n");
            assert_starts_with!(said, &taken);
        }
        assert!(!user.path("work").join(path).exists(), "{path}");
    }
    user.run_cli(&["undo", "@last"])
        .await
        .refused(1, "no request has anything to undo");
    let shown = user.run_cli(&["history", "@last"]).await.done().out;
    assert_contains!(shown, &read);
    dev.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_row_is_wider_than_the_terminal() {
    let user = CliUser::new();
    user.write("home/policy.toml", NO_PUSH);
    let dev = user.serves(&["dev", "--json"]).await;
    let long = format!(r#"{{"command":"echo {}"}}"#, "long ".repeat(60));
    let id = send_call(&user, &dev, "Bash", &long).await;
    send_call(&user, &dev, "get_shell_info", "{}").await;
    send_call(&user, &dev, "Bash", r#"{"command":"git push"}"#).await;
    let shown = shown_on_terminal(&user, &["history"]).await;
    let rows: Vec<&str> = shown.lines().collect();
    assert_eq!(rows.len(), 4, "{shown}");
    for row in &rows {
        assert!(row.chars().count() <= 80, "{row}");
    }
    assert_contains!(rows[3], "echo long"; "{shown}");
    assert_ends_with!(rows[3], &id[id.len() - 8..]; "{shown}");
    dev.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dev_prints_a_line_for_each_call_on_its_terminal() {
    let user = CliUser::new();
    user.write("home/config.toml", "[log]\nfile = \"always\"\n");
    let (ours, theirs) = open_terminal();
    let mut command = user.command(&["dev", "--json"]);
    let mut child = command
        .stderr(theirs)
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    drop(command);
    let shown = read_screen(ours);
    let mut rest = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(
        child.stdout.take().expect("piped"),
    ));
    let first = within_limit(rest.next_line()).await.expect("readable");
    let first = first.expect("a first line");
    let dev = RunningCommand {
        child,
        ready: serde_json::from_str(&first).expect(&first),
        rest,
    };
    send_call(&user, &dev, "Bash", r#"{"command":"echo words; exit 5"}"#).await;
    dev.stopped().await;
    let shown = shown.join().expect("read");
    let line = shown
        .lines()
        .find(|line| line.contains("echo words; exit 5"))
        .expect(&shown);
    assert_starts_with!(line[8..], "  Bash ");
    assert_contains!(line, "exit 5");
    // Log lines have the same form as the lines of calls.
    let log_line = shown.lines().find(|line| line.contains("is published"));
    let (time, sentence) = log_line.expect(&shown).split_once("  ").expect("a time");
    let plain = time
        .trim_start_matches("\u{1b}[2m")
        .trim_end_matches("\u{1b}[0m");
    assert!(
        plain.len() == 8 && plain.split(':').count() == 3,
        "{time:?}: {shown}"
    );
    assert_starts_with!(sentence, "the catalog is published (tools: ");
    assert_eq!(line.chars().count(), 80, "{line}");
    assert_lacks!(shown, "a call was answered");
    let log: String = std::fs::read_dir(user.path("home/logs"))
        .expect("a folder")
        .map(|file| std::fs::read_to_string(file.expect("an entry").path()).expect("read"))
        .collect();
    assert_contains!(log, "a call was answered");
    assert_lacks!(log, "echo words");
}
