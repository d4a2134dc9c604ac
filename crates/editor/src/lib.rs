//! Connected editors as clients that carry out calls. An editor serves some methods for the calls of its session, shows
//! these calls and asks about them. The runner does the rest on this machine, also after the editor was closed.
//!
//! Read first: [`EditorOverlay`], the client of tools that asks an editor before this machine; [`EditorSession`], one
//! editor's session, with its tools; [`agent::AgentSetup`], what the runner is as an agent that an editor launches.
//!
//! The program uses this crate, and no tool does. Only [`protocol`] uses the crate of the Agent Client Protocol. It uses
//! `punie-core`, `punie-home`, `punie-host`, `punie-text` and `punie-tool`.

pub mod agent;
mod attached_editors;
mod change_preview;
mod choice_request;
mod client;
mod client_request;
pub mod client_tools;
mod editor_command;
mod editor_terminals;
mod editor_tool;
mod file_reads;
mod file_write;
mod followed_write;
mod output_preview;
mod overlay;
mod permission_prompt;
mod permission_request;
mod permission_scope;
mod prompt_turn;
pub mod protocol;
mod session;
mod terminal_script;
mod text_encoding;
mod tool_call_title;
mod tool_call_view;
pub mod tool_catalog;
mod tool_discovery;
mod unattended_calls;
mod write_routing;

pub use attached_editors::{AttachedEditors, OpenThread, TurnHandle};
pub use client::EditorClient;
pub use client_tools::ClientTools;
pub use overlay::EditorOverlay;

pub use session::{EditorSession, EditorSettings};
pub use tool_call_view::ShownCall;
pub use tool_catalog::{DiscoveryMode, ToolCatalog, ToolCatalogProblem, ToolDescriptor};
pub use tool_discovery::{EditorService, EditorTier, EditorToolDiscovery, discover_editor_tools};
