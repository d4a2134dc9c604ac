//! The table of the backend's functions, and the way from a call to a reply. To add a function, implement the trait for
//! queries or mutations beside similar functions, and add a line to `FUNCTIONS`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::{Instant, sleep_until};

use super::commits::Topics;
use super::failure::Failure;
use super::server::Backend;
use super::store::Commit;
use super::{args, catalog, devices, events, operator, permissions};
use crate::ids::DeviceId;

/// All public functions, by path.
const FUNCTIONS: &[Function] = &[
    mutation::<events::append::AppendRequest>(),
    mutation::<events::cancel::Cancel>(),
    query::<events::poll::ListForDevice>(),
    query::<events::head::Head>(),
    query::<events::open::ListOpen>(),
    query::<events::open::ListOpenIds>(),
    mutation::<events::claim::Claim>(),
    mutation::<events::progress::AppendProgress>(),
    mutation::<events::progress::WatchProgress>(),
    query::<events::progress::ListProgress>(),
    mutation::<events::results::AppendResult>(),
    query::<events::results::GetResult>(),
    mutation::<permissions::ask::AskPermission>(),
    query::<permissions::pending::Pending>(),
    mutation::<permissions::answer::AnswerPermission>(),
    mutation::<devices::session::OpenSession>(),
    mutation::<devices::heartbeat::Heartbeat>(),
    query::<devices::presence::Presence>(),
    query::<devices::presence::List>(),
    mutation::<catalog::UpsertMany>(),
    query::<catalog::List>(),
];

/// The operator's functions, which need the admin key. Without it they do not exist.
const OPERATOR_FUNCTIONS: &[Function] = &[
    mutation::<operator::MintCaller>(),
    query::<operator::ListCallers>(),
    mutation::<operator::RevokeCaller>(),
    mutation::<operator::RenewPairing>(),
    mutation::<operator::ClosePairing>(),
    mutation::<operator::RevokeDevice>(),
];

/// The set of functions that a call may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The public ones.
    Public,
    /// Those of the operator, too.
    Operator,
}

/// The kind of a function. Actions (calls to other services) exist in the protocol; this backend has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Query,
    Mutation,
    Action,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Query => "Query",
            Self::Mutation => "Mutation",
            Self::Action => "Action",
        }
    }
}

/// A function that only reads. The implementing struct is its arguments.
pub(super) trait Query: DeserializeOwned + Send + Sync + 'static {
    /// `module:function`.
    const PATH: &'static str;
    /// The returned value; its numbers are all `f64`.
    type Reply: Serialize + Send;

    /// Answers from one snapshot.
    fn run(&self, db: &View<'_>) -> Result<Self::Reply, Failure>;

    /// Returns the topics that the reply depends on: a commit that changes one of them runs subscribed queries again.
    /// Token checks need no topic, because commits that change tokens count as changes of all topics.
    fn reads(&self) -> Topics {
        Topics::All
    }

    /// Returns the device and the longest time for which the call may be held while its reply is empty.
    fn hold(&self) -> Option<Hold> {
        None
    }

    /// Returns whether a reply is empty, so that a held call goes on waiting.
    fn is_empty(_reply: &Self::Reply) -> bool {
        false
    }
}

/// A function that writes, in one transaction. The implementing struct is its arguments.
pub(super) trait Mutation: DeserializeOwned + Send + 'static {
    /// `module:function`.
    const PATH: &'static str;
    /// The returned value; its numbers are all `f64`.
    type Reply: Serialize + Send;

    /// Runs completely, or leaves no trace.
    fn run(self, db: &mut Commit<'_>) -> Result<Self::Reply, Failure>;
}

/// The input of a query: one snapshot, without a clock. On Convex a query is run again when its rows change, never
/// because time has passed.
pub(super) struct View<'c> {
    pub db: &'c Connection,
}

/// A wait for a device's next event.
pub(super) struct Hold {
    pub device: DeviceId,
    pub at_most: Duration,
}

/// The longest time for which a call is held.
const LONGEST_WAIT_MS: f64 = 25_000.0;

impl Hold {
    /// Returns the hold for the requested time, capped at the limit, or `None` if no wait was requested.
    pub fn of(device: DeviceId, wait_ms: f64) -> Option<Self> {
        let wait_ms = Some(wait_ms).filter(|wait| *wait > 0.0)?.min(LONGEST_WAIT_MS);
        Some(Self { device, at_most: Duration::from_secs_f64(wait_ms / 1000.0) })
    }
}

/// A reply's value as JSON, or the failure.
pub(super) type Answer = Result<Box<RawValue>, Failure>;
type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A query with its arguments; it can run any number of times.
pub(super) trait Look: Send + Sync {
    /// Answers from one snapshot.
    fn look(&self, view: &View<'_>) -> Answer;

    /// Returns the topics that the answer depends on.
    fn reads(&self) -> Topics;
}

impl<Q: Query> Look for Q {
    fn look(&self, view: &View<'_>) -> Answer {
        Ok(to_raw_value(&self.run(view)?)?)
    }

    fn reads(&self) -> Topics {
        Query::reads(self)
    }
}

/// A mutation with its arguments; it runs once.
pub(super) trait Change: Send {
    /// Runs within this transaction.
    fn change(self: Box<Self>, commit: &mut Commit<'_>) -> Answer;
}

impl<M: Mutation> Change for M {
    fn change(self: Box<Self>, commit: &mut Commit<'_>) -> Answer {
        Ok(to_raw_value(&self.run(commit)?)?)
    }
}

/// An entry of the table.
pub(super) struct Function {
    path: &'static str,
    run: Run,
}

enum Run {
    Query {
        held: fn(Arc<Backend>, &RawValue) -> Answering,
        look: fn(&RawValue) -> Result<Box<dyn Look>, Failure>,
    },
    Mutation(fn(&RawValue) -> Result<Box<dyn Change>, Failure>),
}

const fn query<Q: Query>() -> Function {
    let run = Run::Query {
        held: |backend, raw| match args::read::<Q>(raw) {
            Ok(query) => Box::pin(answer_query(backend, query)),
            Err(refused) => Box::pin(std::future::ready(Err(refused))),
        },
        look: |raw| Ok(Box::new(args::read::<Q>(raw)?)),
    };
    Function { path: Q::PATH, run }
}

const fn mutation<M: Mutation>() -> Function {
    Function { path: M::PATH, run: Run::Mutation(|raw| Ok(Box::new(args::read::<M>(raw)?))) }
}

impl Function {
    fn find(path: &str, scope: Scope) -> Result<&'static Self, Failure> {
        let beside: &[Self] = if scope == Scope::Operator { OPERATOR_FUNCTIONS } else { &[] };
        let found = FUNCTIONS.iter().chain(beside).find(|function| function.path == path);
        found.ok_or_else(|| Failure::Refused(format!("Could not find public function for '{path}'.")))
    }

    fn is_no(&self, kind: Kind) -> Failure {
        let (path, asked, own) = (self.path, kind.name(), self.kind().name());
        Failure::Refused(format!("Trying to execute {path} as {asked}, but it is defined as {own}."))
    }

    fn kind(&self) -> Kind {
        match self.run {
            Run::Query { .. } => Kind::Query,
            Run::Mutation(_) => Kind::Mutation,
        }
    }
}

/// Returns the canonical form of a function's path: `events.js:list` becomes `events:list`, and a path without a
/// function names the default one. The error quotes an invalid path, shortened.
pub(super) fn canonical(path: &str) -> Result<String, String> {
    let (module, function) = path.split_once(':').unwrap_or((path, "default"));
    let module = module.strip_suffix(".js").unwrap_or(module);
    let word = |part: &str| {
        !part.is_empty() && part.len() <= 64 && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    if path.len() <= 256 && module.split('/').all(word) && word(function) {
        return Ok(format!("{module}:{function}"));
    }
    let shown: String = path.chars().take(80).collect();
    Err(format!("{shown:?} is not the path of a function"))
}

/// Calls a function by its path. With `kind`, the function must be of that kind.
pub(super) async fn call(
    backend: Arc<Backend>,
    path: &str,
    kind: Option<Kind>,
    args: &RawValue,
    scope: Scope,
) -> Answer {
    let function = Function::find(path, scope)?;
    if let Some(kind) = kind.filter(|kind| *kind != function.kind()) {
        return Err(function.is_no(kind));
    }
    match function.run {
        Run::Query { held, .. } => held(backend, args).await,
        Run::Mutation(read) => answer_mutation(backend, read(args)?).await,
    }
}

/// Prepares a query without running it.
pub(super) fn look(path: &str, args: &RawValue) -> Result<Box<dyn Look>, Failure> {
    let function = Function::find(path, Scope::Public)?;
    match function.run {
        Run::Query { look, .. } => look(args),
        Run::Mutation(_) => Err(function.is_no(Kind::Query)),
    }
}

/// Prepares a mutation without running it.
pub(super) fn change(path: &str, args: &RawValue) -> Result<Box<dyn Change>, Failure> {
    let function = Function::find(path, Scope::Public)?;
    match function.run {
        Run::Mutation(change) => change(args),
        Run::Query { .. } => Err(function.is_no(Kind::Mutation)),
    }
}

/// Returns the failure for an action, since there are none.
pub(super) fn no_action(path: &str) -> Failure {
    Function::find(path, Scope::Public).map_or_else(|why| why, |function| function.is_no(Kind::Action))
}

async fn answer_query<Q: Query>(backend: Arc<Backend>, query: Q) -> Answer {
    let look = || {
        backend.store.read(|db| {
            let reply = query.run(&View { db })?;
            Ok((Q::is_empty(&reply), to_raw_value(&reply)?))
        })
    };
    let (mut empty, mut reply) = look()?;
    let Some(hold) = query.hold().filter(|_| empty && backend.holds) else {
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
            () = armed.woken() => {}
            () = sleep_until(deadline) => return Ok(reply),
            () = backend.stopping.cancelled() => return Ok(reply),
        }
    }
}

async fn answer_mutation(backend: Arc<Backend>, mutation: Box<dyn Change>) -> Answer {
    let now_ms = backend.clock.now_ms();
    let on_writer = Arc::clone(&backend);
    backend
        .store
        .write(move |db| {
            let mut commit = Commit::begin(db, now_ms)?;
            let reply = mutation.change(&mut commit)?;
            on_writer.tell(commit.finish()?);
            Ok(reply)
        })
        .await?
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::{Value, json};

    use super::*;
    use crate::dev_backend::testing;

    #[test]
    fn paths_have_one_spelling() {
        assert_eq!(canonical("events.js:list").as_deref(), Ok("events:list"));
        assert_eq!(canonical("agent/devices:beat").as_deref(), Ok("agent/devices:beat"));
        assert_eq!(canonical("events").as_deref(), Ok("events:default"));
        for bad in ["", ":", "a:b:c", "a b:c", "../x:y", "a//b:c"] {
            assert!(canonical(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_path_is_served_twice() {
        let all = || FUNCTIONS.iter().chain(OPERATOR_FUNCTIONS);
        let paths: HashSet<_> = all().map(|function| function.path).collect();
        assert_eq!(paths.len(), all().count());
    }

    async fn called(backend: &Arc<Backend>, path: &str, args: Value) -> Value {
        let raw = RawValue::from_string(args.to_string()).expect("JSON");
        let value = call(Arc::clone(backend), path, None, &raw, Scope::Public).await.expect("a value");
        serde_json::from_str(value.get()).expect("a reply is JSON")
    }

    fn poll(backend: &Arc<Backend>) -> impl Future<Output = Value> {
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
        called(&backend, "events:cancel", json!({ "callerToken": "c", "requestId": "r" })).await;
        assert!(is_held(held.as_mut()).await, "a wake-up without news is no reason to return");
    }

    #[tokio::test]
    async fn a_stop_ends_held_polls() {
        let (backend, _home) = testing::backend();
        let mut held = std::pin::pin!(poll(&backend));
        assert!(is_held(held.as_mut()).await);
        backend.stopping.cancel();
        assert_eq!(held.await, json!({ "events": [], "cursor": null, "isDone": true }));
    }
}
