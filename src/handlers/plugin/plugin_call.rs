//! One call of a plugin's tool: its turn at the server, its limits, and its answer. Not here: starting the server
//! (plugin_server).

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Map, Value};

use super::loaded_plugin::LoadedPlugin;
use super::mcp::{ListedTool, McpFailure, McpServer};
use super::plugin_host::HostState;
use super::plugin_server::ServerTurn;
use super::plugin_tool::tool_effect;
use super::tool_result::read_result;
use crate::acp::network_proxy::NetworkCaller;
use crate::home::plugin_fingerprint;
use crate::tool::{ErrorCode, ResultMeta, ToolContext, ToolEffect, ToolError, ToolReply};

/// A call of a plugin's tool.
pub(super) struct PluginCall {
    pub loaded: Arc<LoadedPlugin>,
    pub host: Weak<HostState>,
    pub tool: Arc<ListedTool>,
    /// The largest effect that the call may have: it was claimed, recorded and approved for that.
    pub effect: ToolEffect,
}

impl PluginCall {
    /// Runs it. A plugin whose folder has changed is loaded anew first.
    pub async fn run(
        self,
        cx: &ToolContext,
        arguments: Map<String, Value>,
    ) -> Result<ToolReply, ToolError> {
        let loaded = self.current_plugin().await?;
        let mut turn = tokio::select! {
            turn = loaded.server.wait_for_turn() => turn,
            () = cx.wait_for_cancel() => {
                return Err(ToolError::call_cancelled("The call was cancelled before the plugin got it."));
            }
        };
        let reply = self.run_in_turn(&loaded, &mut turn, cx, arguments).await;
        drop(turn);
        loaded.server.end_when_idle();
        reply
    }

    /// Returns the plugin as it is on the disk, if that is still what was decided about.
    async fn current_plugin(&self) -> Result<Arc<LoadedPlugin>, ToolError> {
        let plugin = &self.loaded.plugin;
        let folder = plugin.folder.clone();
        let now = tokio::task::spawn_blocking(move || plugin_fingerprint(&folder)).await;
        if matches!(now, Ok(Ok(now)) if now == plugin.fingerprint) {
            return Ok(Arc::clone(&self.loaded));
        }
        let (id, name) = (&plugin.id, &self.tool.name);
        let host = self.host.upgrade().ok_or_else(|| {
            ToolError::internal_error("The plugins are no longer there; the runner is ending.")
        })?;
        host.reload().await;
        let Some(current) = host.find_plugin(id) else {
            let text =
                format!("The plugin {id} was removed. {name} was not run; use another tool.");
            return Err(ToolError::not_found(text));
        };
        let is_same = current.listed_tools().contains(&self.tool)
            && tool_effect(&current.plugin, name) == self.effect
            && current.plugin.paths == plugin.paths
            && current.plugin.has_network == plugin.has_network;
        if is_same {
            return Ok(current);
        }
        let text = format!(
            "The plugin {id} was changed after this call was checked, and {name} is not the same any more. It was not \
             run; read the catalog and ask anew."
        );
        Err(ToolError::new(ErrorCode::Stale, text))
    }

    async fn run_in_turn(
        &self,
        loaded: &LoadedPlugin,
        turn: &mut ServerTurn,
        cx: &ToolContext,
        arguments: Map<String, Value>,
    ) -> Result<ToolReply, ToolError> {
        let limit = cx.time_until_deadline(loaded.plugin.timeout);
        let server = tokio::select! {
            server = loaded.server.take_server(turn, &cx.request) => server,
            () = cx.wait_for_cancel() => {
                let text = "The call was cancelled while the plugin was started.";
                return Err(ToolError::call_cancelled(text));
            }
        };
        let server = server.map_err(|failure| self.explain_failure(loaded, failure, ""))?;
        match self.ask_server(loaded, &server, cx, arguments, limit).await {
            CallEnd::Reply(reply) => {
                turn.keep_server(server);
                *reply
            }
            CallEnd::Failed(failure) => {
                if matches!(failure, McpFailure::Broken(_)) {
                    turn.record_failure();
                } else {
                    turn.keep_server(server);
                }
                Err(self.explain_failure(loaded, failure, self.doubt()))
            }
            CallEnd::Cancelled => {
                let text = format!("The plugin {} was ended.{}", loaded.plugin.id, self.doubt());
                Err(ToolError::call_cancelled(text).with_meta(self.doubt_meta()))
            }
            CallEnd::TimedOut => {
                turn.record_failure();
                let text = format!(
                    "The plugin {} did not answer {} within {} s and was ended.{} The next call starts it again.",
                    loaded.plugin.id,
                    self.tool.name,
                    limit.as_secs(),
                    self.doubt()
                );
                Err(ToolError::new(ErrorCode::Timeout, text).with_meta(self.doubt_meta()))
            }
        }
    }

    /// Asks the server, which has the network until it answers.
    async fn ask_server(
        &self,
        loaded: &LoadedPlugin,
        server: &McpServer,
        cx: &ToolContext,
        arguments: Map<String, Value>,
        limit: Duration,
    ) -> CallEnd {
        let shown = loaded.plugin.program.iter().chain(&loaded.plugin.args);
        let shown: Vec<&str> = shown.map(String::as_str).collect();
        let admitted = server.processes().admit_call(NetworkCaller {
            tool: self.tool.name.clone(),
            command: format!("plugin {}: {}", loaded.plugin.id, shown.join(" ")),
            request: cx.request.clone(),
            conversation: Some(cx.conversation.clone()),
        });
        let answer = tokio::select! {
            biased;
            () = cx.wait_for_cancel() => return CallEnd::Cancelled,
            answer = server.call_tool(&self.tool.name, arguments) => answer,
            () = tokio::time::sleep(limit) => return CallEnd::TimedOut,
        };
        let result = match answer {
            Ok(result) => result,
            Err(failure) => return CallEnd::Failed(failure),
        };
        let (mut text, is_error) = read_result(&result);
        if let Some(refused) = admitted.failure_text() {
            text = format!("{text}\n{refused}");
        }
        let meta = ResultMeta {
            network: admitted.traffic(),
            ..ResultMeta::default()
        };
        CallEnd::Reply(Box::new(if is_error {
            let text = format!("{} failed: {text}", self.tool.name);
            Err(ToolError::new(ErrorCode::Io, text).with_meta(meta))
        } else {
            Ok(ToolReply::from_text(text).with_meta(meta))
        }))
    }

    fn explain_failure(
        &self,
        loaded: &LoadedPlugin,
        failure: McpFailure,
        doubt: &str,
    ) -> ToolError {
        let (id, name) = (&loaded.plugin.id, &self.tool.name);
        match failure {
            McpFailure::NotStarted(error) => {
                let text = format!("The plugin {id} was not started: {}", error.model_text());
                ToolError::new(error.stable_code(), text).with_meta(error.error_meta().clone())
            }
            McpFailure::Refused(why) => {
                let text = format!(
                    "The plugin {id} refused {name}: {}.",
                    why.trim_end_matches('.')
                );
                ToolError::new(ErrorCode::Io, text)
            }
            McpFailure::Broken(why) => {
                let text = format!("The plugin {id} gave no result of {name}: {why}.{doubt}");
                let meta = if doubt.is_empty() {
                    ResultMeta::default()
                } else {
                    self.doubt_meta()
                };
                ToolError::new(ErrorCode::Interrupted, text).with_meta(meta)
            }
        }
    }

    /// Says that the call may have had an effect. One that only reads had none.
    fn doubt(&self) -> &'static str {
        if self.effect.runs_at_most_once() {
            " It may have had its effect all the same."
        } else {
            ""
        }
    }

    fn doubt_meta(&self) -> ResultMeta {
        ResultMeta {
            may_have_run: self.effect.runs_at_most_once(),
            ..ResultMeta::default()
        }
    }
}

/// The end of a call at the server.
enum CallEnd {
    Reply(Box<Result<ToolReply, ToolError>>),
    Failed(McpFailure),
    Cancelled,
    TimedOut,
}
