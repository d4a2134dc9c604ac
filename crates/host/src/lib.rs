//! This machine: files and processes, as the client tools of the Agent Client Protocol; the paths of a workspace, the
//! gate of calls, the proxy of commands, the worker.
//!
//! Read first: [`FileClient`] and [`TerminalClient`], what a tool may do with files and commands, here or in an editor;
//! [`WorkspacePath`], a path that is proven to lie inside; [`permission::PermissionGate`], which decides about a call.
//!
//! The tools, the editor, undo and the program use this crate. It uses `punie-core`, `punie-home`, `punie-policy`,
//! `punie-sandbox`, `punie-text` and `punie-tool`.

pub mod active_rules;
pub mod blocking;
pub mod encoding;
pub mod file_client;
pub mod file_content;
pub mod file_view;
pub mod files;
pub mod folders;
pub mod ignore_rules;
pub mod linked_repository;
pub mod local;
pub mod network_proxy;
pub mod permission;
pub mod prepared_write;
pub mod protected_path;
pub mod shell_view;
pub mod terminals;
pub mod text_source;
pub mod worker;
pub mod workspace;

use std::future::Future;
use std::pin::Pin;

use punie_tool::ToolError;

pub use file_client::FileClient;
pub use file_view::{FileView, FileViews};
pub use linked_repository::LinkedRepository;
pub use terminals::{TerminalClient, TerminalId};
pub use workspace::{RawPath, ReachableFolders, Workspace, WorkspacePath, find_workspace_fault};

/// The future of a client method.
pub type ToolFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ToolError>> + Send + 'a>>;
