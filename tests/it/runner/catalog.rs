//! The catalog of the device's tools, skills, agents and plugins, as the backend receives it.

use std::collections::BTreeMap;

use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

/// Returns the kinds of the posted catalogs, in order.
fn posted_kinds(relay: &Relay) -> Vec<String> {
    let kind = |args: &serde_json::Value| args["kind"].as_str().expect("a kind").to_owned();
    relay
        .calls("catalog:upsertMany")
        .iter()
        .map(|call| kind(&call.args))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_backend_has_is_not_posted_again_at_the_next_start() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let start_and_stop = async || {
        let runner = setup.run_at(&relay.url);
        runner.wait_for_log("the catalog is published").await;
        runner.terminate();
        runner.end().await;
    };
    start_and_stop().await;
    let all = posted_kinds(&relay);
    assert!(
        ["tool", "skill", "agent", "plugin"]
            .iter()
            .all(|kind| all.iter().any(|posted| posted == kind)),
        "{all:?}"
    );
    start_and_stop().await;
    assert_eq!(posted_kinds(&relay), all);

    let skill = setup.setting.home.join("skills/mailer");
    std::fs::create_dir_all(&skill).expect("a folder");
    std::fs::write(
        skill.join("SKILL.md"),
        "---\ndescription: Sends mail.\n---\nDo it.\n",
    )
    .expect("written");
    start_and_stop().await;
    assert_eq!(posted_kinds(&relay)[all.len()..], ["skill"]);
}

fn write_skill(setup: &RunnerFixture, id: &str, text: &str) {
    let folder = setup.setting.home.join("skills").join(id);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("SKILL.md"), text).expect("written");
}

/// Returns the bodies that the backend has of one kind, by key.
fn stored_catalog(setup: &RunnerFixture, kind: &str) -> BTreeMap<String, String> {
    let database = setup.database();
    let mut rows = database
        .prepare("SELECT key, body FROM catalog WHERE kind = ?1")
        .expect("a table");
    rows.query_map([kind], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("texts")
}

fn catalog_contains(setup: &RunnerFixture, id: &str, words: &str) -> bool {
    stored_catalog(setup, "skill")
        .get(id)
        .is_some_and(|body| body.contains(words))
}

/// Returns the keys of the last posted page of skills.
fn last_keys(relay: &Relay) -> Vec<String> {
    let calls = relay.calls("catalog:upsertMany");
    let last = calls.iter().rfind(|call| call.args["kind"] == "skill");
    let items = last.and_then(|call| call.args["items"].as_array());
    let key = |item: &serde_json::Value| item["key"].as_str().expect("a key").to_owned();
    items.into_iter().flatten().map(key).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_reaches_the_backend_without_the_others() {
    let setup = RunnerFixture::new().await;
    for n in 0..150 {
        write_skill(&setup, &format!("s{n:03}"), "First.");
    }
    let relay = Relay::before(&setup.setting.url).await;
    let runner = setup.run_at(&relay.url);
    runner.wait_for_log("the catalog is published").await;
    assert_eq!(stored_catalog(&setup, "skill").len(), 150);
    for text in ["Second.", "Third.", "Fourth."] {
        write_skill(&setup, "s077", text);
        wait_until("the edit arrives", || {
            catalog_contains(&setup, "s077", text)
        })
        .await;
        wait_until("it came alone", || last_keys(&relay) == ["s077"]).await;
    }
    assert!(catalog_contains(&setup, "s149", "First."));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_removed_or_disabled_is_so_at_the_backend() {
    let setup = RunnerFixture::new().await;
    for id in ["first", "second"] {
        write_skill(&setup, id, "Text.");
    }
    let runner = setup.run();
    runner.wait_for_log("the catalog is published").await;
    write_skill(&setup, "first", "---\nenabled: false\n---\nText.");
    wait_until("it is disabled", || {
        catalog_contains(&setup, "first", r#""enabled":false"#)
    })
    .await;
    std::fs::remove_dir_all(setup.setting.home.join("skills/first")).expect("removed");
    wait_until("it is gone", || {
        stored_catalog(&setup, "skill").keys().eq(["second"])
    })
    .await;
    // A file that is broken for a while does not remove its entry.
    write_skill(&setup, "second", "---\nname: [\n---\nBroken.");
    write_skill(&setup, "third", "Text.");
    wait_until("the third arrives", || {
        catalog_contains(&setup, "third", "Text.")
    })
    .await;
    assert!(catalog_contains(&setup, "second", "Text."));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_the_backend_refuses_stops_no_other() {
    let setup = RunnerFixture::new().await;
    for id in ["bad", "good", "other"] {
        write_skill(&setup, id, "Text.");
    }
    let relay = Relay::before(&setup.setting.url).await;
    relay.rule(|path, args| {
        let items = args["items"].as_array();
        let is_bad = items.is_some_and(|items| items.iter().any(|item| item["key"] == "bad"));
        if path == "catalog:upsertMany" && is_bad {
            return CallFate::refuse(&serde_json::json!({"code": "INVALID_ARGUMENT"}));
        }
        CallFate::Pass
    });
    let runner = setup.run_at(&relay.url);
    runner.wait_for_log("the backend refuses entries").await;
    wait_until("the others arrive", || {
        stored_catalog(&setup, "skill").keys().eq(["good", "other"])
    })
    .await;
    write_skill(&setup, "good", "Better.");
    wait_until("an edit arrives", || {
        catalog_contains(&setup, "good", "Better.")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalog_that_is_refused_stops_no_other() {
    let setup = RunnerFixture::new().await;
    write_skill(&setup, "good", "Text.");
    let relay = Relay::before(&setup.setting.url).await;
    relay.rule(|path, args| {
        if path == "catalog:upsertMany" && args["kind"] == "tool" {
            return CallFate::refuse(&serde_json::json!({"code": "REQUEST_UNKNOWN"}));
        }
        CallFate::Pass
    });
    let _runner = setup.run_at(&relay.url);
    wait_until("the skill arrives", || {
        catalog_contains(&setup, "good", "Text.")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_while_the_catalog_is_published_is_not_missed() {
    let setup = RunnerFixture::new().await;
    write_skill(&setup, "first", "Text.");
    let relay = Relay::before(&setup.setting.url).await;
    let late = setup.setting.home.join("skills/late");
    relay.rule(move |path, args| {
        if path == "catalog:upsertMany" && args["kind"] == "skill" && !late.exists() {
            std::fs::create_dir(&late).expect("made");
            std::fs::write(late.join("SKILL.md"), "Text.").expect("written");
        }
        CallFate::Pass
    });
    let _runner = setup.run_at(&relay.url);
    wait_until("both arrive", || {
        stored_catalog(&setup, "skill").keys().eq(["first", "late"])
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_publication_goes_on_where_it_was() {
    let setup = RunnerFixture::new().await;
    for n in 0..250 {
        write_skill(&setup, &format!("s{n:03}"), "Text.");
    }
    let relay = Relay::before(&setup.setting.url).await;
    let mut seen = 0;
    relay.rule(move |path, args| {
        if path == "catalog:upsertMany" && args["kind"] == "skill" {
            seen += 1;
            if seen == 2 {
                return CallFate::Unheard;
            }
        }
        CallFate::Pass
    });
    let runner = setup.run_at(&relay.url);
    runner.wait_for_log("the catalog is published").await;
    assert_eq!(stored_catalog(&setup, "skill").len(), 250);
    let calls = relay.calls("catalog:upsertMany");
    let first_pages = calls
        .iter()
        .filter(|call| call.args["items"][0]["key"] == "s000")
        .count();
    assert_eq!(first_pages, 1, "what was accepted is not sent again");
}
