//! Several clients at once, in two projects: each works on when the process of another client, or the runner, ends.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    ConnectedClient, McpUser, TestClient, connect_to, kill_process_now, request_id, result_text,
};
use crate::harness::wait::wait_until;

/// The number of files that clients have written.
static WRITTEN: AtomicU32 = AtomicU32::new(0);
const PROJECTS: [&str; 3] = ["work/one", "work/two", "work/one"];

fn user_with_projects() -> McpUser {
    let user = McpUser::new();
    for project in PROJECTS {
        std::fs::create_dir_all(user.path(project)).expect("made");
    }
    user
}

/// Lists the tools and writes a file in the client's project.
async fn works_in_project(user: &McpUser, client: &ConnectedClient, project: &str) {
    let tools = client.service.list_all_tools().await.expect("tools");
    assert!(tools.iter().any(|tool| tool.name == "Bash"), "{tools:?}");
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let file = user.path(project).join(format!("file-{number}"));
    let args = json!({"file_path": file, "content": project});
    client.call_ok("Write", args).await;
    assert_eq!(std::fs::read_to_string(file).expect("written"), project);
}

#[tokio::test]
async fn each_order_of_ends_leaves_the_other_clients_working() {
    let user = user_with_projects();
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    let mut runner = None;
    for (number, order) in orders.into_iter().enumerate() {
        let mut clients = Vec::new();
        // The order of the starts differs, too.
        for place in 0..PROJECTS.len() {
            let project = PROJECTS[(place + number) % PROJECTS.len()];
            let client = user.connects_in(project).await;
            works_in_project(&user, &client, project).await;
            clients.push(Some((client, project)));
        }
        for ended in order {
            let (client, _) = clients[ended].take().expect("it runs");
            if (number + ended) % 2 == 0 {
                client.killed().await;
            } else {
                client.close().await;
            }
            for (client, project) in clients.iter().flatten() {
                works_in_project(&user, client, project).await;
            }
        }
        user.has_one_runner().await;
        let same = *runner.get_or_insert(user.runner());
        assert_eq!(user.runner(), same, "the runner belongs to no client");
    }
}

#[tokio::test]
async fn a_killed_runner_answers_its_calls_by_the_next_one() {
    let user = user_with_projects();
    let one = user.connects_in("work/one").await;
    let two = user.connects_in("work/two").await;
    works_in_project(&user, &one, "work/one").await;
    for round in 0..2 {
        let killed = user.runner();
        let began = user.path(&format!("work/one/began-{round}"));
        let command = format!("touch {} && sleep 600", began.display());
        let calling = one.call("Bash", json!({"command": command}));
        let killing = async {
            wait_until("the command runs", || began.exists()).await;
            kill_process_now(killed);
            Instant::now()
        };
        let (answer, killed_at) = tokio::join!(calling, killing);
        let took = killed_at.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert_eq!(answer.is_error, Some(true), "{answer:?}");
        let said = result_text(&answer);
        assert_contains!(said, "runner ended", &request_id(&answer));
        works_in_project(&user, &two, "work/two").await;
        works_in_project(&user, &one, "work/one").await;
        assert_ne!(user.runner(), killed);
        user.has_one_runner().await;
    }
    one.close().await;
    two.close().await;
}

#[tokio::test]
async fn a_killed_client_takes_no_call_of_another_with_it() {
    let user = user_with_projects();
    // This client starts the runner.
    let first = user.connects_in("work/one").await;
    works_in_project(&user, &first, "work/one").await;
    let second = user.connects_in("work/two").await;
    let began = user.path("work/two/began");
    let go = user.path("work/two/go");
    let command = format!(
        "touch {}; until [ -e {} ]; do sleep 0.05; done; echo whole",
        began.display(),
        go.display()
    );
    let calling = second.call_ok("Bash", json!({"command": command}));
    let killing = async {
        wait_until("the command runs", || began.exists()).await;
        first.killed().await;
        std::fs::write(&go, "").expect("written");
    };
    let (said, ()) = tokio::join!(calling, killing);
    assert_contains!(said, "whole");
    second.close().await;
}

#[tokio::test]
async fn clients_that_start_together_share_one_runner() {
    let user = user_with_projects();
    let connect_and_work = async |project: &'static str| {
        let client = user.connects_in(project).await;
        works_in_project(&user, &client, project).await;
        client
    };
    let [one, two, three] = PROJECTS;
    let (one, two, three) = tokio::join!(
        connect_and_work(one),
        connect_and_work(two),
        connect_and_work(three)
    );
    user.has_one_runner().await;
    for client in [one, two, three] {
        client.close().await;
    }
}

#[tokio::test]
async fn a_client_that_asks_for_nothing_hinders_no_other() {
    let user = user_with_projects();
    let silent = user.connects_in("work/one").await;
    let second = user.connects_in("work/two").await;
    works_in_project(&user, &second, "work/two").await;
    second.close().await;
    works_in_project(&user, &silent, "work/one").await;
    silent.close().await;
}

#[tokio::test]
async fn tools_are_listed_where_no_runner_starts_and_each_call_says_why() {
    let user = user_with_projects();
    user.configure("[limits]\nreads = \"many\"\n");
    let client = user.connects_in("work/one").await;
    let tools = client.service.list_all_tools().await.expect("tools");
    assert!(tools.iter().any(|tool| tool.name == "Bash"), "{tools:?}");
    let refused = client.call("Glob", json!({"pattern": "*"})).await;
    assert_eq!(refused.is_error, Some(true), "{refused:?}");
    assert_contains!(result_text(&refused), "limits.reads");
    user.configure("");
    works_in_project(&user, &client, "work/one").await;
    client.close().await;
}

#[tokio::test]
async fn a_call_is_answered_where_no_runner_follows() {
    let user = user_with_projects();
    let client = user.connects_in("work/one").await;
    works_in_project(&user, &client, "work/one").await;
    let began = user.path("work/one/began");
    let command = format!("touch {} && sleep 600", began.display());
    let calling = client.call("Bash", json!({"command": command}));
    let killing = async {
        wait_until("the command runs", || began.exists()).await;
        user.configure("[limits]\nreads = \"many\"\n");
        kill_process_now(user.runner());
        Instant::now()
    };
    let (answer, killed_at) = tokio::join!(calling, killing);
    let took = killed_at.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    let said = result_text(&answer);
    assert_eq!(answer.is_error, Some(true), "{said}");
    assert_contains!(said, "may have run", "history");
    user.configure("");
    works_in_project(&user, &client, "work/one").await;
    client.close().await;
}

#[tokio::test]
async fn a_pause_of_the_owner_is_told() {
    let user = user_with_projects();
    let client = user.connects_in("work/one").await;
    works_in_project(&user, &client, "work/one").await;
    user.run_cli(&["pause", "--reason", "lunch"]).await;
    let args = json!({"command": "touch ran"});
    let refused = client.call("Bash", args).await;
    let said = result_text(&refused);
    assert_eq!(refused.is_error, Some(true), "{said}");
    assert_contains!(said, "paused", "lunch");
    user.run_cli(&["resume"]).await;
    works_in_project(&user, &client, "work/one").await;
    assert!(!user.path("work/ran").exists() && !user.path("work/one/ran").exists());
    client.close().await;
}

/// Returns the sessions of the calls that the embedded backend has stored, oldest first.
fn stored_sessions(user: &McpUser) -> Vec<Value> {
    let backend = rusqlite::Connection::open(user.path("home/dev-backend.sqlite3")).expect("open");
    let mut rows = backend
        .prepare("SELECT session FROM requests ORDER BY rowid")
        .expect("a query");
    let texts = rows.query_map([], |row| row.get::<_, String>(0));
    texts
        .expect("rows")
        .map(|text| serde_json::from_str(&text.expect("a session")).expect("JSON"))
        .collect()
}

#[tokio::test]
async fn a_call_names_the_client_and_the_folders_that_it_the_command_or_the_shell_names() {
    let user = user_with_projects();
    let one = user.path("work/one");
    let two = user.path("work/two");
    let named = two.to_str().expect("text");
    let roots = TestClient {
        roots: Some(vec![one.clone(), two.clone()]),
        ..TestClient::default()
    };
    let silent = TestClient::default;
    for (client, args) in [
        (silent(), vec!["mcp"]),
        (silent(), vec!["--workspace", named, "mcp"]),
        (roots, vec!["--workspace", named, "mcp"]),
    ] {
        let mut command = user.command(&args);
        command.current_dir(&one);
        let client = connect_to(command, client).await;
        client.call("Glob", json!({"pattern": "*"})).await;
        client.close().await;
    }
    let session = |folders: Value| json!({"client": "test", "folders": folders});
    assert_eq!(
        stored_sessions(&user),
        [
            session(json!([one])),
            session(json!([two])),
            session(json!([one, two])),
        ]
    );
}
