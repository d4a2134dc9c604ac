//! The server of one client: its requests, answered by a device.

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitResult,
    ElicitationAction, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, Prompt, PromptMessage, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceContents,
    ResourceTemplate, Role, ServerCapabilities, ServerConfig,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, ServiceExt as _};
use rmcp::transport::IntoTransport;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::approval_form::{chosen_option, question_form};
use super::client_abilities::has_forms;
use super::client_session::ClientSession;
use super::device_link::{DeviceLink, LinkAnswer, LinkCall, LinkError};
use super::listed_tool::listed_tool;
use super::output_pages::{PAGE_TEMPLATE, output_resource, page_args};
use super::tool_answer::tool_result;
use punie_core::ids::RequestId;
use punie_tool::{ToolProfile, is_entry_in_profile};

/// The first and the longest time between two looks for a question about a call.
const QUESTION_INTERVALS: (Duration, Duration) =
    (Duration::from_millis(250), Duration::from_secs(5));
/// The most stored outputs that are listed.
const MAX_LISTED_OUTPUTS: usize = 100;

const INSTRUCTIONS: &str = "Tools on the owner's machine: files, search, commands, git, SQLite. They work in the \
folders of this session, relative paths start in the first. The owner's rules decide about each call and may ask a person. \
A cut answer names a handle: ReadOutput, or the linked resource, has the rest.";

/// A server for one client.
pub struct McpServer {
    link: Arc<dyn DeviceLink>,
    profile: ToolProfile,
    conversation: String,
    session: ClientSession,
    /// The handles of the outputs that answers of this client named, oldest first.
    outputs: Mutex<VecDeque<String>>,
}

/// Serves a client until it closes its end or `stop` is cancelled.
///
/// # Errors
/// A text, if the client does not begin as the protocol wants.
pub async fn serve_client<T, E, A>(
    server: McpServer,
    transport: T,
    stop: &CancellationToken,
) -> Result<(), String>
where
    T: IntoTransport<RoleServer, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let started = server.serve_with_ct(transport, stop.child_token()).await;
    let service = match started {
        Ok(service) => service,
        // The client closed its end before it said anything.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    service
        .waiting()
        .await
        .map(drop)
        .map_err(|error| error.to_string())
}

impl McpServer {
    /// Creates a server for a client that uses this device, and lists the tools of this profile. The client works in these
    /// folders unless it names others; `None` if folders of this machine say nothing about the device.
    pub fn new(
        link: Arc<dyn DeviceLink>,
        profile: ToolProfile,
        folders: Option<Vec<PathBuf>>,
    ) -> Self {
        Self {
            link,
            profile,
            session: ClientSession::new(folders),
            conversation: format!("mcp-{}", RequestId::new()),
            outputs: Mutex::default(),
        }
    }

    async fn list_enabled_skills(&self) -> Result<Vec<Value>, LinkError> {
        let mut skills = self.link.list_skills().await?;
        skills.retain(|skill| skill["enabled"] != false);
        Ok(skills)
    }

    async fn run_tool(
        &self,
        tool: &str,
        args: Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<(LinkCall, LinkAnswer), LinkError> {
        let call = LinkCall {
            id: RequestId::new(),
            tool: tool.to_owned(),
            args: Value::Object(args).to_string(),
            conversation: self.conversation.clone(),
            session: self
                .session
                .find_session(&*self.link, &context.peer)
                .await?,
        };
        let answer = self.wait_for_answer(&call, context).await?;
        if let Some(handle) = answer.payload["meta"]["handle"].as_str() {
            let mut outputs = self.outputs.lock();
            outputs.push_back(handle.to_owned());
            if outputs.len() > MAX_LISTED_OUTPUTS {
                outputs.pop_front();
            }
        }
        Ok((call, answer))
    }

    /// Waits for the answer of a tool. Passes on its output as progress, a cancellation, and questions about it.
    async fn wait_for_answer(
        &self,
        call: &LinkCall,
        context: &RequestContext<RoleServer>,
    ) -> Result<LinkAnswer, LinkError> {
        let can_ask = has_forms(&context.peer);
        if can_ask {
            // The device asks only those who look for its questions.
            self.link.open_questions().await?;
        }
        let token = context.meta.get_progress_token();
        let (sender, mut pieces) = mpsc::unbounded_channel();
        let output = token.is_some().then_some(sender);
        let mut calling = std::pin::pin!(self.link.call_tool(call, output));
        let mut asking = std::pin::pin!(self.pass_on_questions(call, &context.peer));
        let mut sent = 0.0;
        let mut is_cancelled = false;
        loop {
            tokio::select! {
                biased;
                Some(text) = pieces.recv() => {
                    sent += 1.0;
                    let Some(token) = token.clone() else { continue };
                    let mut progress = ProgressNotificationParam::new(token, sent);
                    progress.message = Some(text);
                    // A client that is gone closes the transport, too.
                    let _ = context.peer.notify_progress(progress).await;
                }
                answer = &mut calling => return answer,
                () = context.ct.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    self.link.cancel_call(&call.id).await?;
                }
                () = &mut asking, if can_ask => {}
            }
        }
    }

    /// Shows each question about a call to the person at the client, and passes on the answer. Never returns.
    async fn pass_on_questions(&self, call: &LinkCall, client: &Peer<RoleServer>) {
        let mut shown = BTreeSet::new();
        let mut interval = QUESTION_INTERVALS.0;
        loop {
            sleep(interval).await;
            interval = (interval * 3 / 2).min(QUESTION_INTERVALS.1);
            let Ok(open) = self.link.open_questions().await else {
                continue;
            };
            let about = open
                .into_iter()
                .filter(|one| one.request == call.id.as_str());
            for question in about {
                let folders = call.session.as_ref().map(|session| &session.folders);
                let folder = folders.and_then(|folders| folders.first());
                let Some(form) = question_form(&question, folder.map(PathBuf::as_path)) else {
                    continue;
                };
                if !shown.insert(question.id.clone()) {
                    continue;
                }
                let answered = client.create_elicitation(form).await;
                // Nobody sees a form that the client cannot show: the call would wait for its deadline.
                let answer = answered.unwrap_or_else(|error| {
                    tracing::warn!(%error, "the client did not answer a question about a call");
                    ElicitResult::new(ElicitationAction::Cancel)
                });
                if let Some((option, text)) = chosen_option(&question, &answer) {
                    let given = self
                        .link
                        .answer_question(&question.id, &option, text.as_deref());
                    if let Err(error) = given.await {
                        tracing::warn!(%error, "an answer of the client's person was not taken");
                    }
                }
            }
        }
    }
}

impl From<LinkError> for ErrorData {
    fn from(error: LinkError) -> Self {
        Self::internal_error(error.to_string(), None)
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(
                "punie-runner",
                env!("CARGO_PKG_VERSION"),
            ))
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        // Later ones allow no requests to the client, by which roots and approvals work here.
        Cow::Borrowed(ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25))
    }

    async fn on_roots_list_changed(&self, _context: NotificationContext<RoleServer>) {
        self.session.forget_folders().await;
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let entries = self.link.list_tools().await;
        let tools = entries
            .iter()
            .filter(|entry| is_entry_in_profile(entry, self.profile))
            .filter_map(listed_tool);
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let args = request.arguments.unwrap_or_default();
        let answered = self.run_tool(&request.name, args, &context).await;
        let result = match answered {
            Ok((call, answer)) => tool_result(&call, answer),
            Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
        };
        Ok(CallToolResponse::Complete(result))
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let outputs = self
            .outputs
            .lock()
            .iter()
            .map(|handle| output_resource(handle))
            .collect();
        Ok(ListResourcesResult::with_all_items(outputs))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new(PAGE_TEMPLATE, "output")
            .with_title("A page of the output of a call, by its handle and the first line")
            .with_mime_type("text/plain");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let missing = |why: &str| ErrorData::resource_not_found(why.to_owned(), None);
        let args = page_args(&request.uri).ok_or_else(|| missing("there is no such resource"))?;
        let read = self.run_tool("ReadOutput", args, &context).await;
        let (_, answer) = read?;
        if !answer.is_ok {
            return Err(missing(
                answer.payload["error"]
                    .as_str()
                    .unwrap_or("it cannot be read"),
            ));
        }
        let text = answer.payload["result"].as_str().unwrap_or_default();
        let contents = ResourceContents::text(text, request.uri).with_mime_type("text/plain");
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let skills = self.list_enabled_skills().await?;
        let prompt = |skill: &Value| {
            let id = skill["id"].as_str()?;
            Some(Prompt::new(id, skill["description"].as_str(), None))
        };
        let prompts = skills.iter().filter_map(prompt).collect();
        Ok(ListPromptsResult::with_all_items(prompts))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let skills = self.list_enabled_skills().await?;
        let wanted = skills.iter().find(|skill| skill["id"] == *request.name);
        let Some(skill) = wanted else {
            let text = format!("there is no skill {}", request.name);
            return Err(ErrorData::invalid_params(text, None));
        };
        let text = skill["body"].as_str().unwrap_or_default();
        let message = PromptMessage::new_text(Role::User, text);
        let mut result = GetPromptResult::new(vec![message]);
        result.description = skill["description"].as_str().map(str::to_owned);
        Ok(result.into())
    }
}
