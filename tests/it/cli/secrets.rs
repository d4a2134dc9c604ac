//! `secrets`, and tokens where they must not be: on a command line, in an address, in the log.

use serde_json::{Value, json};

use super::{CliUser, object_keys, tokens_of};

const VALUE: &str = "hunter2hunter2";

#[tokio::test]
async fn secrets_are_set_from_stdin_listed_without_values_and_removed() {
    let user = CliUser::new();
    let text = user.run_cli(&["secrets", "list"]).await.done().out;
    assert_starts_with!(text, "No secrets are kept");
    let set = user
        .types_with(&["secrets", "set", "mailer"], &format!("{VALUE}\n"))
        .await
        .done();
    assert_eq!(set.out.trim(), "mailer is kept.");
    let again = user
        .types_with(&["secrets", "set", "mailer", "--json"], VALUE)
        .await
        .done()
        .json();
    assert_eq!(
        again,
        json!({"name": "mailer", "new": false, "masked": true})
    );
    let short = user
        .types_with(&["secrets", "set", "pin"], "1234")
        .await
        .done();
    assert_contains!(short.out, "too short to be masked");
    let head = "---\nsecretMounts:\n  env: {A: mailer, B: absent}\n---\nDo it.\n";
    user.write("home/skills/mailing/SKILL.md", head);

    let listed = user
        .run_cli(&["secrets", "list", "--json"])
        .await
        .done()
        .out;
    let lines: Vec<Value> = listed
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    assert_eq!(
        object_keys(&lines[0]),
        ["asked", "name", "setAtMs", "usedAtMs", "usedBy"]
    );
    let facts: Vec<_> = lines
        .iter()
        .map(|line| {
            (
                line["name"].as_str(),
                line["setAtMs"].is_i64(),
                line["usedBy"].clone(),
            )
        })
        .collect();
    let by_mailing = json!(["mailing"]);
    let by_nobody = json!([]);
    let wanted = [
        (Some("mailer"), true, by_mailing.clone()),
        (Some("pin"), true, by_nobody),
        (Some("absent"), false, by_mailing),
    ];
    assert_eq!(facts, wanted);
    let shown = user.run_cli(&["secrets", "list"]).await.done().out;
    assert_contains!(shown, "absent  missing");
    assert_lacks!(shown, VALUE);
    assert_eq!(
        user.run_cli(&["status", "--json"]).await.ended(3).json()["secrets"],
        2
    );

    assert_eq!(
        user.run_cli(&["secrets", "remove", "pin"])
            .await
            .done()
            .out
            .trim(),
        "pin is removed."
    );
    user.run_cli(&["secrets", "remove", "pin"])
        .await
        .refused(1, "there is no secret \"pin\"");
    user.run_cli(&["secrets", "set", "mailer", VALUE])
        .await
        .refused(2, "unexpected argument");
    user.types_with(&["secrets", "set", "a b"], VALUE)
        .await
        .refused(2, "not a secret's name");
    user.run_cli(&["secrets", "set", "empty"])
        .await
        .refused(2, "the value is empty");
}

#[tokio::test]
async fn a_damaged_file_is_said_in_the_status_and_stops_nothing_else() {
    let user = CliUser::new();
    user.types_with(&["secrets", "set", "mailer"], VALUE)
        .await
        .done();
    std::fs::write(user.path("home/secrets/sealed.json"), "{\"format\":").expect("damaged");
    user.run_cli(&["secrets", "list"])
        .await
        .refused(78, "cut short");
    let status = user.run_cli(&["status", "--json"]).await.ended(3).json();
    assert_fields!(status, {"secrets": null, "degraded": ["secrets"]});
    let called = user
        .run_cli(&["call", "Bash", r#"{"command":"echo still"}"#])
        .await
        .done();
    assert_contains!(called.out, "still");
}

#[tokio::test]
async fn h101_a_token_in_an_address_is_refused_and_stands_in_no_log() {
    for address in [
        "https://me:hunter2hunter2@example.com",
        "https://hunter2hunter2@example.com",
        "https://example.com/?token=hunter2hunter2",
        "https://example.com/#hunter2hunter2",
    ] {
        let user = CliUser::new();
        let trace = ["--log", "trace"];
        let by_flag = user
            .run_cli(&[&trace[..], &["--backend-url", address, "run"]].concat())
            .await;
        let mut command = user.command(&[&trace[..], &["run"]].concat());
        command.env("PUNIE_BACKEND_URL", address);
        let by_variable = super::run_with_input(command, "").await;
        user.write(
            "home/config.toml",
            &format!("[backend]\nurl = \"{address}\"\n"),
        );
        let by_file = user.run_cli(&[&trace[..], &["run"]].concat()).await;
        for said in [by_flag, by_variable, by_file] {
            assert_eq!(said.code, 78, "{said:?}");
            assert_lacks!(said.out, VALUE);
            assert_lacks!(said.err, VALUE);
        }
        let logs = user.path("home/logs");
        let kept = std::fs::read_dir(&logs)
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        for file in kept.map(|entry| entry.path()) {
            let text = std::fs::read_to_string(&file).expect("text");
            assert_lacks!(text, VALUE; "{}", file.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h101_no_token_is_logged_at_any_level_while_requests_are_served() {
    let user = CliUser::new();
    let dev = user.serves(&["dev", "--json", "--log", "trace"]).await;
    user.run_as_caller(
        &dev.ready,
        &[
            "send",
            "Bash",
            r#"{"command":"echo one"}"#,
            "--log",
            "trace",
        ],
    )
    .await
    .done();
    let tokens: Vec<String> = ["device", "caller"]
        .iter()
        .map(|name| user.read(&format!("{}/{name}", tokens_of(&dev.ready))))
        .collect();
    let mut looked_at = 0;
    for entry in
        std::fs::read_dir(user.path("home/logs")).expect("a runner in the background keeps a log")
    {
        let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("text");
        looked_at += text.len();
        for token in &tokens {
            assert!(
                token.trim().len() > 20 && !text.contains(token.trim()),
                "a token is in the log"
            );
        }
    }
    assert!(looked_at > 0, "the log has text to search");
}
