//! Access to files and processes: the client tools of the Agent Client Protocol, served by this machine or by a
//! connected editor. Not here: the tools that use them (handlers).

pub mod apps;
pub mod blocking;
pub mod encoding;
pub mod file_client;
pub mod file_content;
pub mod file_view;
pub mod files;
pub mod folders;
pub mod local;
pub mod network_proxy;
pub mod permission;
pub mod prepared_write;
pub mod protected_path;
pub mod terminals;
pub mod text_source;
pub mod workspace;

use std::future::Future;
use std::pin::Pin;

use punie_tool::ToolError;

pub use apps::AppClient;
pub use file_client::FileClient;
pub use file_view::{FileView, FileViews};
pub use terminals::{TerminalClient, TerminalId};
pub use workspace::{RawPath, ReachableFolders, Workspace, WorkspacePath};

/// The future of a client method.
pub type ToolFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ToolError>> + Send + 'a>>;
