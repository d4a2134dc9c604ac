//! Programs that draw on a terminal: their screen is shown as a person would see it.

use punie_text::redact::MASK;

use super::*;

/// Starts a command with a small terminal and waits until its screen shows this.
async fn shown(bench: &Bench, command: &str, until: &str) -> String {
    let size =
        json!({"command": command, "tty": true, "run_in_background": true, "cols": 40, "rows": 10});
    bench.text("Bash", size).await;
    let wait = json!({"shell_id": "sh_1", "pattern": until});
    bench.shows(wait, until).await;
    bench.text("ShellStatus", json!({"shell_id": "sh_1"})).await
}

/// The answer without its first and its last line.
fn body(answer: &str) -> &str {
    let (_, rest) = answer.split_once('\n').expect("a head");
    rest.rsplit_once('\n').map_or(rest, |(body, _footer)| body)
}

#[tokio::test]
async fn a_program_that_redraws_is_shown_by_its_last_frame() {
    let bench = Bench::new();
    let command = r"echo begun; printf '\033[?1049h'; for n in 1 2 3 4 5 6 7 8 9 10 11 12; do
        printf '\033[H\033[2Jcount: %d\033[3;5Hbelow' $n; done; read -r line; printf '\033[?1049l'; echo after";
    let screen = shown(&bench, command, "count: 12").await;
    assert_contains!(screen, "\nbegun\ncount: 12\n\n    below\n");
    assert_lacks!(screen, "count: 1\n", "\x1b");
    // Nothing is new until something is drawn, and then all of the screen is.
    let since = cursor(&screen);
    let quiet = bench
        .text("ShellStatus", json!({"shell_id": "sh_1", "since": since}))
        .await;
    assert_contains!(quiet, "(nothing new was printed)");
    let args = json!({"shell_id": "sh_1", "enter": true, "wait_ms": 30_000});
    let typed = bench.text("WriteShell", args).await;
    assert_contains!(typed, "exit code 0", "after");
    assert_lacks!(typed, "count"; "the alternate screen is left");
}

#[tokio::test]
async fn what_scrolls_off_stands_before_the_screen() {
    let bench = Bench::new();
    let command =
        r"printf '\033[H'; seq 1 30; printf 'bar 10%%\n'; printf '\033[1Abar 99%%\n'; sleep 600";
    let screen = shown(&bench, command, "99%").await;
    let lines: Vec<String> = (1..=30).map(|line| line.to_string()).collect();
    assert_eq!(
        body(&screen)
            .lines()
            .filter(|line| !line.starts_with('['))
            .collect::<Vec<_>>(),
        {
            let mut expected: Vec<&str> = lines.iter().map(String::as_str).collect();
            expected.push("bar 99%");
            expected
        }
    );
    bench
        .text("KillShell", json!({"shell_id": "sh_1", "signal": "KILL"}))
        .await;
    let ended = bench.text("ShellStatus", json!({"shell_id": "sh_1"})).await;
    assert_contains!(ended, "\n30\nbar 99%");
}

#[tokio::test]
async fn plain_lines_at_a_terminal_are_shown_as_they_came() {
    let bench = Bench::new();
    let long = "x".repeat(300);
    let command = format!("printf '\\033[32m{long} \\033[0m  \\n 10%%\\r100%%\\n\\033[K\\ttab\\n'");
    let args = json!({"command": command, "tty": true, "cols": 40});
    assert_eq!(
        bench.text("Bash", args).await,
        format!("{long}   \n100%\n\ttab")
    );
}

#[tokio::test]
async fn a_secret_that_is_put_together_on_the_screen_is_masked() {
    let bench = Bench::masking("t0p-secret-value");
    let command = r"printf '\033[2J\033[1;9Hret-value\033[1;1Ht0p-sec\033[2;1Hready\033[1;8H-\033[1;7Hcret-value'; sleep 600";
    let screen = shown(&bench, &command.replace("t0p-sec", "t0p-se"), "ready").await;
    assert_contains!(screen, MASK);
    assert_lacks!(screen, "t0p-secret-value");
}

#[expect(
    clippy::print_stderr,
    reason = "whoever runs the tests should know what was left out"
)]
#[tokio::test]
async fn real_programs_are_shown_by_their_screens() {
    let found = |program: &str| {
        ["/usr/bin", "/bin"]
            .iter()
            .any(|dir| Path::new(dir).join(program).exists())
    };
    if found("watch") {
        let screen = shown(
            &Bench::new(),
            "watch -n 0.1 -t 'echo $((6 * 7)) is shown'",
            "is shown",
        )
        .await;
        assert_eq!(screen.matches("42 is shown").count(), 1, "{screen}");
    } else {
        eprintln!("skipped: watch is not installed");
    }
    if found("vim") {
        let bench = Bench::new();
        let edit = "printf 'first line\nsecond line\n' > text; vim -u NONE -N text";
        let screen = shown(&bench, edit, "second line").await;
        assert_contains!(screen, "first line\nsecond line\n~\n");
        let added = json!({"shell_id": "sh_1", "text": "othird", "enter": false, "pattern": "third", "wait_ms": 30_000});
        let typed = bench.text("WriteShell", added).await;
        assert_contains!(typed, "first line\nthird\nsecond line\n~\n");
    } else {
        eprintln!("skipped: vim is not installed");
    }
    if found("top") {
        let screen = shown(&Bench::new(), "top -d 0.2", "PID").await;
        assert_eq!(screen.matches(" PID ").count(), 1, "{screen}");
    } else {
        eprintln!("skipped: top is not installed");
    }
}

#[tokio::test]
async fn the_end_of_a_screen_is_shown_though_a_secret_may_begin_there() {
    let bench = Bench::masking("6-and-more-of-it");
    let command = r"stty -echo; printf '\033[H\033[2JTotal: 126'; read -r line; printf -- '-and-more-of-it\033[2;1Hdone'; sleep 600";
    let screen = shown(&bench, command, "Total: 126").await;
    assert_lacks!(screen, "held back");
    let typed = json!({"shell_id": "sh_1", "enter": true, "pattern": "done", "wait_ms": 30_000});
    let typed = bench.text("WriteShell", typed).await;
    assert_contains!(typed, "done");
    assert_lacks!(typed, "-and-more");
}
