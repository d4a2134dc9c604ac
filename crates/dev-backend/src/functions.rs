//! The table of the backend's functions, and the way from a call to a reply. To add a function, implement the trait for
//! queries or mutations beside similar functions, and add a line to `FUNCTIONS`.

use std::pin::Pin;
use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};
use tokio::time::{Instant, sleep_until};

use super::backend_state::BackendState;
use super::commit_transaction::CommitTransaction;
use super::failure::{FunctionFailure, FunctionResult};
use super::function_traits::{
    FunctionAnswer, MutationFunction, PreparedMutation, PreparedQuery, QueryFunction, SnapshotView,
};
use super::{args, catalog, devices, events, operator, pairing, permissions};

/// All public functions, by path.
const FUNCTIONS: &[FunctionEntry] = &[
    mutation_entry::<events::append::AppendRequest>(),
    mutation_entry::<events::cancel::CancelRequest>(),
    query_entry::<events::poll::ListForDevice>(),
    query_entry::<events::head::GetHead>(),
    query_entry::<events::open::ListOpen>(),
    query_entry::<events::open::ListOpenIds>(),
    mutation_entry::<events::claim::ClaimRequest>(),
    mutation_entry::<events::progress::AppendProgress>(),
    mutation_entry::<events::progress::WatchProgress>(),
    query_entry::<events::progress::ListProgress>(),
    mutation_entry::<events::results::AppendResult>(),
    query_entry::<events::results::GetResult>(),
    mutation_entry::<permissions::ask::AskPermission>(),
    query_entry::<permissions::pending::ListPending>(),
    mutation_entry::<permissions::answer::AnswerPermission>(),
    mutation_entry::<devices::session::OpenSession>(),
    mutation_entry::<devices::heartbeat::RecordHeartbeat>(),
    query_entry::<devices::presence::GetPresence>(),
    query_entry::<devices::presence::ListDevices>(),
    mutation_entry::<catalog::UpsertMany>(),
    query_entry::<catalog::ListCatalog>(),
];

/// The operator's functions, which need the admin key. Without it they do not exist.
const OPERATOR_FUNCTIONS: &[FunctionEntry] = &[
    mutation_entry::<operator::MintCaller>(),
    query_entry::<operator::ListCallers>(),
    mutation_entry::<operator::RevokeCaller>(),
    mutation_entry::<pairing::RenewPairing>(),
    mutation_entry::<pairing::ClosePairing>(),
    mutation_entry::<operator::RevokeDevice>(),
];

/// The set of functions that a call may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FunctionScope {
    /// The public ones.
    Public,
    /// Those of the operator, too.
    Operator,
}

/// The kind of a function. Actions (calls to other services) exist in the protocol; this backend has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    Query,
    Mutation,
    Action,
}

impl CallKind {
    fn text(self) -> &'static str {
        match self {
            Self::Query => "Query",
            Self::Mutation => "Mutation",
            Self::Action => "Action",
        }
    }
}

type AnswerFuture = Pin<Box<dyn Future<Output = FunctionAnswer> + Send>>;

/// An entry of the table.
pub(super) struct FunctionEntry {
    path: &'static str,
    run: FunctionRunner,
}

enum FunctionRunner {
    Query {
        held: fn(Arc<BackendState>, &RawValue) -> AnswerFuture,
        look: fn(&RawValue) -> FunctionResult<Box<dyn PreparedQuery>>,
    },
    Mutation(fn(&RawValue) -> FunctionResult<Box<dyn PreparedMutation>>),
}

const fn query_entry<Q: QueryFunction>() -> FunctionEntry {
    let run = FunctionRunner::Query {
        held: |backend, raw| match args::read_args::<Q>(raw) {
            Ok(query) => Box::pin(answer_query(backend, query)),
            Err(refused) => Box::pin(std::future::ready(Err(refused))),
        },
        look: |raw| Ok(Box::new(args::read_args::<Q>(raw)?)),
    };
    FunctionEntry { path: Q::PATH, run }
}

const fn mutation_entry<M: MutationFunction>() -> FunctionEntry {
    FunctionEntry {
        path: M::PATH,
        run: FunctionRunner::Mutation(|raw| Ok(Box::new(args::read_args::<M>(raw)?))),
    }
}

impl FunctionEntry {
    fn find(path: &str, scope: FunctionScope) -> FunctionResult<&'static Self> {
        let beside: &[Self] = if scope == FunctionScope::Operator {
            OPERATOR_FUNCTIONS
        } else {
            &[]
        };
        let found = FUNCTIONS
            .iter()
            .chain(beside)
            .find(|function| function.path == path);
        found.ok_or_else(|| {
            FunctionFailure::Refused(format!("Could not find public function for '{path}'."))
        })
    }

    fn kind_mismatch(&self, kind: CallKind) -> FunctionFailure {
        let path = self.path;
        let asked = kind.text();
        let own = self.call_kind().text();
        FunctionFailure::Refused(format!(
            "Trying to execute {path} as {asked}, but it is defined as {own}."
        ))
    }

    fn call_kind(&self) -> CallKind {
        match self.run {
            FunctionRunner::Query { .. } => CallKind::Query,
            FunctionRunner::Mutation(_) => CallKind::Mutation,
        }
    }
}

/// Returns the canonical form of a function's path: `events.js:list` becomes `events:list`, and a path without a
/// function names the default one. The error quotes an invalid path, shortened.
pub(super) fn canonical_path(path: &str) -> Result<String, String> {
    let (module, function) = path.split_once(':').unwrap_or((path, "default"));
    let module = module.strip_suffix(".js").unwrap_or(module);
    let word = |part: &str| {
        !part.is_empty()
            && part.len() <= 64
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    if path.len() <= 256 && module.split('/').all(word) && word(function) {
        return Ok(format!("{module}:{function}"));
    }
    let shown: String = path.chars().take(80).collect();
    Err(format!("{shown:?} is not the path of a function"))
}

/// Calls a function by its path. With `kind`, the function must be of that kind.
pub(super) async fn call_by_path(
    backend: Arc<BackendState>,
    path: &str,
    kind: Option<CallKind>,
    args: &RawValue,
    scope: FunctionScope,
) -> FunctionAnswer {
    let function = FunctionEntry::find(path, scope)?;
    if let Some(kind) = kind.filter(|kind| *kind != function.call_kind()) {
        return Err(function.kind_mismatch(kind));
    }
    match function.run {
        FunctionRunner::Query { held, .. } => held(backend, args).await,
        FunctionRunner::Mutation(read) => answer_mutation(backend, read(args)?).await,
    }
}

/// Prepares a query without running it.
pub(super) fn prepare_query(path: &str, args: &RawValue) -> FunctionResult<Box<dyn PreparedQuery>> {
    let function = FunctionEntry::find(path, FunctionScope::Public)?;
    match function.run {
        FunctionRunner::Query { look, .. } => look(args),
        FunctionRunner::Mutation(_) => Err(function.kind_mismatch(CallKind::Query)),
    }
}

/// Prepares a mutation without running it.
pub(super) fn prepare_mutation(
    path: &str,
    args: &RawValue,
) -> FunctionResult<Box<dyn PreparedMutation>> {
    let function = FunctionEntry::find(path, FunctionScope::Public)?;
    match function.run {
        FunctionRunner::Mutation(change) => change(args),
        FunctionRunner::Query { .. } => Err(function.kind_mismatch(CallKind::Mutation)),
    }
}

/// Returns the failure for an action, since there are none.
pub(super) fn action_refusal(path: &str) -> FunctionFailure {
    FunctionEntry::find(path, FunctionScope::Public).map_or_else(
        |why| why,
        |function| function.kind_mismatch(CallKind::Action),
    )
}

async fn answer_query<Q: QueryFunction>(backend: Arc<BackendState>, query: Q) -> FunctionAnswer {
    let look = || {
        backend.store.run_read(|db| {
            let reply = query.run_on_snapshot(&SnapshotView {
                db,
                caller_reads: &backend.caller_reads,
            })?;
            Ok((Q::is_reply_empty(&reply), to_raw_value(&reply)?))
        })
    };
    let (mut empty, mut reply) = look()?;
    let Some(hold) = query.requested_hold().filter(|_| empty && backend.holds) else {
        return Ok(reply);
    };
    let deadline = Instant::now() + hold.at_most;
    let mut armed = backend.wakeups.arm(&hold.device);
    loop {
        // Read again now that the wake-up is armed: a commit since the last read is not missed.
        (empty, reply) = look()?;
        if !empty {
            return Ok(reply);
        }
        tokio::select! {
            () = armed.wait() => {}
            () = sleep_until(deadline) => return Ok(reply),
            () = backend.stopping.cancelled() => return Ok(reply),
        }
    }
}

async fn answer_mutation(
    backend: Arc<BackendState>,
    mutation: Box<dyn PreparedMutation>,
) -> FunctionAnswer {
    let now_ms = backend.clock.now_ms();
    let on_writer = Arc::clone(&backend);
    backend
        .store
        .run_write(move |db| {
            let mut commit =
                CommitTransaction::begin(db, now_ms)?.with_caller_reads(&on_writer.caller_reads);
            let reply = mutation.apply_in(&mut commit)?;
            on_writer.announce_commit(commit.finish()?);
            Ok(reply)
        })
        .await?
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::{Value, json};

    use super::*;
    use crate::testing;

    #[test]
    fn paths_have_one_spelling() {
        assert_eq!(
            canonical_path("events.js:list").as_deref(),
            Ok("events:list")
        );
        assert_eq!(
            canonical_path("agent/devices:beat").as_deref(),
            Ok("agent/devices:beat")
        );
        assert_eq!(canonical_path("events").as_deref(), Ok("events:default"));
        for bad in ["", ":", "a:b:c", "a b:c", "../x:y", "a//b:c"] {
            assert!(canonical_path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_path_is_served_twice() {
        let all = || FUNCTIONS.iter().chain(OPERATOR_FUNCTIONS);
        let paths: HashSet<_> = all().map(|function| function.path).collect();
        assert_eq!(paths.len(), all().count());
    }

    async fn called(backend: &Arc<BackendState>, path: &str, args: Value) -> Value {
        let raw = RawValue::from_string(args.to_string()).expect("JSON");
        let value = call_by_path(Arc::clone(backend), path, None, &raw, FunctionScope::Public)
            .await
            .expect("a value");
        serde_json::from_str(value.get()).expect("a reply is JSON")
    }

    fn poll(backend: &Arc<BackendState>) -> impl Future<Output = Value> {
        let args = json!({ "deviceId": "d", "token": "t", "cursor": null, "waitMs": 25_000 });
        called(backend, "events:listForDevice", args)
    }

    /// Polls a call until it makes no further progress. Returns whether it is held.
    async fn is_held(call: Pin<&mut impl Future>) -> bool {
        tokio::select! {
            biased;
            _ = call => false,
            () = std::future::ready(()) => true,
        }
    }

    #[tokio::test]
    async fn a_held_poll_ends_when_a_commit_wakes_its_device() {
        let (backend, _home) = testing::backend();
        let mut held = std::pin::pin!(poll(&backend));
        assert!(is_held(held.as_mut()).await);
        let args = json!({
            "callerToken": "c", "requestId": "r", "deviceId": "d", "toolName": "Read", "args": "{}",
        });
        called(&backend, "events:appendRequest", args).await;
        assert_eq!(held.await["events"][0]["requestId"], "r");

        let mut held = std::pin::pin!(called(
            &backend,
            "events:listForDevice",
            json!({ "deviceId": "d", "token": "t", "cursor": i64::MAX.to_string(), "waitMs": 25_000 }),
        ));
        assert!(is_held(held.as_mut()).await);
        called(
            &backend,
            "events:cancel",
            json!({ "callerToken": "c", "requestId": "r" }),
        )
        .await;
        assert!(
            is_held(held.as_mut()).await,
            "a wake-up without news is no reason to return"
        );
    }

    #[tokio::test]
    async fn a_stop_ends_held_polls() {
        let (backend, _home) = testing::backend();
        let mut held = std::pin::pin!(poll(&backend));
        assert!(is_held(held.as_mut()).await);
        backend.stopping.cancel();
        assert_eq!(
            held.await,
            json!({ "events": [], "cursor": null, "isDone": true })
        );
    }
}
