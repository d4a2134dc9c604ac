//! The gate as it stands: what stays inside the workspace is allowed, and `acp::workspace` proves that it does; what
//! the owner wants to be asked about waits for a person. What the machine has no room for is refused before it begins.

use super::local::descriptors;
use crate::tool::{Effect, Gate, Lane, Permission, Permit, ToolCx, ToolSpec};

/// Allows every call for which there is room, once a person has said yes where the owner wants that; the paths of each
/// are contained when they are resolved.
#[derive(Debug, Clone, Default)]
pub struct InsideWorkspace {
    ask: Vec<AskAbout>,
}

/// Which calls a person is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskAbout {
    /// All that have this effect.
    Effect(Effect),
    /// All of this tool.
    Tool(String),
}

impl InsideWorkspace {
    /// Asks about these.
    pub fn asking(ask: Vec<AskAbout>) -> Self {
        Self { ask }
    }

    fn asks(&self, tool: &ToolSpec, effect: Effect) -> bool {
        self.ask.iter().any(|about| match about {
            AskAbout::Effect(asked) => *asked == effect && !tool.only_ends,
            AskAbout::Tool(name) => *name == tool.name,
        })
    }
}

impl Gate for InsideWorkspace {
    fn permit<'a>(&'a self, _cx: &'a ToolCx, tool: &'a ToolSpec, effect: Effect) -> Permit<'a> {
        // What ends other calls makes room.
        let room = tool.lane == Lane::Control || descriptors::are_to_be_had();
        let permission = if self.asks(tool, effect) { Permission::Ask } else { Permission::Given };
        Box::pin(async move { if room { Ok(permission) } else { Err(descriptors::no_descriptors()) } })
    }
}
