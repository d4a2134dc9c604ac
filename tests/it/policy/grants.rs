//! Grants for one call or for a limited time: no crash or restart gives a second use, and no grant outlives its time.

use serde_json::{Value, json};

use super::{NO_TOUCH, write_rules};
use crate::harness::stage::RunnerFixture;

async fn grant_rule(setup: &RunnerFixture, args: &[&str]) -> Value {
    let words: Vec<&str> = ["--json", "policy", "allow"]
        .iter()
        .chain(args)
        .copied()
        .collect();
    let ended = setup.command(&words).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.json()["grant"].clone()
}

async fn list_rules(setup: &RunnerFixture) -> Vec<Value> {
    let shown = setup.command(&["--json", "policy", "show"]).await.json();
    shown["grants"].as_array().expect("grants").clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_for_once_is_one_request_s_over_a_crash_right_after_it_was_used() {
    let setup = RunnerFixture::new().await;
    write_rules(&setup.setting.home, NO_TOUCH);
    let grant = grant_rule(&setup, &["--once", "no-touch"]).await;
    assert_fields!(grant, {"rule": "no-touch", "once": true});
    assert_eq!(list_rules(&setup).await.len(), 1);

    let mut runner = setup.run_armed(&setup.setting.url, "grant.used=kill");
    let first = setup.ask_bash("touch first").await;
    crate::harness::wait::wait_until("the crash", || runner.has_ended()).await;
    assert!(!setup.file("first").exists());
    assert_eq!(list_rules(&setup).await.len(), 0, "the grant is used up");

    let _runner = setup.run();
    // The request that used the grant may continue, but no other request may start.
    setup.answer(&first).await.expect_ok();
    let second = setup.bash("touch second").await;
    second.expect_error("policy_denied");
    assert!(setup.file("first").exists() && !setup.file("second").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_are_for_their_words_and_end_with_their_time() {
    let setup = RunnerFixture::new().await;
    write_rules(&setup.setting.home, NO_TOUCH);
    let _runner = setup.run();
    grant_rule(&setup, &["--for", "1h", "touch", "a"]).await;
    for (line, outcome) in [
        ("touch a", "ok"),
        ("touch a", "ok"),
        ("touch b", "error"),
        ("touch a; touch b", "error"),
    ] {
        assert_eq!(setup.bash(line).await.outcome, outcome, "{line}");
    }
    // The same grant after its hour, and as made by a clock that is far ahead.
    let folder = setup.setting.home.join("state/grants");
    let file = std::fs::read_dir(&folder)
        .expect("grants")
        .next()
        .expect("one")
        .expect("readable")
        .path();
    let grant: Value = serde_json::from_slice(&std::fs::read(&file).expect("read")).expect("JSON");
    for (made, until) in [(0, 1), (4_000_000_000_000_i64, 4_100_000_000_000_i64)] {
        let mut other = grant.clone();
        (other["madeMs"], other["untilMs"]) = (json!(made), json!(until));
        std::fs::write(&file, other.to_string()).expect("written");
        assert_eq!(
            setup.bash("touch a").await.verdict(),
            ("error", "policy_denied"),
            "{other}"
        );
        assert_eq!(list_rules(&setup).await.len(), 0);
    }
    let grant = grant_rule(&setup, &["--for", "1h", "no-touch"]).await;
    setup.bash("touch b").await.expect_ok();
    let id = grant["id"].as_str().expect("an id");
    let short = &id[id.len() - 8..];
    let revoked = setup.command(&["policy", "revoke", short]).await;
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    setup.bash("touch c").await.expect_error("policy_denied");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_is_used_up_by_a_call_that_a_person_is_asked_about_for_something_else() {
    let setup = RunnerFixture::new().await;
    write_rules(
        &setup.setting.home,
        &format!("default = \"ask\"\n{NO_TOUCH}"),
    );
    let _runner = setup.run();
    grant_rule(&setup, &["--once", "no-touch"]).await;
    assert_eq!(
        setup.bash("touch first").await.outcome,
        "ok",
        "the grant counts as an approval"
    );
    assert_eq!(list_rules(&setup).await.len(), 0);

    grant_rule(&setup, &["--once", "no-touch"]).await;
    let id = setup.ask_bash("touch second; ls").await;
    let question = setup.caller.next_question().await;
    assert!(
        question["title"]
            .as_str()
            .is_some_and(|title| title.contains("`ls`")),
        "{question}"
    );
    setup.caller.choose(&question, "allow_once").await;
    setup.answer(&id).await.expect_ok();
    assert_eq!(list_rules(&setup).await.len(), 0);
    setup
        .bash("touch third")
        .await
        .expect_error("policy_denied");
}
