//! Names in requests through the embedded backend: in calls, in progress, and in the data of the backend and the log.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::harness::caller::ToolCall;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_for_some;

async fn add_person(setup: &RunnerFixture, args: &[&str]) -> String {
    let added = super::commands::add_contact(setup, args).await;
    added["alias"].as_str().expect("an alias").to_owned()
}

/// All text in the backend's database.
fn backend_rows(setup: &RunnerFixture) -> String {
    let db = setup.database();
    let mut names = db
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table'")
        .expect("a query");
    let tables: Vec<String> = names
        .query_map([], |row| row.get(0))
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("names");
    let mut all = String::new();
    for table in tables {
        let mut query = db
            .prepare(&format!("SELECT * FROM \"{table}\""))
            .expect("a query");
        let columns = query.column_count();
        let mut rows = query.query([]).expect("rows");
        while let Some(row) = rows.next().expect("a row") {
            for at in 0..columns {
                write!(all, "{:?} ", row.get_ref(at).expect("a value")).expect("a text takes it");
                if let Ok(text) = row.get::<_, String>(at) {
                    all.push_str(&text);
                }
            }
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agent_sees_aliases_and_an_edit_changes_the_real_name() {
    let setup = RunnerFixture::new().await;
    let anna = add_person(
        &setup,
        &[
            "Anna Müller",
            "--mail",
            "anna@x.org",
            "--phone",
            "+49 30 1234567",
        ],
    )
    .await;
    let runner = setup.run();
    setup.write(
        "note.txt",
        "Call Anna Müller\n(anna@x.org, 030 1234567)\nat noon.\n",
    );
    let text = setup
        .call_tool("Read", &json!({"file_path": "note.txt"}))
        .await
        .text();
    assert_contains!(text, &anna, "@example.invalid", "+999");
    // The contact is added while the runner runs.
    let ben = add_person(&setup, &["Ben Okoro"]).await;
    let edit = json!({"file_path": "note.txt", "old_string": format!("Call {anna}"), "new_string": format!("Ask {ben} or {anna}")});
    let edited = setup.call_tool("Edit", &edit).await;
    assert_eq!(edited.verdict().0, "ok", "{}", edited.text());
    assert!(
        edited.text().contains(&ben) || !edited.text().contains("Okoro"),
        "{}",
        edited.text()
    );
    let now = std::fs::read_to_string(setup.setting.workspace.join("note.txt")).expect("the file");
    assert_starts_with!(now, "Ask Ben Okoro or Anna Müller\n");
    let missed =
        json!({"file_path": "note.txt", "old_string": "Ask Ben and Anna", "new_string": "x"});
    let hint = setup.call_tool("Edit", &missed).await.text();
    assert_lacks!(hint, "Okoro", "Müller");
    let args = json!({"pattern": format!("{ben} or"), "output_mode": "content"});
    let found = setup.call_tool("Grep", &args).await.text();
    assert_contains!(found, &ben);
    // The alias in a command stays as the agent wrote it.
    let echoed = setup.bash(&format!("echo {ben} | wc -c")).await.text();
    assert_eq!(echoed.trim(), (ben.len() + 1).to_string());
    let patch = format!(
        "*** Begin Patch\n*** Update File: note.txt\n@@\n-Ask {ben} or {anna}\n+Ask {ben}\n*** End Patch\n"
    );
    let patched = setup
        .call_tool("ApplyPatch", &json!({"patch": patch}))
        .await;
    assert_eq!(patched.verdict().0, "ok", "{}", patched.text());
    let written = json!({"file_path": "new.txt", "content": format!("{anna}\n")});
    assert_eq!(setup.call_tool("Write", &written).await.verdict().0, "ok");
    let new = std::fs::read_to_string(setup.setting.workspace.join("new.txt")).expect("the file");
    assert_eq!(new, "Anna Müller\n");
    let parts = json!({"pattern": "M.ller", "path": "new.txt", "output_mode": "content", "only_matching": true});
    let parts = setup.call_tool("Grep", &parts).await.text();
    assert_contains!(parts, &anna);
    assert_lacks!(parts, "Müller");
    let literal =
        json!({"pattern": anna, "path": "new.txt", "output_mode": "content", "literal": true});
    let literal = setup.call_tool("Grep", &literal).await.text();
    assert_contains!(literal, &anna);
    // The output comes in pieces that split a name.
    for (name, piece) in [("1", "now Ben "), ("2", "Okoro and Ann"), ("3", "a Müller")] {
        setup.write(name, piece);
    }
    let slow = "cat 1; until [ -e go ]; do sleep 0.02; done; cat 2; sleep 0.1; cat 3";
    let id = setup
        .ask(ToolCall::bash(&format!("echo begin; {slow}")).with("progress", json!(true)))
        .await;
    let pieces = wait_for_some("a piece", async || {
        Some(setup.caller.progress_pieces(&id).await).filter(|pieces| !pieces.is_empty())
    })
    .await;
    setup.write("go", "");
    let answer = setup.answer(&id).await.text();
    assert_contains!(answer, &format!("now {ben} and {anna}"));
    let pieces = Value::from(pieces).to_string();
    let kept = backend_rows(&setup);
    let titles = setup.command(&["history"]).await.out;
    for (place, text) in [
        ("pieces", &pieces),
        ("backend", &kept),
        ("log", &runner.log()),
        ("history", &titles),
    ] {
        for name in ["Müller", "Okoro", "anna@x.org", "1234567"] {
            assert_lacks!(text, name; "{name} in the {place}");
        }
    }
    assert_contains!(kept, &ben; "the backend keeps aliases");
}
