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

use super::dedup::{self, CallKey, CommittedMutation};
use super::messages::{
    AuthenticateMessage, ClientMessage, ClockMeasurement, ConnectMessage, ModifyQuerySet,
    QuerySetChange, ServerMessage, SyncCall, SyncVersion, TokenType,
};
use super::query_set::{MOST_QUERIES, SyncQuerySet};
use super::timestamp::CommitTimestamp;
use super::{chunks, sync_function_path};
use crate::dev_backend::commit_clock::last_commit_seq;
use crate::dev_backend::failure::FunctionFailure;
use crate::dev_backend::faults::InjectedFault;
use crate::dev_backend::functions::{self, SnapshotView};
use crate::dev_backend::server::BackendState;

/// The silence of the server after which it sends a Ping. Clients give up after 30 to 60 s.
const PING_EVERY: Duration = Duration::from_secs(15);
/// The silence after which a client counts as gone.
const CLIENT_SILENCE_LIMIT: Duration = Duration::from_mins(2);
/// The time that a client has to read one message.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// The time to wait for the client's close.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);
/// The most changes of the query set in one message.
const MOST_CHANGES: usize = 4 * MOST_QUERIES;

/// Serves one socket until it ends.
pub(super) async fn serve_socket(backend: Arc<BackendState>, ws: WebSocket, joins_chunks: bool) {
    let news = backend.commits.subscribe_commits();
    let (now, version) = (Instant::now(), SyncVersion::default());
    let mut socket = SyncConnection {
        backend,
        ws,
        joins_chunks,
        commit_count: news,
        session: None,
        version,
        queries: SyncQuerySet::default(),
        clock_skew: None,
        has_more: false,
        said_at: now,
        asked_at: None,
    };
    let Err(end) = socket.run_connection().await;
    tracing::debug!(?end, "a socket of the embedded backend ends");
    socket.say_goodbye(end).await;
}

struct SyncConnection {
    backend: Arc<BackendState>,
    ws: WebSocket,
    joins_chunks: bool,
    /// The count of commits.
    commit_count: watch::Receiver<u64>,
    /// The client's session, after its first message.
    session: Option<Uuid>,
    /// The version that the client was sent last.
    version: SyncVersion,
    queries: SyncQuerySet,
    /// The milliseconds by which the client's clock is behind ours, if it sent its time.
    clock_skew: Option<f64>,
    /// True if the last Transition was full.
    has_more: bool,
    said_at: Instant,
    asked_at: Option<Instant>,
}

/// The reason why a socket ends.
#[derive(Debug)]
enum ConnectionEnd {
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

impl ConnectionEnd {
    /// Returns the end for an internal failure; the client reconnects and asks again.
    fn for_failure(failure: &FunctionFailure) -> Self {
        Self::Closed(1011, format!("InternalServerError: {failure}"))
    }
}

impl SyncConnection {
    async fn run_connection(&mut self) -> Result<Infallible, ConnectionEnd> {
        loop {
            // The branches are tried in random order, so changes and messages cannot starve each other.
            tokio::select! {
                () = self.backend.stopping.cancelled() => {
                    return Err(ConnectionEnd::Closed(1001, "InternalServerError: the embedded backend is stopping".into()));
                }
                message = self.ws.recv() => self.receive_message(message).await?,
                changed = self.commit_count.changed() => {
                    changed.map_err(|_| ConnectionEnd::Gone)?;
                    self.send_transition(None).await?;
                }
                () = std::future::ready(()), if self.has_more => self.send_transition(None).await?,
                () = sleep_until(self.said_at + PING_EVERY) => self.ping_client().await?,
            }
        }
    }

    async fn receive_message(
        &mut self,
        message: Option<Result<Message, axum::Error>>,
    ) -> Result<(), ConnectionEnd> {
        self.asked_at = None;
        match message {
            Some(Ok(Message::Text(text))) => self.dispatch_message(text.as_str()).await,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            Some(Ok(Message::Binary(_))) => Err(ConnectionEnd::Fatal("messages are text".into())),
            Some(Err(broken)) => Err(ConnectionEnd::Closed(1002, format!("BadMessage: {broken}"))),
            None | Some(Ok(Message::Close(_))) => Err(ConnectionEnd::Gone),
        }
    }

    async fn dispatch_message(&mut self, text: &str) -> Result<(), ConnectionEnd> {
        let message = ClientMessage::parse_message(text)
            .map_err(|bad| ConnectionEnd::Fatal(bad.to_string()))?;
        match (message, self.session) {
            (ClientMessage::Event, _) => Ok(()),
            (ClientMessage::Connect(connect), None) => self.accept_connect(&connect).await,
            (ClientMessage::Connect(_), Some(_)) => {
                Err(ConnectionEnd::Fatal("a socket is connected once".into()))
            }
            (_, None) => Err(ConnectionEnd::Fatal(
                "the first message must be Connect".into(),
            )),
            (ClientMessage::ModifyQuerySet(modify), _) => self.modify_query_set(&modify).await,
            (ClientMessage::Mutation(call), Some(session)) => {
                self.handle_mutation(session, &call).await
            }
            (ClientMessage::Action(call), _) => self.refuse_action(&call).await,
            (ClientMessage::Authenticate(who), _) => self.authenticate_client(&who).await,
        }
    }

    async fn accept_connect(&mut self, connect: &ConnectMessage) -> Result<(), ConnectionEnd> {
        let observed = connect.max_observed_timestamp.unwrap_or_default();
        match dedup::begin_session(&self.backend, observed).await {
            Ok(()) => {
                self.session = Some(connect.session_id);
                let told = Some(connect.client_ts).filter(|told| *told > 0.0);
                self.clock_skew = told.map(|told| self.backend.clock.now_ms() - told);
                Ok(())
            }
            Err(failure) => Err(ConnectionEnd::for_failure(&failure)),
        }
    }

    async fn modify_query_set(&mut self, modify: &ModifyQuerySet<'_>) -> Result<(), ConnectionEnd> {
        let (base, new, held) = (
            modify.base_version,
            modify.new_version,
            self.version.query_set,
        );
        if base != held || new <= base {
            return Err(ConnectionEnd::Fatal(format!(
                "the query set is at version {held}: {base} to {new} is no step from it"
            )));
        }
        if modify.len() > MOST_CHANGES {
            return Err(ConnectionEnd::Fatal(format!(
                "one message may change at most {MOST_CHANGES} queries"
            )));
        }
        let production = self.backend.production_errors;
        for change in modify.parse_modifications() {
            match change.map_err(|bad| ConnectionEnd::Fatal(bad.to_string()))? {
                QuerySetChange::Add(add) => self
                    .queries
                    .add_query(&add, production)
                    .map_err(ConnectionEnd::Fatal)?,
                QuerySetChange::Remove(query_id) => self.queries.remove_query(query_id),
            }
        }
        self.send_transition(Some(SyncVersion {
            query_set: new,
            ..self.version
        }))
        .await
    }

    async fn handle_mutation(
        &mut self,
        session: Uuid,
        call: &SyncCall<'_>,
    ) -> Result<(), ConnectionEnd> {
        let fault = self
            .backend
            .faults
            .as_ref()
            .and_then(|faults| faults.take_fault(call.udf_path.clone()));
        match &fault {
            Some(InjectedFault::Unheard) => return Err(ConnectionEnd::Cut),
            Some(InjectedFault::Status { code, .. }) => {
                return Err(ConnectionEnd::Closed(
                    1011,
                    format!("{code}: a fault on purpose"),
                ));
            }
            _ => {}
        }
        let done = run_mutation_once(&self.backend, session, call).await;
        if fault == Some(InjectedFault::Drop) {
            return Err(ConnectionEnd::Cut);
        }
        let mut next = self.version;
        match done {
            Ok(CommittedMutation { ts, value }) => {
                self.send_mutation_response(call.request_id, &value, Some(ts), None)
                    .await?;
                next.ts = next.ts.max(ts);
            }
            // It is unknown if it ran: to report a failure could be wrong, but a repeated call is safe.
            Err(failure @ FunctionFailure::Stopping) => {
                return Err(ConnectionEnd::for_failure(&failure));
            }
            Err(failure) => {
                self.send_mutation_response(
                    call.request_id,
                    &failure_message(&failure, self.hides_error_text()),
                    None,
                    Some(&failure),
                )
                .await?;
            }
        }
        // Clients wait for it, also after a failure.
        self.send_transition(Some(next)).await
    }

    async fn send_mutation_response(
        &mut self,
        request_id: u32,
        result: &RawValue,
        ts: Option<CommitTimestamp>,
        failure: Option<&FunctionFailure>,
    ) -> Result<(), ConnectionEnd> {
        let error_data = failure.and_then(FunctionFailure::thrown_data);
        let success = failure.is_none();
        self.send_server_message(&ServerMessage::MutationResponse {
            request_id,
            success,
            result,
            ts,
            log_lines: [],
            error_data,
        })
        .await
    }

    /// Refuses an action, since there are none.
    async fn refuse_action(&mut self, call: &SyncCall<'_>) -> Result<(), ConnectionEnd> {
        let failure = sync_function_path(&call.udf_path, call.component_path.as_deref())
            .map_or_else(|bad| bad, |path| functions::action_refusal(&path));
        let result = failure.to_client_error(self.hides_error_text()).message;
        let request_id = call.request_id;
        self.send_server_message(&ServerMessage::ActionResponse {
            request_id,
            success: false,
            result: &result,
            log_lines: [],
        })
        .await
    }

    async fn authenticate_client(
        &mut self,
        who: &AuthenticateMessage,
    ) -> Result<(), ConnectionEnd> {
        let held = self.version.identity;
        if who.base_version != held {
            let base = who.base_version;
            return Err(ConnectionEnd::Fatal(format!(
                "the identity is at version {held}, not {base}"
            )));
        }
        let value = who.value.as_deref().unwrap_or_default();
        match who.token_type {
            TokenType::None => {}
            TokenType::Admin if self.backend.is_admin_key(value) => {}
            TokenType::Admin => {
                return Err(ConnectionEnd::Unauthenticated(
                    "BadAdminKey: this is not the admin key",
                    held,
                ));
            }
            TokenType::User => {
                let why = "NoAuthProvider: no provider of this user token is configured here";
                return Err(ConnectionEnd::Unauthenticated(why, held));
            }
        }
        self.send_transition(Some(SyncVersion {
            identity: held + 1,
            ..self.version
        }))
        .await
    }

    /// Sends all changes in one Transition. The official Rust and Python clients show users every Transition. So an
    /// empty one is sent only if a version must be reached.
    async fn send_transition(&mut self, must: Option<SyncVersion>) -> Result<(), ConnectionEnd> {
        // Later commits wake this socket again.
        self.commit_count.mark_unchanged();
        self.has_more = false;
        let mut end = must.unwrap_or(self.version);
        let mut modifications = self.queries.take_notices();
        if self.queries.has_due_queries(&self.backend.commits) {
            let mut queries = std::mem::take(&mut self.queries);
            let backend = Arc::clone(&self.backend);
            let look = self.backend.store.run_long_read(move |db| {
                let count = backend.commits.commit_count();
                let mut changed = Vec::new();
                let view = SnapshotView { db };
                let ts = CommitTimestamp::from_seq(last_commit_seq(db)?);
                let complete = queries.refresh_due(
                    &view,
                    (&backend.commits, count),
                    backend.production_errors,
                    &mut changed,
                );
                Ok((queries, changed, ts, complete))
            });
            let (queries, changed, ts, complete) = look
                .await
                .map_err(|failure| ConnectionEnd::for_failure(&failure))?;
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
        let text = ServerMessage::Transition {
            start_version: self.version,
            end_version: end,
            modifications: &modifications,
            measured: self.clock_measurement(),
        }
        .to_message_text();
        drop(modifications);
        self.version = end;
        self.send_in_chunks(text).await
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the casts saturate, and it is for statistics only"
    )]
    fn clock_measurement(&self) -> Option<ClockMeasurement> {
        let server_ts = (self.backend.clock.now_ms() * 1e6) as i64;
        self.clock_skew.map(|skew| ClockMeasurement {
            client_clock_skew: skew as i64,
            server_ts,
        })
    }

    async fn send_in_chunks(&mut self, text: String) -> Result<(), ConnectionEnd> {
        if !self.joins_chunks || text.len() <= chunks::CHUNK_BYTES {
            return self.send_frame(Message::Text(text.into())).await;
        }
        let id = Uuid::new_v4().to_string();
        let total_parts = chunks::split_into_parts(&text, chunks::CHUNK_BYTES).count();
        for (part_number, chunk) in chunks::split_into_parts(&text, chunks::CHUNK_BYTES).enumerate()
        {
            self.send_server_message(&ServerMessage::TransitionChunk {
                chunk,
                part_number,
                total_parts,
                transition_id: &id,
            })
            .await?;
        }
        Ok(())
    }

    async fn ping_client(&mut self) -> Result<(), ConnectionEnd> {
        let asked_at = *self.asked_at.get_or_insert_with(Instant::now);
        if asked_at.elapsed() >= CLIENT_SILENCE_LIMIT {
            return Err(ConnectionEnd::Closed(
                1001,
                "SilentClient: no ping was answered for 2 minutes".into(),
            ));
        }
        // The first is answered by the client's WebSocket library, the second is for the client's own timer.
        self.send_frame(Message::Ping(axum::body::Bytes::new()))
            .await?;
        self.send_server_message(&ServerMessage::Ping).await
    }

    async fn send_server_message(
        &mut self,
        message: &ServerMessage<'_>,
    ) -> Result<(), ConnectionEnd> {
        self.send_frame(Message::Text(message.to_message_text().into()))
            .await
    }

    /// Sends a message. Until it is written, the socket does nothing else, so no queue builds up.
    async fn send_frame(&mut self, message: Message) -> Result<(), ConnectionEnd> {
        let sent = tokio::select! {
            biased;
            sent = timeout(SEND_TIMEOUT, self.ws.send(message)) => sent,
            () = self.backend.stopping.cancelled() => return Err(ConnectionEnd::Gone),
        };
        self.said_at = Instant::now();
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ConnectionEnd::Gone),
        }
    }

    fn hides_error_text(&self) -> bool {
        self.backend.production_errors
    }

    /// Closes the connection as the end requires, and waits a moment for the client's close.
    async fn say_goodbye(mut self, end: ConnectionEnd) {
        let (last_word, frame) = match end {
            ConnectionEnd::Cut => return,
            ConnectionEnd::Gone => (None, None),
            ConnectionEnd::Fatal(error) => (
                Some(ServerMessage::FatalError { error: &error }.to_message_text()),
                Some((1002, error)),
            ),
            ConnectionEnd::Unauthenticated(error, base_version) => {
                let told = ServerMessage::AuthError {
                    error,
                    base_version,
                    auth_update_attempted: true,
                };
                (Some(told.to_message_text()), Some((1000, error.to_owned())))
            }
            ConnectionEnd::Closed(code, reason) => (None, Some((code, reason))),
        };
        let goodbye = async {
            if let Some(text) = last_word {
                drop(self.ws.send(Message::Text(text.into())).await);
            }
            if let Some((code, reason)) = frame {
                // A reason has at most 123 bytes.
                let reason = reason[..reason.floor_char_boundary(120)].into();
                drop(
                    self.ws
                        .send(Message::Close(Some(CloseFrame { code, reason })))
                        .await,
                );
            }
            while let Some(Ok(_)) = self.ws.recv().await {}
        };
        drop(timeout(GOODBYE_TIMEOUT, goodbye).await);
    }
}

async fn run_mutation_once(
    backend: &Arc<BackendState>,
    session: Uuid,
    call: &SyncCall<'_>,
) -> Result<CommittedMutation, FunctionFailure> {
    let (path, args) = (
        sync_function_path(&call.udf_path, call.component_path.as_deref())?,
        call.args.single_object()?,
    );
    let key = CallKey::new(session, call.request_id, &path, args);
    dedup::run_deduplicated(backend, key, functions::prepare_mutation(&path, args)?).await
}

/// Returns a failed mutation's message in place of its value.
fn failure_message(failure: &FunctionFailure, production: bool) -> Box<RawValue> {
    to_raw_value(&failure.to_client_error(production).message).expect("text is JSON")
}
