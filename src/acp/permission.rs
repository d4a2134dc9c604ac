//! The gate as it stands: what stays inside the workspace is allowed, and `acp::workspace` proves that it does; what
//! the owner wants to be asked about waits for a person. What the machine has no room for is refused before it begins,
//! and what runs programs where these are confined less than the owner requires.

use super::local::confinement::Confinement;
use super::local::descriptors;
use crate::tool::{DEVICE, Effect, Gate, Lane, Permission, Permit, ToolCx, ToolError, ToolSpec};

/// Allows every call for which there is room, once a person has said yes where the owner wants that; the paths of each
/// are contained when they are resolved.
#[derive(Clone, Default)]
pub struct InsideWorkspace {
    ask: Vec<AskAbout>,
    confinement: Confinement,
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
        Self { ask, ..Self::default() }
    }

    /// The same, and refuses what would run programs with less confinement than the owner requires.
    #[must_use]
    pub fn confined(self, confinement: Confinement) -> Self {
        Self { confinement, ..self }
    }

    /// Whether what the call would start may start with the confinement that there is.
    async fn confines(&self, tool: &ToolSpec, effect: Effect) -> Result<(), ToolError> {
        // git that writes runs programs of the repository's choice: hooks and filters.
        let starts = effect == Effect::Executes || (effect == Effect::Writes && tool.domain == "git");
        if !starts || tool.origin != DEVICE || tool.lane == Lane::Control {
            return Ok(());
        }
        if tool.name == "OpenApp" {
            self.confinement.permit_app()?;
        }
        self.confinement.permit().await
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
        Box::pin(async move {
            if !room {
                return Err(descriptors::no_descriptors());
            }
            self.confines(tool, effect).await?;
            Ok(permission)
        })
    }
}
