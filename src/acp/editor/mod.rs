//! Connected editors as clients that carry out calls. An editor serves some methods for the calls of its session, shows
//! these calls and asks about them. The runner does the rest on this machine, also after the editor was closed. Not
//! here: the connection itself (`acp::agent`).

mod asking;
mod bridge;
mod client;
pub mod discovery;
mod files;
mod followed;
mod glance;
mod output;
mod overlay;
mod permission;
mod preview;
mod schema;
mod scope;
mod script;
mod sending;
mod session;
mod shown;
mod spelling;
mod terminals;
mod tiers;
mod turns;
mod unattended;
mod writes;

pub use client::EditorClient;
pub use discovery::{Discover, Problem, ToolCatalog, ToolDescriptor};
pub use overlay::Overlay;
pub use session::{EditorSession, EditorSettings};
pub use shown::ShownCall;
pub use tiers::{Discovered, Service, Tier, discover};
pub use turns::{Editors, OpenThread, Turn};
