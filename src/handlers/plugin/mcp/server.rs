//! One running server: started, asked for its tools, asked to run one, ended.

use std::sync::Arc;
use std::time::Duration;

use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, ClientRequest,
    Implementation, ListToolsRequest, PaginatedRequestParams,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, RoleClient, RunningService, ServiceError,
    ServiceExt as _,
};
use rmcp::transport::Transport;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::http_transport::{explain_http_error, open_http_transport};
use super::output_meter::OutputMeter;
use super::transport::LineTransport;
use punie_core::ids::RequestId;
use punie_host::local::local_terminals::LocalTerminals;
use punie_host::local::service_launch::ServiceLaunch;
use punie_host::local::service_process;
use punie_tool::ToolError;
use punie_tool::time_limit::run_within_limit;

/// The longest wait for the first answer of a server.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// The wait for the end of a program that has closed its output.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// The most tools of one server.
const MAX_TOOLS: usize = 128;

/// A tool as a server lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ListedTool {
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
    /// The server says that it changes nothing.
    #[serde(default)]
    pub is_read_only: bool,
    /// The server says that it only adds and destroys nothing.
    #[serde(default)]
    pub is_additive: bool,
}

impl ListedTool {
    /// Reads an entry of the list; `None` without a name. A missing schema is null.
    fn from_entry(entry: &Value) -> Option<Self> {
        let hints = &entry["annotations"];
        Some(Self {
            name: entry["name"].as_str()?.to_owned(),
            description: entry["description"].as_str().unwrap_or_default().to_owned(),
            schema: entry["inputSchema"].clone(),
            is_read_only: hints["readOnlyHint"] == true,
            is_additive: hints["destructiveHint"] == false,
        })
    }
}

/// Called when a server says that its list of tools has changed.
pub(crate) type ToolListChanged = Arc<dyn Fn() + Send + Sync>;

/// The side of the client: it offers nothing, and passes on that the list of tools has changed.
struct ToolClient {
    config: ClientConfig,
    list_changed: ToolListChanged,
}

impl ClientHandler for ToolClient {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        (self.list_changed)();
    }
}

/// The reason why a server gave no result.
#[derive(Debug)]
pub(crate) enum McpFailure {
    /// It was not started.
    NotStarted(ToolError),
    /// It answered with an error.
    Refused(String),
    /// It cannot be used any more; part of a sentence.
    Broken(String),
}

/// A running server. Dropping it ends its processes, or its session.
pub(crate) struct McpServer {
    service: RunningService<RoleClient, ToolClient>,
    /// `None` for a server that is spoken to over HTTP.
    process: Option<ProcessGuard>,
    meter: Arc<OutputMeter>,
    _readers: JoinSet<()>,
}

impl McpServer {
    /// Starts a server for this call, and waits until it has said that it is ready.
    pub async fn start(
        terminals: &LocalTerminals,
        launch: &ServiceLaunch,
        request: &RequestId,
        limit: Duration,
        list_changed: ToolListChanged,
    ) -> Result<Self, McpFailure> {
        let started = terminals.start_service(launch, request).await;
        let started = started.map_err(McpFailure::NotStarted)?;
        let process = ProcessGuard(started.running);
        let meter = Arc::new(OutputMeter::default());
        let mut readers = JoinSet::new();
        readers.spawn(read_errors(started.errors, Arc::clone(&meter)));
        let transport = LineTransport::new(started.output, started.input, Arc::clone(&meter));
        let parts = (Some(process), meter, readers);
        Self::initialize(transport, parts, limit, list_changed).await
    }

    /// Opens a session at an address, with these headers in each request.
    pub async fn connect(
        url: &str,
        headers: Vec<(String, String)>,
        limit: Duration,
        list_changed: ToolListChanged,
    ) -> Result<Self, McpFailure> {
        let meter = Arc::new(OutputMeter::default());
        let transport = open_http_transport(url, headers, Arc::clone(&meter));
        let transport = transport.map_err(McpFailure::Broken)?;
        let parts = (None, meter, JoinSet::new());
        Self::initialize(transport, parts, limit, list_changed).await
    }

    async fn initialize<T: Transport<RoleClient> + 'static>(
        transport: T,
        (process, meter, readers): (Option<ProcessGuard>, Arc<OutputMeter>, JoinSet<()>),
        limit: Duration,
        list_changed: ToolListChanged,
    ) -> Result<Self, McpFailure> {
        let client = Implementation::new("punie-runner", env!("CARGO_PKG_VERSION"));
        let client = ToolClient {
            config: ClientConfig::new(ClientCapabilities::default(), client),
            list_changed,
        };
        let limit = limit.min(START_TIMEOUT);
        let starting = Box::pin(client.serve(transport));
        let ready = tokio::select! {
            ready = run_within_limit(limit, starting) => ready,
            () = meter.wait_for_fault() => return Err(broken(&meter, process.as_ref(), "").await),
        };
        match ready {
            Some(Ok(service)) => Ok(Self {
                service,
                process,
                meter,
                _readers: readers,
            }),
            Some(Err(ClientInitializeError::TransportError { error, .. })) if process.is_none() => {
                Err(McpFailure::Broken(explain_http_error(&error)))
            }
            Some(Err(error)) => Err(broken(&meter, process.as_ref(), &error.to_string()).await),
            None => Err(McpFailure::Broken(format!(
                "it did not answer `initialize` within {} s{}",
                limit.as_secs(),
                last_words(&meter)
            ))),
        }
    }

    /// Asks for its tools.
    pub async fn list_tools(&self, limit: Duration) -> Result<Vec<ListedTool>, McpFailure> {
        let listed = tokio::select! {
            listed = run_within_limit(limit, self.list_pages()) => listed,
            () = self.meter.wait_for_fault() => return Err(self.broken("").await),
        };
        let Some(listed) = listed else {
            let text = format!(
                "it did not answer `tools/list` within {} s",
                limit.as_secs()
            );
            return Err(McpFailure::Broken(text));
        };
        let tools = match listed {
            Ok(tools) => tools,
            Err(error) => return Err(self.explain_error("tools/list", error).await),
        };
        if tools.len() > MAX_TOOLS {
            let text = format!("it lists {} tools; the most are {MAX_TOOLS}", tools.len());
            return Err(McpFailure::Refused(text));
        }
        Ok(tools.iter().filter_map(ListedTool::from_entry).collect())
    }

    /// Asks for every page of the list. Returns the entries as they came: one that the protocol's types do not fit hides no
    /// other.
    async fn list_pages(&self) -> Result<Vec<Value>, ServiceError> {
        let mut tools = Vec::new();
        let mut cursor = None;
        loop {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
            let page = serde_json::to_value(self.service.send_request(request).await?);
            let mut page = page.map_err(|_| ServiceError::UnexpectedResponse)?;
            let Some(listed) = page["tools"].as_array_mut() else {
                return Err(ServiceError::UnexpectedResponse);
            };
            tools.append(listed);
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() || tools.len() > MAX_TOOLS {
                return Ok(tools);
            }
        }
    }

    /// Describes what was skipped of its output since this was last asked; `None` if nothing was.
    pub fn take_skipped(&self) -> Option<String> {
        self.meter.take_skipped()
    }

    /// Runs a tool, without a limit of time. Returns the result as the protocol has it.
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, McpFailure> {
        self.meter.reset_counts();
        let call = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let answer = tokio::select! {
            answer = self.service.call_tool_once(call) => answer,
            () = self.meter.wait_for_fault() => return Err(self.broken("").await),
        };
        match answer {
            Ok(CallToolResponse::Complete(result)) => {
                serde_json::to_value(result).map_err(|error| McpFailure::Refused(error.to_string()))
            }
            Ok(_) => Err(McpFailure::Refused(
                "it wants to ask back, which is not supported".to_owned(),
            )),
            Err(error) => Err(self.explain_error("tools/call", error).await),
        }
    }

    /// Returns its processes, if it is a program.
    pub fn processes(&self) -> Option<&Arc<service_process::RunningService>> {
        self.process.as_ref().map(|process| &process.0)
    }

    /// Returns whether it can be asked.
    pub fn is_usable(&self) -> bool {
        self.meter.fault().is_none() && !self.service.is_transport_closed()
    }

    async fn explain_error(&self, method: &str, error: ServiceError) -> McpFailure {
        match error {
            ServiceError::McpError(error) => McpFailure::Refused(error.message.into_owned()),
            ServiceError::UnexpectedResponse => McpFailure::Broken(format!(
                "its answer to `{method}` is not what the protocol wants"
            )),
            ServiceError::TransportSend(error) if self.process.is_none() => {
                McpFailure::Broken(explain_http_error(&error))
            }
            other => self.broken(&other.to_string()).await,
        }
    }

    async fn broken(&self, otherwise: &str) -> McpFailure {
        broken(&self.meter, self.process.as_ref(), otherwise).await
    }
}

/// The processes of a server, which are ended when this is dropped.
struct ProcessGuard(Arc<service_process::RunningService>);

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        self.0.stop_later();
    }
}

/// Explains why a server cannot be used: by what it printed, else by how its program ended, else by this text.
async fn broken(
    meter: &OutputMeter,
    process: Option<&ProcessGuard>,
    otherwise: &str,
) -> McpFailure {
    let ended = match process {
        Some(process) if meter.fault().is_none() => process.0.wait_for_end(END_TIMEOUT).await,
        _ => None,
    };
    let reason = match (meter.fault(), ended) {
        (Some(fault), _) => fault,
        (None, Some(how)) => {
            // Its last words may still be in the pipe. A process that it left may hold that open.
            let _ = timeout(END_TIMEOUT, meter.wait_for_errors_end()).await;
            format!("its program ended ({how})")
        }
        (None, None) if otherwise.is_empty() => "it closed its output".to_owned(),
        (None, None) => format!("it broke off ({otherwise})"),
    };
    let refused = process.and_then(|process| process.0.first_call().failure_text());
    let refused = refused.map_or_else(String::new, |refused| {
        format!(". {}", refused.trim_end_matches('.'))
    });
    McpFailure::Broken(format!("{reason}{}{refused}", last_words(meter)))
}

fn last_words(meter: &OutputMeter) -> String {
    let skipped = meter.take_skipped().map(|skipped| format!("; {skipped}"));
    let words = meter.last_words();
    let words = words.map(|words| format!("; the end of its standard error: {words}"));
    [skipped, words].into_iter().flatten().collect()
}

/// Reads standard error to its end, or until it is too much.
async fn read_errors(mut errors: impl AsyncRead + Unpin, meter: Arc<OutputMeter>) {
    let mut chunk = vec![0; 16 << 10];
    while let Ok(read) = errors.read(&mut chunk).await
        && read > 0
        && meter.count_errors(&chunk[..read])
    {}
    meter.end_errors();
}
