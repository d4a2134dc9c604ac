//! The tools of a device for clients of the Model Context Protocol, by its official crate. Not here: the way to the
//! device (cli), and servers of this protocol whose tools the device offers (handlers::plugin).

mod approval_form;
mod client_abilities;
mod client_session;
mod device_link;
mod http_server;
mod listed_tool;
mod mcp_server;
mod output_pages;
mod tool_answer;

pub use device_link::{DeviceLink, LinkAnswer, LinkCall, LinkError, LinkQuestion, LinkReply};
pub use http_server::serve_http;
pub use mcp_server::{McpServer, serve_client};
