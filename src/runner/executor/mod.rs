//! Calls from the journal's acceptance to their end: they are placed in lanes, started, cancelled and finished. Not
//! here: the run of one call (`call_runner`), and the order in which calls start (`lanes`).

pub(super) mod approvals;
pub(super) mod backlog;
pub(super) mod call_runner;
mod call_start;
pub(super) mod claims;
mod intent_log;
mod interrupted_effects;
pub(super) mod lanes;
mod observed_output;
mod outcome;
pub(super) mod progress_report;
pub(super) mod recovery;
mod reply_record;
pub(super) mod stopped_conversations;
mod time_limit;

use std::collections::HashMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::disk_room::DiskRoom;
use super::wake::{Ended, Wake, Waker};
use crate::backend::{Backend as _, Declined};
use crate::ids::{ConversationId, RequestId};
use crate::journal::{Accepted, Admission, InFlight, Origin, State};
use crate::request::Effect;
use crate::tool::Lane;
use backlog::Backlog;
use call_runner::{Call, CallRunner};
use lanes::{Lanes, Places, Share};

/// Places calls and starts them.
pub(super) struct Executor {
    runner: Arc<CallRunner>,
    lanes: Lanes<Waiting>,
    /// All calls that are placed or run.
    calls: HashMap<RequestId, PlacedCall>,
    backlog: Backlog,
    disk: Arc<DiskRoom>,
    waker: Waker,
    /// The number of calls that ended.
    pub finished: u64,
}

/// The handle that cancels a call that is placed or runs.
pub(super) struct PlacedCall {
    conversation: ConversationId,
    cancel: CancellationToken,
    share: Share,
    place: Place,
}

/// The state of a running call's place among the running ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The call holds its place.
    Held,
    /// The place is free while the call waits for a person.
    Aside,
    /// The place was given up because the call takes long.
    GivenBack,
}

/// A call in its lane.
pub(super) struct Waiting {
    call: Call,
    share: Share,
    bytes: usize,
}

/// Wakes the loop when dropped, so that the lane is freed however the call's task ends.
struct FreeLane {
    waker: Waker,
    ended: Ended,
}

impl Drop for FreeLane {
    fn drop(&mut self) {
        self.waker.wake(Wake::CallFinished(self.ended.clone()));
    }
}

impl Executor {
    /// Creates an executor without calls, with the backlog that an earlier process left.
    pub(super) fn new(calls: Arc<CallRunner>, backlog: Backlog, disk: Arc<DiskRoom>, waker: Waker) -> Self {
        let settings = &calls.settings;
        let places = Places {
            reads: settings.calls.reads,
            effects: settings.calls.total,
            tasks: settings.calls.tasks,
        };
        Self {
            runner: calls,
            lanes: Lanes::new(places),
            calls: HashMap::new(),
            backlog,
            disk,
            waker,
            finished: 0,
        }
    }

    /// Returns whether no call is placed or left to be placed. While calls are paused, those that wait do not count.
    pub(super) fn is_idle(&self) -> bool {
        let is_held = self.runner.pause.is_active() && !self.has_running() && !self.backlog.has_taken_back();
        self.calls.is_empty() && self.backlog.is_empty() || is_held
    }

    /// Returns whether a call runs; calls that only wait in their lanes do not count.
    pub(super) fn has_running(&self) -> bool {
        self.calls.len() > self.lanes.waiting()
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
    pub(super) fn take_admissions(&mut self, admitted: Vec<Admission>) -> (u64, Vec<RequestId>) {
        let (mut fresh, mut unknown) = (0, Vec::new());
        for admission in admitted {
            match admission {
                Admission::Fresh(accepted) => {
                    fresh += 1;
                    self.place(accepted);
                }
                Admission::Refused(reply) => {
                    let delivery = Arc::clone(&self.runner.delivery);
                    self.runner.background.spawn(async move { delivery.deliver(reply).await });
                }
                Admission::Answered(id) => self.runner.delivery.deliver_again(id),
                Admission::InFlight(left) => self.go_on_with(&left),
                Admission::Cancel(id) => self.cancel(&id),
                Admission::Conflict(conflict) => {
                    tracing::warn!(request.id = %conflict.id, "a second request under a known id was not run");
                    self.decline(conflict.id, Declined::Conflict);
                }
                Admission::Closed(id) => self.decline(id, Declined::Forgotten),
                Admission::Unknown(id) => unknown.push(id),
            }
        }
        (fresh, unknown)
    }

    /// Tells the backend, if the wire allows it, that there will be no result.
    fn decline(&self, id: RequestId, why: Declined) {
        let claims = Arc::clone(&self.runner.claims);
        self.runner.background.spawn(async move {
            if let Err(error) = claims.backend.decline(&id, why).await {
                // A repeated request is declined again.
                tracing::info!(request.id = %id, %error, "that there is no result could not be said");
            }
        });
    }

    /// Handles a request that is offered again. An accepted request that no task works on is added to the backlog;
    /// the loop removes nothing from `calls` between the journal's check of a request and this one.
    fn go_on_with(&mut self, left: &InFlight) {
        let InFlight { id, conversation, state, cancelled } = left;
        if *cancelled && *state == State::Accepted || self.calls.contains_key(id) {
            if *cancelled {
                self.cancel(id);
            }
        } else if *state == State::Accepted && !self.backlog.holds(id, conversation) {
            tracing::warn!(request.id = %id, "a request that nobody worked on is taken up again");
            self.backlog.add(conversation);
        }
    }

    /// Puts a call into its lane, or leaves it in the journal until there is capacity.
    pub(super) fn place(&mut self, accepted: Accepted) {
        let (request, bytes) = (accepted.request(), accepted.request().args.len());
        let is_parked = match self.share_of(&accepted) {
            Share::Read | Share::Effect => self.park(&request.conversation, bytes),
            Share::Free | Share::Task | Share::TakenBack => self.park_beside(&request.id, bytes),
        };
        if !is_parked {
            self.put_in_lane(accepted);
        }
    }

    pub(super) fn put_in_lane(&mut self, accepted: Accepted) {
        self.put_in(self.share_of(&accepted), accepted);
    }

    /// Puts a call into a lane; it can be cancelled from now on.
    pub(super) fn put_in(&mut self, share: Share, accepted: Accepted) {
        let request = accepted.request();
        let cancel = CancellationToken::new();
        if request.cancelled {
            cancel.cancel();
        }
        let (conversation, bytes) = (request.conversation.clone(), request.args.len());
        let token = PlacedCall {
            conversation: conversation.clone(),
            cancel: cancel.clone(),
            share,
            place: Place::Held,
        };
        self.calls.insert(request.id.clone(), token);
        let call = Call { accepted, cancel, observed: None };
        self.lanes.place(&conversation, share, bytes, Waiting { call, share, bytes });
    }

    fn share_of(&self, accepted: &Accepted) -> Share {
        let tool = self.runner.registry.find(accepted.request().tool.as_str());
        match accepted.effect() {
            _ if accepted.request().cancelled => Share::TakenBack,
            _ if tool.is_ok_and(|tool| tool.spec().lane == Lane::Control) => Share::Free,
            _ if accepted.origin() == Origin::Task => Share::Task,
            Effect::AsksUser => Share::Free,
            Effect::Reads => Share::Read,
            Effect::Writes | Effect::Executes => Share::Effect,
        }
    }

    /// Starts the calls that may start. Returns whether the disk has room for them.
    pub(super) async fn start_ready(&mut self) -> bool {
        loop {
            let taken_up = self.take_up_parked().await;
            while let Some(waiting) = self.lanes.next_taken_back() {
                self.start(waiting);
            }
            if self.disk.lacks_room() {
                return false;
            }
            while !self.runner.pause.is_active()
                && let Some(waiting) = self.lanes.next()
            {
                self.start(waiting);
            }
            if !taken_up {
                return true;
            }
        }
    }

    fn start(&self, Waiting { call, share, bytes }: Waiting) {
        let (runner, waker) = (Arc::clone(&self.runner), self.waker.clone());
        let request = call.accepted.request();
        let id = request.id.clone();
        let ended = Ended { id: id.clone(), conversation: request.conversation.clone(), share, bytes };
        let freeing = FreeLane { waker: waker.clone(), ended };
        self.runner.background.spawn(async move {
            let _freeing = freeing;
            let accepted = call.accepted.clone();
            let answering = Arc::clone(&runner);
            let mut answer = runner.background.spawn(async move { answering.answer(call).await });
            let long = async {
                match share.gives_back_after() {
                    Some(time) => tokio::time::sleep(time).await,
                    None => std::future::pending().await,
                }
            };
            let answered = tokio::select! {
                answered = &mut answer => answered,
                () = long => {
                    waker.wake(Wake::TakesLong(id));
                    answer.await
                }
            };
            if answered.is_err() {
                runner.answer_for_the_fallen(&accepted).await;
            }
        });
    }

    /// Frees the place of a call that waits for a person.
    pub(super) fn step_aside(&mut self, call: &Accepted) {
        if let Some(token) = self.calls.get_mut(&call.request().id)
            && token.place == Place::Held
        {
            token.place = Place::Aside;
            self.lanes.step_aside(token.share);
        }
    }

    /// Takes the place of a call again.
    pub(super) fn step_back(&mut self, call: &Accepted) {
        if let Some(token) = self.calls.get_mut(&call.request().id)
            && token.place == Place::Aside
        {
            token.place = Place::Held;
            self.lanes.step_back(token.share);
        }
    }

    /// Frees the place of a call that has run for long.
    pub(super) fn takes_long(&mut self, id: &RequestId) {
        if let Some(token) = self.calls.get_mut(id)
            && token.place == Place::Held
            && self.lanes.release_place(token.share)
        {
            token.place = Place::GivenBack;
        }
    }

    pub(super) fn call_finished(&mut self, ended: &Ended) {
        self.finished += 1;
        match self.calls.remove(&ended.id).map(|token| token.place) {
            Some(Place::Aside) => self.lanes.step_back(ended.share),
            Some(Place::GivenBack) => self.lanes.end_without_place(ended.share),
            Some(Place::Held) | None => {}
        }
        self.lanes.finished(&ended.conversation, ended.share, ended.bytes);
    }

    /// Cancels a running call, or takes a waiting one out of its lane, to be answered soon.
    pub(super) fn cancel(&mut self, id: &RequestId) {
        let Some(token) = self.calls.get_mut(id) else { return self.cancel_parked(id) };
        token.cancel.cancel();
        let conversation = token.conversation.clone();
        let waiting = self.lanes.remove(&conversation, |waiting| waiting.call.accepted.request().id == *id);
        if let Some(waiting) = waiting {
            token.share = Share::TakenBack;
            let waiting = Waiting { share: Share::TakenBack, ..waiting };
            self.lanes.place(&conversation, Share::TakenBack, waiting.bytes, waiting);
        }
    }
}
