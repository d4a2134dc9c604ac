//! Calls a tool as the engine does: by name, with argument text, through the registry.

use punie_core::ids::RequestId;
use punie_tool::request::{ReplyBody, ToolReply};
use punie_tool::{ToolContext, ToolEntry, ToolError, ToolRegistry};
use serde_json::Value;

/// Builds the registry of one domain.
pub fn build_registry(entries: Vec<ToolEntry>) -> ToolRegistry {
    ToolRegistry::new([entries]).expect("the names of one domain differ")
}

/// Calls a tool of this registry with a context for a detached call.
pub async fn call_tool(
    registry: &ToolRegistry,
    tool: &str,
    args: Value,
) -> Result<ToolReply, ToolError> {
    call_with(
        registry,
        tool,
        args,
        ToolContext::for_detached_call(RequestId::new()),
    )
    .await
}

/// Calls a tool with the test's own context.
pub async fn call_with(
    registry: &ToolRegistry,
    tool: &str,
    args: Value,
    cx: ToolContext,
) -> Result<ToolReply, ToolError> {
    registry
        .find(tool)?
        .decode_call(&args.to_string())?
        .run_call(cx)
        .await
}

/// The text of a reply.
pub fn reply_text(reply: &ToolReply) -> &str {
    match &reply.body {
        ReplyBody::Text(text) | ReplyBody::Fitted(text) => text,
        ReplyBody::Json(value) => panic!("expected a text reply, got JSON: {value}"),
    }
}
