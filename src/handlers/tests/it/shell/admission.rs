//! What a command gets and what is refused before it starts.

use super::*;

#[tokio::test]
async fn the_environment_is_built_from_nothing() {
    let bench = Bench::new();
    let env = bench
        .text("Bash", json!({"command": "env", "env": {"ASKED": "for"}}))
        .await;
    let env: BTreeMap<&str, &str> = env
        .lines()
        .filter_map(|line| line.split_once('='))
        .collect();
    assert_eq!(env["PAGER"], "cat");
    assert_eq!(env["TERM"], "dumb");
    assert_eq!(env["GIT_TERMINAL_PROMPT"], "0");
    assert_eq!(env["ASKED"], "for");
    assert!(
        !env.contains_key("PUNIE_TOKEN") && !env.contains_key("AWS_REGION"),
        "{env:?}"
    );

    for name in [
        "LD_PRELOAD",
        "BASH_ENV",
        "DYLD_INSERT_LIBRARIES",
        "MY_TOKEN",
    ] {
        let args = json!({"command": "touch ran", "env": {name: "x"}});
        let refused = bench.call("Bash", args).await.expect_err(name);
        assert_error!(refused, PolicyDenied);
    }
    assert_error!(
        bench
            .call("Bash", json!({"command": "touch ran", "env": {"A B": "x"}}))
            .await
            .expect_err("a blank"),
        InvalidArgs
    );
    assert!(!bench.workspace.path().join("ran").exists());
}

#[tokio::test]
async fn the_login_shell_is_asked_once_and_its_chatter_ignored() {
    let home = tempfile::tempdir().expect("a home");
    let profile = "echo Welcome; echo x >> \"$HOME/asked\"; export GOPATH=/from/profile; export AWS_REGION=hidden\n";
    std::fs::write(home.path().join(".bash_profile"), profile).expect("a profile");
    let mut base = base();
    base.retain(|(name, _)| name != "HOME");
    base.push(("HOME".to_owned(), home.path().display().to_string()));
    base.push(("SHELL".to_owned(), "/bin/bash".to_owned()));
    let bench = Bench::with(base, Arc::new(NoChildLog));
    assert_eq!(
        bench.bash("echo $GOPATH-$AWS_REGION").await.0,
        "/from/profile-"
    );
    bench.bash("true").await;
    let asked = std::fs::read_to_string(home.path().join("asked")).expect("it was asked");
    assert_eq!(asked, "x\n");
}

#[tokio::test]
async fn a_profile_that_hangs_does_not_hold_commands_up_for_ever() {
    let home = tempfile::tempdir().expect("a home");
    std::fs::write(home.path().join(".bash_profile"), "sleep 1000\n").expect("a profile");
    let own = ("GOPATH".to_owned(), "/own".to_owned());
    let named = ("HOME".to_owned(), home.path().display().to_string());
    let base = [
        vec![named, own, ("SHELL".to_owned(), "/bin/bash".to_owned())],
        base()[..1].to_vec(),
    ]
    .concat();
    let bench = Bench::with(base, Arc::new(NoChildLog));
    assert_eq!(bench.bash("echo $GOPATH").await.0, "/own");
}

#[tokio::test]
async fn the_time_limit_has_limits() {
    let bench = Bench::new();
    assert_error!(
        bench
            .call("Bash", json!({"command": "true", "timeout": 0}))
            .await
            .expect_err("no time"),
        InvalidArgs
    );
    let reply = bench
        .call("Bash", json!({"command": "true", "timeout_ms": 700_000}))
        .await
        .expect("lowered");
    assert_contains!(reply.meta.warnings[0], "600000");
}

#[tokio::test]
async fn a_folder_must_be_one_and_inside() {
    let bench = Bench::new();
    std::fs::write(bench.workspace.path().join("file"), "x").expect("a file");
    std::fs::create_dir(bench.workspace.path().join("sub")).expect("a folder");
    for (folder, code) in [
        ("/", ErrorCode::OutsideWorkspace),
        ("file", ErrorCode::InvalidArgs),
        ("missing", ErrorCode::NotFound),
    ] {
        let args = json!({"command": "touch ran", "cwd": folder});
        let refused = bench.call("Bash", args).await.expect_err(folder);
        assert_eq!(refused.stable_code(), code, "{refused}");
        let args = json!({"command": "touch ran", "cwd": folder});
        let refused = bench.call("run_command", args).await;
        assert_eq!(refused.expect_err(folder).stable_code(), code);
    }
    assert!(!Path::new("/ran").exists());
    let shown = bench
        .text("Bash", json!({"command": "pwd", "workdir": "sub"}))
        .await;
    assert_ends_with!(shown, "/sub");
}

#[tokio::test]
async fn a_command_over_the_systems_limits_is_refused_with_a_way_out() {
    let bench = Bench::new();
    let huge = format!("echo {}", "x".repeat(2 << 20));
    let refused = bench
        .call("Bash", json!({"command": huge}))
        .await
        .expect_err("2 MB");
    assert_error!(refused, TooLarge: "stdin");
    let longest = format!("true {}", "x".repeat((128 << 10) - 6));
    assert_eq!(
        bench.bash(&longest).await.1.exit_code,
        Some(0),
        "the longest there is"
    );
    assert_error!(
        bench
            .call("Bash", json!({"command": longest + "x"}))
            .await
            .expect_err("one more"),
        TooLarge
    );
    let many: Vec<String> = std::iter::repeat_n("x".repeat(100_000), 60).collect();
    assert_error!(
        bench
            .call("run_command", json!({"command": "true", "args": many}))
            .await
            .expect_err("6 MB"),
        TooLarge
    );
    assert_error!(
        bench
            .call("Bash", json!({"command": "echo a\u{0}b"}))
            .await
            .expect_err("a NUL"),
        InvalidArgs
    );
    assert_error!(
        bench
            .call("Bash", json!({"command": "  "}))
            .await
            .expect_err("nothing"),
        InvalidArgs
    );
}
