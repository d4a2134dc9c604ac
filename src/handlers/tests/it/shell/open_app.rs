//! OpenApp: applications for the person at the machine; here they are scripts.

use super::*;
use crate::harness::program::make_program;

/// A script in this folder.
fn script(folder: &Path, name: &str, lines: &str) {
    make_program(&folder.join(name), &format!("#!/bin/bash\n{lines}\n"));
}

/// A bench with a folder of programs on its PATH, and with these entries in the runner's environment.
fn with_programs(entries: &[(&str, &str)]) -> (Bench, TempDir) {
    let programs = tempfile::tempdir().expect("a folder");
    let path = format!("{}:/usr/bin:/bin", programs.path().display());
    let mut base = vec![
        ("PATH".to_owned(), path),
        ("HOME".to_owned(), "/".to_owned()),
    ];
    base.extend(
        entries
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    (Bench::with(base, Arc::new(NoChildLog)), programs)
}

/// What the command of an application looks like that reports what it got, and goes on until it is told to end.
fn reporting(checkpoint: &Checkpoint) -> String {
    format!(
        "{}; echo \"$$ $PWD $NO_COLOR $DISPLAY $*\" >&9; read -u 9",
        checkpoint.connect()
    )
}

#[tokio::test]
async fn an_application_gets_its_arguments_untouched_and_goes_on_after_the_runner() {
    let (bench, programs) = with_programs(&[("DISPLAY", ":7"), ("SECRET_KEY", "x")]);
    let checkpoint = Checkpoint::open().await;
    script(programs.path(), "editor-here", &reporting(&checkpoint));
    let args = json!({"app": "editor-here", "args": ["$HOME", "a b", "; touch ran"]});
    let (text, (line, stream)) = tokio::join!(bench.text("OpenApp", args), checkpoint.line());
    let workspace = bench
        .workspace
        .path()
        .canonicalize()
        .expect("its true name");
    let (pid, rest) = line.split_once(' ').expect("a pid");
    assert_eq!(
        rest,
        format!("{}  :7 $HOME a b ; touch ran", workspace.display()),
        "nothing of a command, the display, the words"
    );
    assert_eq!(
        text,
        format!("Opened editor-here (pid {pid}); it goes on by itself.")
    );
    assert!(!workspace.join("ran").exists());
    assert_eq!(
        bench.text("ShellStatus", json!({})).await,
        "There are no background shells."
    );
    bench
        .terminals
        .stop_all_commands(punie_host::terminals::StopSequence::kill_at_once())
        .await;
    drop(bench);
    assert!(is_there(pid), "it belongs to the person");
    drop(stream);
    gone(pid).await;
}

#[tokio::test]
async fn an_application_starts_in_the_folder_that_is_named() {
    let (bench, programs) = with_programs(&[("DISPLAY", ":7")]);
    let checkpoint = Checkpoint::open().await;
    script(
        programs.path(),
        "marker",
        &format!("{}; pwd >&9", checkpoint.connect()),
    );
    std::fs::create_dir(bench.workspace.path().join("sub")).expect("a folder");
    let (text, (told, _)) = tokio::join!(
        bench.text("OpenApp", json!({"app": "marker", "cwd": "sub"})),
        checkpoint.line()
    );
    assert_contains!(text, "marker");
    assert_ends_with!(told, "/sub");
    for (folder, code) in [
        ("missing", ErrorCode::NotFound),
        ("/", ErrorCode::OutsideWorkspace),
    ] {
        let args = json!({"app": "marker", "args": ["ran"], "working_directory": folder});
        assert_eq!(
            bench
                .call("OpenApp", args)
                .await
                .expect_err(folder)
                .stable_code(),
            code
        );
    }
    std::fs::write(bench.workspace.path().join("file"), "x").expect("a file");
    let args = json!({"app": "marker", "args": ["ran"], "working_directory": "file"});
    let error = bench.call("OpenApp", args).await.expect_err("a file");
    assert_error!(error, InvalidArgs);
}

#[tokio::test]
async fn one_that_fails_at_once_is_an_error_and_a_missing_display_is_named() {
    let (bench, programs) = with_programs(&[]);
    script(programs.path(), "failing", "exit 3");
    let failed = bench
        .call("OpenApp", json!({"app": "failing"}))
        .await
        .expect_err("it failed");
    assert_error!(failed, Io: "exit code 3", "no display");
    assert!(meta_of(failed).may_have_run);
    script(programs.path(), "quiet", "exit 0");
    let text = bench.text("OpenApp", json!({"app": "quiet"})).await;
    assert_contains!(text, "There is no display here");
}

#[tokio::test]
async fn a_file_is_opened_by_the_desktops_choice() {
    let (bench, programs) = with_programs(&[("WAYLAND_DISPLAY", "wayland-0")]);
    std::fs::write(bench.workspace.path().join("report.txt"), "x").expect("a file");
    script(programs.path(), "xdg-open", "echo \"$#:$1\" > opened");
    let text = bench.text("OpenApp", json!({"app": "report.txt"})).await;
    assert_eq!(
        text,
        "Opened report.txt with the application that xdg-open has for it."
    );
    let file = bench
        .workspace
        .path()
        .canonicalize()
        .expect("its true name")
        .join("report.txt");
    let opened =
        std::fs::read_to_string(bench.workspace.path().join("opened")).expect("it was asked");
    assert_eq!(opened, format!("1:{}\n", file.display()));
    let by_path = bench.text("OpenApp", json!({"app": "./report.txt"})).await;
    assert_contains!(by_path, "xdg-open");

    // With arguments it was a program that was meant.
    let args = json!({"app": "report.txt", "args": ["x"]});
    let refused = bench.call("OpenApp", args).await.expect_err("no program");
    assert_error!(refused, NotFound);
    script(programs.path(), "xdg-open", "exit 4");
    let failed = bench
        .call("OpenApp", json!({"app": "report.txt"}))
        .await
        .expect_err("it failed");
    assert_error!(failed, Io: "exit code 4");
}

#[tokio::test]
async fn what_is_missing_is_said_honestly() {
    let (bench, programs) = with_programs(&[]);
    let refused = bench
        .call("OpenApp", json!({"app": "no-such-app"}))
        .await
        .expect_err("nothing");
    assert_error!(refused, NotFound: "no-such-app", "Nothing was opened");
    std::fs::write(bench.workspace.path().join("report.txt"), "x").expect("a file");
    script(programs.path(), "xdg-open", "touch opened");
    let refused = bench
        .call("OpenApp", json!({"app": "report.txt"}))
        .await
        .expect_err("no display");
    assert_error!(refused, NotFound: "DISPLAY");
    assert!(!bench.workspace.path().join("opened").exists());

    let none = vec![
        ("PATH".to_owned(), "/no/such/folder".to_owned()),
        ("DISPLAY".to_owned(), ":7".to_owned()),
    ];
    let bench = Bench::with(none, Arc::new(NoChildLog));
    std::fs::write(bench.workspace.path().join("report.txt"), "x").expect("a file");
    let refused = bench
        .call("OpenApp", json!({"app": "report.txt"}))
        .await
        .expect_err("no opener");
    assert_error!(refused, NotFound: "no xdg-open");
}

#[tokio::test]
async fn names_and_arguments_that_are_none_are_refused() {
    let (bench, _programs) = with_programs(&[("DISPLAY", ":7")]);
    for app in [
        "",
        "-x",
        "https://example.org",
        "a;b",
        "$(touch ran)",
        "a\nb",
    ] {
        assert_error!(
            bench
                .call("OpenApp", json!({"app": app}))
                .await
                .expect_err(app),
            InvalidArgs
        );
    }
    for (args, code) in [
        (json!(["a\u{0}b"]), ErrorCode::InvalidArgs),
        (json!(["x".repeat((32 << 10) + 1)]), ErrorCode::TooLarge),
        (json!(vec!["x"; 101]), ErrorCode::TooLarge),
        (json!("one two"), ErrorCode::InvalidArgs),
    ] {
        let refused = bench
            .call("OpenApp", json!({"app": "true", "args": args}))
            .await
            .expect_err("refused");
        assert_eq!(refused.stable_code(), code, "{refused}");
    }
    assert_error!(
        bench
            .call("OpenApp", json!({"app": "../outside"}))
            .await
            .expect_err("outside"),
        OutsideWorkspace
    );
    assert_error!(
        bench
            .call("OpenApp", json!({"app": "sub/none"}))
            .await
            .expect_err("not there"),
        NotFound
    );
}

#[tokio::test]
async fn a_call_that_was_taken_back_opens_nothing() {
    let (bench, programs) = with_programs(&[("DISPLAY", ":7")]);
    script(programs.path(), "marker", "touch ran");
    let cx = ToolContext::for_detached_call(RequestId::new());
    cx.cancel.cancel();
    let call = tools::call_with(&bench.registry, "OpenApp", json!({"app": "marker"}), cx);
    assert_error!(within(call).await.expect_err("cancelled"), Cancelled);
    assert!(!bench.workspace.path().join("ran").exists());
}
