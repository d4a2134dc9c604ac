//! The client of the Model Context Protocol over the standard streams of a confined program, or over HTTP, on the
//! protocol's own SDK.
//! It knows nothing of plugins, so that servers from other sources can use it.

mod http_transport;
mod output_meter;
mod server;
mod transport;

pub(super) use server::{ListedTool, McpFailure, McpServer, ToolListChanged};
