//! The protocol of one socket, from its first message to its end: handles messages in order, and sends changes.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::ws::WebSocket;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::watch;
use tokio::time::sleep_until;
use uuid::Uuid;

use super::client_socket::{ClientSocket, ConnectionEnd};
use super::dedup::{self, CallKey, CommittedMutation};
use super::messages::{
    AuthenticateMessage, ClientMessage, ClockMeasurement, ConnectMessage, ModifyQuerySet,
    QuerySetChange, ServerMessage, SyncCall, SyncVersion, TokenType, sync_function_path,
};
use super::query_set::{MOST_QUERIES, SyncQuerySet};
use super::timestamp::CommitTimestamp;
use crate::backend_state::BackendState;
use crate::commit_clock::last_commit_seq;
use crate::failure::{FunctionFailure, FunctionResult};
use crate::faults::InjectedFault;
use crate::function_traits::SnapshotView;
use crate::functions;

/// The most changes of the query set in one message.
const MOST_CHANGES: usize = 4 * MOST_QUERIES;

/// Serves one socket until it ends.
pub(super) async fn serve_socket(backend: Arc<BackendState>, ws: WebSocket, joins_chunks: bool) {
    let mut connection = SyncConnection {
        client: ClientSocket::new(ws, joins_chunks, backend.stopping.clone()),
        commit_count: backend.commits.subscribe(),
        backend,
        session: None,
        version: SyncVersion::default(),
        queries: SyncQuerySet::default(),
        clock_skew: None,
        has_more: false,
    };
    let Err(end) = connection.run().await;
    tracing::debug!(?end, "a socket of the embedded backend ends");
    connection.client.say_goodbye(end).await;
}

struct SyncConnection {
    backend: Arc<BackendState>,
    client: ClientSocket,
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
}

impl SyncConnection {
    async fn run(&mut self) -> Result<Infallible, ConnectionEnd> {
        loop {
            let next_ping_at = self.client.next_ping_at();
            // The branches are tried in random order, so changes and messages cannot starve each other.
            tokio::select! {
                () = self.backend.stopping.cancelled() => {
                    return Err(ConnectionEnd::Closed(1001, "InternalServerError: the embedded backend is stopping".into()));
                }
                text = self.client.receive_text() => {
                    if let Some(text) = text? {
                        self.dispatch_message(&text).await?;
                    }
                }
                changed = self.commit_count.changed() => {
                    changed.map_err(|_| ConnectionEnd::Gone)?;
                    self.send_transition(None).await?;
                }
                () = std::future::ready(()), if self.has_more => self.send_transition(None).await?,
                () = sleep_until(next_ping_at) => self.client.ping().await?,
            }
        }
    }

    async fn dispatch_message(&mut self, text: &str) -> Result<(), ConnectionEnd> {
        let message =
            ClientMessage::parse(text).map_err(|bad| ConnectionEnd::Fatal(bad.to_string()))?;
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
        dedup::begin_session(&self.backend, observed)
            .await
            .map_err(|failure| ConnectionEnd::for_failure(&failure))?;
        self.session = Some(connect.session_id);
        let client_ms = Some(connect.client_ts).filter(|ms| *ms > 0.0);
        self.clock_skew = client_ms.map(|ms| self.backend.clock.now_ms() - ms);
        Ok(())
    }

    async fn modify_query_set(&mut self, modify: &ModifyQuerySet<'_>) -> Result<(), ConnectionEnd> {
        let base = modify.base_version;
        let new = modify.new_version;
        let current = self.version.query_set;
        if base != current || new <= base {
            return Err(ConnectionEnd::Fatal(format!(
                "the query set is at version {current}: {base} to {new} is no step from it"
            )));
        }
        if modify.len() > MOST_CHANGES {
            return Err(ConnectionEnd::Fatal(format!(
                "one message may change at most {MOST_CHANGES} queries"
            )));
        }
        for change in modify.parse_modifications() {
            match change.map_err(|bad| ConnectionEnd::Fatal(bad.to_string()))? {
                QuerySetChange::Add(add) => {
                    self.queries.add_query(&add).map_err(ConnectionEnd::Fatal)?;
                }
                QuerySetChange::Remove(query_id) => self.queries.remove(query_id),
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
            .and_then(|faults| faults.take(call.udf_path.clone()));
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
        let (ts, message, failure) = match done {
            Ok(CommittedMutation { ts, value }) => (Some(ts), value, None),
            // It is unknown if it ran: to report a failure could be wrong, but a repeated call is safe.
            Err(failure @ FunctionFailure::Stopping) => {
                return Err(ConnectionEnd::for_failure(&failure));
            }
            Err(failure) => {
                let message = failure_message(&failure);
                (None, message, Some(failure))
            }
        };
        self.client
            .send_server_message(&ServerMessage::MutationResponse {
                request_id: call.request_id,
                success: failure.is_none(),
                result: &message,
                ts,
                log_lines: [],
                error_data: failure.as_ref().and_then(FunctionFailure::thrown_data),
            })
            .await?;
        drop((message, failure));
        let mut next = self.version;
        next.ts = next.ts.max(ts.unwrap_or_default());
        // Clients wait for it, also after a failure.
        self.send_transition(Some(next)).await
    }

    /// Refuses an action, since there are none.
    async fn refuse_action(&mut self, call: &SyncCall<'_>) -> Result<(), ConnectionEnd> {
        let failure = sync_function_path(&call.udf_path, call.component_path.as_deref())
            .map_or_else(|bad| bad, |path| functions::action_refusal(&path));
        let result = failure.client_message();
        self.client
            .send_server_message(&ServerMessage::ActionResponse {
                request_id: call.request_id,
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
        let current = self.version.identity;
        let base = who.base_version;
        if base != current {
            return Err(ConnectionEnd::Fatal(format!(
                "the identity is at version {current}, not {base}"
            )));
        }
        let value = who.value.as_deref().unwrap_or_default();
        match who.token_type {
            TokenType::None => {}
            TokenType::Admin if self.backend.is_admin_key(value) => {}
            TokenType::Admin => {
                let why = "BadAdminKey: this is not the admin key";
                return Err(ConnectionEnd::Unauthenticated(why, current));
            }
            TokenType::User => {
                let why = "NoAuthProvider: no provider of this user token is configured here";
                return Err(ConnectionEnd::Unauthenticated(why, current));
            }
        }
        self.send_transition(Some(SyncVersion {
            identity: current + 1,
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
                let count = backend.commits.count();
                let mut changed = Vec::new();
                let view = SnapshotView {
                    db,
                    caller_reads: &backend.caller_reads,
                };
                let ts = CommitTimestamp::from_seq(last_commit_seq(db)?);
                let complete = queries.refresh_due(&view, (&backend.commits, count), &mut changed);
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
        .to_text();
        drop(modifications);
        self.version = end;
        self.client.send_transition_text(text).await
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
}

async fn run_mutation_once(
    backend: &Arc<BackendState>,
    session: Uuid,
    call: &SyncCall<'_>,
) -> FunctionResult<CommittedMutation> {
    let path = sync_function_path(&call.udf_path, call.component_path.as_deref())?;
    let args = call.args.single_object()?;
    let key = CallKey::new(session, call.request_id, &path, args);
    dedup::run_deduplicated(backend, key, functions::prepare_mutation(&path, args)?).await
}

/// Returns a failed mutation's message in place of its value.
fn failure_message(failure: &FunctionFailure) -> Box<RawValue> {
    to_raw_value(&failure.client_message()).expect("text is JSON")
}
