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
use crate::journal::{Accepted, Admission, InFlight, Origin, State};
use crate::request::Effect;
use crate::tool::Lane;

/// How a call that is placed or runs is cancelled.
pub(super) struct CallToken {
    conversation: ConversationId,
    cancel: CancellationToken,
    share: Share,
    place: Place,
}

/// Whether a call that runs counts among those that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It does.
    Held,
    /// Not while it waits for a person.
    Aside,
    /// Not any more: it takes too long.
    GivenBack,
}

/// A call in its lane.
pub(super) struct Waiting {
    call: Call,
    share: Share,
    bytes: usize,
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
    pub(super) async fn take_in(&mut self, admitted: Vec<Admission>) {
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
                Admission::Answered(id) => self.engine.deliver_again(id),
                Admission::InFlight(left) => self.go_on_with(&left),
                Admission::Cancel(id) => self.cancel(&id),
                Admission::Conflict(conflict) => {
                    tracing::warn!(request.id = %conflict.id, "a second request under a known id was not run");
                    self.decline(conflict.id, Declined::Conflict);
                }
                Admission::Closed(id) => self.decline(id, Declined::Forgotten),
                Admission::Unknown(id) => self.unknown.push(id),
            }
        }
        self.start_ready().await;
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
    fn go_on_with(&mut self, left: &InFlight) {
        let InFlight { id, conversation, state, cancelled } = left;
        if *cancelled && *state == State::Accepted || self.calls.contains_key(id) {
            if *cancelled {
                self.cancel(id);
            }
        } else if *state == State::Accepted && !self.parked.holds(id, conversation) {
            tracing::warn!(request.id = %id, "a request that nobody worked on is taken up again");
            self.parked.add(conversation);
        }
    }

    /// Takes in a call that did not come by a page.
    pub(super) async fn take_in_task(&mut self, call: Accepted) {
        self.place(call);
        self.start_ready().await;
    }

    /// Puts a call into its lane, or leaves it in the journal until there is room.
    fn place(&mut self, accepted: Accepted) {
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

    /// Puts a call into a lane; it can be cancelled from here on.
    pub(super) fn put_in(&mut self, share: Share, accepted: Accepted) {
        let request = accepted.request();
        let cancel = CancellationToken::new();
        if request.cancelled {
            cancel.cancel();
        }
        let (conversation, bytes) = (request.conversation.clone(), request.args.len());
        let token = CallToken {
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
        let tool = self.engine.registry.find(accepted.request().tool.as_str());
        match accepted.effect() {
            _ if accepted.request().cancelled => Share::TakenBack,
            _ if tool.is_ok_and(|tool| tool.spec().lane == Lane::Control) => Share::Free,
            _ if accepted.origin() == Origin::Task => Share::Task,
            Effect::AsksUser => Share::Free,
            Effect::Reads => Share::Read,
            Effect::Writes | Effect::Executes => Share::Effect,
        }
    }

    /// Starts what may start.
    pub(super) async fn start_ready(&mut self) {
        loop {
            let taken_up = self.take_up_parked().await;
            while let Some(waiting) = self.lanes.next_taken_back() {
                self.start(waiting);
            }
            if self.lacks_room() {
                return self.wait_for_room();
            }
            while !self.engine.hold.is_on()
                && let Some(waiting) = self.lanes.next()
            {
                self.start(waiting);
            }
            if !taken_up {
                break;
            }
        }
    }

    fn start(&self, Waiting { call, share, bytes }: Waiting) {
        let engine = Arc::clone(&self.engine);
        let request = call.accepted.request();
        let id = request.id.clone();
        let ended = Ended { id: id.clone(), conversation: request.conversation.clone(), share, bytes };
        let freeing = Freeing { waker: engine.waker.clone(), ended };
        self.engine.tasks.spawn(async move {
            let _freeing = freeing;
            let accepted = call.accepted.clone();
            let answering = Arc::clone(&engine);
            let mut answer = engine.tasks.spawn(async move { answering.answer(call).await });
            let long = async {
                match share.gives_back_after() {
                    Some(time) => tokio::time::sleep(time).await,
                    None => std::future::pending().await,
                }
            };
            let answered = tokio::select! {
                answered = &mut answer => answered,
                () = long => {
                    engine.waker.wake(Wake::TakesLong(id));
                    answer.await
                }
            };
            if answered.is_err() {
                engine.answer_for_the_fallen(&accepted).await;
            }
        });
    }

    /// A call waits for a person; others may have its place.
    pub(super) async fn step_aside(&mut self, call: &Accepted) {
        if let Some(token) = self.calls.get_mut(&call.request().id)
            && token.place == Place::Held
        {
            token.place = Place::Aside;
            self.lanes.step_aside(token.share);
            self.start_ready().await;
        }
    }

    /// It goes on.
    pub(super) fn step_back(&mut self, call: &Accepted) {
        if let Some(token) = self.calls.get_mut(&call.request().id)
            && token.place == Place::Aside
        {
            token.place = Place::Held;
            self.lanes.step_back(token.share);
        }
    }

    /// A call has run for long: others may have its place.
    pub(super) async fn takes_long(&mut self, id: &RequestId) {
        if let Some(token) = self.calls.get_mut(id)
            && token.place == Place::Held
            && self.lanes.release_place(token.share)
        {
            token.place = Place::GivenBack;
            self.start_ready().await;
        }
    }

    pub(super) async fn call_finished(&mut self, ended: &Ended) {
        self.pass.executed += 1;
        match self.calls.remove(&ended.id).map(|token| token.place) {
            Some(Place::Aside) => self.lanes.step_back(ended.share),
            Some(Place::GivenBack) => self.lanes.end_without_place(ended.share),
            Some(Place::Held) | None => {}
        }
        self.lanes.finished(&ended.conversation, ended.share, ended.bytes);
        self.start_ready().await;
    }

    /// Cancels a call that runs; takes one that waits out of its lane, to be answered soon.
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

    /// The same for one of which it was learned elsewhere.
    pub(super) async fn cancel_seen(&mut self, id: &RequestId) {
        self.cancel(id);
        self.start_ready().await;
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
