//! The decision about every call before it runs.
//! Not here: the deciders (`policy`, a person).

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use super::{DeclaredAccess, ToolContext, ToolEffect, ToolError, ToolSpec};

/// The rule of a question about a call that wants the runner's own network. No rule of the owner's answers it.
pub const NETWORK_RULE: &str = "network";

/// The rule of a question that only a rule of the owner's for this very tool answers.
pub const OWNER_RULE: &str = "owner";

/// The gate's answer: permission to run, or the error for the caller.
pub type GateFuture<'a> =
    Pin<Box<dyn Future<Output = Result<GateDecision, ToolError>> + Send + 'a>>;

/// The result of a second check after an approval.
pub type RecheckFuture<'a> = Pin<Box<dyn Future<Output = Result<(), ToolError>> + Send + 'a>>;

/// The permission for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateDecision {
    /// It may run at once.
    Allowed,
    /// It may run after a person approves it.
    NeedsApproval(ApprovalSubject),
}

/// The subject of a question for approval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalSubject {
    /// The reason, if there is more to say than that the owner wants to be asked.
    pub why: Option<String>,
    /// The part of the tool that an answer for the rest of the conversation covers.
    pub topic: Option<String>,
    /// The name of the owner's rule; `None` if the configuration's list asks.
    pub rule: Option<String>,
    /// The things that would run, each with a digest.
    pub bound: Vec<(String, String)>,
    /// The folder in which the call works, if it is known.
    pub folder: Option<PathBuf>,
    /// The words of the command, if a rule that allows commands beginning with them would allow this call.
    pub allowable_command: Option<Vec<String>>,
}

/// A decoded call.
#[derive(Debug, Clone, Copy)]
pub struct DecodedCall<'a> {
    /// The effect of this call, which may be weaker than the tool's.
    pub effect: ToolEffect,
    /// The access of the call.
    pub access: &'a DeclaredAccess,
    /// The argument text.
    pub args: &'a str,
}

/// Decides if a decoded call may run.
pub trait CallGate: Send + Sync + 'static {
    /// Allows the call, asks a person, or denies it. A denial has the reason and the smallest change that would allow
    /// the call.
    fn permit_call<'a>(
        &'a self,
        cx: &'a ToolContext,
        tool: &'a ToolSpec,
        call: DecodedCall<'a>,
    ) -> GateFuture<'a>;

    /// Denies the call if its approved parts have changed since. Called right before the call runs.
    fn recheck_approved<'a>(
        &'a self,
        cx: &'a ToolContext,
        tool: &'a ToolSpec,
        access: &'a DeclaredAccess,
        asked: &'a ApprovalSubject,
    ) -> RecheckFuture<'a>;
}
