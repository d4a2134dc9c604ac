//! One call of a plugin's tool: its turn at the server, its limits, and its answer.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Map, Value};

use super::loaded_plugin::LoadedPlugin;
use super::mcp::{ListedTool, McpFailure, McpServer};
use super::plugin_host::{HostState, Retry};
use super::plugin_server::{ServerTurn, command_text};
use super::plugin_tool::tool_effect;
use super::tool_result::read_result;
use punie_home::plugin_fingerprint;
use punie_host::local::service_process::AdmittedCall;
use punie_host::network_proxy::NetworkCaller;
use punie_tool::time_limit::wait_for_limit;
use punie_tool::{ErrorCode, ResultMeta, ToolContext, ToolEffect, ToolError, ToolReply};

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
        let loaded = self.current().await?;
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
    async fn current(&self) -> Result<Arc<LoadedPlugin>, ToolError> {
        let plugin = &self.loaded.plugin;
        if plugin.configured.is_none() {
            let folder = plugin.folder.clone();
            let now = tokio::task::spawn_blocking(move || plugin_fingerprint(&folder)).await;
            if matches!(now, Ok(Ok(now)) if now == plugin.fingerprint) {
                return Ok(Arc::clone(&self.loaded));
            }
        }
        let title = plugin.title();
        let name = self.offered_name();
        let host = self.host.upgrade().ok_or_else(|| {
            ToolError::internal("The plugins are no longer there; the runner is ending.")
        })?;
        if plugin.configured.is_none() {
            host.reload(Retry::No).await;
        }
        let Some(current) = host.find_plugin(&plugin.id) else {
            let text =
                format!("{name} was not run, because the {title} was removed. Use another tool.");
            return Err(ToolError::not_found(text));
        };
        let is_same = current.listed_tools().contains(&self.tool)
            && tool_effect(&current.plugin, &self.tool) == self.effect
            && current.plugin.paths == plugin.paths
            && current.plugin.has_network == plugin.has_network;
        // A server may list other tools while it runs, and judges itself what becomes of a call of an old one.
        if is_same || (plugin.configured.is_some() && current.plugin == *plugin) {
            return Ok(current);
        }
        let text = format!(
            "{name} was not run, because the {title} was changed after this call was checked, and the tool is not the same \
             any more. Read the catalog and ask anew."
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
            server = loaded.server.take(turn, &cx.request) => server,
            () = cx.wait_for_cancel() => {
                let text = "The call was cancelled while the plugin was started.";
                return Err(ToolError::call_cancelled(text));
            }
        };
        let server = server.map_err(|failure| self.explain_failure(loaded, failure, ""))?;
        match self.ask_server(loaded, &server, cx, arguments, limit).await {
            CallEnd::Reply(reply) => {
                turn.keep(server);
                *reply
            }
            CallEnd::Failed(failure) => {
                if matches!(failure, McpFailure::Broken(_)) {
                    turn.record_failure();
                } else {
                    turn.keep(server);
                }
                Err(self.explain_failure(loaded, failure, self.doubt()))
            }
            CallEnd::Cancelled => {
                let title = loaded.plugin.title();
                let text = format!(
                    "The call was cancelled, and the {title} was ended.{}",
                    self.doubt()
                );
                Err(ToolError::call_cancelled(text).with_meta(self.doubt_meta()))
            }
            CallEnd::TimedOut => {
                turn.record_failure();
                let text = format!(
                    "The {} did not answer {} within {} s and was ended.{} The next call starts it again.",
                    loaded.plugin.title(),
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
        let admitted = server.processes().map(|processes| {
            processes.admit_call(NetworkCaller {
                tool: self.offered_name(),
                command: command_text(&loaded.plugin),
                request: cx.request.clone(),
                conversation: Some(cx.conversation.clone()),
            })
        });
        let answer = tokio::select! {
            biased;
            () = cx.wait_for_cancel() => return CallEnd::Cancelled,
            answer = server.call_tool(&self.tool.name, arguments) => answer,
            () = wait_for_limit(limit) => return CallEnd::TimedOut,
        };
        let result = match answer {
            Ok(result) => result,
            Err(failure) => return CallEnd::Failed(failure),
        };
        let mut read = read_result(result);
        if let Some(refused) = admitted.as_ref().and_then(AdmittedCall::failure_text) {
            read.text = format!("{}\n{refused}", read.text);
        }
        let meta = ResultMeta {
            network: admitted.map_or_else(Vec::new, |admitted| admitted.traffic()),
            warnings: server
                .take_skipped()
                .into_iter()
                .map(|skipped| format!("{}: {skipped}", loaded.plugin.title()))
                .collect(),
            ..ResultMeta::default()
        };
        CallEnd::Reply(Box::new(if read.is_error {
            let text = format!("{} failed: {}", self.offered_name(), read.text);
            Err(ToolError::new(ErrorCode::Io, text).with_meta(meta))
        } else {
            Ok(read.into_reply().with_meta(meta))
        }))
    }

    fn explain_failure(
        &self,
        loaded: &LoadedPlugin,
        failure: McpFailure,
        doubt: &str,
    ) -> ToolError {
        let title = loaded.plugin.title();
        let name = self.offered_name();
        match failure {
            McpFailure::NotStarted(error) => {
                let text = format!("The {title} was not started: {}", error.model_text());
                ToolError::new(error.stable_code(), text).with_meta(error.error_meta().clone())
            }
            McpFailure::Refused(why) => {
                let text = format!("The {title} refused {name}: {}.", why.trim_end_matches('.'));
                ToolError::new(ErrorCode::Io, text)
            }
            McpFailure::Broken(why) => {
                let text = format!("The {title} gave no result of {name}: {why}.{doubt}");
                let meta = if doubt.is_empty() {
                    ResultMeta::default()
                } else {
                    self.doubt_meta()
                };
                ToolError::new(ErrorCode::Interrupted, text).with_meta(meta)
            }
        }
    }

    fn offered_name(&self) -> String {
        self.loaded.plugin.offered_name(&self.tool.name)
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
