//! Sessions in a linked worktree: git may use the repository if it is in the owner's workspaces. Otherwise the owner is
//! asked once.

use rmcp::model::ElicitationAction;
use serde_json::json;

use super::folders::{answering_client, connects_in, expect_failure, read_policy};
use super::{ConnectedClient, McpUser, TestClient, result_text};

/// A user with a repository in this folder, and its linked worktree `work/topic`.
fn user_with_worktree(main: &str) -> McpUser {
    let user = McpUser::new();
    user.write(&format!("{main}/file"), "one\n");
    let git = |args: &[&str]| {
        let done = std::process::Command::new("git")
            .args(args)
            .current_dir(user.path(main))
            .output()
            .expect("started");
        assert!(done.status.success(), "{args:?}: {done:?}");
    };
    git(&["init", "--quiet"]);
    git(&["config", "user.name", "a"]);
    git(&["config", "user.email", "a@b"]);
    git(&["add", "file"]);
    git(&["commit", "--quiet", "-m", "one"]);
    let topic = user.path("work/topic");
    let topic = topic.to_str().expect("text");
    git(&["worktree", "add", "--quiet", topic, "-b", "topic"]);
    user.write("work/two/file", "of two\n");
    user
}

/// Runs a command that must fail; returns its output.
async fn fails_in_bash(client: &ConnectedClient, command: &str) -> String {
    let said = result_text(&client.call("Bash", json!({"command": command})).await);
    assert_contains!(said, "Exit code"; "{command}");
    said
}

const COMMIT: &str = "echo two >> file && git commit --quiet -am two && git log --format=%s -1";

#[tokio::test]
async fn a_session_in_a_worktree_has_the_repository_that_lies_in_another_workspace_folder() {
    let user = user_with_worktree("work/main");
    let person = answering_client(ElicitationAction::Decline, json!({}));
    let client = connects_in(&user, "work/topic", person.clone()).await;
    assert_eq!(
        client
            .call_ok("Bash", json!({"command": COMMIT}))
            .await
            .lines()
            .next(),
        Some("two")
    );
    let said = client.call_ok("GitStatus", json!({})).await;
    assert_contains!(said, "topic");
    expect_failure(
        &client,
        "Read",
        json!({"file_path": user.path("work/main/file")}),
    )
    .await;
    fails_in_bash(&client, "cat ../main/file").await;
    fails_in_bash(&client, "git config user.name b").await;
    assert!(person.asked.lock().is_empty());
    client.close().await;
    // Another folder does not get the repository, even if its `.git` claims it as a worktree.
    let link = user.path("work/main/.git/worktrees/topic");
    user.write("work/two/.git", format!("gitdir: {}\n", link.display()));
    let client = connects_in(&user, "work/two", person.clone()).await;
    expect_failure(&client, "GitStatus", json!({})).await;
    let look = format!("cat {}/HEAD", user.path("work/main/.git").display());
    fails_in_bash(&client, &look).await;
    assert!(person.asked.lock().is_empty());
    client.close().await;
}

#[tokio::test]
async fn the_owner_is_asked_once_about_a_repository_outside_and_takes_the_answer_back() {
    let user = user_with_worktree("main");
    let repository = user.path("main/.git");
    let person = answering_client(ElicitationAction::Accept, json!({}));
    // The owner is not asked about the repository of a folder in which no session may work.
    let topic = user.path("work/topic").display().to_string();
    let deny = ["policy", "deny", "--folder", &topic, "--name", "no-topic"];
    user.run_cli(&deny).await;
    let client = connects_in(&user, "work/topic", person.clone()).await;
    expect_failure(&client, "Read", json!({"file_path": "file"})).await;
    client.close().await;
    assert!(person.asked.lock().is_empty());
    user.run_cli(&["policy", "revoke", "no-topic"]).await;
    let client = connects_in(&user, "work/topic", person.clone()).await;
    assert_eq!(
        client
            .call_ok("Bash", json!({"command": COMMIT}))
            .await
            .lines()
            .next(),
        Some("two")
    );
    let said = client.call_ok("GitStatus", json!({})).await;
    assert_contains!(said, "topic");
    let asked = person.asked.lock().clone();
    let shown = repository.display().to_string();
    assert!(asked.len() == 1 && asked[0].contains(&shown), "{asked:?}");
    // File tools do not reach the repository. Commands neither read the main worktree nor change git's configuration.
    expect_failure(
        &client,
        "Read",
        json!({"file_path": repository.join("config")}),
    )
    .await;
    let main = user.path("main/file");
    fails_in_bash(&client, &format!("cat {}", main.display())).await;
    fails_in_bash(&client, &format!("echo x >> {shown}/config")).await;
    client.close().await;
    // A session elsewhere does not reach the repository, and no session may work in it.
    let look = format!("cat {shown}/HEAD");
    let client = connects_in(&user, "work/two", person.clone()).await;
    fails_in_bash(&client, &look).await;
    client.close().await;
    let client = connects_in(&user, "main/.git", person.clone()).await;
    let said = expect_failure(&client, "Read", json!({"file_path": "config"})).await;
    assert_contains!(said, "which only git uses");
    client.close().await;
    // The owner's own calls may use the repository, too.
    user.run_cli(&["call", "GitStatus", "{\"path\": \"topic\"}"])
        .await;
    // They may not if only a `.git` file names the repository.
    let link = repository.join("worktrees/topic");
    user.write("work/two/.git", format!("gitdir: {}\n", link.display()));
    let two = user.path("work/two").display().to_string();
    for (tool, args) in [
        ("GitStatus", "{}"),
        ("Bash", "{\"command\": \"git status\"}"),
    ] {
        let mut call = user.command(&["--workspace", &two, "call", tool, args]);
        let output = call.output().await.expect("started");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_contains!(said, "names this folder as its working tree");
    }
    let rule = read_policy(&user);
    let name = rule.lines().find_map(|line| line.strip_prefix("name = "));
    let name = name.expect("a name").trim_matches('"');
    user.run_cli(&["policy", "revoke", name]).await;
    let decline = answering_client(ElicitationAction::Decline, json!({}));
    let client = connects_in(&user, "work/topic", decline.clone()).await;
    for _ in 0..2 {
        let said = fails_in_bash(&client, "git status").await;
        let allow = format!("policy allow --folder {shown}");
        assert_contains!(said, &allow);
        let said = expect_failure(&client, "GitStatus", json!({})).await;
        assert_contains!(said, &allow);
    }
    client.call_ok("Read", json!({"file_path": "file"})).await;
    assert_eq!(decline.asked.lock().len(), 1);
    assert_eq!(read_policy(&user), "");
    client.close().await;
    // The command that the refusals name allows the repository.
    user.run_cli(&["policy", "allow", "--folder", &shown]).await;
    let client = connects_in(&user, "work/topic", TestClient::default()).await;
    client
        .call_ok("Bash", json!({"command": "git status"}))
        .await;
    client.close().await;
}
