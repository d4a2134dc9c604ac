//! A connected editor as the one who runs tools: which session a call belongs to, what the editor serves of it, and
//! what the person there sees and says. This machine is the ground on which all of it is laid: what an editor does not
//! serve, or only did until it was closed, is done here. Not here: the connection itself (`acp::agent`).

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
