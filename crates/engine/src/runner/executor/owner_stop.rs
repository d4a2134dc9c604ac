//! The owner's orders to end what runs: the calls, and the commands in the background.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::Executor;
use super::call_runner::CallRunner;
use super::placed_call::PlaceState;
use crate::runner::tool_threads::run_on_blocking_thread;
use punie_core::ids::{RequestId, ToolName};
use punie_home::{StopOrder, StopOutcome, StopTarget};

/// The time in which a call should end by itself. A command is killed before that (`StopSequence::for_owner_stop`).
const CALL_GRACE: Duration = Duration::from_millis(750);
/// The time for the answer of a call whose processes were killed. A call without an answer by then is reported as left.
const CALL_END_TIMEOUT: Duration = Duration::from_secs(2);

/// A call that was told to stop.
struct StoppingCall {
    id: RequestId,
    tool: ToolName,
    over: CancellationToken,
}

impl Executor {
    /// Carries out an order: tells the calls to stop, ends the commands in the background, and records the outcome.
    pub(in crate::runner) fn stop_by_order(&mut self, order: StopOrder) {
        let mut outcome = StopOutcome::default();
        let mut stopping = Vec::new();
        for id in self.ordered_calls(&order.target) {
            let Some(placed) = self.calls.get(&id) else {
                continue;
            };
            placed.owner_stop.cancel();
            if placed.place.is_running() {
                stopping.push(StoppingCall {
                    id: id.clone(),
                    tool: placed.tool.clone(),
                    over: placed.over.clone(),
                });
            } else {
                outcome.withdrawn.push(id.clone());
            }
            self.cancel_call(&id);
        }
        let what = match &order.target {
            StopTarget::Everything => "everything",
            StopTarget::One(one) => one,
        };
        tracing::warn!(what, calls = stopping.len(), "the owner stops what runs");
        let runner = Arc::clone(&self.runner);
        let handles = Arc::clone(&self.handles);
        self.handles.background.spawn(async move {
            runner.end_ordered(&order, stopping, &mut outcome).await;
            let recording = move || handles.pause.record_stop_outcome(&order.id, &outcome);
            if let Err(error) = run_on_blocking_thread(recording).await {
                tracing::error!(%error, "the outcome of a stop order could not be recorded");
            }
        });
    }

    /// Returns the calls in memory that an order is about.
    fn ordered_calls(&self, target: &StopTarget) -> Vec<RequestId> {
        let calls = self.calls.iter();
        let is_ordered = |id: &RequestId, place: PlaceState| match target {
            StopTarget::Everything => place.is_running(),
            StopTarget::One(one) => id.as_str() == one,
        };
        calls
            .filter(|(id, placed)| is_ordered(id, placed.place))
            .map(|(id, _)| id.clone())
            .collect()
    }
}

impl CallRunner {
    /// Ends the commands in the background, and waits for the calls that were told to stop.
    async fn end_ordered(
        &self,
        order: &StopOrder,
        stopping: Vec<StoppingCall>,
        outcome: &mut StopOutcome,
    ) {
        let only = match &order.target {
            StopTarget::Everything => None,
            StopTarget::One(id) => Some(id.as_str()),
        };
        let commands = &self.background_commands;
        let (calls_left, ended) = tokio::join!(
            join_all(stopping.iter().map(|call| self.end_call(call))),
            commands.end_commands(only)
        );
        // A call may have left a command in the background while it was told to stop.
        let late = commands.end_commands(only).await;
        outcome.shells = [ended.ended, late.ended].concat();
        // The second attempt names all that are still there.
        outcome.left = [calls_left.concat(), late.left].concat();
        let over = stopping.into_iter().filter(|call| call.over.is_cancelled());
        outcome.calls.extend(over.map(|call| call.id));
    }

    /// Waits until a call has ended, and kills the processes that it does not end in time. Describes what is left.
    async fn end_call(&self, call: &StoppingCall) -> Vec<String> {
        let _ = tokio::time::timeout(CALL_GRACE, call.over.cancelled()).await;
        // Also when the call is over: a shell that it had just started may still be ending.
        let commands = Arc::clone(&self.background_commands);
        let request = call.id.clone();
        let mut left = run_on_blocking_thread(move || commands.kill_processes(&request)).await;
        let over = tokio::time::timeout(CALL_END_TIMEOUT, call.over.cancelled()).await;
        if over.is_err() {
            left.push(format!("{} (call {})", call.tool, call.id));
        }
        left
    }
}
