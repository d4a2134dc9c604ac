//! The log of started processes, by which the runner's next process can end those that this one left running.

use std::future::Future;
use std::pin::Pin;

use super::process_identity::ProcessIdentity;
use crate::terminals::ExitStatus;
use punie_core::ids::RequestId;

/// The environment variable set for everything that a call starts; its other marks are computed from this name. Its
/// value is the request's id, a dot, and the number of the output.
pub const CALL_MARK: &str = "PUNIE_RUNNER_CALL";

/// Returns the environment entry that marks one command.
pub(super) fn call_mark(request: &RequestId, output_number: u32) -> String {
    format!("{CALL_MARK}={request}.{output_number}")
}

/// A future that completes when a start is recorded.
pub type ChildLogFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Records processes as they start and end.
pub trait ChildLog: Send + Sync + 'static {
    /// Records that a command runs. The start is reported nowhere before this completes.
    fn record_child_start<'a>(
        &'a self,
        request: &'a RequestId,
        identity: &'a ProcessIdentity,
        command: &'a str,
    ) -> ChildLogFuture<'a>;
    /// Records the exit status of a command, of which descendants may live on. Called from plain threads; must not
    /// block.
    fn record_child_exit(&self, _identity: &ProcessIdentity, _status: &ExitStatus) {}
    /// Records that a command and all its known descendants have ended. Called from plain threads; must not block.
    fn record_child_end(&self, identity: &ProcessIdentity);
}

/// Records nothing: for calls that no later process of the runner looks after.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoChildLog;

impl ChildLog for NoChildLog {
    fn record_child_start<'a>(
        &'a self,
        _: &'a RequestId,
        _: &'a ProcessIdentity,
        _: &'a str,
    ) -> ChildLogFuture<'a> {
        Box::pin(std::future::ready(()))
    }
    fn record_child_end(&self, _identity: &ProcessIdentity) {}
}
