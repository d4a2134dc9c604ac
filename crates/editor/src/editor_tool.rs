//! A tool that only an editor has, as an entry of the tool registry. Its arguments are checked here, and it runs in the
//! editor.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::attached_editors::AttachedEditors;
use super::client::NO_ANSWER_ERROR;
use super::session::EditorSession;
use super::tool_catalog::{ToolCatalogProblem, ToolDescriptor, static_kind_name};
use crate::agent::{MAX_LINE_BYTES, TOO_LONG_ERROR};
use crate::protocol::{Error, is_connection_terminated, is_incoming_transport_closed};
use punie_tool::{
    ArgumentSchema, CallLane, DeclaredAccess, EDITOR_ORIGIN, ErrorCode, ResultMeta, SchemaText,
    ToolContext, ToolEffect, ToolEntry, ToolError, ToolReply, ToolSpec,
};

/// The domain of such tools.
const DOMAIN: &str = "editor";
/// The most bytes of an editor's message in an error.
const MAX_MESSAGE_BYTES: usize = 2048;
/// The JSON-RPC and ACP error codes that are told apart.
mod code {
    pub const METHOD_NOT_FOUND: i32 = -32_601;
    pub const INVALID_PARAMS: i32 = -32_602;
    pub const REQUEST_CANCELLED: i32 = -32_800;
    pub const RESOURCE_NOT_FOUND: i32 = -32_002;
}

/// Derives the effect of a tool from the editor's description of it. A tool that is not clearly read-only counts as one
/// that executes.
pub(super) fn editor_tool_effect(tool: &ToolDescriptor) -> ToolEffect {
    match tool.kind.as_str() {
        "read" | "search" | "think" | "fetch" if !tool.requires_permission => ToolEffect::Reads,
        _ => ToolEffect::Executes,
    }
}

/// Builds the registry entry of a tool.
///
/// # Errors
/// Its schema is not a valid one.
pub(super) fn editor_tool_entry(
    session: &EditorSession,
    tool: &ToolDescriptor,
    editors: &AttachedEditors,
) -> Result<ToolEntry, ToolCatalogProblem> {
    let schema = ArgumentSchema::new(&tool.parameters).map_err(|why| ToolCatalogProblem {
        subject: tool.name.clone(),
        reason: clip_editor_text(&why).to_owned(),
    })?;
    let spec = ToolSpec {
        name: Cow::Owned(tool.name()),
        domain: DOMAIN,
        description: tool.description.clone(),
        on_this_device: String::new(),
        schema: SchemaText::new(&tool.parameters),
        effect: editor_tool_effect(tool),
        effect_depends_on: None,
        lane: CallLane::Conversation,
        aliases: &[],
        accepted: &[],
        known_as: &[],
        same_as: None,
        normalize: |_| {},
        examples: &[],
        limits: &[],
        people_fields: &[],
        stated_kind: Some(static_kind_name(&tool.kind)),
        categories: tool.categories.clone(),
        origin: Cow::Owned(format!("{EDITOR_ORIGIN}{}", session.editor)),
        only_ends: false,
        offered: true,
        always_asks: tool.requires_permission,
    };
    let check =
        move |arguments: &Map<String, Value>| schema.validate(&Value::Object(arguments.clone()));
    let checked = Arc::new(tool.parameters.clone());
    let name = tool.name();
    let editors = editors.clone();
    let run = move |cx: ToolContext, arguments, promised| {
        let name = name.clone();
        let editors = editors.clone();
        let checked = Arc::clone(&checked);
        async move {
            call_editor_tool(
                &editors,
                &cx,
                EditorToolCall {
                    name: &name,
                    arguments,
                    promised,
                    checked: &checked,
                },
            )
            .await
        }
    };
    Ok(ToolEntry::from_spec(
        spec,
        DeclaredAccess::none(),
        check,
        run,
    ))
}

/// A call of an editor's tool.
struct EditorToolCall<'a> {
    name: &'a str,
    arguments: Map<String, Value>,
    /// The largest effect that the call may have: it was claimed, recorded and approved for that.
    promised: ToolEffect,
    /// The schema that the arguments were checked against.
    checked: &'a Value,
}

/// Calls the tool in the editor in whose turn the request is.
async fn call_editor_tool(
    editors: &AttachedEditors,
    cx: &ToolContext,
    asked: EditorToolCall<'_>,
) -> Result<ToolReply, ToolError> {
    let name = asked.name;
    let Some(shown) = editors.find_shown_call(&cx.request) else {
        let text = format!(
            "{name} is run by a connected editor, and no editor has attached itself to this conversation (or it has \
             detached itself since). It was not run. Attach the editor's session, or use another tool."
        );
        return Err(ToolError::new(ErrorCode::NotFound, text));
    };
    let session = shown.editor_session();
    let tool = session
        .discovered_tools()
        .and_then(|own| own.descriptors().iter().find(|tool| tool.name() == name));
    let Some(tool) = tool else {
        let text = format!(
            "{name} is offered by another editor, not by {}, which is attached to this conversation. It was not run. \
             Attach the other one, or use another tool.",
            session.editor
        );
        return Err(ToolError::new(ErrorCode::NotFound, text));
    };
    if editor_tool_effect(tool).runs_at_most_once() && !asked.promised.runs_at_most_once() {
        let text = format!(
            "{name} of {} may change something, and the call was taken for one that changes nothing. It was not run; \
             ask anew.",
            session.editor
        );
        return Err(ToolError::new(ErrorCode::Stale, text));
    }
    let arguments = Value::Object(asked.arguments);
    if tool.parameters != *asked.checked {
        let schema = ArgumentSchema::new(&tool.parameters).map_err(ToolError::internal)?;
        schema
            .validate(&arguments)
            .map_err(|why| ToolError::invalid_args(format!("{name}: {why}.")))?;
    }
    let own = json!({ "requestId": cx.request, "conversationId": cx.conversation.to_string() });
    let params = json!({ "sessionId": session.id, "args": arguments, "_meta": { "punie": own } });
    shown.mark_sent_to_editor();
    await_tool_answer(session, tool, cx, params).await
}

/// Sends the call and waits for its answer. Dropping the future tells the editor to cancel the call.
async fn await_tool_answer(
    session: &EditorSession,
    tool: &ToolDescriptor,
    cx: &ToolContext,
    params: Value,
) -> Result<ToolReply, ToolError> {
    let limit = cx.time_until_deadline(session.settings.tool_timeout);
    let answered = session.client.ext_method(format!("_{}", tool.name), params);
    let who = &session.editor;
    let name = &tool.name;
    // A read that was cut off changed nothing.
    let doubt = if editor_tool_effect(tool).runs_at_most_once() {
        " It may have had its effect all the same."
    } else {
        ""
    };
    tokio::select! {
        biased;
        () = cx.wait_for_cancel() => {
            Err(ToolError::call_cancelled(format!("{who} was told to give up {name}.{doubt}")).with_meta(doubt_meta(doubt)))
        }
        answer = answered => match answer {
            Ok(Value::String(text)) => Ok(ToolReply::from_text(text)),
            Ok(value) => Ok(ToolReply::from_text(value.to_string())),
            Err(error) => Err(editor_tool_error(who, name, doubt, &error)),
        },
        () = tokio::time::sleep(limit) => {
            let text = format!("{who} did not answer {name} within {} s and was told to give it up.{doubt}", limit.as_secs());
            Err(ToolError::new(ErrorCode::Timeout, text).with_meta(doubt_meta(doubt)))
        }
    }
}

/// Builds the metadata of an error that leaves this doubt about the call's effect.
fn doubt_meta(doubt: &str) -> ResultMeta {
    ResultMeta {
        may_have_run: !doubt.is_empty(),
        ..ResultMeta::default()
    }
}

/// Converts the editor's error into a tool error with the matching code.
fn editor_tool_error(who: &str, name: &str, doubt: &str, error: &Error) -> ToolError {
    if is_connection_terminated(error) || is_incoming_transport_closed(error) {
        let text = format!("The connection to {who} ended before it answered {name}.{doubt}");
        return ToolError::new(ErrorCode::Interrupted, text).with_meta(doubt_meta(doubt));
    }
    if error.code.value() == TOO_LONG_ERROR {
        let most = MAX_LINE_BYTES >> 20;
        let text = format!(
            "{who} answered {name} with more than {most} MiB, of which nothing is taken.{doubt} Ask it for less."
        );
        return ToolError::new(ErrorCode::TooLarge, text).with_meta(doubt_meta(doubt));
    }
    let (stable, next) = match error.code.value() {
        code::METHOD_NOT_FOUND => (
            ErrorCode::UnknownTool,
            " It lists this tool and does not serve it: use another one.",
        ),
        code::INVALID_PARAMS => (ErrorCode::InvalidArgs, ""),
        code::RESOURCE_NOT_FOUND => (ErrorCode::NotFound, ""),
        code::REQUEST_CANCELLED => (ErrorCode::Cancelled, ""),
        NO_ANSWER_ERROR => (ErrorCode::Timeout, ""),
        _ => (ErrorCode::Io, ""),
    };
    let more = match &error.data {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => format!(" ({text})"),
        Some(value) => format!(" ({value})"),
    };
    let said = format!("{}{more}", error.message);
    ToolError::new(
        stable,
        format!(
            "{name} failed in {who}: {}.{next}",
            clip_editor_text(&said).trim_end_matches('.')
        ),
    )
}

fn clip_editor_text(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_MESSAGE_BYTES)]
}
