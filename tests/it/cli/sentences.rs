//! Sentences for people on a terminal of 80 columns and off it, errors as JSON, and the words that shells complete.

use serde_json::Value;

use super::CliUser;

/// The words of a text, however it is wrapped.
fn words_of(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[tokio::test]
async fn a_sentence_is_wrapped_between_words_on_a_terminal_only() {
    let user = CliUser::new();
    for args in [
        &["history", "no-such-id"][..],
        &["logs"],
        &["undo", "no-such-id"],
        &["call", "Read", "path=/etc/passwd"],
        &["keygen", "key"],
    ] {
        let piped = user.run_cli(args).await;
        let _ = std::fs::remove_file(user.path("work/key"));
        let shown = user.types_on_terminal(args).await;
        let _ = std::fs::remove_file(user.path("work/key"));
        for line in shown.out.lines() {
            assert!(line.chars().count() <= 80, "{args:?}: {line:?}");
        }
        if args[0] == "keygen" {
            continue;
        }
        let text = piped.out + &piped.err;
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(shown.out.lines().count() > 1, "{shown:?}");
        assert_eq!(words_of(&text), words_of(&shown.out));
    }
}

#[tokio::test]
async fn with_json_an_error_is_an_object_on_stderr() {
    let user = CliUser::new();
    for (args, code, name) in cases! {
        (&["--json", "history", "no-such-id"][..], 1, "failed"),
        (&["status", "--json", "--frob"], 2, "usage"),
        (&["--json", "--backend-url", "ftp://x", "cancel", "x"], 78, "config"),
    } {
        let said = user.run_cli(args).await;
        let last = said.err.lines().last().expect("an error");
        let error: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{said:?}"));
        assert_eq!(said.code, code, "{said:?}");
        assert_fields!(error, {"/error/exitCode": code, "/error/code": name});
        let message = error["error"]["message"].as_str().expect("a text");
        assert!(!message.is_empty());
        assert!(said.out.is_empty(), "{said:?}");
    }
}

/// Returns the completions that bash gets after these words.
async fn offered_words(user: &CliUser, words: &[&str]) -> Vec<String> {
    let args = [&["--", "punie-runner"], words].concat();
    let mut command = user.command(&args);
    command
        .env("PUNIE_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    let said = super::run_with_input(command, "").await;
    assert_eq!(said.code, 0, "{said:?}");
    said.out
        .lines()
        .map(|line| line.trim().to_owned())
        .collect()
}

#[tokio::test]
async fn a_shell_completes_tools_rules_and_requests() {
    let user = CliUser::new();
    assert!(offered_words(&user, &["send", "Gi"]).await.is_empty());
    assert!(!user.path("home").exists(), "completion creates no home");
    user.write("home/config.toml", "");
    user.write(
        "home/policy.toml",
        "[[rule]]\nname = \"no-push\"\ndecision = \"deny\"\ncommand = [\"git\", \"push\"]\n",
    );
    let dev = user.serves(&["dev", "--json"]).await;
    user.run_as_caller(&dev.ready, &["send", "Bash", r#"{"command":"true"}"#])
        .await
        .done();
    let tools = offered_words(&user, &["send", "Gi"]).await;
    assert!(tools.contains(&"GitStatus".to_owned()), "{tools:?}");
    let flags = offered_words(&user, &["--back"]).await;
    assert_eq!(flags, ["--backend-url"]);
    let rules = offered_words(&user, &["policy", "allow", "no-"]).await;
    assert_eq!(rules, ["no-push"]);
    let list = user.run_cli(&["history", "--json"]).await.done().out;
    let row: Value = serde_json::from_str(list.trim()).expect("one row");
    let id = row["requestId"].as_str().expect("an id");
    let ids = offered_words(&user, &["history", ""]).await;
    assert!(
        ids.contains(&id[id.len() - 8..].to_owned()),
        "{id}: {ids:?}"
    );
    dev.stopped().await;
}
