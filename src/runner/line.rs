//! The line to the backend, as every call of the runner uses it: what the backend asked for is kept to whoever calls,
//! and what came of the calls is remembered for `status`. Not here: what a call says (backend), and when a failed one is
//! made again (its caller, by backoff).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::backoff::Budget;
use super::engine::Engine;
use super::outbox::Outbox;
use super::settings::WakeUp;
use crate::backend::{
    Answer, Backend, BackendError, Beat, CatalogItem, CatalogKind, Claim, Declined, Disposition, Offered,
    Page, Permissions, Posted, Question, Reply, ResultPost, Session, Told,
};
use crate::ids::{LeaseId, RequestId};

/// Where the journal keeps why nothing comes through.
const KEY: &str = "backend_trouble";
/// And whether the lasting connection is up, where there is one.
const LINK: &str = "backend_link";

/// Functions whose last call may lie days back: what went wrong then is no trouble of the line.
const SELDOM: &[&str] = &["fetch_open", "tell", "ask", "answer_to", "answer", "decline"];

/// A backend that is asked no sooner than it wants.
pub(super) struct Line {
    backend: Arc<dyn Backend>,
    budget: Arc<Budget>,
    /// Told of every answer.
    outbox: Arc<Outbox>,
    /// How long nothing is asked after the backend refused to open a session.
    barred_for: Duration,
    state: Mutex<State>,
    trouble: watch::Sender<&'static str>,
}

#[derive(Default)]
struct State {
    /// Functions that the backend asked not to be called before.
    quiet: BTreeMap<&'static str, Held>,
    /// This device is refused.
    barred: Option<Held>,
    /// What is wrong now, by function.
    troubles: BTreeMap<&'static str, &'static str>,
    /// When a call was last answered.
    answered: Option<Instant>,
}

/// An error that stands for a while.
#[derive(Clone)]
struct Held {
    until: Instant,
    error: BackendError,
}

impl Held {
    /// The error, while it stands; a wait that the backend asked for, as what is left of it.
    fn standing(&self, now: Instant) -> Option<BackendError> {
        let left = self.until.checked_duration_since(now).filter(|left| !left.is_zero())?;
        let mut error = self.error.clone();
        if let BackendError::Busy { retry_after, .. } = &mut error {
            *retry_after = Some(left);
        }
        Some(error)
    }
}

impl Line {
    pub(super) fn new(
        backend: Arc<dyn Backend>,
        budget: Arc<Budget>,
        outbox: Arc<Outbox>,
        barred_for: Duration,
    ) -> Self {
        let trouble = watch::Sender::new("");
        Self { backend, budget, outbox, barred_for, state: Mutex::default(), trouble }
    }

    /// The backend will not have this device: nothing is asked of it for a while.
    pub(super) fn bar(&self, error: &BackendError) {
        let held = Held { until: Instant::now() + self.barred_for, error: error.clone() };
        self.state().barred = Some(held);
    }

    /// The refusal that bars this device now.
    pub(super) fn barred(&self) -> Option<BackendError> {
        self.state().barred.as_ref()?.standing(Instant::now())
    }

    /// Why nothing comes through now, in one word; none while all does.
    pub(super) fn trouble(&self) -> &'static str {
        *self.trouble.borrow()
    }

    /// Whether any call was answered since this moment.
    pub(super) fn has_answered_since(&self, moment: Instant) -> bool {
        self.state().answered.is_some_and(|answered| answered >= moment)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call, unless it has to wait; then the error says so without a word to the backend.
    async fn made<T>(&self, function: &'static str, call: Reply<'_, T>) -> Result<T, BackendError> {
        if let Some(error) = self.must_wait(function) {
            return Err(error);
        }
        let answered = call.await;
        self.heard(function, answered.as_ref().err());
        answered
    }

    fn must_wait(&self, function: &'static str) -> Option<BackendError> {
        let (state, now) = (self.state(), Instant::now());
        state.barred.iter().chain(state.quiet.get(function)).find_map(|held| held.standing(now))
    }

    fn heard(&self, function: &'static str, error: Option<&BackendError>) {
        let mut state = self.state();
        let answer = state.record(function, error, Instant::now());
        let word = state.worst_trouble();
        drop(state);
        if let Some(answer) = answer {
            self.budget.earn();
            self.outbox.backend_answered(answer == Answered::WithSession);
        }
        self.trouble.send_if_modified(|now| std::mem::replace(now, word) != word);
    }
}

/// How the backend answered a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answered {
    /// The call needs an open session.
    WithSession,
    /// A heartbeat, which is signed by itself.
    Signed,
}

impl State {
    /// Records how a call ended, and returns how the backend answered it, if it did.
    fn record(
        &mut self,
        function: &'static str,
        error: Option<&BackendError>,
        now: Instant,
    ) -> Option<Answered> {
        // A refusal that is about one request is an answer like any other.
        let is_answer = |error: &BackendError| {
            matches!(error, BackendError::Refused(_))
                && function != "open_session"
                && error.disposition() != Disposition::Reopen
        };
        if let Some(error) = error.filter(|error| !is_answer(error)) {
            if let BackendError::Busy { retry_after: Some(time), .. } = error {
                let held = Held { until: now + *time, error: error.clone() };
                self.quiet.insert(function, held);
            }
            // What is seldom called says nothing of now.
            if !SELDOM.contains(&function) {
                self.troubles.insert(function, error.trouble());
            }
            return None;
        }
        self.answered = Some(now);
        self.troubles.remove(function);
        let answered = if function == "beat" { Answered::Signed } else { Answered::WithSession };
        // A call that was under way before says nothing; one that was made since does.
        if self.barred.as_ref().is_none_or(|held| held.standing(now).is_none()) {
            self.barred = None;
            self.troubles.remove("open_session");
            // A call that was refused before the session was opened anew may be repeated only much later.
            if answered == Answered::WithSession {
                self.troubles.retain(|_, trouble| *trouble != "refused");
            }
        }
        Some(answered)
    }

    /// The trouble that matters most to a person who looks; none while all calls come through.
    fn worst_trouble(&self) -> &'static str {
        let worst = ["refused", "intercepted", "no_backend", "unreachable", "busy", "failing"];
        let found = worst.into_iter().find(|word| self.troubles.values().any(|trouble| trouble == word));
        found.unwrap_or_default()
    }
}

/// Keeps in the journal why nothing comes through, for `status`, which runs in another process.
pub(super) async fn tell_trouble(engine: Arc<Engine>) {
    let mut news = engine.line.trouble.subscribe();
    loop {
        let word = *news.borrow_and_update();
        if let Err(error) = engine.journal.remember(KEY, word.to_owned()).await {
            tracing::warn!(%error, "the state of the backend could not be noted");
        }
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return },
            () = engine.over.cancelled() => return,
        }
    }
}

/// Keeps in the journal whether the lasting connection is up, for the same.
pub(super) async fn tell_link(engine: Arc<Engine>) {
    let socket = (engine.settings.wakeup != WakeUp::Off).then(|| engine.ears.state());
    let mut link = engine.backend.link();
    let is_socket = link.is_none();
    link = link.or(socket);
    loop {
        let word = match link.as_mut().map(|link| *link.borrow_and_update()) {
            Some(true) => "up",
            // One that nobody wants is not missed.
            Some(false) if is_socket && !engine.ears.is_wanted() => "",
            Some(false) => "down",
            None => "",
        };
        if let Err(error) = engine.journal.remember(LINK, word.to_owned()).await {
            tracing::warn!(%error, "the state of the connection could not be noted");
        }
        let changed = async {
            match &mut link {
                Some(link) => link.changed().await.is_ok(),
                None => false,
            }
        };
        tokio::select! {
            changed = changed => if !changed { return },
            () = engine.over.cancelled() => return,
        }
    }
}

impl Backend for Line {
    fn open_session(&self) -> Reply<'_, Session> {
        Box::pin(self.made("open_session", self.backend.open_session()))
    }

    fn poll<'a>(&'a self, cursor: Option<&'a str>, limit: u32, wait: Duration) -> Reply<'a, Page> {
        Box::pin(self.made("poll", self.backend.poll(cursor, limit, wait)))
    }

    fn list_open(&self) -> Reply<'_, Vec<Offered>> {
        Box::pin(self.made("list_open", self.backend.list_open()))
    }

    fn fetch_open<'a>(&'a self, ids: &'a [RequestId]) -> Reply<'a, Vec<Offered>> {
        Box::pin(self.made("fetch_open", self.backend.fetch_open(ids)))
    }

    fn claim<'a>(&'a self, id: &'a RequestId, lease: &'a LeaseId) -> Reply<'a, Claim> {
        Box::pin(self.made("claim", self.backend.claim(id, lease)))
    }

    fn tell<'a>(&'a self, id: &'a RequestId, lease: &'a LeaseId, n: u64, data: &'a str) -> Reply<'a, Told> {
        Box::pin(self.made("tell", self.backend.tell(id, lease, n, data)))
    }

    fn post<'a>(&'a self, result: ResultPost<'a>) -> Reply<'a, Posted> {
        Box::pin(self.made("post", self.backend.post(result)))
    }

    fn beat(&self, online: bool, every: Duration, health: Value) -> Reply<'_, Beat> {
        Box::pin(self.made("beat", self.backend.beat(online, every, health)))
    }

    fn publish<'a>(&'a self, kind: CatalogKind, revision: u64, items: &'a [CatalogItem]) -> Reply<'a, ()> {
        Box::pin(self.made("publish", self.backend.publish(kind, revision, items)))
    }

    fn decline<'a>(&'a self, id: &'a RequestId, why: Declined) -> Reply<'a, ()> {
        Box::pin(self.made("decline", self.backend.decline(id, why)))
    }

    /// Not counted among the calls: without it all goes on, only slower.
    fn wakeups<'a>(&'a self, heard: &'a (dyn Fn() + Send + Sync)) -> Reply<'a, Infallible> {
        match self.barred() {
            Some(error) => Box::pin(std::future::ready(Err(error))),
            None => self.backend.wakeups(heard),
        }
    }

    fn link(&self) -> Option<watch::Receiver<bool>> {
        self.backend.link()
    }

    fn dated_offset_ms(&self) -> Option<i64> {
        self.backend.dated_offset_ms()
    }

    fn permissions(&self) -> Option<&dyn Permissions> {
        self.backend.permissions().map(|_| self as &dyn Permissions)
    }

    fn refresh_connections(&self) {
        self.backend.refresh_connections();
    }
}

impl Line {
    /// Calls the backend's way to ask people; a line that has none is not asked for it.
    async fn put<'a>(
        &'a self,
        function: &'static str,
        call: impl FnOnce(&'a dyn Permissions) -> Reply<'a, Option<Answer>>,
    ) -> Result<Option<Answer>, BackendError> {
        match self.backend.permissions() {
            Some(permissions) => self.made(function, call(permissions)).await,
            None => Ok(None),
        }
    }
}

impl Permissions for Line {
    fn ask<'a>(&'a self, question: &'a Question) -> Reply<'a, Option<Answer>> {
        Box::pin(self.put("ask", move |there| there.ask(question)))
    }

    fn answer_to<'a>(&'a self, id: &'a RequestId, wait: Duration) -> Reply<'a, Option<Answer>> {
        Box::pin(self.put("answer_to", move |there| there.answer_to(id, wait)))
    }

    fn answer<'a>(&'a self, id: &'a RequestId, option: &'a str) -> Reply<'a, Option<Answer>> {
        Box::pin(self.put("answer", move |there| there.answer(id, option)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> BackendError {
        BackendError::Unauthorized { code: String::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_over_once_a_call_with_the_new_session_is_answered() {
        let (mut state, now) = (State::default(), Instant::now());
        state.record("poll", Some(&refused()), now);
        assert_eq!(state.worst_trouble(), "refused");
        // It needs no session.
        assert_eq!(state.record("beat", None, now), Some(Answered::Signed));
        assert_eq!(state.worst_trouble(), "refused");
        // The poll that is made now is held, and says nothing for half a minute.
        assert_eq!(state.record("open_session", None, now), Some(Answered::WithSession));
        assert_eq!(state.worst_trouble(), "");
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_device_is_barred_calls_of_before_do_not_end_the_refusal() {
        let (mut state, now) = (State::default(), Instant::now());
        state.record("open_session", Some(&refused()), now);
        state.barred = Some(Held { until: now + Duration::from_mins(3), error: refused() });
        state.record("post", None, now);
        assert_eq!(state.worst_trouble(), "refused");
        state.record("post", None, now + Duration::from_mins(4));
        assert_eq!(state.worst_trouble(), "");
    }
}
