//! RequestCredential: the value goes from a terminal to the sealed file, and nowhere else.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{asked_caller, listed_questions};
use crate::harness::caller::ToolCall;
use crate::harness::on_terminal::OnTerminal;
use crate::harness::process::PROGRAM;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_for_some;

/// The secret that only the sealed file may contain.
const VALUE: &str = "planted-Zx81-credential-value";

fn credential_call(more: &Value) -> ToolCall {
    let mut args = json!({ "name": "ACME_TOKEN", "purpose": "open pull requests" });
    let more = more.as_object().expect("an object").clone();
    args.as_object_mut().expect("an object").extend(more);
    ToolCall::new("RequestCredential", &args)
}

/// The paths of all files below a folder that contain these bytes.
fn files_with(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let kind = entry.file_type().expect("a type");
        if kind.is_dir() {
            found.extend(files_with(&path, bytes));
        } else if kind.is_file() {
            let content = std::fs::read(&path).unwrap_or_default();
            if content.windows(bytes.len()).any(|part| part == bytes) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_is_typed_unseen_and_found_nowhere() {
    let setup = RunnerFixture::with_config("").await;
    let mut runner = OnTerminal::start(&setup.setting, &["run", "--log", "trace"]);
    setup.until_asker_announced().await;
    let id = setup
        .ask(credential_call(&json!({ "for_host": "acme.example" })))
        .await;
    runner
        .shows("The value of ACME_TOKEN (not shown; empty refuses): ")
        .await;
    assert_contains!(
        runner.shown(),
        "RequestCredential wants a secret:",
        "ACME_TOKEN (for the host acme.example)",
        "Purpose: open pull requests",
        "Who can read it: every command that the agent runs by SkillBash"
    );
    // The caller's side can only refuse. The question says which command to type on the device.
    let question = asked_caller(&setup).await;
    let title = question["title"].as_str().expect("a title");
    assert_contains!(
        title,
        "Type it on the device: punie-runner secrets set ACME_TOKEN"
    );
    assert_contains!(
        title,
        "every command that the agent runs by SkillBash with a skill that names ACME_TOKEN"
    );
    let options = question["options"].as_array().expect("options");
    assert_eq!(options.len(), 1, "{options:?}");
    assert_eq!(options[0]["optionId"], "reject_once");
    runner.types(&format!("{VALUE}\n"));
    let answer = setup.answer(&id).await;
    assert_eq!(answer.text(), "stored as ACME_TOKEN");
    runner.shows("Answered.").await;
    let list = setup.command(&["secrets", "--json"]).await.json();
    assert_fields!(list, {
        "/asked/request": id,
        "/asked/purpose": "ACME_TOKEN (for the host acme.example): open pull requests",
        "usedAtMs": null,
    });
    // The stored secret is the typed value.
    let stored = punie_home::Home::open_home(&setup.setting.home)
        .map(|home| punie_home::SecretStore::in_home(&home))
        .expect("a home");
    let value = stored.get("ACME_TOKEN").expect("readable").expect("stored");
    assert_eq!(value.expose(), VALUE);
    // The value is in no file of the home, the logs or the backend, in no result, and was never on the terminal.
    let everything = setup.setting.home.parent().expect("the folder of the test");
    assert!(setup.setting.home.join("state/journal.sqlite3").exists());
    let encoded = [VALUE.to_owned(), encode_hex(VALUE), encode_base64(VALUE)];
    for text in &encoded {
        assert_eq!(
            files_with(everything, text.as_bytes()),
            Vec::<String>::new(),
            "{text}"
        );
        assert_lacks!(answer.raw, text);
        assert_lacks!(runner.shown(), text);
    }
    let audit = setup.command(&["audit", "--json"]).await.out;
    assert!(audit.contains(&id) && !audit.contains(VALUE), "{audit}");
}

fn encode_hex(text: &str) -> String {
    let digits = |byte: u8| [byte >> 4, byte & 15].map(|n| char::from_digit(n.into(), 16));
    text.bytes().flat_map(digits).flatten().collect()
}

/// Encodes the text in base64 without its last bytes, whose encoding depends on the bytes that follow.
fn encode_base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD_NO_PAD.encode(&text[..text.len() / 3 * 3])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_is_also_given_by_command_refused_or_not_given() {
    let setup = RunnerFixture::with_config("").await;
    let runner = setup.run();
    // The owner names the secret.
    let id = setup.ask(credential_call(&json!({}))).await;
    listed_questions(&setup).await;
    let set = run_with_input(&setup, &["secrets", "set", "ACME_TOKEN"], VALUE);
    assert_eq!(set, "ACME_TOKEN is kept.\n");
    assert_eq!(setup.answer(&id).await.text(), "stored as ACME_TOKEN");
    // The owner names the question.
    let id = setup.ask(credential_call(&json!({}))).await;
    listed_questions(&setup).await;
    let on_line = setup.command(&["questions", "answer", &id, VALUE]).await;
    assert_eq!(on_line.code, Some(2), "{on_line:?}");
    assert_eq!(
        run_with_input(&setup, &["questions", "answer", &id], "another-value"),
        "Answered.\n"
    );
    assert_eq!(setup.answer(&id).await.text(), "stored as ACME_TOKEN");
    let id = setup.ask(credential_call(&json!({}))).await;
    let question = asked_caller(&setup).await;
    let yes = setup.caller.try_answer(&question, "allow_once", None).await;
    assert_eq!(yes["errorData"]["code"], "INVALID_ARGUMENT", "{yes}");
    setup.caller.choose(&question, "reject_once").await;
    assert_eq!(setup.answer(&id).await.text(), "refused");
    let id = setup.ask(credential_call(&json!({ "timeout": 1 }))).await;
    let silent = setup.answer(&id).await.text();
    assert_starts_with!(silent, "Nobody answered within 1 s.");
    let id = setup.ask(credential_call(&json!({}))).await;
    listed_questions(&setup).await;
    setup.caller.cancel(&id).await;
    assert_eq!(setup.answer(&id).await.outcome, "cancelled");
    // The next process asks again.
    let id = setup.ask(credential_call(&json!({}))).await;
    let before = listed_questions(&setup).await;
    runner.kill();
    let _runner = setup.run();
    wait_for_some("the question again", async || {
        (listed_questions(&setup).await["askedAtMs"] != before["askedAtMs"]).then_some(())
    })
    .await;
    run_with_input(&setup, &["questions", "answer", &id], "third-value-3");
    assert_eq!(setup.answer(&id).await.text(), "stored as ACME_TOKEN");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_in_shows_its_address_and_code_until_it_is_done() {
    let setup = RunnerFixture::with_config("").await;
    let mut runner = OnTerminal::start(&setup.setting, &["run"]);
    setup.until_asker_announced().await;
    let sign_in = json!({ "url": "https://acme.example/device", "code": "WDJB-MJHT" });
    let id = setup.ask(credential_call(&sign_in)).await;
    runner.shows("Type d when it is done ([r]efuse): ").await;
    let shown = runner.shown();
    assert_contains!(
        shown,
        "Open: https://acme.example/device\n  Code: WDJB-MJHT\n"
    );
    runner.types("d\n");
    assert_eq!(setup.answer(&id).await.text(), "done");
    let id = setup.ask(credential_call(&sign_in)).await;
    let question = asked_caller(&setup).await;
    let title = question["title"].as_str().expect("a title");
    assert_contains!(title, "https://acme.example/device\nCode: WDJB-MJHT");
    setup.caller.choose(&question, "allow_once").await;
    assert_eq!(setup.answer(&id).await.text(), "done");
    let list = setup.command(&["secrets", "--json"]).await.out;
    assert_eq!(list, "", "nothing is stored");
}

/// Runs a command with this input on stdin, and returns its stdout.
fn run_with_input(setup: &RunnerFixture, args: &[&str], input: &str) -> String {
    let mut child = Command::new(PROGRAM)
        .args(args)
        .env_clear()
        .env("HOME", &setup.setting.logs)
        .env("PUNIE_HOME", &setup.setting.home)
        .env("PUNIE_WORKSPACE", &setup.setting.workspace)
        .env("PUNIE_BACKEND_URL", &setup.setting.url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let mut stdin = child.stdin.take().expect("its stdin");
    stdin.write_all(input.as_bytes()).expect("written");
    drop(stdin);
    let ended = child.wait_with_output().expect("ended");
    String::from_utf8(ended.stdout).expect("text")
}
