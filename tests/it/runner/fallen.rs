//! Tools that panic, in each place where a tool's code runs: the call is answered, its lane is freed, and the runner
//! goes on. Also a tool that blocks its thread, like a path on a network disk that hangs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use punie_engine::runner::{RunnerSettings, ToolThreads};
use punie_tool::request::{ToolEffect, ToolReply};
use punie_tool::{DeclaredAccess, Tool, ToolContext, ToolError, ToolRegistry, ToolSet};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::json;
use tokio::sync::Notify;

use crate::harness::caller::ToolCall;
use crate::harness::inside::RunnerInProcess;
use crate::harness::stage::RunnerFixture;

/// Panics at the place that its arguments name.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FailingTool {
    #[serde(deserialize_with = "fall_early")]
    r#where: String,
}

fn fall_early<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let place = String::deserialize(from)?;
    assert!(place != "decoding", "on purpose");
    Ok(place)
}

impl Tool for FailingTool {
    const NAME: &'static str = "Fall";
    const EFFECT: ToolEffect = ToolEffect::Executes;
    type Deps = ();
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    async fn run(self, _cx: &ToolContext, (): &()) -> Result<ToolReply, ToolError> {
        assert!(self.r#where != "running", "on purpose");
        Ok(ToolReply::from_text("stood"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f48_a_call_that_fails_inside_is_answered_and_frees_its_lane() {
    let setup = RunnerFixture::new().await;
    let tools = ToolSet::new("test", ())
        .with_tool::<FailingTool>()
        .into_entries();
    let tools = ToolRegistry::new([tools]).expect("one tool");
    let runner = RunnerInProcess::start(&setup, tools, RunnerSettings::default());
    let fall =
        |place: &str| ToolCall::new("Fall", &json!({ "where": place })).in_conversation("talk");
    for place in ["decoding", "running"] {
        let answer = setup.call(fall(place)).await;
        assert_eq!(
            answer.verdict(),
            ("error", "internal"),
            "{place}: {answer:?}"
        );
        assert_eq!(answer.payload["meta"]["mayHaveRun"], true);
        // The same conversation goes on.
        assert_eq!(setup.call(fall("nowhere")).await.text(), "stood");
    }
    runner.stop().await;
    assert_eq!(
        setup
            .journal()
            .expect("there")
            .count_open_requests()
            .expect("readable")
            .started,
        0
    );
}

/// Blocks its thread until the test sends an answer.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HangingTool {}

struct MissingDisk {
    asked: Notify,
    answers: Mutex<mpsc::Receiver<()>>,
    answered: AtomicBool,
}

impl Tool for HangingTool {
    const NAME: &'static str = "Hang";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    type Deps = Arc<MissingDisk>;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    async fn run(self, _cx: &ToolContext, disk: &Arc<MissingDisk>) -> Result<ToolReply, ToolError> {
        disk.asked.notify_one();
        let _ = disk
            .answers
            .lock()
            .expect("not poisoned")
            .recv_timeout(Duration::from_mins(1));
        disk.answered.store(true, Ordering::SeqCst);
        Ok(ToolReply::from_text("hung"))
    }
}

#[tokio::test]
async fn a_tool_that_holds_up_its_thread_stops_neither_polls_nor_other_calls() {
    let setup = RunnerFixture::new().await;
    let (answer, answers) = mpsc::channel();
    let disk = MissingDisk {
        asked: Notify::new(),
        answers: Mutex::new(answers),
        answered: AtomicBool::new(false),
    };
    let disk = Arc::new(disk);
    let hanging = ToolSet::new("hanging", Arc::clone(&disk))
        .with_tool::<HangingTool>()
        .into_entries();
    let tools = ToolSet::new("test", ())
        .with_tool::<FailingTool>()
        .into_entries();
    let tools = ToolRegistry::new([hanging, tools]).expect("two tools");
    let bench = ToolThreads::with_own_threads();
    let runner = RunnerInProcess::with_tools(&setup, tools, RunnerSettings::default(), |parts| {
        parts.tool_threads = bench.clone();
    });
    let hangs = setup
        .ask(ToolCall::new("Hang", &json!({})).in_conversation("one"))
        .await;
    disk.asked.notified().await;
    let other = setup
        .call(ToolCall::new("Fall", &json!({ "where": "nowhere" })).in_conversation("other"))
        .await;
    assert_eq!(other.text(), "stood");
    assert!(
        !disk.answered.load(Ordering::SeqCst),
        "the first call must still hang"
    );
    answer.send(()).expect("it waits");
    assert_eq!(setup.answer(&hangs).await.text(), "hung");
    runner.stop().await;
}
