//! The question asked before every call. Not here: who answers it (policy, a person).

use std::future::Future;
use std::pin::Pin;

use super::{Effect, ToolCx, ToolError, ToolSpec};

/// A gate's answer: how the call may run, or the error that the caller gets.
pub type Permit<'a> = Pin<Box<dyn Future<Output = Result<Permission, ToolError>> + Send + 'a>>;

/// How a call may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// At once.
    Given,
    /// Once a person has said yes.
    Ask,
}

/// Decides whether a decoded call may run.
pub trait Gate: Send + Sync + 'static {
    /// Says yes, sends to a person, or gives the denial with its reason and the smallest change that would allow the
    /// call. The effect is that of this call, which may be less than the most that the tool may do.
    fn permit<'a>(&'a self, cx: &'a ToolCx, tool: &'a ToolSpec, effect: Effect) -> Permit<'a>;
}
