//! Who is told of every process that is started, so that a next life of the runner can end what this one left.
//! Not here: where it is written down.

use std::future::Future;
use std::pin::Pin;

use super::identity::ProcessIdentity;
use crate::acp::terminals::ExitStatus;
use crate::ids::RequestId;

/// The environment entry of everything that a call started, and the name from which its other marks are computed.
/// Its value is the request, a dot, and the number of the output.
pub const CALL_MARK: &str = "PUNIE_RUNNER_CALL";

/// The mark of one command.
pub(super) fn call_mark(request: &RequestId, output_number: u32) -> String {
    format!("{CALL_MARK}={request}.{output_number}")
}

/// Done when a start is written down.
pub type Noted<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Is told of processes as they start and end.
pub trait ChildLog: Send + Sync + 'static {
    /// A command runs. Nobody sees that it does before this is done.
    fn started<'a>(
        &'a self,
        request: &'a RequestId,
        identity: &'a ProcessIdentity,
        command: &'a str,
    ) -> Noted<'a>;
    /// It has ended in this way; something it left behind may live on. Called from plain threads; must not block.
    fn exited(&self, _identity: &ProcessIdentity, _status: &ExitStatus) {}
    /// It and everything it left behind that is known of has ended. Called from plain threads; must not block.
    fn ended(&self, identity: &ProcessIdentity);
}

/// Tells nobody: for calls that no next life looks after.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unlogged;

impl ChildLog for Unlogged {
    fn started<'a>(&'a self, _: &'a RequestId, _: &'a ProcessIdentity, _: &'a str) -> Noted<'a> {
        Box::pin(std::future::ready(()))
    }
    fn ended(&self, _identity: &ProcessIdentity) {}
}
