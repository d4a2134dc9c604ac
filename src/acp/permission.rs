//! The gate as it stands: what stays inside the workspace is allowed, and `acp::workspace` proves that it does. What
//! the machine has no room for is refused before it begins.

use super::local::descriptors;
use crate::tool::{Effect, Gate, Lane, Permit, ToolCx, ToolSpec};

/// Allows every call for which there is room; the paths of each are contained when they are resolved.
#[derive(Debug, Clone, Copy, Default)]
pub struct InsideWorkspace;

impl Gate for InsideWorkspace {
    fn permit<'a>(&'a self, _cx: &'a ToolCx, tool: &'a ToolSpec, _effect: Effect) -> Permit<'a> {
        // What ends other calls makes room.
        let room = tool.lane == Lane::Control || descriptors::are_to_be_had();
        Box::pin(async move { if room { Ok(()) } else { Err(descriptors::no_descriptors()) } })
    }
}
