//! Who is told of every process that is started, so that a next life of the runner can end what this one left.
//! Not here: where it is written down.

use super::identity::ProcessIdentity;
use crate::ids::RequestId;

/// The environment entry by which everything a call started can be found again, whatever session it moved to.
/// Its value is the request, a dot, and the number of the output.
pub const CALL_MARK: &str = "PUNIE_RUNNER_CALL";

/// The mark of one command.
pub(super) fn call_mark(request: &RequestId, output_number: u32) -> String {
    format!("{CALL_MARK}={request}.{output_number}")
}

/// Is told of processes as they start and end. Called from plain threads; must not block for long.
pub trait ChildLog: Send + Sync + 'static {
    /// A command runs. Called before anybody can see that it does.
    fn started(&self, request: &RequestId, identity: &ProcessIdentity, command: &str);
    /// It and everything it left behind that is known of has ended.
    fn ended(&self, identity: &ProcessIdentity);
}

/// Tells nobody: for calls that no next life looks after.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unlogged;

impl ChildLog for Unlogged {
    fn started(&self, _request: &RequestId, _identity: &ProcessIdentity, _command: &str) {}
    fn ended(&self, _identity: &ProcessIdentity) {}
}
