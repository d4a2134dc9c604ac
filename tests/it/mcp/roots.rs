//! The folders that a client names: they narrow the owner's workspaces.

use serde_json::json;

use super::{TestClient, User, connect_to, text};

fn in_folder(user: &User, below: &str) -> TestClient {
    TestClient {
        roots: Some(vec![user.path(below)]),
        ..TestClient::default()
    }
}

#[tokio::test]
async fn tools_work_in_the_root_and_nowhere_else() {
    let user = User::new();
    user.write("work/outside", "secret");
    let client = user.connects(in_folder(&user, "work/sub"), &[]).await;
    let here = client.calls("Bash", json!({"command": "pwd"})).await;
    assert!(text(&here).contains("/work/sub"), "{here:?}");
    let outside = user.path("work/outside");
    let read = client.calls("Read", json!({"file_path": outside})).await;
    assert_eq!(read.is_error, Some(true), "{read:?}");
    assert!(!text(&read).contains("secret"), "{read:?}");
    client.closes().await;
}

#[tokio::test]
async fn a_root_outside_the_workspaces_adds_nothing() {
    let user = User::new();
    user.write("elsewhere/file", "secret");
    let client = user.connects(in_folder(&user, "elsewhere"), &[]).await;
    let read = client
        .calls("Read", json!({"file_path": user.path("elsewhere/file")}))
        .await;
    assert_eq!(read.is_error, Some(true), "{read:?}");
    assert!(
        text(&read).contains("the owner's workspaces are"),
        "{read:?}"
    );
    client
        .service
        .list_all_tools()
        .await
        .expect_err("there is nothing to work in");
    client.closes().await;
}

#[tokio::test]
async fn a_runner_that_is_up_is_not_used_beyond_the_root() {
    let user = User::new();
    let first = user.connects(TestClient::default(), &[]).await;
    first.calls("Glob", json!({"pattern": "*"})).await;
    let narrow = user.connects(in_folder(&user, "work/sub"), &[]).await;
    let refused = narrow.calls("Glob", json!({"pattern": "*"})).await;
    assert!(text(&refused).contains("--ignore-roots"), "{refused:?}");
    narrow.closes().await;
    let wide = user.connects(in_folder(&user, "work"), &[]).await;
    assert_eq!(
        wide.calls("Glob", json!({"pattern": "*"})).await.is_error,
        Some(false)
    );
    wide.closes().await;
    let ignoring = user
        .connects(in_folder(&user, "work/sub"), &["--ignore-roots"])
        .await;
    assert_eq!(
        ignoring
            .calls("Glob", json!({"pattern": "*"}))
            .await
            .is_error,
        Some(false)
    );
    ignoring.closes().await;
    first.closes().await;
}

#[tokio::test]
async fn a_runner_that_is_up_is_not_used_beyond_the_workspace_of_the_command() {
    let user = User::new();
    user.write("other/file", "");
    let first = user.connects(TestClient::default(), &[]).await;
    first.calls("Glob", json!({"pattern": "*"})).await;
    let (work, other) = (user.path("work"), user.path("other"));
    for (folder, below, is_refused) in [(&other, "other", true), (&work, "work", false)] {
        let folder = folder.to_str().expect("text");
        let words = ["--workspace", folder, "mcp"];
        for client in [TestClient::default(), in_folder(&user, below)] {
            let second = connect_to(user.command(&words), client).await;
            let answer = second.calls("Glob", json!({"pattern": "*"})).await;
            assert_eq!(answer.is_error, Some(is_refused), "{answer:?}");
            second.closes().await;
        }
    }
    first.closes().await;
}
