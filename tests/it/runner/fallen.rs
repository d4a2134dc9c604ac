//! Tools that fail inside, in every place where a tool's code runs: the call is answered, its lane is freed, the
//! runner goes on.

use punie_runner::request::{Effect, Reply};
use punie_runner::runner::Settings;
use punie_runner::tool::{Registry, Tool, ToolCx, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::json;

use crate::harness::caller::Ask;
use crate::harness::inside::Inside;
use crate::harness::stage::Stage;

/// Fails where its arguments say.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fall {
    #[serde(deserialize_with = "fall_early")]
    r#where: String,
}

fn fall_early<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let place = String::deserialize(from)?;
    assert!(place != "decoding", "on purpose");
    Ok(place)
}

impl Tool for Fall {
    const NAME: &'static str = "Fall";
    const EFFECT: Effect = Effect::Executes;
    type Deps = ();
    type Output = Reply;

    async fn run(self, _cx: &ToolCx, (): &()) -> Result<Reply, ToolError> {
        assert!(self.r#where != "running", "on purpose");
        Ok(Reply::text("stood"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f48_a_call_that_fails_inside_is_answered_and_frees_its_lane() {
    let stage = Stage::new().await;
    let tools = punie_runner::tool::ToolSet::new("test", ()).with::<Fall>().into_entries();
    let tools = Registry::new([tools]).expect("one tool");
    let runner = Inside::start(&stage, tools, Settings::default());
    let fall = |place: &str| Ask::new("Fall", &json!({ "where": place })).of("talk");
    for place in ["decoding", "running"] {
        let answer = stage.caller.have(fall(place)).await;
        assert_eq!(answer.verdict(), ("error", "internal"), "{place}: {answer:?}");
        assert_eq!(answer.payload["meta"]["mayHaveRun"], true);
        // The same conversation goes on.
        assert_eq!(stage.caller.have(fall("nowhere")).await.text(), "stood");
    }
    runner.stop().await;
    assert_eq!(stage.journal().expect("there").counts().expect("readable").started, 0);
}
