//! The question asked before every call. Not here: who answers it (policy, a person).

use std::future::Future;
use std::pin::Pin;

use super::{Access, Effect, ToolCx, ToolError, ToolSpec};

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

/// What is known of a call once it is decoded.
#[derive(Debug, Clone, Copy)]
pub struct Decoded<'a> {
    /// What this call may do, which may be less than the most that its tool may do.
    pub effect: Effect,
    /// What it touches.
    pub access: &'a Access,
    /// The argument text.
    pub args: &'a str,
}

/// Decides whether a decoded call may run.
pub trait Gate: Send + Sync + 'static {
    /// Says yes, sends to a person, or gives the denial with its reason and the smallest change that would allow the
    /// call.
    fn permit<'a>(&'a self, cx: &'a ToolCx, tool: &'a ToolSpec, call: Decoded<'a>) -> Permit<'a>;

    /// Says no where what a person said yes to has changed since. Asked right before the call runs.
    fn still<'a>(&'a self, tool: &'a ToolSpec, access: &'a Access, asked: &'a Asked) -> Still<'a>;
}
