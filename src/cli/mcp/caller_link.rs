//! The way of an MCP client to a device: as its caller, through a backend.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::{OnceCell, oneshot};

use crate::backend::BackendError;
use crate::cli::caller_client::{CallerClient, CallerRequest, OutputPiece};
use crate::ids::{DeviceId, RequestId};
use crate::mcp::{DeviceLink, LinkAnswer, LinkCall, LinkError, LinkQuestion, LinkReply};
use crate::tool::{ToolRegistry, ToolSpec};

/// The longest wait for a backend that is away, until a call fails.
const APPEND_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait for an answer; clients have shorter limits of their own, and cancel.
const ANSWER_TIMEOUT: Duration = Duration::from_hours(24);

/// A device, and a caller of it.
#[derive(Clone)]
pub(super) struct LinkConnection {
    caller: CallerClient,
    device: DeviceId,
    /// The tools, if the device is this process. They are newer than what it has published.
    registry: Option<Arc<ToolRegistry>>,
}

impl LinkConnection {
    /// Connects to a device.
    pub fn new(
        caller: CallerClient,
        device: DeviceId,
        registry: Option<Arc<ToolRegistry>>,
    ) -> Self {
        Self {
            caller,
            device,
            registry,
        }
    }
}

/// A request to start the runner.
pub(super) struct StartRequest {
    roots: Option<Vec<PathBuf>>,
    answer: oneshot::Sender<Result<LinkConnection, String>>,
}

impl StartRequest {
    /// Returns the folders that the client works in, if it names any.
    pub fn roots(&self) -> Option<&[PathBuf]> {
        self.roots.as_deref()
    }

    /// Reports whether the runner has started.
    pub fn report_start(self, result: Result<LinkConnection, String>) {
        // The client may have gone meanwhile.
        let _ = self.answer.send(result);
    }
}

type RootsCheck = Box<dyn Fn(Option<&[PathBuf]>) -> Result<(), String> + Send + Sync>;

/// The side that has the device.
enum DeviceSource {
    /// A runner that is up, and the check of the client's folders.
    Running(Box<LinkConnection>, RootsCheck),
    /// This process, which starts a runner on demand.
    OnDemand(mpsc::Sender<StartRequest>),
}

/// A way to a device.
pub(super) struct CallerLink {
    source: DeviceSource,
    connection: OnceCell<LinkConnection>,
}

impl CallerLink {
    /// Creates a way to a runner that is up.
    pub fn to_running(
        connection: LinkConnection,
        check_roots: impl Fn(Option<&[PathBuf]>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            source: DeviceSource::Running(Box::new(connection), Box::new(check_roots)),
            connection: OnceCell::new(),
        }
    }

    /// Creates a way to the runner of this process.
    pub fn start_on_demand(starts: mpsc::Sender<StartRequest>) -> Self {
        Self {
            source: DeviceSource::OnDemand(starts),
            connection: OnceCell::new(),
        }
    }

    /// Gets the device ready.
    pub async fn open_connection(
        &self,
        roots: Option<Vec<PathBuf>>,
    ) -> Result<LinkConnection, LinkError> {
        match &self.source {
            DeviceSource::Running(connection, check_roots) => {
                check_roots(roots.as_deref()).map_err(LinkError)?;
                Ok(LinkConnection::clone(connection))
            }
            DeviceSource::OnDemand(starts) => {
                let stopped = || LinkError("the runner has stopped".to_owned());
                let (answer, started) = oneshot::channel();
                let wanted = StartRequest { roots, answer };
                starts.send(wanted).await.map_err(|_| stopped())?;
                started.await.map_err(|_| stopped())?.map_err(LinkError)
            }
        }
    }

    fn connection(&self) -> Result<&LinkConnection, LinkError> {
        let connection = self.connection.get();
        connection.ok_or_else(|| LinkError("the device is not connected yet".to_owned()))
    }

    async fn run_call(
        &self,
        call: &LinkCall,
        output: Option<UnboundedSender<String>>,
    ) -> Result<LinkAnswer, LinkError> {
        let LinkConnection { caller, device, .. } = self.connection()?;
        let ask = CallerRequest {
            id: call.id.clone(),
            tool: call.tool.clone(),
            args: call.args.clone(),
            conversation: Some(call.conversation.clone()),
            progress: output.is_some(),
            signed: None,
        };
        let appended = caller.append_within(device, &ask, APPEND_TIMEOUT).await;
        appended.map_err(|error| link_error(&error))?;
        let mut show = output.map(|output| {
            move |piece: &OutputPiece| {
                // The client may have gone meanwhile.
                let _ = output.send(piece.text.clone());
            }
        });
        let show: Option<&mut (dyn FnMut(&OutputPiece) + Send)> = match &mut show {
            Some(show) => Some(show),
            None => None,
        };
        let answered = caller
            .watch_for_answer(&call.id, ANSWER_TIMEOUT, show)
            .await;
        let answer = answered.map_err(|error| link_error(&error))?;
        let answer =
            answer.ok_or_else(|| LinkError("there was no answer within a day".to_owned()))?;
        Ok(LinkAnswer {
            is_ok: answer.outcome == "ok",
            payload: answer.payload,
        })
    }

    async fn list_open_questions(&self) -> Result<Vec<LinkQuestion>, LinkError> {
        let LinkConnection { caller, device, .. } = self.connection()?;
        let listed = caller.list_questions(device).await;
        let listed = listed.map_err(|error| link_error(&error))?;
        let rows = listed.as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(rows.iter().filter_map(read_question).collect())
    }
}

/// Reads a row of the backend, if it is valid.
fn read_question(row: &Value) -> Option<LinkQuestion> {
    let word = |value: &Value, key: &str| value[key].as_str().map(str::to_owned);
    let option = |option: &Value| {
        let refuses = word(option, "kind")?.starts_with("reject");
        Some((word(option, "optionId")?, word(option, "name")?, refuses))
    };
    Some(LinkQuestion {
        id: word(row, "permissionId")?,
        request: word(row, "requestId")?,
        title: word(row, "title")?,
        options: row["options"]
            .as_array()?
            .iter()
            .filter_map(option)
            .collect(),
    })
}

fn link_error(error: &BackendError) -> LinkError {
    LinkError(format!("the device cannot be reached: {error}"))
}

impl DeviceLink for CallerLink {
    fn connect(&self, roots: Option<Vec<PathBuf>>) -> LinkReply<'_, ()> {
        Box::pin(async move {
            let opening = || self.open_connection(roots);
            self.connection.get_or_try_init(opening).await.map(drop)
        })
    }

    fn list_tools(&self) -> LinkReply<'_, Vec<Value>> {
        Box::pin(async {
            let connection = self.connection()?;
            if let Some(registry) = &connection.registry {
                let entries = registry.callable_entries();
                let offered = entries.iter().map(|entry| entry.tool_spec());
                let offered = offered.filter(|spec| spec.offered);
                return Ok(offered.map(ToolSpec::catalog_body).collect());
            }
            let listed = connection.caller.list_catalog(&connection.device, "tool");
            listed.await.map_err(|error| link_error(&error))
        })
    }

    fn list_skills(&self) -> LinkReply<'_, Vec<Value>> {
        Box::pin(async {
            let LinkConnection { caller, device, .. } = self.connection()?;
            let listed = caller.list_catalog(device, "skill").await;
            listed.map_err(|error| link_error(&error))
        })
    }

    fn call_tool<'a>(
        &'a self,
        call: &'a LinkCall,
        output: Option<UnboundedSender<String>>,
    ) -> LinkReply<'a, LinkAnswer> {
        Box::pin(self.run_call(call, output))
    }

    fn cancel_call<'a>(&'a self, id: &'a RequestId) -> LinkReply<'a, ()> {
        Box::pin(async {
            let cancelled = self.connection()?.caller.cancel_request(id).await;
            cancelled.map(drop).map_err(|error| link_error(&error))
        })
    }

    fn open_questions(&self) -> LinkReply<'_, Vec<LinkQuestion>> {
        Box::pin(self.list_open_questions())
    }

    fn answer_question<'a>(
        &'a self,
        question: &'a str,
        option: &'a str,
        text: Option<&'a str>,
    ) -> LinkReply<'a, ()> {
        Box::pin(async move {
            let LinkConnection { caller, .. } = self.connection()?;
            let answered = caller.answer_question(question, option, text).await;
            answered.map_err(|error| link_error(&error))
        })
    }
}
