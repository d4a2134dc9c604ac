//! The snake_case terminal tools: one command from start to end, and terminals that outlive their call.
#![cfg(target_os = "linux")]

mod get_shell_info;
mod get_terminal_output;
mod kill_terminal;
mod release_terminal;
mod run_command;
mod wait_for_terminal_exit;

use punie_core::ids::{ConversationId, RequestId};
use punie_tool::request::ToolReply;
use punie_tool::{ToolContext, ToolError};
use serde_json::{Value, json};

use crate::harness::tools;
use crate::shell::{Bench, Checkpoint, is_there, meta_of, within};

/// A call of one conversation, named here.
fn cx(conversation: &str) -> ToolContext {
    let conversation = ConversationId::parse(conversation).expect("a conversation");
    ToolContext {
        conversation,
        ..ToolContext::for_detached_call(RequestId::new())
    }
}

/// Calls a tool within a conversation.
async fn call(
    bench: &Bench,
    conversation: &str,
    tool: &str,
    args: Value,
) -> Result<ToolReply, ToolError> {
    within(tools::call_with(
        &bench.registry,
        tool,
        args,
        cx(conversation),
    ))
    .await
}

async fn text(bench: &Bench, tool: &str, args: Value) -> String {
    tools::reply_text(&call(bench, "one", tool, args).await.expect(tool)).to_owned()
}

/// Starts a command on a terminal of the conversation "one".
async fn start(bench: &Bench, command: &str) -> String {
    text(
        bench,
        "run_command",
        json!({"command": command, "background": true}),
    )
    .await
}

fn term(number: u32) -> Value {
    json!({"terminal_id": format!("term-{number}")})
}

/// Each tool that takes a terminal refuses one that is not the conversation's.
async fn refuses_strangers(tool: &str) {
    let bench = Bench::new();
    let none = call(&bench, "one", tool, term(0))
        .await
        .expect_err("there is none");
    assert_error!(none, NotFound: "background=true");
    start(&bench, "sleep 60").await;
    let foreign = call(&bench, "two", tool, term(0))
        .await
        .expect_err("another conversation's");
    assert_error!(foreign, NotFound);
    assert_lacks!(foreign.model_text(), "term-0."; "what others have is not told");
    let unknown = call(&bench, "one", tool, term(7))
        .await
        .expect_err("not that one");
    assert_error!(unknown, NotFound: "has: term-0.");
    let nothing = call(&bench, "one", tool, json!({}))
        .await
        .expect_err("no id");
    assert_error!(nothing, InvalidArgs);
    let shown = text(&bench, "get_terminal_output", term(0)).await;
    assert_contains!(shown, "[running for ");
}
