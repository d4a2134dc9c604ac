//! Commands in a connected editor's terminals: which run there, how they are sent, and how they end.

use super::*;
use crate::harness::fake_client::{ClientFault, resource_missing};
use crate::harness::wait::wait_until;
use punie_editor::protocol::{Error, TerminalExitStatus};
use punie_host::TerminalClient;
use punie_host::terminals::{CommandLaunch, CreateTerminal};
use punie_text::redact::{MASK, Secret};
use punie_tool::request::CallFailure;
use tokio_util::sync::CancellationToken;

/// Returns an editor that joins a command and its arguments with blanks and runs them in a shell of this machine.
fn editor_with_terminal() -> Arc<FakeClient> {
    Arc::new(FakeClient::with_shell(String::new()))
}

fn exit_status(code: u32) -> TerminalExitStatus {
    TerminalExitStatus::new().exit_code(code)
}

/// Counts the scripts that exist now.
fn count_scripts(bench: &EditorBench) -> usize {
    let folder = std::fs::canonicalize(bench.dir.path())
        .expect("there")
        .join("scripts");
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

fn error_meta(error: ToolError) -> punie_tool::ResultMeta {
    CallFailure::from(error).meta
}

#[tokio::test]
async fn a_command_line_means_the_same_in_an_editor_that_joins_words_with_blanks() {
    let bench = EditorBench::new();
    let fake = editor_with_terminal();
    let _turn = bench.attach(&fake, client_capabilities(false, false, true));
    let line = "printf '%s|' 'a  b' \"it's\" \\$HOME '*'; echo; echo err >&2; cat; exit 4";
    let reply = bench.ok("Bash", json!({"command": line})).await;
    let text = tools::reply_text(&reply);
    assert_starts_with!(text, "a  b|it's|$HOME|*|\nerr\nExit code 4 (");
    assert_eq!(reply.meta.exit_code, Some(4));
    assert_eq!(reply.meta.source.as_deref(), Some("editor"));
    let methods = fake.methods();
    assert_eq!(methods[0], "terminal/create");
    assert_eq!(methods.last(), Some(&"terminal/release"));
    assert_eq!(
        count_scripts(&bench),
        0,
        "the script is gone with the terminal"
    );
}

#[tokio::test]
async fn a_script_is_private_and_lies_where_nobody_else_looks() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = EditorBench::new();
    let fake = editor_with_terminal();
    let _turn = bench.attach(&fake, client_capabilities(false, false, true));
    let folder = std::fs::canonicalize(bench.dir.path())
        .expect("there")
        .join("scripts");
    let args = json!({"command": format!("stat -c %a {0} {0}/*.sh", folder.display())});
    let told = bench.text("Bash", args).await;
    assert_eq!(told, "700\n600");
    assert_eq!(
        std::fs::metadata(&folder)
            .expect("there")
            .permissions()
            .mode()
            & 0o777,
        0o700
    );
}

#[tokio::test]
async fn every_command_goes_over_in_a_script() {
    let bench = EditorBench::new();
    let fake = editor_with_terminal();
    let _turn = bench.attach(&fake, client_capabilities(false, false, true));
    let plain = json!({"command": "echo", "args": ["one", "two/three.txt"]});
    assert_eq!(bench.text("run_command", plain).await, "one two/three.txt");
    let odd = json!({"command": "printf", "args": ["%s|", "a b", "$HOME", "", "; exit 9", "it's"]});
    assert_eq!(
        bench.text("run_command", odd).await,
        "a b|$HOME||; exit 9|it's|"
    );
    let lines: Vec<String> = fake
        .calls()
        .into_iter()
        .filter_map(|(method, line)| (method == "terminal/create").then_some(line))
        .collect();
    assert_eq!(lines.len(), 2);
    assert!(
        lines
            .iter()
            .all(|line| line.starts_with("bash -p /") && line.contains("/scripts/")),
        "{lines:?}"
    );
    let assigning = bench
        .ok("run_command", json!({"command": "no=such", "args": []}))
        .await;
    assert_eq!(
        assigning.meta.exit_code,
        Some(127),
        "`no=such` names a program, it sets no variable"
    );
    let missing = bench
        .ok(
            "run_command",
            json!({"command": "no such program", "args": []}),
        )
        .await;
    assert_eq!(missing.meta.exit_code, Some(127));
}

#[tokio::test]
async fn it_starts_in_its_folder_with_its_environment() {
    let bench = EditorBench::new();
    let fake = editor_with_terminal();
    let _turn = bench.attach(&fake, client_capabilities(false, false, true));
    std::fs::create_dir(bench.root.join("sub dir")).expect("a folder");
    let command = json!({"command": "pwd; echo \"$GREETING $PAGER\"", "working_directory": "sub dir", "env": {"GREETING": "hi there"}});
    let told = bench.text("Bash", command).await;
    assert_eq!(
        told,
        format!("{}\nhi there cat", bench.root.join("sub dir").display())
    );
    assert!(
        !fake.command_environments()[0]
            .iter()
            .any(|(name, _)| name == "TERM" || name == "PATH"),
        "{:?}",
        fake.command_environments()
    );
    let loader = json!({"command": "true", "env": {"LD_PRELOAD": "/x.so"}});
    assert_error!(bench.refused("Bash", loader).await, PolicyDenied);
    assert_eq!(
        fake.command_environments().len(),
        1,
        "a command that is refused here is not sent to the editor"
    );
}

#[tokio::test]
async fn the_terminal_is_shown_in_its_call_before_it_is_released() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(false, false, true));
    fake.prepare("hello\n", Some(exit_status(0)));
    assert_eq!(
        bench.text("Bash", json!({"command": "anything"})).await,
        "hello"
    );
    assert_contains!(fake.shown(), r#""type":"terminal","terminalId":"fake-0""#);
    let expected = [
        "terminal/create",
        "terminal/wait_for_exit",
        "terminal/output",
        "terminal/release",
    ];
    assert_eq!(fake.methods(), expected);
}

#[tokio::test]
async fn a_death_by_signal_is_told_as_one() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(false, false, true));
    for (said, meant) in [
        ("SIGSEGV", "SIGSEGV"),
        ("KILL", "SIGKILL"),
        ("15", "SIGTERM"),
        ("odd", "odd"),
    ] {
        fake.prepare("", Some(TerminalExitStatus::new().signal(said.to_owned())));
        let reply = bench.ok("Bash", json!({"command": "x"})).await;
        assert_eq!(reply.meta.signal.as_deref(), Some(meant));
        assert_eq!(reply.meta.exit_code, None);
    }
    fake.prepare("", Some(TerminalExitStatus::new()));
    let unseen = bench.text("Bash", json!({"command": "x"})).await;
    assert_contains!(unseen, "exit code not known");
}

#[tokio::test]
async fn a_command_over_its_time_is_killed_and_waited_for_before_it_is_read() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(false, false, true));
    fake.prepare("so far\n", None);
    let error = bench
        .refused("Bash", json!({"command": "x", "timeout": 20}))
        .await;
    assert_error!(error, Timeout: "so far", "Fake Editor was told to stop");
    let facts = error_meta(error);
    assert!(
        facts.timed_out && facts.may_have_run && facts.signal.as_deref() == Some("SIGKILL"),
        "{facts:?}"
    );
    let expected = [
        "terminal/create",
        "terminal/wait_for_exit",
        "terminal/kill",
        "terminal/wait_for_exit",
        "terminal/output",
        "terminal/release",
    ];
    assert_eq!(fake.methods(), expected);
}

#[tokio::test]
async fn what_an_editor_does_not_tell_is_not_taken_for_nothing() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(false, false, true));
    fake.prepare("said\n", Some(exit_status(0)));
    fake.fail(
        "terminal/output",
        ClientFault::Error(Error::internal_error()),
    );
    let reply = bench.ok("Bash", json!({"command": "x"})).await;
    let text = tools::reply_text(&reply);
    assert_contains!(text, "what it printed is not known");
    assert_lacks!(text, "no output");
    assert!(
        reply
            .meta
            .warnings
            .iter()
            .any(|warning| warning.contains("may be missing")),
        "{:?}",
        reply.meta
    );
}

#[tokio::test]
async fn a_cancelled_command_is_killed_and_released() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(false, false, true));
    fake.prepare("so far\n", None);
    let cancel = CancellationToken::new();
    let cx = ToolContext {
        cancel: cancel.clone(),
        ..ToolContext::for_detached_call(RequestId::new())
    };
    let (answer, ()) = tokio::join!(
        bench.call_with("Bash", json!({"command": "x"}), cx),
        async {
            wait_until("the runner to wait for the exit", || {
                fake.methods().contains(&"terminal/wait_for_exit")
            })
            .await;
            cancel.cancel();
        }
    );
    assert_error!(answer.expect_err("cancelled"), Cancelled);
    assert_eq!(fake.methods().last(), Some(&"terminal/release"));
}

#[tokio::test]
async fn a_call_that_is_dropped_releases_its_terminal() {
    let bench = Arc::new(EditorBench::new());
    let fake = Arc::new(FakeClient::default());
    let _turn = bench.attach(&fake, client_capabilities(false, false, true));
    fake.prepare("", None);
    let mut calls = tokio::task::JoinSet::new();
    let theirs = Arc::clone(&bench);
    calls.spawn(async move { theirs.call("Bash", json!({"command": "x"})).await.map(drop) });
    wait_until("the runner to wait for the exit", || {
        fake.methods().contains(&"terminal/wait_for_exit")
    })
    .await;
    calls.shutdown().await;
    wait_until("the release of the terminal", || {
        fake.methods().contains(&"terminal/release")
    })
    .await;
}

#[tokio::test]
async fn what_an_editor_cannot_start_runs_here_with_a_warning() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(false, false, true));
    let refusals = cases! {
        (Error::invalid_params().data("no terminals today"), "no terminals today"),
        (Error::method_not_found(), "no such thing"),
        (resource_missing("such a session".to_owned()), "no such thing"),
    };
    for (n, (error, said)) in refusals.into_iter().enumerate() {
        fake.fail("terminal/create", ClientFault::Error(error));
        let reply = bench
            .ok("Bash", json!({"command": "echo here; exit 3"}))
            .await;
        assert_starts_with!(tools::reply_text(&reply), "here\nExit code 3");
        assert_contains!(reply.meta.warnings[0], said);
        assert_eq!(reply.meta.source, None);
        assert_eq!(fake.methods(), vec!["terminal/create"; n + 1]);
        assert_eq!(count_scripts(&bench), 0);
    }
}

#[tokio::test]
async fn an_error_after_which_it_may_run_there_starts_nothing_here() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(false, false, true));
    for error in [
        Error::parse_error(),
        Error::internal_error().data("it broke"),
        Error::new(-32_000, "odd"),
    ] {
        fake.prepare("", Some(exit_status(0)));
        fake.fail("terminal/create", ClientFault::DoneWithError(error));
        let refused = bench.refused("Bash", json!({"command": "touch ran"})).await;
        assert_contains!(refused.model_text(), "it may run there");
        assert!(error_meta(refused).may_have_run);
    }
    assert!(!bench.root.join("ran").exists());
}

#[tokio::test]
async fn a_start_that_is_not_answered_is_not_made_a_second_time_here() {
    let (bench, fake, _turn) =
        EditorBench::with_impatient_editor(client_capabilities(false, false, true));
    fake.fail("terminal/create", ClientFault::Silence);
    let error = bench.refused("Bash", json!({"command": "touch ran"})).await;
    assert_contains!(error.model_text(), "did not answer");
    assert!(error_meta(error).may_have_run);
    assert!(!bench.root.join("ran").exists());
}

#[tokio::test]
async fn what_needs_more_than_an_editor_has_runs_here() {
    let bench = EditorBench::new();
    let fake = editor_with_terminal();
    let _turn = bench.attach(&fake, client_capabilities(true, true, true));
    let typed = json!({"command": "cat", "stdin": "typed"});
    assert_eq!(bench.text("Bash", typed).await, "typed");
    let args = json!({"command": "[ -t 0 ] && echo yes", "tty": true});
    let at_a_terminal = bench.text("Bash", args).await;
    assert_contains!(at_a_terminal, "yes");
    let args = json!({"command": "sleep 60", "run_in_background": true});
    bench.ok("Bash", args).await;
    bench
        .ok("Bash", json!({"command": "true", "yield_ms": 30_000}))
        .await;
    let args = json!({"command": "sleep 60", "background": true});
    bench.ok("run_command", args).await;
    assert_eq!(fake.methods(), Vec::<&str>::new());
}

#[tokio::test]
async fn an_owner_who_wants_no_terminals_gets_none() {
    let bench = EditorBench::new();
    let fake = Arc::new(FakeClient::default());
    let no = EditorSettings {
        terminals: false,
        ..editor_settings()
    };
    let _turn = bench.attach_with(
        &fake,
        client_capabilities(true, true, true),
        &[&bench.root],
        no,
    );
    assert_eq!(
        bench.text("Bash", json!({"command": "echo here"})).await,
        "here"
    );
    assert_eq!(fake.methods(), Vec::<&str>::new());
}

#[tokio::test]
async fn names_are_counted_over_both_kinds_and_each_finds_its_side() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(false, false, true));
    fake.prepare("theirs\n", Some(exit_status(0)));
    let followed = ToolContext::for_detached_call(RequestId::new());
    let _shown = bench.observed(&followed, "Bash", &json!({"command": "x"}));
    let create = |request: &RequestId| {
        CreateTerminal::new(
            request,
            CommandLaunch::Shell("echo ours".to_owned()),
            bench.root.clone(),
        )
    };
    let ours = bench
        .overlay
        .create_terminal(create(&RequestId::new()))
        .await
        .expect("started");
    let theirs = bench
        .overlay
        .create_terminal(create(&followed.request))
        .await
        .expect("started");
    let more = bench
        .overlay
        .create_terminal(create(&RequestId::new()))
        .await
        .expect("started");
    let names: Vec<&str> = [&ours, &theirs, &more]
        .map(|open| open.id.as_str())
        .to_vec();
    assert_eq!(names, ["term-0", "term-1", "term-2"]);
    for (open, text) in [(&ours, "ours"), (&theirs, "theirs"), (&more, "ours")] {
        bench
            .overlay
            .wait_for_terminal_exit(&open.id)
            .await
            .expect("it ends");
        let query = punie_host::terminals::OutputQuery::whole(&open.id);
        let printed = bench
            .overlay
            .terminal_output(query.clone())
            .await
            .expect("text");
        assert_eq!(printed.text.trim(), text);
        bench
            .overlay
            .release_terminal(&open.id)
            .await
            .expect("released");
        assert_error!(
            bench
                .overlay
                .terminal_output(query)
                .await
                .expect_err("gone"),
            NotFound
        );
    }
}

#[tokio::test]
async fn what_an_editor_prints_is_masked_cleaned_and_kept_as_what_is_printed_here() {
    let redactor = Redactor::new([Secret::new("s3cret-value".to_owned())]);
    let bench = EditorBench::masking(redactor);
    let fake = Arc::new(FakeClient::default());
    let _turn = bench.attach(&fake, client_capabilities(false, false, true));
    fake.prepare(
        "\u{1b}[31mred\u{1b}[0m s3cret-value\n",
        Some(exit_status(0)),
    );
    let reply = bench.ok("Bash", json!({"command": "x"})).await;
    assert_eq!(tools::reply_text(&reply), format!("red {MASK}"));
    assert_eq!(reply.meta.redactions, Some(1));
    fake.prepare(&"a long line of it\n".repeat(9_000), Some(exit_status(0)));
    let reply = bench
        .ok("Bash", json!({"command": "x", "max_chars": 2_000}))
        .await;
    assert!(
        reply.meta.truncated && reply.meta.handle.is_some(),
        "{:?}",
        reply.meta
    );
    assert!(tools::reply_text(&reply).chars().count() <= 2_000);
}

#[tokio::test]
async fn an_editor_that_loses_the_command_is_an_error_that_says_so() {
    let (bench, fake, _turn) = EditorBench::with_editor(client_capabilities(false, false, true));
    fake.prepare("", Some(exit_status(0)));
    fake.fail(
        "terminal/wait_for_exit",
        ClientFault::Error(Error::internal_error().data("lost it")),
    );
    let error = bench.refused("Bash", json!({"command": "x"})).await;
    assert_contains!(error.model_text(), "lost it");
    assert!(error_meta(error).may_have_run);
    wait_until("the release of the terminal", || {
        fake.methods().contains(&"terminal/release")
    })
    .await;
}

#[tokio::test]
async fn what_no_command_is_given_here_is_taken_out_of_the_editors_environment() {
    let bench = EditorBench::new();
    let startup = bench.put("startup.sh", "echo hijacked\n");
    let prefix = format!(
        "export SERVICE_TOKEN=s3cret my_password=s3cret LD_LIBRARY_PATH=/s3cret GIT_DIR=/s3cret NODE_OPTIONS=s3cret \
         SHOWN=seen GIT_SSL_CAINFO=/c.pem; exec env BASH_ENV={} SHELLOPTS=xtrace 'odd-key=s3cret' 'BASH_FUNC_echo%%=() {{ printf hijacked; }}' ",
        startup.display()
    );
    let fake = Arc::new(FakeClient::with_shell(prefix));
    let _turn = bench.attach(&fake, client_capabilities(false, false, true));
    let line = json!({"command": "echo done; env", "env": {"ASKED": "for"}});
    for (tool, args) in [
        ("Bash", line),
        ("run_command", json!({"command": "env", "args": []})),
    ] {
        let reply = bench.ok(tool, args).await;
        assert_eq!(reply.meta.source.as_deref(), Some("editor"));
        let text = tools::reply_text(&reply);
        for gone in ["s3cret", "hijacked", "BASH_ENV", "SHELLOPTS"] {
            assert_lacks!(text, gone; "{tool}, {gone}");
        }
        for kept in [
            "SHOWN=seen",
            "GIT_SSL_CAINFO=/c.pem",
            "GIT_PAGER=cat",
            "GIT_TERMINAL_PROMPT=0",
            "PUNIE_RUNNER=1",
        ] {
            assert_contains!(text, kept; "{tool}, {kept}");
        }
        assert!(
            tool != "Bash" || text.starts_with("done\n") && text.contains("ASKED=for"),
            "{text}"
        );
    }
}
