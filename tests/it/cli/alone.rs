//! The commands that need no backend.

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::{CliUser, exit_code, object_keys};

#[tokio::test]
async fn help_is_an_answer_and_a_wrong_flag_is_not() {
    let user = CliUser::new();
    let help = user.run_cli(&["--help"]).await.done();
    for command in [
        "run", "dev", "demo", "backend", "send", "cancel", "call", "tools", "status", "doctor",
        "pair", "init",
    ] {
        assert_contains!(help.out, &format!("\n  {command} "); "{command}");
    }
    let asked = user.run_cli(&["help"]).await.done().out;
    assert_contains!(asked, "\nTake back:\n  undo ");
    let asked = user.run_cli(&["help", "policy", "deny"]).await.done().out;
    assert_contains!(asked, "Usage: punie-runner policy deny");
    user.run_cli(&["--bad"])
        .await
        .refused(2, "unexpected argument '--bad'");
    user.run_cli(&["statsu"]).await.refused(2, "status");
    user.run_cli(&["send"]).await.refused(2, "<TOOL>");
    user.run_cli(&["--once", "tools"])
        .await
        .refused(2, "--once goes with `run` only");
    user.run_cli(&["tools", "--once"])
        .await
        .refused(2, "--once");
    user.run_cli(&["--color", "blue", "tools"])
        .await
        .refused(2, "auto, always, never");
    assert!(!user.path("home").exists(), "none of them touched the home");
}

#[tokio::test]
async fn a_bad_configuration_is_78_and_a_home_that_is_none_is_not() {
    let user = CliUser::new();
    user.write("home/config.toml", "[limits]\nreads = 0\n");
    user.run_cli(&["status"])
        .await
        .refused(78, "config.toml:2: limits.reads must be");
    let user = CliUser::new();
    user.run_cli(&["--log", "loud", "status"])
        .await
        .refused(78, "--log: there is no \"loud\"");
    user.write("home", "a file");
    let said = user.run_cli(&["status"]).await;
    assert!(
        [73, 77, 78].contains(&said.code) && said.err.contains(&user.text("home")),
        "{said:?}"
    );
}

#[tokio::test]
async fn the_tools_are_listed_and_explained() {
    let user = CliUser::new();
    let list = user.run_cli(&["tools"]).await.done();
    assert_starts_with!(list.out, "DOMAIN ");
    assert_contains!(list.out, " Read ");
    let lines = user.run_cli(&["tools", "--json"]).await.done();
    for line in lines.out.lines() {
        let tool: serde_json::Value = serde_json::from_str(line).expect(line);
        let wanted = [
            "categories",
            "description",
            "effect",
            "kind",
            "name",
            "origin",
            "requires_permission",
            "schema",
        ];
        let keys = object_keys(&tool);
        let also = ["aliases", "compat", "effect_depends_on", "example"];
        let known: Vec<&str> = keys.into_iter().filter(|key| !also.contains(key)).collect();
        assert_eq!(known, wanted);
        // `OpenApp` is not listed because the owner has not allowed applications.
        assert_ne!(tool["name"], "OpenApp");
    }
    assert!(lines.out.lines().count() >= 18);
    let one = user.run_cli(&["tools", "Read"]).await.done();
    assert_contains!(
        one.out,
        "Read (file, reads)",
        "file_path",
        "line for offset",
        "punie-runner call Read file_path="
    );
    let info = user
        .run_cli(&["call", "get_shell_info", "{}"])
        .await
        .done()
        .out;
    assert_contains!(
        info,
        "other hosts only through the proxy in HTTPS_PROXY, which asks the owner"
    );
    assert_eq!(
        user.run_cli(&["tools", "Read", "--json"])
            .await
            .done()
            .json()["name"],
        "Read"
    );
    user.run_cli(&["tools", "Reed"])
        .await
        .refused(1, "Did you mean Read?");
    let mut from_the_home = user.command(&["tools"]);
    from_the_home.current_dir(user.dir.path());
    super::run_with_input(from_the_home, "").await.done();
}

#[tokio::test]
async fn a_tool_is_called_here() {
    let user = CliUser::new();
    user.types_with(
        &["call", "Write", "-"],
        r#"{"file_path":"a.txt","content":"one\n"}"#,
    )
    .await
    .done();
    assert_eq!(user.read("work/a.txt"), "one\n");
    let read = user
        .run_cli(&["call", "Read", r#"{"file_path":"a.txt"}"#])
        .await
        .done();
    assert_contains!(read.out, "\tone");
    let read = user
        .run_cli(&["call", "Read", r#"{"file_path":"a.txt"}"#, "--json"])
        .await
        .done()
        .json();
    assert_eq!(
        object_keys(&read),
        ["meta", "outcome", "requestId", "result", "toolName"]
    );
    assert_eq!(read["outcome"].as_str(), Some("ok"));
    assert_eq!(read["toolName"].as_str(), Some("Read"));

    let gone = user
        .run_cli(&["call", "Read", r#"{"file_path":"b.txt"}"#, "--json"])
        .await;
    assert_eq!(
        (gone.code, object_keys(&gone.json())),
        (1, vec!["error", "meta", "outcome", "requestId", "toolName"])
    );
    assert_fields!(gone.json(), {"outcome": "error", "/meta/code": "not_found"});
    assert_eq!(user.run_cli(&["call", "Reed"]).await.code, 1);
    assert_eq!(user.run_cli(&["call", "Read", "not json"]).await.code, 1);
    user.run_cli(&["call", "no tool"])
        .await
        .refused(2, "a tool name must be");
    let failed = user
        .run_cli(&["call", "Bash", r#"{"command":"exit 3"}"#, "--json"])
        .await
        .done();
    assert_eq!(
        failed.json()["meta"]["exitCode"],
        3,
        "a command that fails is a successful call"
    );
    let long = user
        .run_cli(&["call", "Bash", r#"{"command":"seq 1 100000"}"#, "--json"])
        .await
        .done()
        .json();
    let args = format!(
        r#"{{"handle":{},"offset":50000,"limit":1}}"#,
        long["meta"]["handle"]
    );
    let page = user.run_cli(&["call", "ReadOutput", &args]).await.done();
    assert_contains!(page.out, "50000"; "a later call reads the stored output of an earlier one");
}

#[tokio::test]
async fn a_first_configuration_is_written_once() {
    let user = CliUser::new();
    let url = ["--backend-url", "https://a.convex.cloud"];
    let said = user
        .run_cli(&[&url[..], &["--workspace", ".", "init", "--json"]].concat())
        .await
        .done();
    assert_eq!(said.json()["config"], user.text("home/config.toml"));
    let written = user.read("home/config.toml");
    assert_contains!(written, "\nurl = \"https://a.convex.cloud\"\n");
    assert_contains!(written, &format!("\npaths = [\"{}\"]\n", user.text("work")));
    assert_lacks!(written, "doctor"; "the file names no doctor");
    let again = user.run_cli(&["init"]).await.done();
    assert_contains!(again.out, "There is nothing to do");
    user.run_cli(&["--backend-url", "https://b.convex.cloud", "init"])
        .await
        .refused(1, "names another backend; --force replaces the whole file");
    assert_eq!(user.read("home/config.toml"), written);
    let again = user
        .run_cli(&["--backend-url", "https://b.convex.cloud", "init", "--force"])
        .await
        .done();
    assert_contains!(again.out, "Every key is in it");
    assert_contains!(
        user.read("home/config.toml"),
        "\nurl = \"https://b.convex.cloud\"\n"
    );
    user.run_cli(&["status"]).await.ended(3);
}

#[tokio::test]
async fn status_says_the_same_keys_without_a_runner() {
    let user = CliUser::new();
    let status = user.run_cli(&["status", "--json"]).await.ended(3).json();
    let wanted = [
        "approvals",
        "askedConversations",
        "attention",
        "backend",
        "canExecute",
        "confinement",
        "cutOff",
        "degraded",
        "deviceId",
        "deviceKey",
        "epoch",
        "inFlight",
        "inForce",
        "journalLosses",
        "limits",
        "network",
        "openings",
        "otherBackends",
        "outbox",
        "paused",
        "pid",
        "policy",
        "protectedPathChanges",
        "protectedPaths",
        "questions",
        "requestAuth",
        "running",
        "safeMode",
        "salvage",
        "secrets",
        "secretsKey",
        "shells",
        "stoppedConversations",
        "verdict",
        "version",
        "waiting",
        "workspaces",
    ];
    assert_eq!(object_keys(&status), wanted);
    assert_eq!(
        object_keys(&status["backend"]),
        [
            "clockSkewMs",
            "embedded",
            "kind",
            "lastContactMs",
            "lastPollMs",
            "link",
            "paired",
            "reachable",
            "trouble",
            "url"
        ]
    );
    assert_eq!(
        object_keys(&status["outbox"]),
        [
            "bytes",
            "oldestMs",
            "pending",
            "sendingBytes",
            "undeliverable"
        ]
    );
    assert_eq!(object_keys(&status["waiting"]), ["count", "oldestMs"]);
    assert_eq!(
        object_keys(&status["canExecute"]),
        ["exec", "read", "write"]
    );
    assert_fields!(status, {"running": false, "pid": null});
    let again = user.run_cli(&["status", "--json"]).await.ended(3).json();
    assert_eq!(
        again["deviceId"], status["deviceId"],
        "the device keeps its id"
    );
    let text = user.run_cli(&["status"]).await.ended(3).out;
    assert_starts_with!(text, "punie-runner is not running\n");
}

#[tokio::test]
async fn status_lists_each_opening_with_its_meaning() {
    let user = CliUser::new();
    let none = user.run_cli(&["status", "--json"]).await.ended(3).json();
    let level = none["confinement"].as_str().expect("a level").to_owned();
    let names: Vec<&str> = level
        .strip_prefix("partial:[")
        .map(|names| names.trim_end_matches(']').split(',').collect())
        .unwrap_or_default();
    let settings = |status: &serde_json::Value| -> Vec<(String, String)> {
        let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
        let openings = status["openings"].as_array().expect("a list").iter();
        openings
            .map(|opening| {
                assert_eq!(object_keys(opening), ["meaning", "setting", "value"]);
                (text(&opening["setting"]), text(&opening["value"]))
            })
            .collect()
    };
    let gaps = names.iter().map(|name| ("level".into(), (*name).into()));
    let gaps: Vec<(String, String)> = gaps.collect();
    assert_eq!(settings(&none), gaps, "the defaults open nothing");
    let shown = user.run_cli(&["status", "-v"]).await.ended(3).out;
    assert_eq!(
        shown.matches("\n  Opening ").count(),
        names.len(),
        "one line for each opening: {shown}"
    );

    let config = "[sandbox]\nwrite = [\"/srv/x\", \"/tmp/tmux-1000\"]\nread = [\"/srv/y\"]\nlocal_ports = [5432]\n\
                  network = \"full\"\napps = true\nconfine = false\nrequire = \"none\"\n";
    user.write("home/config.toml", config);
    user.run_cli(&["status"])
        .await
        .refused(78, "/tmp/tmux-1000 leads to programs that act for you");
    user.run_cli(&["status"])
        .await
        .refused(78, "add unsafe = true under [sandbox]");
    user.write("home/config.toml", &format!("{config}unsafe = true\n"));
    let all = user.run_cli(&["status", "--json"]).await.ended(3).json();
    let wanted = [
        ("write", "/srv/x"),
        ("write", "/tmp/tmux-1000"),
        ("read", "/srv/y"),
        ("local_ports", "5432"),
        ("network", "full"),
        ("unsafe", "true"),
        ("apps", "true"),
        ("confine", "false"),
        ("require", "none"),
    ];
    assert_eq!(
        settings(&all),
        wanted.map(|(setting, value)| (setting.to_owned(), value.to_owned()))
    );
    let shown = user.run_cli(&["status", "-v"]).await.ended(3).out;
    assert_contains!(
        shown,
        "  Opening      write /srv/x: commands can read and write it\n",
        "  Opening      write /tmp/tmux-1000: commands can write it and connect to the programs that listen there, which \
         act for you\n",
        "  Opening      confine false: nothing confines commands; they run only with require = \"none\"\n"
    );
}

#[tokio::test]
async fn skills_and_agents_are_shown_with_what_is_wrong() {
    let user = CliUser::new();
    assert_contains!(user.run_cli(&["skills"]).await.done().out, "no skills");
    for (kind, file) in [("skills", "SKILL.md"), ("agents", "AGENT.md")] {
        user.write(
            &format!("home/{kind}/good/{file}"),
            "---\nname: Good\ndescription: It does good.\n---\nDo it.\n",
        );
        user.write(
            &format!("home/{kind}/broken/{file}"),
            "---\nname: [oops\n---\nNever.\n",
        );
        for args in [vec![kind], vec![kind, "list"]] {
            let list = user.run_cli(&args).await.done().out;
            assert_contains!(list, "\ngood ", "It does good.");
            assert_contains!(
                list,
                &format!("not loaded: {}", user.text(&format!("home/{kind}/broken")))
            );
        }
        let lines = user.run_cli(&[kind, "--json"]).await.done().out;
        let lines: Vec<serde_json::Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(
            (&lines[0]["id"], object_keys(&lines[1])),
            (&"good".into(), vec!["effect", "path", "problem"])
        );
        assert_eq!(
            user.run_cli(&[kind, "show", "good"])
                .await
                .done()
                .out
                .trim(),
            "Do it."
        );
        assert_eq!(
            user.run_cli(&[kind, "show", "good", "--json"])
                .await
                .done()
                .json()["id"],
            "good"
        );
        user.run_cli(&[kind, "show", "broken"])
            .await
            .refused(1, "its head cannot be read");
        user.run_cli(&[kind, "show", "nobody"])
            .await
            .refused(1, "there is no");
    }
}

#[tokio::test]
async fn shells_are_helped_to_complete() {
    let user = CliUser::new();
    for (shell, words) in [
        ("bash", "-F _clap_complete_punie_runner"),
        ("zsh", "#compdef punie-runner"),
        ("fish", "--command punie-runner"),
    ] {
        let script = user.run_cli(&["completions", shell]).await.done().out;
        assert_contains!(script, words, "PUNIE_COMPLETE"; "{shell}");
    }
    user.run_cli(&["completions", "nosh"])
        .await
        .refused(2, "possible values");
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_disaster() {
    let user = CliUser::new();
    for args in [
        &["tools"][..],
        &["tools", "--json"],
        &["completions", "bash"],
        &["--help"],
    ] {
        assert_eq!(exit_code(user.command(args)).await, 0, "{args:?}");
    }
}

#[tokio::test]
async fn a_call_is_stopped_with_all_it_started() {
    let user = CliUser::new();
    // The command reports its process id to this test.
    user.write("home/config.toml", "[sandbox]\nnetwork = \"full\"\n");
    let told = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = told.local_addr().expect("bound").port();
    let args = format!(r#"{{"command":"echo $$ > /dev/tcp/127.0.0.1/{port}; exec sleep 600"}}"#);
    let child = user
        .command(&["call", "Bash", &args])
        .spawn()
        .expect("started");
    let (mut its, _) = super::within_limit(told.accept())
        .await
        .expect("the command connects");
    let mut pid = String::new();
    super::within_limit(its.read_to_string(&mut pid))
        .await
        .expect("the process id of the command");
    let pid: i32 = pid.trim().parse().expect("a number");
    let own = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(rustix::process::Pid::from_raw);
    // SIGTERM, because background jobs of a shell ignore SIGINT.
    rustix::process::kill_process(own.expect("it runs"), rustix::process::Signal::TERM)
        .expect("it runs");
    let ended = super::within_limit(child.wait_with_output())
        .await
        .expect("waited for");
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let gone =
        rustix::process::test_kill_process(rustix::process::Pid::from_raw(pid).expect("a number"));
    assert!(gone.is_err(), "the command is gone");
}

#[tokio::test]
async fn a_command_with_a_list_lists_without_another_word() {
    let user = CliUser::new();
    for command in ["audit", "trash", "secrets"] {
        let alone = user.run_cli(&[command]).await.done();
        let listed = user.run_cli(&[command, "list"]).await.done();
        assert_eq!(alone.out, listed.out, "{command}");
    }
}

#[tokio::test]
async fn an_example_of_a_tool_fits_the_terminal_and_can_be_typed() {
    let user = CliUser::new();
    let shown = user.run_cli(&["tools", "Bash"]).await.done().out;
    let (_, examples) = shown.split_once("Examples:\n").expect("examples");
    assert!(examples.lines().all(|line| line.len() <= 80), "{examples}");
    assert_contains!(
        examples,
        "  punie-runner call Bash command='cargo test --workspace' timeout=300000 \\\n    description="
    );
    let shown = user.run_cli(&["tools", "MultiEdit"]).await.done().out;
    let (_, examples) = shown.split_once("Examples:\n").expect("examples");
    assert!(examples.lines().all(|line| line.len() <= 80), "{examples}");
    let words = examples.replacen("  punie-runner call MultiEdit ", "printf '%s;' ", 1);
    let (one, _) = words.split_once("\n  punie-runner").expect("two examples");
    let shell = std::process::Command::new("sh").args(["-c", one]).output();
    let typed = String::from_utf8(shell.expect("run").stdout).expect("text");
    let edits = typed.split("edits=").nth(1).expect("an edits argument");
    let edits: serde_json::Value =
        serde_json::from_str(edits.trim_end_matches(';')).expect("still JSON");
    assert_eq!(edits[1]["new_string"], "n + 2", "{typed}");
    let shown = user.run_cli(&["tools", "OpenApp"]).await.done().out;
    assert_contains!(shown, "Not offered here: apps = false under [sandbox].");
}

#[tokio::test]
async fn an_error_of_the_command_line_is_wrapped_at_words() {
    let user = CliUser::new();
    let shown = user
        .types_on_terminal(&["history", "--within", "abc"])
        .await
        .ended(2)
        .out;
    assert_contains!(shown, "\'abc\'");
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert!(words.contains(&"string"), "{shown}");
    assert!(
        shown.lines().all(|line| line.trim_end().len() <= 80),
        "{shown}"
    );
}

#[tokio::test]
async fn a_wrong_value_is_answered_with_the_one_that_was_meant() {
    let user = CliUser::new();
    user.write("home/config.toml", "[policy]\nask = [\"write\"]\n");
    user.run_cli(&["call", "Glob", "pattern=*"])
        .await
        .refused(78, "Did you mean \"writes\"?");
    user.run_cli(&["--backend-url", "localhost:3210", "send", "Glob"])
        .await
        .refused(78, "for this machine http:// is right");
}
