//! `signals`, `signals preview` and `signals collect`, as a person uses them.

use serde_json::{Value, json};

use super::{make_chrome_history, start_signals, write_below};
use crate::harness::on_terminal::OnTerminal;
use crate::harness::stage::RunnerFixture;

const ALL_PREVIEWED: &str = "[signals]\nbrowsing_bookmarks = \"preview\"\napps_system = \"preview\"\n\
                             messages_notes = \"preview\"\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_without_any_source_says_so_for_each() {
    let setup = RunnerFixture::with_unpaired_device(ALL_PREVIEWED).await;
    let user = tempfile::tempdir().expect("a folder");
    let ended = start_signals(&setup, user.path(), &["preview", "--json"])
        .end()
        .await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let read = ended.json();
    let sources = read["sources"].as_array().expect("sources");
    assert_eq!(sources.len(), 19, "{read}");
    let text = read["text"].as_str().expect("a text");
    for source in sources {
        let name = source["source"].as_str().expect("a name");
        // The package managers of the system are a source as well.
        if name != "dev environment" {
            assert_eq!(source["state"], "absent", "{source}");
            let category = source["category"].as_str().expect("a category");
            let line = format!("- {name} ({category}): not on this device\n");
            assert_contains!(text, &line);
        }
    }
    assert_eq!(read["off"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_developer_s_environment_is_previewed_without_a_setting() {
    let setup = RunnerFixture::with_unpaired_device("").await;
    let user = tempfile::tempdir().expect("a folder");
    write_below(user.path(), ".bash_history", "git status\ngit push\nls\n");
    make_chrome_history(user.path(), "A page", 30);
    let ended = start_signals(&setup, user.path(), &["preview"]).end().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_contains!(ended.out, "git (2)");
    assert_lacks!(ended.out, "chrome");
    assert_contains!(
        ended.log,
        "browsing_bookmarks is off: nothing of it was opened.",
        "Nothing was sent."
    );
    let named = ["preview", "--category", "browsing_bookmarks"];
    let ended = start_signals(&setup, user.path(), &named).end().await;
    assert_eq!(ended.code, Some(77), "{ended:?}");
    let words = "config set signals.browsing_bookmarks preview";
    assert!(
        ended.log.contains(words) && ended.out.is_empty(),
        "{ended:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_is_told_and_the_rest_is_shown() {
    let setup = RunnerFixture::with_unpaired_device(ALL_PREVIEWED).await;
    let user = tempfile::tempdir().expect("a folder");
    make_chrome_history(user.path(), "The book", 30);
    write_below(user.path(), ".config/chromium/Default/History", [7; 5_000]);
    let large = write_below(user.path(), ".config/vivaldi/Default/History", "");
    let large = std::fs::File::options().write(true).open(large);
    large.and_then(|file| file.set_len(2 << 30)).expect("2 GB");
    let profile = ".mozilla/firefox/a.default";
    let ini = "[Profile0]\nName=default\nIsRelative=1\nPath=a.default\n";
    write_below(user.path(), ".mozilla/firefox/profiles.ini", ini);
    let places = write_below(user.path(), &format!("{profile}/places.sqlite"), "");
    let locked = rusqlite::Connection::open(places).expect("a database");
    let tables =
        include_str!("../../../crates/signals/tests/fixtures/schemas/firefox_places_v86.sql");
    let page = "INSERT INTO moz_places (id, url, title, visit_count) VALUES (1, 'https://fox.example/', 'Fox', 40);
                PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;";
    locked.execute_batch(tables).expect("tables");
    locked.execute_batch(page).expect("a page");
    let words = ["preview", "--json", "--category", "browsing_bookmarks"];
    let ended = start_signals(&setup, user.path(), &words).end().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let read = ended.json();
    let text = read["text"].as_str().expect("a text");
    assert_contains!(text, "- rust.example (30)");
    assert_lacks!(text, "token");
    let source = |name: &str| {
        let mut all = read["sources"].as_array().expect("sources").iter();
        all.find(|source| source["source"] == name)
            .expect("it is told")
            .clone()
    };
    assert_eq!(source("chrome")["state"], "read");
    assert_eq!(source("opera")["state"], "absent");
    for name in ["chromium", "vivaldi"] {
        let source = source(name);
        assert_contains!(source.to_string(), "a history could not be read");
        assert_eq!(source["state"], "failed", "{source}");
    }
    // A database that another program holds locked can still be read.
    assert_contains!(text, "- fox.example (40)"; "{read}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_agrees_at_the_terminal_and_withdraws() {
    let setup = RunnerFixture::with_unpaired_device("[signals]\ndev_environment = \"on\"\n").await;
    write_below(&setup.setting.logs, ".bash_history", "cargo test\n");
    let refused = setup.command(&["signals", "collect"]).await;
    assert_eq!(refused.code, Some(77), "{refused:?}");
    let words = "you have not agreed that agents read dev_environment";
    assert!(
        refused.log.contains(words) && refused.out.is_empty(),
        "{refused:?}"
    );
    for (typed, code) in [("n\n", 77), ("y\n", 0)] {
        let mut asked = OnTerminal::start(&setup.setting, &["signals", "collect"]);
        asked.shows("Do you agree? [y/N] ").await;
        assert_contains!(asked.shown(), "Whole command lines");
        asked.types(typed);
        assert_eq!(asked.end().await, Some(code), "{}", asked.shown());
        assert_eq!(asked.shown().contains("cargo (1)"), code == 0);
    }
    let listed = || async {
        let out = setup.command(&["signals", "--json"]).await.out;
        let mut lines = out
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        let of = |line: &Value| line["category"] == "dev_environment";
        lines.find(of).expect("the category")
    };
    let given: Value = listed().await;
    assert_eq!(given["consentPlace"], "terminal", "{given}");
    let consents = setup.setting.home.join("state/signals/consents.jsonl");
    let recorded = std::fs::read_to_string(&consents).expect("the consents");
    let line: Value = serde_json::from_str(&recorded).expect("one line");
    assert_fields!(line, {"text": given["consentText"], "act": "given"});
    // No terminal is needed now, since the consent is valid.
    let collected = setup.command(&["signals", "collect"]).await;
    assert_eq!(collected.code, Some(0), "{collected:?}");
    let previewed = setup.command(&["signals", "preview"]).await;
    assert_eq!(previewed.out, collected.out);
    let withdrawn = setup.command(&["signals", "withdraw"]).await;
    assert_contains!(withdrawn.out, "Withdrawn: dev_environment.");
    assert_eq!(listed().await["consentedAtMs"], Value::Null);
    assert_eq!(setup.command(&["signals", "collect"]).await.code, Some(77));
    let recorded = std::fs::read_to_string(&consents).expect("the consents");
    assert_eq!(recorded.lines().count(), 2, "both stay: {recorded}");
    std::fs::write(&consents, format!("{recorded}torn")).expect("written");
    let said = setup.command(&["signals"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_contains!(said.log, "Line 3 of ");
}
