//! The gate as it stands: what stays inside the workspace is allowed, and `acp::workspace` proves that it does.

use crate::tool::{Effect, Gate, Permit, ToolCx, ToolSpec};

/// Allows every call; the paths of each are contained when they are resolved.
#[derive(Debug, Clone, Copy, Default)]
pub struct InsideWorkspace;

impl Gate for InsideWorkspace {
    fn permit<'a>(&'a self, _cx: &'a ToolCx, _tool: &'a ToolSpec, _effect: Effect) -> Permit<'a> {
        Box::pin(async { Ok(()) })
    }
}
