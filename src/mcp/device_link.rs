//! The way to a device as this module needs it; `cli` implements it.

use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use punie_core::ids::RequestId;
use punie_core::request_session::RequestSession;
use punie_host::LinkedRepository;
use punie_host::permission::FolderVerdict;

/// The reply of a device, or the reason why there is none.
pub type LinkReply<'a, T> = BoxFuture<'a, Result<T, LinkError>>;

/// The reason why a device gave no reply, for the model and the person at the client.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct LinkError(pub String);

/// A call of a tool.
#[derive(Debug, Clone)]
pub struct LinkCall {
    /// The id of its request.
    pub id: RequestId,
    /// The tool.
    pub tool: String,
    /// Its arguments as JSON text.
    pub args: String,
    /// The conversation of the client: its calls with effects run in order.
    pub conversation: String,
    /// The client and its folders; `None` where folders of this machine say nothing about the device.
    pub session: Option<RequestSession>,
}

/// The answer of a tool.
#[derive(Debug, Clone)]
pub struct LinkAnswer {
    /// False if the tool failed or was cancelled.
    pub is_ok: bool,
    /// `{toolName, result? | error?, meta}`.
    pub payload: Value,
}

/// A question about a call, which waits for its answer.
#[derive(Debug, Clone)]
pub struct LinkQuestion {
    /// Its id.
    pub id: String,
    /// The request whose call waits.
    pub request: String,
    /// A description of the call for people.
    pub title: String,
    /// The answers: id, label, and whether it refuses.
    pub options: Vec<(String, String, bool)>,
}

/// A device whose tools a client may use.
pub trait DeviceLink: Send + Sync + 'static {
    /// Lists the catalog entries of the tools. Where the device cannot be reached, they are those of this program, whose
    /// calls then say why they cannot run.
    fn list_tools(&self) -> BoxFuture<'_, Vec<Value>>;
    /// Lists the catalog entries of the skills.
    fn list_skills(&self) -> LinkReply<'_, Vec<Value>>;
    /// Runs a tool and waits for its answer. Its output is sent to `output` meanwhile.
    fn call_tool<'a>(
        &'a self,
        call: &'a LinkCall,
        output: Option<UnboundedSender<String>>,
    ) -> LinkReply<'a, LinkAnswer>;
    /// Returns the owner's decision about sessions in a folder.
    fn judge_folder<'a>(&'a self, folder: &'a Path) -> LinkReply<'a, FolderVerdict>;
    /// Returns the repositories that git does not reach from a session's folders, because they lie elsewhere. Leaves
    /// out those about which the owner has decided.
    fn undecided_repositories<'a>(
        &'a self,
        folders: &'a [PathBuf],
    ) -> LinkReply<'a, Vec<LinkedRepository>>;
    /// Makes a rule of the owner's answer about sessions in a folder, or about git in a repository.
    fn answer_folder<'a>(&'a self, folder: &'a Path, is_allowed: bool) -> LinkReply<'a, ()>;
    /// Returns why no call runs in a folder that the person at the client has declined, with what allows it.
    fn declined_folder(&self, folder: &Path) -> LinkError;
    /// Cancels a call, which is answered then.
    fn cancel_call<'a>(&'a self, id: &'a RequestId) -> LinkReply<'a, ()>;
    /// Lists the open questions. The device asks a caller who has done so within the last minute.
    fn open_questions(&self) -> LinkReply<'_, Vec<LinkQuestion>>;
    /// Answers a question.
    fn answer_question<'a>(
        &'a self,
        question: &'a str,
        option: &'a str,
        text: Option<&'a str>,
    ) -> LinkReply<'a, ()>;
}
