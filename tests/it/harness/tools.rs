//! Calls a tool as the engine does: by name, with argument text, through the registry.

use punie_runner::ids::RequestId;
use punie_runner::request::{Body, Reply};
use punie_runner::tool::{Entry, Registry, ToolCx, ToolError};
use serde_json::Value;

/// The registry of one domain.
pub fn registry(entries: Vec<Entry>) -> Registry {
    Registry::new([entries]).expect("the names of one domain differ")
}

/// Calls a tool of this registry.
pub async fn call(registry: &Registry, tool: &str, args: Value) -> Result<Reply, ToolError> {
    call_with(registry, tool, args, ToolCx::detached(RequestId::new())).await
}

/// Calls a tool with a context of the test's own.
pub async fn call_with(registry: &Registry, tool: &str, args: Value, cx: ToolCx) -> Result<Reply, ToolError> {
    registry.find(tool)?.decode(&args.to_string())?.run(cx).await
}

/// The text of an answer.
pub fn text(reply: &Reply) -> &str {
    match &reply.body {
        Body::Text(text) | Body::Fitted(text) => text,
        Body::Json(value) => panic!("a JSON answer: {value}"),
    }
}
