//! Tables and other lists on a terminal of 80 columns: no row is wrapped by the terminal.

use std::time::{SystemTime, UNIX_EPOCH};

use punie_home::{ApproverPresence, Home};
use regex::Regex;

use super::{CliUser, CommandOutput};
use crate::harness::wait::{wait_for_some, wait_until};

/// Returns the screen's text without colours, and checks that no line is wider than the terminal.
#[track_caller]
fn lines_that_fit(said: &CommandOutput) -> String {
    let plain = Regex::new("\u{1b}\\[[0-9;]*m").expect("a pattern");
    let text = plain.replace_all(&said.out, "").into_owned();
    assert_eq!(said.code, 0, "{text}");
    for line in text.lines() {
        // A command that people copy is not wrapped.
        let fits = line.chars().count() <= 80 || line.starts_with("  punie-runner ");
        assert!(fits, "{line:?} in\n{text}");
    }
    text
}

/// Replaces the parts of a screen that change between runs by fixed text of the same form.
fn replace_varying(text: &str, parts: &[(&str, &str)]) -> String {
    parts
        .iter()
        .fold(text.to_owned(), |text, (pattern, fixed)| {
            let pattern = Regex::new(pattern).expect("a pattern");
            pattern.replace_all(&text, *fixed).into_owned()
        })
}

/// Compares the command's screen with its stored snapshot.
macro_rules! hold {
    ($name:literal, $said:expr, $($part:expr),*) => {
        insta::assert_snapshot!($name, replace_varying(&lines_that_fit(&$said), &[$($part),*]))
    };
}

#[cfg(feature = "default")]
#[tokio::test]
async fn the_tools_and_one_tool_fit_a_terminal() {
    let user = CliUser::new();
    let shown = user.types_on_terminal(&["tools"]).await;
    hold!("screen_tools", shown,);
    assert_lacks!(shown.out, "git_status");
    let all = user.types_on_terminal(&["tools", "--all"]).await;
    assert_contains!(lines_that_fit(&all), "(compatibility name: use GitStatus)");
    let shown = user.types_on_terminal(&["tools", "Bash"]).await;
    hold!("screen_tools_bash", shown,);
}

#[tokio::test]
async fn rules_and_skills_fit_a_terminal() {
    let user = CliUser::new();
    user.write(
        "home/policy.toml",
        r#"
[[rule]]
name = "no-push"
decision = "deny"
reason = "the owner pushes, after he has looked at what was changed and has run all of the tests"
command = ["git", "push"]

[[rule]]
name = "lists-are-fine"
decision = "allow"
command = ["ls"]
"#,
    );
    let shown = user.types_on_terminal(&["policy"]).await;
    assert_contains!(
        shown.out,
        "\u{1b}[31mdeny\u{1b}[0m",
        "\u{1b}[32mallow\u{1b}[0m"
    );
    let file = regex::escape(&user.text("home"));
    hold!("screen_policy", shown, (&file, "HOME"));
    let plain = user
        .types_on_terminal(&["--color", "never", "policy"])
        .await;
    assert_lacks!(plain.out, "\u{1b}");
    let piped = user.run_cli(&["policy"]).await.done().out;
    assert_lacks!(piped, "\u{1b}", "…");

    for (name, about) in [
        (
            "deploy",
            "Use when the service goes to production. It builds, checks and uploads it, then waits for it.",
        ),
        ("notes", "Use for release notes."),
    ] {
        user.write(
            &format!("home/skills/{name}/SKILL.md"),
            &format!("---\nname: {name}\ndescription: {about}\n---\nText.\n"),
        );
    }
    let shown = user.types_on_terminal(&["skills"]).await;
    hold!("screen_skills", shown,);
}

#[tokio::test]
async fn audit_rows_fit_a_terminal() {
    let user = CliUser::new();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    let at = now.as_millis() - 3 * 86_400_000 - 1_000;
    let rows = [
        r#""event":"request","who":"caller","toolName":"Bash","requestId":"01a206c4-c5e3-73d0-948e-bf22665ce19f""#,
        r#""event":"decision","who":"runner","toolName":"Bash","decision":"deny","requestId":"01a206c4-c5e3-73d0-948e-bf22665ce19f","by":"rule","rule":"no-push""#,
        r#""event":"finished","who":"runner","toolName":"Bash","requestId":"01a206c4-c5e3-73d0-948e-bf22665ce19f","outcome":"error","exitCode":127,"confinement":"full","bytes":12345"#,
    ];
    let lines: Vec<String> = rows
        .iter()
        .zip(1..)
        .map(|(row, seq)| format!("{{\"seq\":{seq},\"atMs\":{at},{row}}}\n"))
        .collect();
    user.write("home/state/audit.jsonl", &lines.concat());
    for folder in ["home", "home/state"] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(user.path(folder), mode).expect("set");
    }
    let shown = user.types_on_terminal(&["audit", "list"]).await;
    let day = (r"[A-Z][a-z][a-z] \d\d \d\d:\d\d", "Nov 23 17:12");
    hold!("screen_audit_list", shown, day);
    let piped = user.run_cli(&["audit", "list"]).await.done().out;
    assert_contains!(
        piped,
        "01a206c4-c5e3-73d0-948e-bf22665ce19f",
        "exitCode=127"
    );
}

#[tokio::test]
async fn the_status_and_the_history_fit_a_terminal() {
    let user = CliUser::new();
    user.write(
        "home/policy.toml",
        "[[rule]]\nname = \"no-push\"\ndecision = \"deny\"\ncommand = [\"git\", \"push\"]\n",
    );
    user.write("work/notes.txt", "old\n");
    let dev = user.serves(&["dev", "--json"]).await;
    let long = format!("echo {}; exit 7", "word ".repeat(20));
    for args in [
        &["Read", "file_path=notes.txt"] as &[&str],
        &["Write", "file_path=notes.txt", "content=new"],
        &["Bash", "--", "git", "push"],
        &["Bash", "--", "sh", "-c", &long],
    ] {
        user.run_as_caller(&dev.ready, &[&["send"], args].concat())
            .await;
    }
    let work = regex::escape(&user.text("work"));
    let work = (work.as_str(), "WORK");
    let port = (r":\d{5}\b", ":PORT");
    let pid = (r"\(pid .*\) +", "(pid PID, AGE)             ");
    let age = (r"\b(now|\d+ s ago)\b", "now");
    let id = (r"\b[0-9a-f]{8}\b", "<the-id>");
    let time = (r"\b\d\d:\d\d:\d\d\b", "15:04:05");
    let shown = user.types_on_terminal(&["status"]).await;
    hold!("screen_status", shown, work, port, pid, age);
    let shown = user.types_on_terminal(&["history"]).await;
    // The widths of the columns depend on the times.
    let cut = (r"word[word ]*…", "word…");
    let blanks = (" {2,}", "  ");
    let took = (r"\b\d+ ms\b|\b\d\.\d s\b", "9 ms");
    hold!("screen_history", shown, took, time, id, cut, blanks);
    let shown = user.types_on_terminal(&["history", "@last"]).await;
    let long_id = (r"[0-9a-f]{8}(-[0-9a-f]+){4}", "<id>");
    let date = (r"\b\d{4}-\d\d-\d\d\b", "2026-01-02");
    hold!("screen_history_id", shown, port, date, time, long_id, took);
    dev.stopped().await;
}

#[tokio::test]
async fn the_trash_and_the_approvals_fit_a_terminal() {
    let user = CliUser::new();
    user.write("home/config.toml", "[policy]\nask = [\"executes\"]\n");
    let dev = user.serves(&["dev", "--json"]).await;
    let long = format!("{}/notes.txt", "folder".repeat(12));
    user.write(&format!("work/{long}"), "old\n");
    let read = format!("{{\"file_path\":\"{long}\"}}");
    user.run_as_caller(&dev.ready, &["send", "Read", &read])
        .await
        .done();
    let write = format!("{{\"file_path\":\"{long}\",\"content\":\"new\\n\"}}");
    user.run_as_caller(&dev.ready, &["send", "Write", &write])
        .await
        .done();
    let shown = user.types_on_terminal(&["trash", "list"]).await;
    let age = (r"(?m)^(WHEN|\d\d:\d\d:\d\d) +", "[age]  ");
    let id = (r"\b[0-9a-f]{8}\b", "<the-id>");
    assert_contains!(shown.out, "/notes.txt");
    let path = (r"/\S+…\S+/notes.txt", "/path…/notes.txt");
    hold!("screen_trash_list", shown, age, id, path);

    // `approvals --watch` makes a person available for questions.
    let mut watch = user
        .command(&["approvals", "--watch"])
        .spawn()
        .expect("started");
    let home = Home::open_home(&user.path("home")).expect("a home");
    wait_until("an approver", || ApproverPresence::is_announced(&home)).await;
    let command = format!("{{\"command\":\"echo {}\"}}", "ran ".repeat(40));
    user.run_as_caller(&dev.ready, &["send", "Bash", &command, "--wait", "0"])
        .await
        .done();
    let shown = wait_for_some("the question", async || {
        let said = user.types_on_terminal(&["approvals"]).await;
        said.out.contains("Bash").then_some(said)
    })
    .await;
    hold!("screen_approvals", shown, (r"work/|/\S+", "WORK"), id);
    watch.kill().await.expect("killed");
    dev.stopped().await;
}
