//! What a fuzz target calls, with the law that it checks. Absent from release builds.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolRegistry, ToolReply, ToolSet,
};

/// A tool's arguments: whatever is refused is refused with words.
///
/// # Panics
/// Where that is not so.
pub fn arguments(data: &[u8]) {
    let tools = ToolSet::new("fuzzing", ())
        .with_tool::<Arguments>()
        .into_entries();
    let registry = ToolRegistry::new([tools]).expect("one tool");
    let entry = registry.find(Arguments::NAME).expect("the only tool");
    if let Err(refusal) = entry.decode_call(&String::from_utf8_lossy(data)) {
        assert!(!refusal.model_text().is_empty());
    }
}

/// A tool with a key of every kind.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its decoding is of interest")]
struct Arguments {
    text: String,
    #[serde(default)]
    number: Option<i64>,
    #[serde(default)]
    fraction: Option<f64>,
    #[serde(default)]
    flag: bool,
    #[serde(default)]
    list: Vec<String>,
    #[serde(default)]
    choice: Option<Choice>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Choice {
    OneThing,
    Another,
}

impl Tool for Arguments {
    const NAME: &'static str = "Arguments";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const ALIASES: &'static [(&'static str, &'static str)] = &[("body", "text")];
    type Deps = ();
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    async fn run(self, _cx: &ToolContext, _deps: &()) -> Result<ToolReply, ToolError> {
        Ok(ToolReply::from_text("decoded"))
    }
}
