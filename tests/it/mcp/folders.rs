//! Sessions and their folders: each call reaches only its session's folders, and the owner is asked about a folder
//! outside of the workspaces.

use std::path::Path;

use punie_core::approval_answer::{AnswerPlace, ApprovalOption};
use punie_home::{ApprovalQuestions, ApproverPresence, Home, PersonReply};
use rmcp::model::ElicitationAction;
use serde_json::{Value, json};

use super::{ConnectedClient, McpUser, TestClient, connect_to, result_text};
use crate::harness::wait::wait_until;

/// A user with a workspace that holds two projects, and a project outside of it.
fn user_with_projects() -> McpUser {
    with_projects(McpUser::new())
}

fn with_projects(user: McpUser) -> McpUser {
    for (file, content) in [
        ("work/one/file", "of one\n"),
        ("work/two/file", "of two\n"),
        ("an other/file", "of an other\n"),
        ("other/file", "of other\n"),
    ] {
        user.write(file, content);
    }
    user
}

pub(super) fn answering_client(action: ElicitationAction, content: Value) -> TestClient {
    TestClient {
        answers: Some((action, content)),
        ..TestClient::default()
    }
}

pub(super) async fn connects_in(
    user: &McpUser,
    folder: &str,
    client: TestClient,
) -> ConnectedClient {
    let mut command = user.command(&["mcp"]);
    command.current_dir(user.path(folder));
    connect_to(command, client).await
}

/// Calls a tool that must fail; returns its text.
pub(super) async fn expect_failure(
    client: &ConnectedClient,
    tool: &'static str,
    args: Value,
) -> String {
    let answer = client.call(tool, args).await;
    assert_eq!(answer.is_error, Some(true), "{answer:?}");
    result_text(&answer)
}

pub(super) fn read_policy(user: &McpUser) -> String {
    std::fs::read_to_string(user.path("home/policy.toml")).unwrap_or_default()
}

#[tokio::test]
async fn a_session_reaches_its_own_project_by_every_tool_and_no_other() {
    // Outside of the user's home and of /tmp, commands see all folders that are not hidden from them.
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let places = [McpUser::new(), McpUser::in_folder(elsewhere, "user")];
    for user in places.map(with_projects) {
        reaches_its_own_project_alone(&user).await;
    }
}

async fn reaches_its_own_project_alone(user: &McpUser) {
    let client = connects_in(user, "work/one", TestClient::default()).await;
    let two = user.path("work/two");
    let outside = two.join("file");
    client
        .call_ok("Write", json!({"file_path": "made", "content": "text"}))
        .await;
    assert!(user.path("work/one/made").exists());
    for path in [outside.to_str().expect("text"), "../two/file"] {
        let said = expect_failure(&client, "Read", json!({"file_path": path})).await;
        assert_contains!(said, "outside the workspace");
        let write = json!({"file_path": path, "content": "x"});
        let said = expect_failure(&client, "Write", write).await;
        assert_contains!(said, "outside the workspace");
    }
    let found = client
        .call_ok("Grep", json!({"pattern": "of", "output_mode": "content"}))
        .await;
    assert_contains!(found, "of one");
    assert_lacks!(found, "of two");
    let found = client.call_ok("Glob", json!({"pattern": "**/*"})).await;
    assert!(found.contains("made") && !found.contains("two"), "{found}");
    let said = expect_failure(&client, "Glob", json!({"pattern": "*", "path": two})).await;
    assert_contains!(said, "outside the workspace");
    let command = format!(
        "pwd; cat file; ls {}; cat {}",
        two.display(),
        outside.display()
    );
    let said = result_text(&client.call("Bash", json!({"command": command})).await);
    assert_contains!(said, "work/one\n", "of one");
    assert_lacks!(said, "of two");
    let command = format!(
        "echo x > {}; echo x > {}",
        outside.display(),
        two.join("new").display()
    );
    client.call("Bash", json!({"command": command})).await;
    let said = expect_failure(
        &client,
        "Bash",
        json!({"command": "true", "working_directory": two}),
    )
    .await;
    assert_contains!(said, "outside the workspace");
    let made = std::process::Command::new("git")
        .args(["init", "-q"])
        .arg(&two)
        .status();
    assert!(
        made.is_ok_and(|status| status.success()),
        "a repository is there"
    );
    let said = expect_failure(&client, "GitStatus", json!({"path": two})).await;
    assert_contains!(said, "outside the workspace");
    let made = rusqlite::Connection::open(two.join("db"))
        .and_then(|db| db.execute_batch("create table t (a)"));
    made.expect("a database");
    let query = json!({"database_path": two.join("db"), "query": "select * from t"});
    let said = expect_failure(&client, "SqliteQuery", query).await;
    assert_contains!(said, "outside the workspace");
    assert_eq!(std::fs::read_to_string(outside).expect("there"), "of two\n");
    assert!(!two.join("new").exists());
    client.close().await;
}

#[tokio::test]
async fn a_session_cannot_see_or_use_the_shells_and_tasks_of_another_one() {
    let user = user_with_projects();
    let one = connects_in(&user, "work/one", TestClient::default()).await;
    let two = connects_in(&user, "work/two", TestClient::default()).await;
    let whole = user.connects(TestClient::default(), &[]).await;
    let shell = json!({"command": "bash", "run_in_background": true, "tty": true});
    one.call_ok("Bash", shell.clone()).await;
    let typed = || json!({"shell_id": "sh_1", "text": "touch typed\n"});
    let said = expect_failure(&two, "WriteShell", typed()).await;
    assert_contains!(said, "There are no background shells");
    one.call_ok("WriteShell", typed()).await;
    wait_until("the typed command", || user.path("work/one/typed").exists()).await;
    let asked = json!({"tool": "Bash", "args": {"command": "echo of the task"}});
    one.call_ok("Task", asked).await;
    for (tool, args) in cases! {
        ("ShellStatus", json!({"shell_id": "sh_1"})),
        ("KillShell", json!({"shell_id": "sh_1"})),
        ("TaskOutput", json!({"task_id": "sh_1"})),
        ("TaskOutput", json!({"task_id": "task_1", "wait_ms": 10_000})),
    } {
        expect_failure(&two, tool, args.clone()).await;
        one.call_ok(tool, args).await;
    }
    for tool in ["ShellStatus", "TaskOutput"] {
        let own = one.call_ok(tool, json!({})).await;
        let of_two = two.call_ok(tool, json!({})).await;
        assert_contains!(own, "sh_1");
        assert_contains!(of_two, "There are no");
    }
    // A shell of a session with more folders may reach those too, so this session may not type into it.
    let mut shell = shell;
    shell["working_directory"] = json!(user.path("work/two"));
    whole.call_ok("Bash", shell).await;
    two.call_ok("ShellStatus", json!({"shell_id": "sh_2"}))
        .await;
    let said = expect_failure(
        &two,
        "WriteShell",
        json!({"shell_id": "sh_2", "text": "x\n"}),
    )
    .await;
    assert_contains!(said, "Nothing was typed");
    user.write(
        "home/skills/counting/SKILL.md",
        "---\nname: Counting\n---\nDo it.\n",
    );
    let skill = json!({"skill_id": "counting", "command": "sleep 60", "run_in_background": true});
    one.call_ok("SkillBash", skill).await;
    one.call_ok("KillShell", json!({"shell_id": "sh_3"})).await;
    whole
        .call_ok("KillShell", json!({"shell_id": "sh_2"}))
        .await;
    for client in [one, two, whole] {
        client.close().await;
    }
}

#[tokio::test]
async fn two_sessions_at_once_each_work_in_their_own_project() {
    let user = user_with_projects();
    let one = connects_in(&user, "work/one", TestClient::default()).await;
    let two = connects_in(&user, "work/two", TestClient::default()).await;
    let whole = user.connects(TestClient::default(), &[]).await;
    for round in 0..3 {
        let name = format!("made-{round}");
        let args = json!({"command": format!("cat file; touch {name}")});
        let calls = (one.call_ok("Bash", args.clone()), two.call_ok("Bash", args));
        let (of_one, of_two) = tokio::join!(calls.0, calls.1);
        assert_contains!(of_one, "of one");
        assert_contains!(of_two, "of two");
        for project in ["one", "two"] {
            assert!(user.path("work").join(project).join(&name).exists());
        }
        let both = json!({"command": "cat one/file two/file"});
        let both = whole.call_ok("Bash", both).await;
        assert_contains!(both, "of one", "of two");
    }
    for client in [one, two, whole] {
        client.close().await;
    }
}

#[tokio::test]
async fn what_a_session_changes_comes_back_and_changes_of_another_stay() {
    let user = user_with_projects();
    let accept = answering_client(ElicitationAction::Accept, json!({}));
    let other = connects_in(&user, "other", accept).await;
    let two = connects_in(&user, "work/two", TestClient::default()).await;
    let began = user.path("other/began");
    let go = user.path("other/go");
    let command = "echo changed > file; mkdir made; touch began; until [ -e go ]; do sleep 0.05; done; rm -r made";
    let changing = other.call("Bash", json!({"command": command}));
    let beside = async {
        wait_until("the command runs", || began.exists()).await;
        two.call_ok("Bash", json!({"command": "echo changed > file"}))
            .await;
        std::fs::write(&go, "").expect("written");
    };
    let (changed, ()) = tokio::join!(changing, beside);
    assert_eq!(changed.is_error, Some(false), "{changed:?}");
    let undone = user.run_cli(&["undo", &super::request_id(&changed)]).await;
    let read = |path: &str| std::fs::read_to_string(user.path(path)).expect("there");
    assert_eq!(read("other/file"), "of other\n", "{undone}");
    assert_eq!(read("work/two/file"), "changed\n", "{undone}");
    let edit = json!({"file_path": "file", "content": "by a tool"});
    let written = other.call("Write", edit).await;
    user.run_cli(&["undo", &super::request_id(&written)]).await;
    assert_eq!(read("other/file"), "of other\n");
    other.close().await;
    two.close().await;
}

#[tokio::test]
async fn rules_from_the_owners_workspace_hold_in_a_narrowed_session() {
    let user = user_with_projects();
    user.write("work/one/secret/file", "x");
    user.write("work/one/other/secret", "y");
    user.write(
        "home/policy.toml",
        "[[rule]]\nname = \"secrets\"\ndecision = \"deny\"\npaths = [\"one/secret/**\"]\n",
    );
    let client = connects_in(&user, "work/one", TestClient::default()).await;
    let said = expect_failure(&client, "Read", json!({"file_path": "secret/file"})).await;
    assert_contains!(said, "secrets");
    expect_failure(&client, "Bash", json!({"command": "echo y > secret/file"})).await;
    let secret = user.path("work/one/secret/file");
    assert_eq!(std::fs::read_to_string(secret).expect("there"), "x");
    client
        .call_ok("Read", json!({"file_path": "other/secret"}))
        .await;
    client.close().await;
}

#[tokio::test]
async fn the_owner_is_asked_once_about_a_folder_outside_and_takes_the_answer_back() {
    let user = user_with_projects();
    let person = answering_client(ElicitationAction::Accept, json!({}));
    let client = connects_in(&user, "other", person.clone()).await;
    let read = || json!({"file_path": "file"});
    let (first, second) = tokio::join!(
        client.call_ok("Read", read()),
        client.call_ok("Read", read())
    );
    assert!(first.contains("of other") && second.contains("of other"));
    let asked = person.asked.lock().clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let folder = user.path("other");
    let question = format!("test wants to work in {}", folder.display());
    assert_contains!(asked[0], &question);
    // The answer also holds for a client that cannot show forms.
    let silent = connects_in(&user, "other", TestClient::default()).await;
    silent.call_ok("Bash", json!({"command": "cat file"})).await;
    let rules: Value =
        serde_json::from_str(&user.run_cli(&["--json", "policy"]).await).expect("JSON");
    let rule = &rules["rules"][0];
    assert_eq!(rule["folders"], json!([folder]), "{rules}");
    let name = rule["name"].as_str().expect("a name");
    user.run_cli(&["policy", "revoke", name]).await;
    assert_lacks!(read_policy(&user), "other");
    let said = expect_failure(&silent, "Read", read()).await;
    let allow = format!("policy allow --folder {}", folder.display());
    assert_contains!(said, &allow);
    // The command that the refusal names allows the folder.
    let shown = folder.to_str().expect("text");
    user.run_cli(&["policy", "allow", "--folder", shown]).await;
    silent.call_ok("Read", read()).await;
    client.close().await;
    silent.close().await;
    let spaced = connects_in(&user, "an other", TestClient::default()).await;
    let said = expect_failure(&spaced, "Read", read()).await;
    let quoted = format!("--folder '{}'`", user.path("an other").display());
    assert_contains!(said, &quoted);
    spaced.close().await;
}

#[tokio::test]
async fn a_folder_whose_name_is_not_utf_8_is_refused_with_the_reason() {
    use std::os::unix::ffi::OsStrExt as _;
    let user = user_with_projects();
    let odd = user
        .path("work")
        .join(std::ffi::OsStr::from_bytes(b"odd-\xff"));
    std::fs::create_dir(&odd).expect("made");
    let mut command = user.command(&["mcp"]);
    command.current_dir(odd);
    let client = connect_to(command, TestClient::default()).await;
    let said = expect_failure(&client, "Read", json!({"file_path": "file"})).await;
    assert_contains!(said, "session.folders");
    client.close().await;
}

#[tokio::test]
async fn a_refused_folder_stays_refused_and_a_closed_form_is_no_answer() {
    let user = user_with_projects();
    let read = || json!({"file_path": "file"});
    let closing = answering_client(ElicitationAction::Cancel, json!({}));
    let client = connects_in(&user, "other", closing.clone()).await;
    for _ in 0..2 {
        let said = expect_failure(&client, "Read", read()).await;
        assert_contains!(said, "policy allow --folder");
    }
    assert_eq!(closing.asked.lock().len(), 2);
    assert_eq!(read_policy(&user), "");
    client.close().await;
    let without_window = TestClient {
        shows_no_forms: true,
        ..answering_client(ElicitationAction::Accept, json!({}))
    };
    let client = connects_in(&user, "other", without_window).await;
    let said = expect_failure(&client, "Read", read()).await;
    assert_contains!(said, "policy allow --folder");
    client.close().await;
    // Unattended clients decline by themselves, so a declined form counts for this session only.
    let declining = answering_client(ElicitationAction::Decline, json!({}));
    let client = connects_in(&user, "other", declining.clone()).await;
    for _ in 0..2 {
        let said = expect_failure(&client, "Read", read()).await;
        assert_contains!(said, "declined", "policy allow --folder");
    }
    assert_eq!(declining.asked.lock().len(), 1);
    assert_eq!(read_policy(&user), "");
    client.close().await;
    let refuse = json!({"answer": "Refuse from now on"});
    let refusing = answering_client(ElicitationAction::Accept, refuse);
    let client = connects_in(&user, "other", refusing.clone()).await;
    for _ in 0..2 {
        let said = expect_failure(&client, "Read", read()).await;
        assert_contains!(said, "policy revoke");
    }
    assert_eq!(refusing.asked.lock().len(), 1);
    assert_contains!(read_policy(&user), "decision = \"deny\"");
    client.close().await;
}

#[tokio::test]
async fn a_person_at_the_device_answers_for_a_client_without_forms() {
    let user = user_with_projects();
    let client = connects_in(&user, "other", TestClient::default()).await;
    // The first call creates the home.
    expect_failure(&client, "Read", json!({"file_path": "file"})).await;
    let home = Home::find(&user.path("home")).expect("a home");
    let _person = ApproverPresence::announce(&home).expect("announced");
    let questions = ApprovalQuestions::in_home(&home);
    let calling = client.call_ok("Read", json!({"file_path": "file"}));
    let answering = async {
        wait_until("a question", || !questions.open_questions().is_empty()).await;
        let open = questions.open_questions();
        let [question] = open.as_slice() else {
            panic!("one question: {open:?}");
        };
        let folder = user.path("other").display().to_string();
        assert_eq!(question.session_folder.as_ref(), Some(&folder));
        let yes = PersonReply::without_text(ApprovalOption::AllowOnce, AnswerPlace::Command);
        questions.answer_question(question, &yes).expect("stored");
    };
    let (said, ()) = tokio::join!(calling, answering);
    assert_contains!(said, "of other");
    assert_contains!(read_policy(&user), "decision = \"allow\"");
    client.close().await;
}

#[tokio::test]
async fn no_session_works_where_the_runner_keeps_its_keys_or_git_its_hooks() {
    let user = user_with_projects();
    for project in ["work/one", "other"] {
        let made = std::process::Command::new("git")
            .args(["init", "--quiet"])
            .arg(user.path(project))
            .status();
        assert!(made.expect("started").success());
    }
    let hidden = user.path("work/private");
    user.configure(&format!("[sandbox]\nhide = [\"{}\"]\n", hidden.display()));
    user.write("work/private/sub/file", "x");
    user.write(".ssh/config", "x");
    user.write("other/.codex/config.toml", "");
    let other = user.path("other");
    user.run_cli(&["policy", "allow", "--folder", other.to_str().expect("text")])
        .await;
    let rules = read_policy(&user);
    let accept = || answering_client(ElicitationAction::Accept, json!({}));
    for (folder, words) in [
        ("", "contains the runner's home"),
        ("home/skills", "lies in the runner's home"),
        ("work/one/.git/hooks", "is protected"),
        ("other/.git/hooks", "is protected"),
        ("other/.codex", "is protected"),
        ("work/private/sub", "is hidden"),
        (".ssh", "is hidden"),
    ] {
        let client = connects_in(&user, folder, accept()).await;
        let said =
            expect_failure(&client, "Write", json!({"file_path": "x", "content": "x"})).await;
        assert_contains!(said, words; "{folder}");
        client.close().await;
        assert!(!user.path(folder).join("x").exists());
    }
    assert_eq!(read_policy(&user), rules);
    user.write("other/.codex/worktrees/one/file", "x");
    let trees = user.path("other/.codex/worktrees");
    let allow = ["policy", "allow", "--folder", trees.to_str().expect("text")];
    user.run_cli(&allow).await;
    let client = connects_in(&user, "other/.codex/worktrees/one", accept()).await;
    client
        .call_ok("Write", json!({"file_path": "x", "content": "x"}))
        .await;
    client.close().await;
}

#[tokio::test]
async fn without_workspaces_each_project_is_asked_about() {
    let user = user_with_projects();
    user.write("home/config.toml", "");
    let person = answering_client(ElicitationAction::Accept, json!({}));
    for project in ["work/one", "other"] {
        let client = connects_in(&user, project, person.clone()).await;
        client
            .call_ok("Write", json!({"file_path": "made", "content": "x"}))
            .await;
        assert!(Path::new(&user.path(project)).join("made").exists());
        client.close().await;
    }
    assert_eq!(person.asked.lock().len(), 2);
}
