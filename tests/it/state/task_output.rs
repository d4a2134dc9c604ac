//! TaskOutput over the test's own task board: the text for each state, and the cursor.

use std::sync::Arc;
use std::time::Duration;

use punie_core::ids::RequestId;
use punie_handlers::state;
use punie_handlers::state::background_tasks::{TaskStage, TaskSummary};
use punie_host::shell_view::ShellView;
use punie_text::output::OutputStore;
use punie_tool::{ToolContext, ToolRegistry};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::FixedTasks;
use crate::harness::tools::{build_registry, call_tool, call_with, reply_text};
use crate::output::{numbered_lines, output_store};

struct TaskFixture {
    _dir: TempDir,
    store: OutputStore,
    board: Arc<FixedTasks>,
    tools: ToolRegistry,
    task: RequestId,
}

impl TaskFixture {
    fn with_board(board: FixedTasks) -> Self {
        let (dir, store) = output_store();
        let task = board.request.clone();
        let board = Arc::new(board);
        let deps = state::StateDeps {
            outputs: store.clone(),
            board: board.clone(),
        };
        Self {
            _dir: dir,
            store,
            board,
            tools: build_registry(state::tools(deps)),
            task,
        }
    }

    fn new(setup: TaskStage) -> Self {
        let board = FixedTasks::default();
        board.put(setup);
        Self::with_board(board)
    }

    async fn ask(&self, mut args: Value) -> String {
        args["task_id"] = json!(self.task.as_str());
        reply_text(
            &call_tool(&self.tools, "TaskOutput", args)
                .await
                .expect("an answer"),
        )
        .to_owned()
    }
}

/// Parses the cursor that an answer names.
fn parse_cursor(answer: &str) -> u64 {
    let (_, behind) = answer.rsplit_once("since=").expect("a cursor");
    behind
        .split(|c: char| !c.is_ascii_digit())
        .next()
        .and_then(|digits| digits.parse().ok())
        .expect("a number")
}

#[tokio::test]
async fn a_running_task_shows_only_what_is_new_since_the_cursor() {
    let setup = TaskFixture::new(TaskStage::Running);
    let nothing = setup.ask(json!({})).await;
    assert_contains!(nothing, "has been running for 1.5 s", "since=0");
    let mut spool = setup.store.create_spool(&setup.task, 0).expect("a spool");
    spool.write(b"one\n\x1b[31mtwo\x1b[0m\n");
    spool.flush();
    let first = setup.ask(json!({})).await;
    assert_contains!(
        first,
        "one\ntwo\n[since=17 for what comes next; ReadOutput handle="
    );
    spool.write("dr\u{e9}i".as_bytes());
    spool.flush();
    let second = setup.ask(json!({"since": parse_cursor(&first)})).await;
    assert_contains!(second, "\ndr\u{e9}i\n[since=22 ");
    assert_lacks!(second, "two");
    let third = setup.ask(json!({"since": parse_cursor(&second)})).await;
    assert!(
        third.contains("(nothing new was printed)") && parse_cursor(&third) == 22,
        "{third}"
    );
    let past = setup.ask(json!({"since": 999})).await;
    assert!(
        past.contains("past the end") && parse_cursor(&past) == 22,
        "{past}"
    );
}

#[tokio::test]
async fn a_long_output_is_read_to_its_end_by_following_the_cursor() {
    let setup = TaskFixture::new(TaskStage::Done(
        json!({"result": "clipped", "meta": {"exitCode": 3}}).to_string(),
    ));
    let content = numbered_lines(20_000);
    let mut spool = setup.store.create_spool(&setup.task, 0).expect("a spool");
    spool.write(content.as_bytes());
    drop(spool);
    let mut at = 0;
    let mut seen = String::new();
    loop {
        let answer = setup.ask(json!({"since": at})).await;
        assert_starts_with!(
            answer,
            &format!(
                "Task {} (Bash) is done after 1.5 s, exit code 3.\n",
                setup.task
            )
        );
        let (_, shown) = answer.split_once('\n').expect("a head");
        let Some((shown, footer)) = shown.rsplit_once("\n[") else {
            seen.push_str(shown);
            break;
        };
        seen.push_str(shown);
        seen.push('\n');
        assert_contains!(footer, " more: ");
        at = parse_cursor(&answer);
    }
    assert_eq!(seen, content);
    let tail = setup.ask(json!({})).await;
    assert_ends_with!(tail, "is done after 1.5 s:\nclipped");
}

#[tokio::test]
async fn a_task_that_failed_is_said_to_have_failed() {
    let setup = TaskFixture::new(TaskStage::Done(
        json!({"error": "it broke", "meta": {"code": "io"}}).to_string(),
    ));
    for args in [json!({}), json!({"since": 0}), json!({"wait_ms": 30_000})] {
        let answer = setup.ask(args).await;
        assert_contains!(answer, "failed after 1.5 s:\nit broke");
    }
    let setup = TaskFixture::new(TaskStage::Forgotten);
    assert_contains!(setup.ask(json!({})).await, "no longer kept");
    let setup = TaskFixture::new(TaskStage::Waiting);
    assert_contains!(setup.ask(json!({})).await, "waits for its turn");
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_the_task_with_the_time_and_with_a_cancel() {
    let setup = TaskFixture::new(TaskStage::Running);
    let late = setup.ask(json!({"wait_ms": 600_000})).await;
    assert_contains!(late, "has been running");
    let ending = async {
        tokio::task::yield_now().await;
        setup
            .board
            .put(TaskStage::Done(json!({"result": "the end"}).to_string()));
    };
    let (answer, ()) = tokio::join!(setup.ask(json!({"wait_ms": 30_000})), ending);
    assert_contains!(answer, "is done after", "the end");
    setup.board.put(TaskStage::Running);
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let args = json!({"task_id": setup.task.as_str(), "wait_ms": 30_000});
    let waiting = call_with(&setup.tools, "TaskOutput", args, cx);
    let (answer, ()) = tokio::join!(waiting, async { cancel.cancel() });
    assert_error!(answer.expect_err("a cancel"), Cancelled: "does not end the task");
}

#[tokio::test]
async fn without_an_id_all_tasks_and_shells_are_listed() {
    let setup = TaskFixture::with_board(FixedTasks::default());
    let none = call_tool(&setup.tools, "TaskOutput", json!({}))
        .await
        .expect("a list");
    assert_contains!(reply_text(&none), "There are no tasks");
    let line = |id: &str, state| TaskSummary {
        name: id.to_owned(),
        tool: "Bash".to_owned(),
        args: "{\"command\":\"make\"}".to_owned(),
        elapsed: Duration::from_millis(12_400),
        state,
    };
    let board = FixedTasks {
        lines: vec![line("task_2", "running"), line("task_1", "failed")],
        ..FixedTasks::default()
    };
    *board.shell.lock() = Some(shell_view(None, true));
    let setup = TaskFixture::with_board(board);
    let list = call_tool(&setup.tools, "TaskOutput", json!({}))
        .await
        .expect("a list");
    let expected = "task_2: running, 12.4 s, Bash {\"command\":\"make\"}\ntask_1: failed, 12.4 s, Bash {\"command\":\"make\"}\n\
                    sh_1: running for 3.0 s, shell: npm run dev\nTaskOutput with a task_id shows what came of it.";
    assert_eq!(reply_text(&list), expected);
    let refused = call_tool(&setup.tools, "TaskOutput", json!({"since": 3}))
        .await
        .expect_err("a refusal");
    assert_error!(refused, InvalidArgs: "task_id");
}

fn shell_view(handle: Option<String>, running: bool) -> ShellView {
    ShellView {
        id: "sh_1".to_owned(),
        title: "npm run dev".to_owned(),
        state: "running for 3.0 s".to_owned(),
        running,
        handle,
    }
}

#[tokio::test]
async fn a_shell_is_shown_by_its_name() {
    let board = FixedTasks::default();
    *board.shell.lock() = Some(shell_view(None, true));
    let setup = TaskFixture::with_board(board);
    let status = call_tool(&setup.tools, "TaskOutput", json!({"task_id": "sh_1"}))
        .await
        .expect("a status");
    assert_starts_with!(
        reply_text(&status),
        "Shell sh_1: running for 3.0 s: npm run dev\n(nothing"
    );
    let handle = setup
        .store
        .store_text(&setup.task, 0, "listening\n")
        .expect("kept")
        .as_str()
        .to_owned();
    *setup.board.shell.lock() = Some(shell_view(Some(handle), true));
    let status = call_tool(
        &setup.tools,
        "TaskOutput",
        json!({"task_id": "sh_1", "since": 0}),
    )
    .await
    .expect("a status");
    assert_contains!(reply_text(&status), "npm run dev\nlistening\n[since=10 ");
    let unknown = call_tool(&setup.tools, "TaskOutput", json!({"task_id": "sh_2"}))
        .await
        .expect_err("unknown");
    assert_error!(unknown, NotFound: "ShellStatus");
}

#[tokio::test]
async fn an_unknown_task_says_how_to_find_one() {
    let setup = TaskFixture::with_board(FixedTasks::default());
    for id in ["no-such-task", "", "../x"] {
        let error = call_tool(&setup.tools, "TaskOutput", json!({"task_id": id}))
            .await
            .expect_err("unknown");
        assert_error!(error, NotFound: "30 days");
    }
}
