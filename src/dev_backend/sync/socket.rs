//! A socket from its first message to its end. It handles messages in order, sends changes, and pings a silent client.
//! Not here: finding changes (`query_set`), and running a mutation once (`dedup`).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use super::dedup::{self, CallKey, Done};
use super::messages::{
    Authenticate, Call, Connect, FromClient, Measured, Modify, ModifyQuerySet, ToClient, TokenType, Version,
};
use super::query_set::{MOST_QUERIES, QuerySet};
use super::timestamp::Timestamp;
use super::{chunks, path};
use crate::dev_backend::clock::last_seq;
use crate::dev_backend::failure::Failure;
use crate::dev_backend::faults::Fault;
use crate::dev_backend::functions::{self, View};
use crate::dev_backend::server::Backend;

/// The silence of the server after which it sends a Ping. Clients give up after 30 to 60 s.
const PING_EVERY: Duration = Duration::from_secs(15);
/// The silence after which a client counts as gone.
const SILENCE: Duration = Duration::from_mins(2);
/// The time that a client has to read one message.
const SLOWEST: Duration = Duration::from_secs(30);
/// The time to wait for the client's close.
const GOODBYE: Duration = Duration::from_secs(1);
/// The most changes of the query set in one message.
const MOST_CHANGES: usize = 4 * MOST_QUERIES;

/// Serves one socket until it ends.
pub(super) async fn serve(backend: Arc<Backend>, ws: WebSocket, joins_chunks: bool) {
    let news = backend.commits.listen();
    let (now, version) = (Instant::now(), Version::default());
    let mut socket = Socket {
        backend,
        ws,
        joins_chunks,
        news,
        session: None,
        version,
        queries: QuerySet::default(),
        clock_skew: None,
        has_more: false,
        said_at: now,
        asked_at: None,
    };
    let Err(end) = socket.run().await;
    tracing::debug!(?end, "a socket of the embedded backend ends");
    socket.part(end).await;
}

struct Socket {
    backend: Arc<Backend>,
    ws: WebSocket,
    joins_chunks: bool,
    /// The count of commits.
    news: watch::Receiver<u64>,
    /// The client's session, after its first message.
    session: Option<Uuid>,
    /// The version that the client was sent last.
    version: Version,
    queries: QuerySet,
    /// The milliseconds by which the client's clock is behind ours, if it sent its time.
    clock_skew: Option<f64>,
    /// True if the last Transition was full.
    has_more: bool,
    said_at: Instant,
    asked_at: Option<Instant>,
}

/// The reason why a socket ends.
#[derive(Debug)]
enum End {
    /// The client closed it, or is unreachable.
    Gone,
    /// An injected fault: closed without a goodbye.
    Cut,
    /// The client violated the protocol; the official one then gives up for good.
    Fatal(String),
    /// The client's token is invalid.
    Unauthenticated(&'static str, u32),
    /// The server closes it, and the client may reconnect. The reason begins with a code.
    Closed(u16, String),
}

impl End {
    /// Returns the end for an internal failure; the client reconnects and asks again.
    fn failed(failure: &Failure) -> Self {
        Self::Closed(1011, format!("InternalServerError: {failure}"))
    }
}

impl Socket {
    async fn run(&mut self) -> Result<Infallible, End> {
        loop {
            // The branches are tried in random order, so changes and messages cannot starve each other.
            tokio::select! {
                () = self.backend.stopping.cancelled() => {
                    return Err(End::Closed(1001, "InternalServerError: the embedded backend is stopping".into()));
                }
                message = self.ws.recv() => self.hear(message).await?,
                changed = self.news.changed() => {
                    changed.map_err(|_| End::Gone)?;
                    self.transition(None).await?;
                }
                () = std::future::ready(()), if self.has_more => self.transition(None).await?,
                () = sleep_until(self.said_at + PING_EVERY) => self.ping().await?,
            }
        }
    }

    async fn hear(&mut self, message: Option<Result<Message, axum::Error>>) -> Result<(), End> {
        self.asked_at = None;
        match message {
            Some(Ok(Message::Text(text))) => self.answer(text.as_str()).await,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            Some(Ok(Message::Binary(_))) => Err(End::Fatal("messages are text".into())),
            Some(Err(broken)) => Err(End::Closed(1002, format!("BadMessage: {broken}"))),
            None | Some(Ok(Message::Close(_))) => Err(End::Gone),
        }
    }

    async fn answer(&mut self, text: &str) -> Result<(), End> {
        let message = FromClient::read(text).map_err(|bad| End::Fatal(bad.to_string()))?;
        match (message, self.session) {
            (FromClient::Event, _) => Ok(()),
            (FromClient::Connect(connect), None) => self.connect(&connect).await,
            (FromClient::Connect(_), Some(_)) => Err(End::Fatal("a socket is connected once".into())),
            (_, None) => Err(End::Fatal("the first message must be Connect".into())),
            (FromClient::ModifyQuerySet(modify), _) => self.modify(&modify).await,
            (FromClient::Mutation(call), Some(session)) => self.mutate(session, &call).await,
            (FromClient::Action(call), _) => self.act(&call).await,
            (FromClient::Authenticate(who), _) => self.authenticate(&who).await,
        }
    }

    async fn connect(&mut self, connect: &Connect) -> Result<(), End> {
        let observed = connect.max_observed_timestamp.unwrap_or_default();
        match dedup::begin(&self.backend, observed).await {
            Ok(()) => {
                self.session = Some(connect.session_id);
                let told = Some(connect.client_ts).filter(|told| *told > 0.0);
                self.clock_skew = told.map(|told| self.backend.clock.now_ms() - told);
                Ok(())
            }
            Err(failure) => Err(End::failed(&failure)),
        }
    }

    async fn modify(&mut self, modify: &ModifyQuerySet<'_>) -> Result<(), End> {
        let (base, new, held) = (modify.base_version, modify.new_version, self.version.query_set);
        if base != held || new <= base {
            return Err(End::Fatal(format!(
                "the query set is at version {held}: {base} to {new} is no step from it"
            )));
        }
        if modify.len() > MOST_CHANGES {
            return Err(End::Fatal(format!("one message may change at most {MOST_CHANGES} queries")));
        }
        let production = self.backend.production_errors;
        for change in modify.modifications() {
            match change.map_err(|bad| End::Fatal(bad.to_string()))? {
                Modify::Add(add) => self.queries.add(&add, production).map_err(End::Fatal)?,
                Modify::Remove(query_id) => self.queries.remove(query_id),
            }
        }
        self.transition(Some(Version { query_set: new, ..self.version })).await
    }

    async fn mutate(&mut self, session: Uuid, call: &Call<'_>) -> Result<(), End> {
        let fault = self.backend.faults.as_ref().and_then(|faults| faults.strike(call.udf_path.clone()));
        match &fault {
            Some(Fault::Unheard) => return Err(End::Cut),
            Some(Fault::Status { code, .. }) => {
                return Err(End::Closed(1011, format!("{code}: a fault on purpose")));
            }
            _ => {}
        }
        let done = run_once(&self.backend, session, call).await;
        if fault == Some(Fault::Drop) {
            return Err(End::Cut);
        }
        let mut next = self.version;
        match done {
            Ok(Done { ts, value }) => {
                self.say_outcome(call.request_id, &value, Some(ts), None).await?;
                next.ts = next.ts.max(ts);
            }
            // It is unknown if it ran: to report a failure could be wrong, but a repeated call is safe.
            Err(failure @ Failure::Stopping) => return Err(End::failed(&failure)),
            Err(failure) => {
                self.say_outcome(
                    call.request_id,
                    &refusal(&failure, self.production()),
                    None,
                    Some(&failure),
                )
                .await?;
            }
        }
        // Clients wait for it, also after a failure.
        self.transition(Some(next)).await
    }

    async fn say_outcome(
        &mut self,
        request_id: u32,
        result: &RawValue,
        ts: Option<Timestamp>,
        failure: Option<&Failure>,
    ) -> Result<(), End> {
        let error_data = failure.and_then(Failure::data);
        let success = failure.is_none();
        self.say(&ToClient::MutationResponse { request_id, success, result, ts, log_lines: [], error_data })
            .await
    }

    /// Refuses an action, since there are none.
    async fn act(&mut self, call: &Call<'_>) -> Result<(), End> {
        let failure = path(&call.udf_path, call.component_path.as_deref())
            .map_or_else(|bad| bad, |path| functions::no_action(&path));
        let result = failure.told(self.production()).message;
        let request_id = call.request_id;
        self.say(&ToClient::ActionResponse { request_id, success: false, result: &result, log_lines: [] })
            .await
    }

    async fn authenticate(&mut self, who: &Authenticate) -> Result<(), End> {
        let held = self.version.identity;
        if who.base_version != held {
            let base = who.base_version;
            return Err(End::Fatal(format!("the identity is at version {held}, not {base}")));
        }
        let value = who.value.as_deref().unwrap_or_default();
        match who.token_type {
            TokenType::None => {}
            TokenType::Admin if self.backend.is_admin(value) => {}
            TokenType::Admin => {
                return Err(End::Unauthenticated("BadAdminKey: this is not the admin key", held));
            }
            TokenType::User => {
                let why = "NoAuthProvider: no provider of this user token is configured here";
                return Err(End::Unauthenticated(why, held));
            }
        }
        self.transition(Some(Version { identity: held + 1, ..self.version })).await
    }

    /// Sends all changes in one Transition. The official Rust and Python clients show users every Transition. So an
    /// empty one is sent only if a version must be reached.
    async fn transition(&mut self, must: Option<Version>) -> Result<(), End> {
        // Later commits wake this socket again.
        self.news.mark_unchanged();
        self.has_more = false;
        let mut end = must.unwrap_or(self.version);
        let mut modifications = self.queries.take_said();
        if self.queries.is_due(&self.backend.commits) {
            let mut queries = std::mem::take(&mut self.queries);
            let backend = Arc::clone(&self.backend);
            let look = self.backend.store.read_long(move |db| {
                let count = backend.commits.count();
                let mut changed = Vec::new();
                let view = View { db };
                let ts = Timestamp::of_seq(last_seq(db)?);
                let complete =
                    queries.look(&view, (&backend.commits, count), backend.production_errors, &mut changed);
                Ok((queries, changed, ts, complete))
            });
            let (queries, changed, ts, complete) = look.await.map_err(|failure| End::failed(&failure))?;
            self.queries = queries;
            self.has_more = !complete;
            modifications.extend(changed);
            if must.is_some() || !modifications.is_empty() {
                end.ts = end.ts.max(ts);
            }
        }
        if must.is_none() && modifications.is_empty() {
            return Ok(());
        }
        let text = ToClient::Transition {
            start_version: self.version,
            end_version: end,
            modifications: &modifications,
            measured: self.measured(),
        }
        .to_text();
        drop(modifications);
        self.version = end;
        self.say_long(text).await
    }

    #[expect(clippy::cast_possible_truncation, reason = "the casts saturate, and it is for statistics only")]
    fn measured(&self) -> Option<Measured> {
        let server_ts = (self.backend.clock.now_ms() * 1e6) as i64;
        self.clock_skew.map(|skew| Measured { client_clock_skew: skew as i64, server_ts })
    }

    async fn say_long(&mut self, text: String) -> Result<(), End> {
        if !self.joins_chunks || text.len() <= chunks::CHUNK_BYTES {
            return self.send(Message::Text(text.into())).await;
        }
        let id = Uuid::new_v4().to_string();
        let total_parts = chunks::parts(&text, chunks::CHUNK_BYTES).count();
        for (part_number, chunk) in chunks::parts(&text, chunks::CHUNK_BYTES).enumerate() {
            self.say(&ToClient::TransitionChunk { chunk, part_number, total_parts, transition_id: &id })
                .await?;
        }
        Ok(())
    }

    async fn ping(&mut self) -> Result<(), End> {
        let asked_at = *self.asked_at.get_or_insert_with(Instant::now);
        if asked_at.elapsed() >= SILENCE {
            return Err(End::Closed(1001, "SilentClient: no ping was answered for 2 minutes".into()));
        }
        // The first is answered by the client's WebSocket library, the second is for the client's own timer.
        self.send(Message::Ping(axum::body::Bytes::new())).await?;
        self.say(&ToClient::Ping).await
    }

    async fn say(&mut self, message: &ToClient<'_>) -> Result<(), End> {
        self.send(Message::Text(message.to_text().into())).await
    }

    /// Sends a message. Until it is written, the socket does nothing else, so no queue builds up.
    async fn send(&mut self, message: Message) -> Result<(), End> {
        let sent = tokio::select! {
            biased;
            sent = timeout(SLOWEST, self.ws.send(message)) => sent,
            () = self.backend.stopping.cancelled() => return Err(End::Gone),
        };
        self.said_at = Instant::now();
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(End::Gone),
        }
    }

    fn production(&self) -> bool {
        self.backend.production_errors
    }

    /// Closes the connection as the end requires, and waits a moment for the client's close.
    async fn part(mut self, end: End) {
        let (last_word, frame) = match end {
            End::Cut => return,
            End::Gone => (None, None),
            End::Fatal(error) => {
                (Some(ToClient::FatalError { error: &error }.to_text()), Some((1002, error)))
            }
            End::Unauthenticated(error, base_version) => {
                let told = ToClient::AuthError { error, base_version, auth_update_attempted: true };
                (Some(told.to_text()), Some((1000, error.to_owned())))
            }
            End::Closed(code, reason) => (None, Some((code, reason))),
        };
        let goodbye = async {
            if let Some(text) = last_word {
                drop(self.ws.send(Message::Text(text.into())).await);
            }
            if let Some((code, reason)) = frame {
                // A reason has at most 123 bytes.
                let reason = reason[..reason.floor_char_boundary(120)].into();
                drop(self.ws.send(Message::Close(Some(CloseFrame { code, reason }))).await);
            }
            while let Some(Ok(_)) = self.ws.recv().await {}
        };
        drop(timeout(GOODBYE, goodbye).await);
    }
}

async fn run_once(backend: &Arc<Backend>, session: Uuid, call: &Call<'_>) -> Result<Done, Failure> {
    let (path, args) = (path(&call.udf_path, call.component_path.as_deref())?, call.args.only()?);
    let key = CallKey::new(session, call.request_id, &path, args);
    dedup::once(backend, key, functions::change(&path, args)?).await
}

/// Returns a failed mutation's message in place of its value.
fn refusal(failure: &Failure, production: bool) -> Box<RawValue> {
    to_raw_value(&failure.told(production).message).expect("text is JSON")
}
