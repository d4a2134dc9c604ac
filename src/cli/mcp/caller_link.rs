//! The way of an MCP client to its device: to the runner of this home, or to a device that the command names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::home_device::HomeDevice;
use super::link_connection::{LinkConnection, OutputSender};
use super::program_tools::list_program_tools;
use crate::cli::caller_client::CallerRequest;
use crate::cli::context::CliContext;
use crate::mcp::{DeviceLink, LinkAnswer, LinkCall, LinkError, LinkQuestion, LinkReply};
use punie_core::ids::RequestId;
use punie_home::command_to_type;
use punie_host::LinkedRepository;
use punie_host::permission::FolderVerdict;
use punie_policy::command_line::quote_word;

/// The longest wait for the list of the device's tools. Clients wait for it when they start.
const LIST_LIMIT: Duration = Duration::from_secs(6);

/// The device of a client.
pub(super) enum LinkedDevice {
    OfHome(Box<HomeDevice>),
    /// A device that the command names.
    Named(Box<LinkConnection>),
}

/// A way to a device, for all clients of this process.
pub(super) struct CallerLink {
    context: CliContext,
    device: LinkedDevice,
}

impl CallerLink {
    /// Creates a way to a device.
    pub fn new(context: CliContext, device: LinkedDevice) -> Self {
        Self { context, device }
    }

    async fn connect(&self) -> Result<LinkConnection, LinkError> {
        match &self.device {
            LinkedDevice::OfHome(device) => device.connect_patiently().await,
            LinkedDevice::Named(connection) => Ok(LinkConnection::clone(connection)),
        }
    }

    async fn run_call(
        &self,
        call: &LinkCall,
        output: Option<UnboundedSender<String>>,
    ) -> Result<LinkAnswer, LinkError> {
        let ask = CallerRequest {
            id: call.id.clone(),
            tool: call.tool.clone(),
            args: call.args.clone(),
            conversation: Some(call.conversation.clone()),
            session: call.session.clone(),
            progress: output.is_some(),
            signed: None,
        };
        let mut output = output.map(OutputSender::new);
        match &self.device {
            LinkedDevice::OfHome(device) => device.run_call(&ask, output).await,
            LinkedDevice::Named(connection) => {
                connection.send_call(&ask).await?;
                connection.wait_for_answer(&ask.id, output.as_mut()).await
            }
        }
    }

    async fn list_offered_tools(&self) -> Vec<Value> {
        let listed = match &self.device {
            LinkedDevice::OfHome(device) => device.list_tools(LIST_LIMIT).await,
            LinkedDevice::Named(connection) => connection.list_catalog("tool").await,
        };
        match listed {
            Ok(tools) if !tools.is_empty() => tools,
            listed => {
                if let Err(error) = listed {
                    tracing::warn!(%error, "the tools of this program are listed instead of the device's");
                }
                list_program_tools(&self.context)
            }
        }
    }
}

impl DeviceLink for CallerLink {
    fn list_tools(&self) -> BoxFuture<'_, Vec<Value>> {
        Box::pin(self.list_offered_tools())
    }

    fn list_skills(&self) -> LinkReply<'_, Vec<Value>> {
        Box::pin(async { self.connect().await?.list_catalog("skill").await })
    }

    fn call_tool<'a>(
        &'a self,
        call: &'a LinkCall,
        output: Option<UnboundedSender<String>>,
    ) -> LinkReply<'a, LinkAnswer> {
        Box::pin(self.run_call(call, output))
    }

    fn judge_folder<'a>(&'a self, folder: &'a Path) -> LinkReply<'a, FolderVerdict> {
        Box::pin(async move {
            match &self.device {
                LinkedDevice::OfHome(device) => device.judge_folder(folder).await,
                // The device decides.
                LinkedDevice::Named(_) => Ok(FolderVerdict::Allowed),
            }
        })
    }

    fn undecided_repositories<'a>(
        &'a self,
        folders: &'a [PathBuf],
    ) -> LinkReply<'a, Vec<LinkedRepository>> {
        Box::pin(async move {
            match &self.device {
                LinkedDevice::OfHome(device) => device.undecided_repositories(folders).await,
                LinkedDevice::Named(_) => Ok(Vec::new()),
            }
        })
    }

    fn answer_folder<'a>(&'a self, folder: &'a Path, is_allowed: bool) -> LinkReply<'a, ()> {
        Box::pin(async move {
            match &self.device {
                LinkedDevice::OfHome(device) => device.answer_folder(folder, is_allowed).await,
                LinkedDevice::Named(_) => Ok(()),
            }
        })
    }

    fn declined_folder(&self, folder: &Path) -> LinkError {
        let shown = folder.display().to_string();
        let allow = command_to_type(&format!("policy allow --folder {}", quote_word(&shown)));
        LinkError(format!(
            "The call was not run: {shown} lies outside of the owner's workspaces, and the question whether this session \
             may work there was declined. The owner allows it by `{allow}`."
        ))
    }

    fn cancel_call<'a>(&'a self, id: &'a RequestId) -> LinkReply<'a, ()> {
        Box::pin(async { self.connect().await?.cancel_call(id).await })
    }

    fn open_questions(&self) -> LinkReply<'_, Vec<LinkQuestion>> {
        Box::pin(async { self.connect().await?.open_questions().await })
    }

    fn answer_question<'a>(
        &'a self,
        question: &'a str,
        option: &'a str,
        text: Option<&'a str>,
    ) -> LinkReply<'a, ()> {
        Box::pin(async move {
            let connection = self.connect().await?;
            connection.answer_question(question, option, text).await
        })
    }
}
