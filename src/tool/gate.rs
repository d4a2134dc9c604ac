//! The question asked before every call. Not here: who answers it (policy, a person).

use std::future::Future;
use std::pin::Pin;

use super::{Effect, ToolCx, ToolError, ToolSpec};

/// A gate's answer: how the call may run, or the error that the caller gets.
pub type Permit<'a> = Pin<Box<dyn Future<Output = Result<Permission, ToolError>> + Send + 'a>>;

/// Whether what was asked about is still what would run.
pub type Still<'a> = Pin<Box<dyn Future<Output = Result<(), ToolError>> + Send + 'a>>;

/// How a call may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// At once.
    Given,
    /// Once a person has said yes.
    Ask(Asked),
}

/// What a person is asked about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// Why, in words, where there is more to say than that the owner wants it.
    pub why: Option<String>,
    /// What an answer for the rest of the conversation is about, within the tool.
    pub topic: Option<String>,
    /// The name of the owner's rule; none where the configuration's list asks.
    pub rule: Option<String>,
    /// What would run: each thing with a digest of it.
    pub bound: Vec<(String, String)>,
}

/// Decides whether a decoded call may run.
pub trait Gate: Send + Sync + 'static {
    /// Says yes, sends to a person, or gives the denial with its reason and the smallest change that would allow the
    /// call. The effect is that of this call, which may be less than the most that the tool may do; `args` is the
    /// argument text that was decoded.
    fn permit<'a>(&'a self, cx: &'a ToolCx, tool: &'a ToolSpec, effect: Effect, args: &'a str) -> Permit<'a>;

    /// Says no where what a person said yes to has changed since. Asked right before the call runs.
    fn still<'a>(&'a self, tool: &'a ToolSpec, args: &'a str, asked: &'a Asked) -> Still<'a>;
}
