//! Calls from the journal's acceptance to their end: they are placed in lanes, started, cancelled and finished.

pub(super) mod approvals;
pub(super) mod call_backlog;
mod call_execution;
mod call_preparation;
pub(super) mod call_runner;
mod call_start;
pub(super) mod claims;
mod intent_log;
mod interrupted_effects;
pub(super) mod lanes;
mod observed_output;
mod outcome;
mod owner_stop;
mod placed_call;
mod progress_report;
pub(super) mod recovery;
mod reply_record;
mod running_call;
mod stopped_conversations;
mod time_limit;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use super::disk_space::DiskSpaceGate;
use super::handles::Handles;
use super::wake_event::{EndedCall, WakeEvent};
use crate::backend::{Backend as _, DeclineReason};
use crate::journal::{AcceptedRequest, OfferOutcome, RepeatedRequest, RequestOrigin, RequestState};
use call_backlog::Backlog;
use call_runner::CallRunner;
use lanes::{LanePlaces, LaneShare, Lanes};
use placed_call::{LaneGuard, PlaceState, PlacedCall};
use punie_core::ids::RequestId;
use punie_tool::CallLane;
use punie_tool::request::ToolEffect;
use running_call::RunningCall;

/// Places calls and starts them.
pub(super) struct Executor {
    handles: Arc<Handles>,
    runner: Arc<CallRunner>,
    lanes: Lanes<QueuedLaneCall>,
    /// All calls that are placed or run.
    calls: HashMap<RequestId, PlacedCall>,
    backlog: Backlog,
    disk: Arc<DiskSpaceGate>,
    /// The number of calls that ended.
    pub finished: u64,
}

pub(super) struct QueuedLaneCall {
    call: RunningCall,
    share: LaneShare,
    bytes: usize,
}

/// Returns the places of the settings in force.
fn lane_places(handles: &Handles) -> LanePlaces {
    let calls = handles.settings.calls.current();
    LanePlaces {
        reads: calls.reads,
        effects: calls.total,
        tasks: calls.tasks,
    }
}

impl Executor {
    /// Creates an executor without calls, with the backlog that an earlier process left.
    pub(super) fn new(runner: Arc<CallRunner>, backlog: Backlog, disk: Arc<DiskSpaceGate>) -> Self {
        Self {
            handles: Arc::clone(&runner.handles),
            lanes: Lanes::new(lane_places(&runner.handles)),
            runner,
            calls: HashMap::new(),
            backlog,
            disk,
            finished: 0,
        }
    }

    /// Returns whether no call is placed or left to be placed. While calls are paused, those that wait do not count.
    pub(super) fn has_no_calls(&self) -> bool {
        let is_held =
            self.handles.pause.is_active() && !self.has_running() && !self.backlog.has_cancelled();
        self.calls.is_empty() && self.backlog.is_empty() || is_held
    }

    /// Returns whether a call runs; calls that only wait in their lanes do not count.
    pub(super) fn has_running(&self) -> bool {
        self.calls.len() > self.lanes.waiting_count()
    }

    /// The number of calls that are placed or run.
    pub(super) fn call_count(&self) -> usize {
        self.calls.len()
    }

    /// Removes a call that ended during the shutdown.
    pub(super) fn remove_ended(&mut self, id: &RequestId) {
        self.calls.remove(id);
    }

    /// Processes the journal's decisions on a page. Returns the number of new requests, and the open ones whose
    /// bodies must still be fetched.
    pub(super) fn apply_admissions(
        &mut self,
        admitted: Vec<OfferOutcome>,
    ) -> (u64, Vec<RequestId>) {
        let mut fresh = 0;
        let mut unknown = Vec::new();
        for admission in admitted {
            match admission {
                OfferOutcome::Fresh(accepted) => {
                    fresh += 1;
                    self.place_or_park(accepted);
                }
                OfferOutcome::Refused(reply) => {
                    let delivery = Arc::clone(&self.runner.delivery);
                    self.handles
                        .background
                        .spawn(async move { delivery.deliver_reply(reply).await });
                }
                OfferOutcome::Answered(id) => self.runner.delivery.redeliver_reply(id),
                OfferOutcome::InFlight(left) => self.resume_in_flight(&left),
                OfferOutcome::Cancel(id) => self.cancel_call(&id),
                OfferOutcome::Conflict(conflict) => {
                    tracing::warn!(request.id = %conflict.id, "a second request under a known id was not run");
                    self.send_decline(conflict.id, DeclineReason::Conflict);
                }
                OfferOutcome::Closed(id) => self.send_decline(id, DeclineReason::Forgotten),
                OfferOutcome::Unknown(id) => unknown.push(id),
            }
        }
        (fresh, unknown)
    }

    /// Tells the backend, if the wire allows it, that there will be no result.
    fn send_decline(&self, id: RequestId, why: DeclineReason) {
        let handles = Arc::clone(&self.handles);
        self.handles.background.spawn(async move {
            if let Err(error) = handles.backend.decline_request(&id, why).await {
                // A repeated request is declined again.
                tracing::info!(request.id = %id, %error, "that there is no result could not be said");
            }
        });
    }

    /// Handles a request that is offered again. An accepted request that no task works on is added to the backlog;
    /// the loop removes nothing from `calls` between the journal's check of a request and this one.
    fn resume_in_flight(&mut self, left: &RepeatedRequest) {
        let RepeatedRequest {
            id,
            conversation,
            state,
            cancelled,
        } = left;
        if *cancelled && *state == RequestState::Accepted || self.calls.contains_key(id) {
            if *cancelled {
                self.cancel_call(id);
            }
        } else if *state == RequestState::Accepted && !self.backlog.contains_call(id, conversation)
        {
            tracing::warn!(request.id = %id, "a request that nobody worked on is taken up again");
            self.backlog.add_conversation(conversation);
        }
    }

    /// Puts a call into its lane, or leaves it in the journal until there is capacity.
    pub(super) fn place_or_park(&mut self, accepted: AcceptedRequest) {
        let request = accepted.tool_request();
        let bytes = accepted.tool_request().args.len();
        let is_parked = match self.choose_share(&accepted) {
            LaneShare::Read | LaneShare::Effect => self.park_ordered(&request.conversation, bytes),
            LaneShare::Free | LaneShare::Task | LaneShare::Cancelled => {
                self.park_unordered(&request.id, bytes)
            }
        };
        if !is_parked {
            self.put_in_lane(accepted);
        }
    }

    pub(super) fn put_in_lane(&mut self, accepted: AcceptedRequest) {
        self.put_in_share(self.choose_share(&accepted), accepted);
    }

    /// Puts a call into a lane; it can be cancelled from now on.
    pub(super) fn put_in_share(&mut self, share: LaneShare, accepted: AcceptedRequest) {
        let request = accepted.tool_request();
        let [cancel, owner_stop, over] = std::array::from_fn(|_| CancellationToken::new());
        if request.cancelled {
            cancel.cancel();
        }
        let conversation = request.conversation.clone();
        let bytes = request.args.len();
        let token = PlacedCall {
            tool: request.tool.clone(),
            conversation: conversation.clone(),
            cancel: cancel.clone(),
            owner_stop: owner_stop.clone(),
            over: over.clone(),
            share,
            place: PlaceState::Queued,
        };
        self.calls.insert(request.id.clone(), token);
        let call = RunningCall {
            started: OnceLock::new(),
            accepted,
            cancel,
            owner_stop,
            over,
            observed: None,
        };
        self.lanes.enqueue_call(
            &conversation,
            share,
            bytes,
            QueuedLaneCall { call, share, bytes },
        );
    }

    fn choose_share(&self, accepted: &AcceptedRequest) -> LaneShare {
        let tool = self
            .handles
            .registry
            .find(accepted.tool_request().tool.as_str());
        match accepted.tool_effect() {
            _ if accepted.tool_request().cancelled => LaneShare::Cancelled,
            _ if tool.is_ok_and(|tool| tool.tool_spec().lane == CallLane::Control) => {
                LaneShare::Free
            }
            _ if accepted.origin() == RequestOrigin::Task => LaneShare::Task,
            ToolEffect::AsksUser => LaneShare::Free,
            ToolEffect::Reads => LaneShare::Read,
            ToolEffect::Writes | ToolEffect::Executes => LaneShare::Effect,
        }
    }

    /// Starts the calls that may start. Returns whether the disk has room for them.
    pub(super) async fn start_allowed_calls(&mut self) -> bool {
        self.lanes.set_places(lane_places(&self.handles));
        loop {
            let taken_up = self.load_parked().await;
            while let Some(waiting) = self.lanes.next_cancelled() {
                self.start_call(waiting);
            }
            if self.disk.check() {
                return false;
            }
            while !self.handles.pause.is_active()
                && let Some(waiting) = self.lanes.next()
            {
                self.start_call(waiting);
            }
            if !taken_up {
                return true;
            }
        }
    }

    fn start_call(&mut self, QueuedLaneCall { call, share, bytes }: QueuedLaneCall) {
        let runner = Arc::clone(&self.runner);
        let handles = Arc::clone(&self.handles);
        let request = call.accepted.tool_request();
        let id = request.id.clone();
        let ended = EndedCall {
            id: id.clone(),
            conversation: request.conversation.clone(),
            share,
            bytes,
        };
        if let Some(placed) = self.calls.get_mut(&id) {
            placed.place = PlaceState::Held;
        }
        let freeing = LaneGuard {
            waker: handles.waker.clone(),
            ended,
            over: call.over.clone(),
        };
        self.handles.background.spawn(async move {
            let _freeing = freeing;
            let accepted = call.accepted.clone();
            let answering = Arc::clone(&runner);
            let mut answer = handles
                .background
                .spawn(async move { answering.answer_one(call).await });
            let long = async {
                match share.place_limit() {
                    Some(time) => tokio::time::sleep(time).await,
                    None => std::future::pending().await,
                }
            };
            let answered = tokio::select! {
                answered = &mut answer => answered,
                () = long => {
                    handles.waker.wake(WakeEvent::RunsLong(id));
                    answer.await
                }
            };
            if answered.is_err() {
                runner.answer_panicked(&accepted).await;
            }
        });
    }

    /// Frees the place of a call that waits for a person.
    pub(super) fn free_call_place(&mut self, call: &AcceptedRequest) {
        if let Some(token) = self.calls.get_mut(&call.tool_request().id)
            && token.place == PlaceState::Held
        {
            token.place = PlaceState::Waiting;
            self.lanes.free_place(token.share);
        }
    }

    /// Takes the place of a call again.
    pub(super) fn retake_call_place(&mut self, call: &AcceptedRequest) {
        if let Some(token) = self.calls.get_mut(&call.tool_request().id)
            && token.place == PlaceState::Waiting
        {
            token.place = PlaceState::Held;
            self.lanes.retake_place(token.share);
        }
    }

    /// Frees the place of a call that has run for long.
    pub(super) fn release_long_call(&mut self, id: &RequestId) {
        if let Some(token) = self.calls.get_mut(id)
            && token.place == PlaceState::Held
            && self.lanes.try_release_place(token.share)
        {
            token.place = PlaceState::Released;
        }
    }

    pub(super) fn finish_ended_call(&mut self, ended: &EndedCall) {
        self.finished += 1;
        match self.calls.remove(&ended.id).map(|token| token.place) {
            Some(PlaceState::Waiting) => self.lanes.retake_place(ended.share),
            Some(PlaceState::Released) => self.lanes.finish_without_place(ended.share),
            Some(PlaceState::Held | PlaceState::Queued) | None => {}
        }
        self.lanes
            .finish_call(&ended.conversation, ended.share, ended.bytes);
    }

    /// Cancels a running call, or takes a waiting one out of its lane, to be answered soon.
    pub(super) fn cancel_call(&mut self, id: &RequestId) {
        let Some(token) = self.calls.get_mut(id) else {
            return self.cancel_parked(id);
        };
        token.cancel.cancel();
        let conversation = token.conversation.clone();
        let waiting = self.lanes.remove_waiting(&conversation, |waiting| {
            waiting.call.accepted.tool_request().id == *id
        });
        if let Some(waiting) = waiting {
            token.share = LaneShare::Cancelled;
            let waiting = QueuedLaneCall {
                share: LaneShare::Cancelled,
                ..waiting
            };
            self.lanes
                .enqueue_call(&conversation, LaneShare::Cancelled, waiting.bytes, waiting);
        }
    }
}
