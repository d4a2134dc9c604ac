//! The loop's dealings with calls: into their lanes, started, cancelled, over. Not here: what a call does (execute) and
//! which may start when (lanes).

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Runner;
use super::engine::Engine;
use super::execute::Call;
use super::lanes::Share;
use super::wake::{Ended, Wake, Waker};
use crate::audit::{Entry, Event, Who};
use crate::backend::{Declined, Offered};
use crate::ids::{ConversationId, RequestId};
use crate::journal::{Accepted, Admission, Origin, State, Unfinished};
use crate::request::Effect;
use crate::tool::Lane;

/// How a call that is placed or runs is cancelled.
pub(super) struct CallToken {
    conversation: ConversationId,
    cancel: CancellationToken,
}

/// A call in its lane.
pub(super) struct Waiting {
    call: Call,
    share: Share,
}

/// Wakes the loop when it is dropped: whatever becomes of a call's task, its lane is freed.
struct Freeing {
    waker: Waker,
    ended: Ended,
}

impl Drop for Freeing {
    fn drop(&mut self) {
        self.waker.wake(Wake::CallFinished(self.ended.clone()));
    }
}

impl Runner {
    /// Goes on with what the journal made of a page.
    pub(super) fn take_in(&mut self, admitted: Vec<Admission>) {
        for admission in admitted {
            match admission {
                Admission::Fresh(accepted) => {
                    self.pass.polled += 1;
                    self.place(accepted);
                }
                Admission::Refused(reply) => {
                    let engine = Arc::clone(&self.engine);
                    self.engine.tasks.spawn(async move { engine.deliver(reply).await });
                }
                Admission::Answered(reply) => {
                    let engine = Arc::clone(&self.engine);
                    self.engine.tasks.spawn(async move { engine.deliver_again(reply).await });
                }
                Admission::InFlight(left) => self.go_on_with(left),
                Admission::Cancel(id) => self.cancel(&id),
                Admission::Conflict(conflict) => {
                    tracing::warn!(request.id = %conflict.id, "a second request under a known id was not run");
                    self.decline(conflict.id, Declined::Conflict);
                }
                Admission::Closed(id) => self.decline(id, Declined::Forgotten),
                Admission::Unknown(id) => self.unknown.push(id),
            }
        }
        self.start_ready();
    }

    /// Says that there will be no result, as far as the wire can.
    fn decline(&self, id: RequestId, why: Declined) {
        let engine = Arc::clone(&self.engine);
        self.engine.tasks.spawn(async move {
            if let Err(error) = engine.backend.decline(&id, why).await {
                // Whoever asks once more is told once more.
                tracing::info!(request.id = %id, %error, "that there is no result could not be said");
            }
        });
    }

    /// A request that is offered again. One that was promised and then fell by the wayside is placed again; the loop
    /// takes nothing out of `calls` between the journal's look at a request and this one.
    fn go_on_with(&mut self, left: Unfinished) {
        let id = left.request.id.clone();
        let cancelled = left.request.cancelled;
        if self.calls.contains_key(&id) {
            if cancelled {
                self.cancel(&id);
            }
        } else if left.state == State::Accepted && !self.parked.has(&left.request.conversation) {
            tracing::warn!(request.id = %id, "a request that nobody worked on is taken up again");
            self.place(left.into());
        }
    }

    /// Places calls that did not come by a page.
    pub(super) fn place_all(&mut self, calls: impl IntoIterator<Item = Accepted>) {
        for accepted in calls {
            self.place(accepted);
        }
        self.start_ready();
    }

    /// Puts a call into its lane, or leaves it in the journal until there is room.
    fn place(&mut self, accepted: Accepted) {
        let waits = matches!(self.share_of(&accepted), Share::Read | Share::Effect);
        if waits && self.park(&accepted.request().conversation) {
            return;
        }
        self.put_in_lane(accepted);
    }

    pub(super) fn put_in_lane(&mut self, accepted: Accepted) {
        let share = self.share_of(&accepted);
        let conversation = accepted.request().conversation.clone();
        let call = self.known(accepted);
        self.lanes.place(&conversation, share, Waiting { call, share });
    }

    /// Answers a waiting call that was taken back.
    pub(super) fn start_cancelled(&mut self, accepted: Accepted) {
        let call = self.known(accepted);
        call.cancel.cancel();
        self.start(call, Share::Free);
    }

    /// A call that can be cancelled from here on.
    fn known(&mut self, accepted: Accepted) -> Call {
        let request = accepted.request();
        let cancel = CancellationToken::new();
        if request.cancelled {
            cancel.cancel();
        }
        let token = CallToken { conversation: request.conversation.clone(), cancel: cancel.clone() };
        self.calls.insert(request.id.clone(), token);
        Call { accepted, cancel, observed: None }
    }

    fn share_of(&self, accepted: &Accepted) -> Share {
        let tool = self.engine.registry.find(accepted.request().tool.as_str());
        match accepted.effect() {
            _ if tool.is_ok_and(|tool| tool.spec().lane == Lane::Control) => Share::Free,
            _ if accepted.origin() == Origin::Task => Share::Task,
            Effect::AsksUser => Share::Free,
            Effect::Reads => Share::Read,
            Effect::Writes | Effect::Executes => Share::Effect,
        }
    }

    /// Starts what may start.
    pub(super) fn start_ready(&mut self) {
        if self.lacks_room() {
            return self.wait_for_room();
        }
        self.take_up_parked();
        while !self.engine.hold.is_on()
            && let Some(waiting) = self.lanes.next()
        {
            self.start(waiting.call, waiting.share);
        }
    }

    fn start(&self, call: Call, share: Share) {
        let engine = Arc::clone(&self.engine);
        let request = call.accepted.request();
        let ended = Ended { id: request.id.clone(), conversation: request.conversation.clone(), share };
        let freeing = Freeing { waker: engine.waker.clone(), ended };
        self.engine.tasks.spawn(async move {
            let _freeing = freeing;
            let accepted = call.accepted.clone();
            let answering = Arc::clone(&engine);
            if engine.tasks.spawn(async move { answering.answer(call).await }).await.is_err() {
                engine.answer_for_the_fallen(&accepted).await;
            }
        });
    }

    /// A call waits for a person; others may have its place.
    pub(super) fn step_aside(&mut self, call: &Accepted) {
        self.lanes.step_aside(self.share_of(call));
        self.start_ready();
    }

    /// It goes on.
    pub(super) fn step_back(&mut self, call: &Accepted) {
        self.lanes.step_back(self.share_of(call));
    }

    pub(super) fn call_finished(&mut self, ended: &Ended) {
        self.pass.executed += 1;
        self.calls.remove(&ended.id);
        self.lanes.finished(&ended.conversation, ended.share);
        self.start_ready();
    }

    /// Cancels a call that runs; takes one that waits out of its lane, to be answered at once.
    pub(super) fn cancel(&mut self, id: &RequestId) {
        let Some(token) = self.calls.get(id) else { return self.cancel_parked(id) };
        token.cancel.cancel();
        let conversation = token.conversation.clone();
        let waiting = self.lanes.remove(&conversation, |waiting| waiting.call.accepted.request().id == *id);
        if let Some(waiting) = waiting {
            self.start(waiting.call, Share::Free);
        }
    }
}

/// The requests that a page takes back.
pub(super) fn cancels_of(events: &[Offered]) -> Vec<RequestId> {
    let cancelled = |event: &Offered| match event {
        Offered::Cancel(id) => Some(id.clone()),
        _ => None,
    };
    events.iter().filter_map(cancelled).collect()
}

/// Notes the cancels that came too late or for nothing, so that whoever wonders finds them.
pub(super) fn note_idle_cancels(engine: &Engine, cancels: &[RequestId], admitted: &[Admission]) {
    let took = |id: &RequestId| {
        admitted.iter().any(|admission| matches!(admission, Admission::Cancel(of) if of == id))
    };
    for id in cancels.iter().filter(|id| !took(id)) {
        tracing::info!(request.id = %id, "a cancel changes nothing: the request is over or was never seen");
        let row = Entry::new(Event::IdleCancel, Who::Caller, engine.clock.now_ms()).about(id);
        engine.audit.note(vec![row]);
    }
}
