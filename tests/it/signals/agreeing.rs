//! CollectSignals: only the owner can agree, at this device, once for each category.

use std::path::Path;

use serde_json::{Value, json};

use super::{make_chrome_history, write_below};
use crate::harness::caller::ToolCall;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};
use crate::user::listed_questions;

const SECRET: &str = "planted-Zx81-signals-value";

fn collect_call(categories: &Value) -> ToolCall {
    ToolCall::new("CollectSignals", &json!({ "categories": categories }))
}

/// Agrees to the question about this category.
async fn agree_to_category(setup: &RunnerFixture, id: &str, category: &str) {
    let answer = ["questions", "answer", id, "yes", category];
    let yes = setup.command(&answer).await;
    assert_eq!(yes.code, Some(0), "{yes:?}");
}

/// Creates a project that was changed just now.
fn make_project(user: &Path, name: &str) {
    write_below(
        user,
        &format!("projects/{name}/.git/HEAD"),
        "ref: refs/heads/main\n",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sent_before_the_owner_agrees_at_the_device() {
    let setup = RunnerFixture::with_config("[signals]\ndev_environment = \"on\"\n").await;
    let user = &setup.setting.logs;
    write_below(user, ".bash_history", "git status\ngit push\n");
    let person = "[user]\nname = Ann Bonny\nemail = ann@b.example\n";
    write_below(user, ".gitconfig", person);
    make_project(user, "Ann Bonny site");
    make_project(user, SECRET);
    std::fs::write(setup.file("value"), SECRET).expect("written");
    let home = punie_home::Home::open_home(&setup.setting.home).expect("a home");
    let secrets = punie_home::SecretStore::in_home(&home);
    let value = punie_text::redact::Secret::new(SECRET.to_owned());
    secrets.set_secret("PLANTED", &value).expect("stored");
    let _runner = setup.run();

    let id = setup.ask(collect_call(&json!(["dev_environment"]))).await;
    listed_questions(&setup).await;
    let asked = setup.command(&["questions"]).await.out;
    assert_contains!(asked, "Agents may read, at any time");
    assert_contains!(
        asked,
        &format!("questions answer {} yes dev_environment", &asked[..8])
    );
    // The caller's side sees the question and can only refuse it.
    let open = setup.caller.questions().await;
    let options = open[0]["options"].as_array().expect("options");
    assert_eq!(options.len(), 1, "{open:?}");
    assert_eq!(options[0]["optionId"], "reject_once");
    for words in [&["done"][..], &["yes"], &["yes", "apps_system"]] {
        let args = [&["questions", "answer", id.as_str()], words].concat();
        let wrong = setup.command(&args).await;
        assert_eq!(wrong.code, Some(2), "{wrong:?}");
    }
    agree_to_category(&setup, &id, "dev_environment").await;
    let text = setup.answer(&id).await.text();
    assert_contains!(text, "git (2)");
    assert_lacks!(text, "Ann", "Bonny", "ann@b.example", SECRET);
    assert_contains!(text, "[REDACTED:secret]", "Person-");
    // The preview shows the owner exactly this text.
    let previewed = setup.command(&["signals", "preview"]).await;
    assert_eq!(previewed.out.trim_end(), text.trim_end());

    // After an agreement, no question follows until the owner withdraws it.
    let again = setup.ask(collect_call(&json!([]))).await;
    assert_eq!(setup.answer(&again).await.text(), text);
    let withdrawn = setup.command(&["signals", "withdraw"]).await;
    assert_eq!(withdrawn.code, Some(0), "{withdrawn:?}");
    let id = setup.ask(collect_call(&json!("dev_environment"))).await;
    listed_questions(&setup).await;
    let no = setup.command(&["questions", "refuse", &id]).await;
    assert_eq!(no.code, Some(0), "{no:?}");
    let said = setup.answer(&id).await.expect_error("policy_denied");
    assert_contains!(said, "the owner refused");
    let recorded = setup.setting.home.join("state/signals/consents.jsonl");
    let recorded = std::fs::read_to_string(recorded).expect("the consents");
    let acts = recorded.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["act"].as_str().expect("a word").to_owned()
    });
    assert_eq!(acts.collect::<Vec<_>>(), ["given", "withdrawn"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_category_that_is_not_on_is_refused_and_one_that_is_turned_off_is_closed_at_once() {
    let switches = "[signals]\ndev_environment = \"on\"\nbrowsing_bookmarks = \"preview\"\n";
    let setup = RunnerFixture::with_config(switches).await;
    make_chrome_history(&setup.setting.logs, "The book", 30);
    let home = punie_home::Home::open_home(&setup.setting.home).expect("a home");
    let _runner = setup.run();
    for (categories, words) in cases! {
        (json!(["browsing_bookmarks"]), "config set signals.browsing_bookmarks on"),
        (json!(["dev_environment", "apps_system"]), "apps_system is not on"),
        (json!(["everything"]), "there is no category everything"),
    } {
        let id = setup.ask(collect_call(&categories)).await;
        let answer = setup.answer(&id).await;
        assert_contains!(answer.text(), words);
    }
    let consent = punie_home::ConsentRecord {
        at_ms: 1,
        category: "dev_environment".to_owned(),
        act: punie_home::ConsentAct::Given,
        text: punie_handlers::user::consent_text(punie_signals::Category::DevEnvironment),
        place: "terminal".to_owned(),
    };
    let consents = punie_home::SignalConsents::in_home(&home);
    consents.add_record(&consent).expect("written");
    let id = setup.ask(collect_call(&json!([]))).await;
    setup.answer(&id).await.expect_ok();
    setup.configure("dev_environment = \"on\"", "dev_environment = \"off\"");
    let id = setup.ask(collect_call(&json!([]))).await;
    let said = setup.answer(&id).await.expect_error("policy_denied");
    assert_contains!(said, "No category of user signals is on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_that_a_killed_process_left_are_gone_with_the_next_start() {
    let setup = RunnerFixture::with_config("").await;
    let home = punie_home::Home::open_home(&setup.setting.home).expect("a home");
    let left = write_below(&home.signals_dir(), "signals-left/copy.sqlite", "x");
    write_below(&home.signals_dir(), "signals-left/in-use", "");
    let _runner = setup.run();
    wait_until("the copy is gone", || !left.exists()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_with_workspaces_of_its_own_gets_no_signals() {
    let config =
        "[signals]\ndev_environment = \"on\"\n[callers.test]\nworkspaces = [\"../work\"]\n";
    let setup = RunnerFixture::with_config(config).await;
    let _runner = setup.run();
    let id = setup.ask(collect_call(&json!([]))).await;
    setup.answer(&id).await.expect_error("outside_workspace");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_says_yes_in_the_owner_s_place_gets_nothing() {
    let setup = RunnerFixture::with_config("[signals]\ndev_environment = \"on\"\n").await;
    let _runner = setup.run();
    let id = setup.ask(collect_call(&json!([]))).await;
    let question = setup.caller.next_question().await;
    let forged = "UPDATE permissions SET options = replace(options, 'reject_once', 'allow_once')";
    assert_eq!(setup.database().execute(forged, []).expect("forged"), 1);
    setup.caller.choose(&question, "allow_once").await;
    setup.answer(&id).await.expect_error("policy_denied");
    let consents = setup.setting.home.join("state/signals/consents.jsonl");
    assert!(!consents.exists(), "nothing was agreed to");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consent_that_is_withdrawn_during_the_next_question_counts_no_more() {
    let config = "[signals]\ndev_environment = \"on\"\napps_system = \"on\"\n";
    let setup = RunnerFixture::with_config(config).await;
    write_below(&setup.setting.logs, ".bash_history", "git status\n");
    let _runner = setup.run();
    let id = setup.ask(collect_call(&json!([]))).await;
    listed_questions(&setup).await;
    agree_to_category(&setup, &id, "dev_environment").await;
    wait_for_some("the next question", async || {
        let title = listed_questions(&setup).await["title"].to_string();
        title.contains("apps_system").then_some(())
    })
    .await;
    let withdrawn = setup.command(&["signals", "withdraw"]).await;
    assert_contains!(withdrawn.out, "dev_environment");
    agree_to_category(&setup, &id, "apps_system").await;
    let text = setup.answer(&id).await.text();
    assert_contains!(text, "- apps (apps_system)");
    assert_contains!(text, "- dev_environment: the owner has just closed it");
    assert_lacks!(text, "git (1)");
}
