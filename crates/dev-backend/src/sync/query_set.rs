//! The queries of one socket: the subscribed queries, the last values sent, and pending changes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest as _, Sha256};

use super::messages::{AddQuery, QueryModification, sync_function_path};
use crate::commits::{CommitNotifier, TopicSet};
use crate::credentials::Sha256Hash;
use crate::failure::{FunctionFailure, FunctionResult};
use crate::function_traits::{FunctionAnswer, PreparedQuery, SnapshotView};
use crate::functions;

/// The most queries per socket.
pub(super) const MOST_QUERIES: usize = 1024;
/// The most bytes of these queries.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// The size limit of a Transition's values; a single larger value is sent alone, and the next Transition continues.
/// Clients refuse frames over 16 MiB, and a socket must not occupy a reader for long.
const TRANSITION_BYTES: usize = 8 * 1024 * 1024;

/// The subscribed queries, by the client's numbers.
#[derive(Debug, Default)]
pub(super) struct SyncQuerySet {
    held: BTreeMap<u32, HeldQuery>,
    bytes: usize,
    /// Changes for the next Transition that are not values.
    notices: Vec<QueryModification>,
}

struct HeldQuery {
    query: Result<Box<dyn PreparedQuery>, RefusedQuery>,
    reads: TopicSet,
    bytes: usize,
    /// The commit count before the snapshot of the last run.
    looked_at_count: Option<u64>,
    /// The hash of the last value sent. Values are not stored.
    told_hash: Option<Sha256Hash>,
}

/// The reason why a query will never have a value.
#[derive(Debug)]
struct RefusedQuery(String);

impl fmt::Debug for HeldQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("reads", &self.reads)
            .field("looked", &self.looked_at_count)
            .finish_non_exhaustive()
    }
}

impl SyncQuerySet {
    /// Subscribes to a query. Over the limit, the client gets an error for the query, which is not added.
    ///
    /// # Errors
    /// The number is in use: client and server disagree about the set.
    pub fn add_query(&mut self, add: &AddQuery<'_>) -> Result<(), String> {
        if self.held.contains_key(&add.query_id) {
            return Err(format!("the query {} is held already", add.query_id));
        }
        let bytes =
            add.udf_path.len() + add.args.single_object().map_or(0, |args| args.get().len());
        if self.held.len() >= MOST_QUERIES || self.bytes + bytes > MOST_BYTES {
            let why =
                format!("a socket may hold {MOST_QUERIES} queries of {MOST_BYTES} bytes together");
            self.notices.push(QueryModification::failed(
                add.query_id,
                &FunctionFailure::Refused(why),
            ));
            return Ok(());
        }
        let query = prepare_added(add).map_err(|why| RefusedQuery(why.to_string()));
        let reads = query
            .as_ref()
            .map_or(TopicSet::Only(Vec::new()), |query| query.topics_to_watch());
        self.bytes += bytes;
        self.held.insert(
            add.query_id,
            HeldQuery {
                query,
                reads,
                bytes,
                looked_at_count: None,
                told_hash: None,
            },
        );
        Ok(())
    }

    /// Unsubscribes a query; one that was refused is not in the set.
    pub fn remove(&mut self, query_id: u32) {
        if let Some(gone) = self.held.remove(&query_id) {
            self.bytes -= gone.bytes;
        }
        self.notices.push(QueryModification::Removed { query_id });
    }

    /// Returns whether a value may have changed since its last run.
    pub fn has_due_queries(&self, commits: &CommitNotifier) -> bool {
        self.held.values().any(|held| held.is_due(commits))
    }

    /// Takes the pending changes that are not values.
    pub fn take_notices(&mut self) -> Vec<QueryModification> {
        std::mem::take(&mut self.notices)
    }

    /// Runs all queries that are due, in one snapshot not older than `count` commits, and collects changed values.
    /// Returns false if more queries are due than fit one turn.
    pub fn refresh_due(
        &mut self,
        view: &SnapshotView<'_>,
        (commits, count): (&CommitNotifier, u64),
        changed: &mut Vec<QueryModification>,
    ) -> bool {
        let mut bytes = 0;
        for (query_id, held) in self
            .held
            .iter_mut()
            .filter(|(_, held)| held.is_due(commits))
        {
            let answer = match &held.query {
                Ok(query) => query.answer_from(view),
                Err(RefusedQuery(why)) => Err(FunctionFailure::Refused(why.clone())),
            };
            let (hash, size) = answer_fingerprint(&answer);
            let is_news = held.told_hash != Some(hash);
            // Unchanged values count, too: other sockets waited while they were read.
            if bytes > 0 && bytes + size > TRANSITION_BYTES {
                return false;
            }
            held.looked_at_count = Some(count);
            bytes += size;
            if is_news {
                held.told_hash = Some(hash);
                changed.push(match answer {
                    Ok(value) => QueryModification::updated(*query_id, value),
                    Err(failure) => QueryModification::failed(*query_id, &failure),
                });
            }
        }
        true
    }
}

impl HeldQuery {
    fn is_due(&self, commits: &CommitNotifier) -> bool {
        self.looked_at_count
            .is_none_or(|count| commits.may_have_changed(count, &self.reads))
    }
}

/// Prepares the query that a message adds.
fn prepare_added(add: &AddQuery<'_>) -> FunctionResult<Box<dyn PreparedQuery>> {
    let path = sync_function_path(&add.udf_path, add.component_path.as_deref())?;
    functions::prepare_query(&path, add.args.single_object()?)
}

/// Returns a hash that differs between answers, and the answer's approximate size in bytes.
fn answer_fingerprint(answer: &FunctionAnswer) -> (Sha256Hash, usize) {
    let (mark, text) = match answer {
        Ok(value) => (b'v', Cow::Borrowed(value.get())),
        Err(failure) => (b'f', Cow::Owned(format!("{failure:?}"))),
    };
    let hash = Sha256::new()
        .chain_update([mark])
        .chain_update(text.as_bytes())
        .finalize();
    (hash.into(), text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;
    use crate::backend_state::BackendState;
    use crate::testing;

    /// Adds a query as a client does.
    fn add(set: &mut SyncQuerySet, query_id: u32, path: &str, args: &Value) -> Result<(), String> {
        let text = json!({ "queryId": query_id, "udfPath": path, "args": [args] }).to_string();
        set.add_query(&serde_json::from_str(&text).expect("an Add"))
    }

    /// Returns the new values, and whether these are all.
    fn looked(set: &mut SyncQuerySet, backend: &BackendState) -> (Vec<QueryModification>, bool) {
        let count = backend.commits.count();
        let mut changed = Vec::new();
        let complete = backend.store.run_read(|db| {
            Ok(set.refresh_due(
                &SnapshotView {
                    db,
                    caller_reads: &backend.caller_reads,
                },
                (&backend.commits, count),
                &mut changed,
            ))
        });
        (changed, complete.expect("a snapshot"))
    }

    fn told(set: &mut SyncQuerySet, backend: &BackendState) -> Vec<u32> {
        let (changed, complete) = looked(set, backend);
        assert!(complete && !set.has_due_queries(&backend.commits));
        let id = |change: &QueryModification| match change {
            QueryModification::Updated { query_id, .. }
            | QueryModification::Failed { query_id, .. }
            | QueryModification::Removed { query_id } => *query_id,
        };
        changed.iter().map(id).collect()
    }

    async fn mutate(backend: &std::sync::Arc<BackendState>, path: &str, args: Value) {
        let raw = RawValue::from_string(args.to_string()).expect("JSON");
        functions::call_by_path(
            std::sync::Arc::clone(backend),
            path,
            None,
            &raw,
            functions::FunctionScope::Public,
        )
        .await
        .expect("done");
    }

    #[tokio::test]
    async fn only_what_is_touched_is_run_and_only_what_changed_is_told() {
        let (backend, _home) = testing::backend();
        let mut set = SyncQuerySet::default();
        let device = json!({ "deviceId": "d", "token": "t" });
        add(&mut set, 0, "events:head", &device).expect("held");
        add(&mut set, 1, "events:listOpen", &device).expect("held");
        add(
            &mut set,
            2,
            "events:getResult",
            &json!({ "callerToken": "c", "requestId": "r" }),
        )
        .expect("held");
        assert_eq!(told(&mut set, &backend), [0, 1, 2]);
        assert!(told(&mut set, &backend).is_empty());

        let append = json!({
            "callerToken": "c", "requestId": "r", "deviceId": "d", "toolName": "Read", "args": "{}",
        });
        mutate(&backend, "events:appendRequest", append.clone()).await;
        assert_eq!(told(&mut set, &backend), [0, 1]);
        // It is stored already, so nothing is committed.
        mutate(&backend, "events:appendRequest", append).await;
        assert!(!set.has_due_queries(&backend.commits));
        // The list of open requests reads claims, so it has to run to find out.
        let lease = json!({ "deviceId": "d", "token": "t", "requestId": "r", "leaseId": "l" });
        mutate(&backend, "events:claim", lease.clone()).await;
        assert!(set.has_due_queries(&backend.commits) && !set.held[&2].is_due(&backend.commits));
        assert_eq!(told(&mut set, &backend), [1]);
        mutate(&backend, "events:claim", lease).await;
        assert!(told(&mut set, &backend).is_empty());

        set.remove(0);
        set.remove(9);
        assert_eq!(set.take_notices().len(), 2);
        assert!(set.take_notices().is_empty());
        add(&mut set, 0, "events:head", &device).expect("the number is free again");
        assert!(add(&mut set, 1, "events:head", &device).is_err());
        assert_eq!(told(&mut set, &backend), [0]);
    }

    /// Mutations declare the topics they change, and queries those they read. This checks every declaration.
    #[tokio::test]
    #[expect(clippy::too_many_lines, reason = "a list of cases")]
    async fn no_change_is_missed_whoever_makes_it() {
        let (backend, _home) = testing::backend();
        let mut set = SyncQuerySet::default();
        let device = json!({ "deviceId": "d", "token": "t" });
        let of_request = json!({ "callerToken": "c", "requestId": "r" });
        let list = json!({ "callerToken": "c" });
        let queries = [
            (
                "events:listForDevice",
                json!({ "deviceId": "d", "token": "t", "cursor": null }),
            ),
            ("events:head", device.clone()),
            ("events:listOpen", device.clone()),
            ("events:getResult", of_request.clone()),
            ("events:listProgress", of_request.clone()),
            ("devices:list", list.clone()),
            (
                "catalog:list",
                json!({ "callerToken": "c", "deviceId": "d", "kind": "tool" }),
            ),
            ("permissions:pending", device),
            ("permissions:pending", list),
        ];
        for (id, (path, args)) in (0..).zip(&queries) {
            add(&mut set, id, path, args).expect("held");
        }
        assert_eq!(told(&mut set, &backend).len(), queries.len());
        let of_device = |more: Value| {
            let mut args = json!({ "deviceId": "d", "token": "t", "requestId": "r" });
            args.as_object_mut()
                .expect("an object")
                .extend(more.as_object().expect("an object").clone());
            args
        };
        let option = json!({ "optionId": "o", "name": "Yes", "kind": "allow_once" });
        let mutations = [
            (
                "events:appendRequest",
                json!({ "callerToken": "c", "requestId": "r", "deviceId": "d", "toolName": "Read", "args": "{}" }),
            ),
            ("events:claim", of_device(json!({ "leaseId": "l" }))),
            (
                "permissions:ask",
                of_device(
                    json!({ "permissionId": "p", "title": "May I?", "options": [option], "expiresAtMs": 9e12 }),
                ),
            ),
            (
                "permissions:answer",
                json!({ "callerToken": "c", "permissionId": "p", "optionId": "o" }),
            ),
            (
                "events:appendProgress",
                of_device(json!({ "leaseId": "l", "n": 0, "data": "x" })),
            ),
            ("events:cancel", of_request),
            (
                "events:appendResult",
                of_device(json!({ "leaseId": "l", "outcome": "ok", "payload": "{}" })),
            ),
            (
                "catalog:upsertMany",
                json!({ "deviceId": "d", "token": "t", "kind": "tool", "revision": 1, "complete": true, "items": [{ "key": "k", "hash": "h", "body": "{}" }] }),
            ),
        ];
        for (path, args) in mutations {
            mutate(&backend, path, args).await;
            assert!(
                !told(&mut set, &backend).is_empty(),
                "{path} changes nothing that is held"
            );
            let fresh = backend.store.run_read(|db| {
                let look = |held: &HeldQuery| {
                    answer_fingerprint(&held.query.as_ref().expect("a query").answer_from(
                        &SnapshotView {
                            db,
                            caller_reads: &backend.caller_reads,
                        },
                    ))
                    .0
                };
                Ok(set.held.values().map(look).collect::<Vec<_>>())
            });
            for ((query, _), (held, fresh)) in queries
                .iter()
                .zip(set.held.values().zip(fresh.expect("a snapshot")))
            {
                assert_eq!(
                    held.told_hash,
                    Some(fresh),
                    "{query} was not told of {path}"
                );
            }
        }
    }

    #[tokio::test]
    async fn a_transition_has_an_end_and_the_next_one_goes_on() {
        let (backend, _home) = testing::backend();
        let items: Vec<_> = (0..3)
            .map(|n| json!({ "key": n.to_string(), "hash": "h", "body": "x".repeat(900 * 1024) }))
            .collect();
        let upsert = json!({
            "deviceId": "d", "token": "t", "kind": "tool", "revision": 1, "complete": true, "items": items,
        });
        mutate(&backend, "catalog:upsertMany", upsert).await;
        let mut set = SyncQuerySet::default();
        for id in 0..7 {
            let list = json!({ "callerToken": "c", "deviceId": "d", "kind": "tool" });
            add(&mut set, id, "catalog:list", &list).expect("held");
        }
        let mut sizes = Vec::new();
        loop {
            let (changed, complete) = looked(&mut set, &backend);
            sizes.push(changed.len());
            if complete {
                break;
            }
        }
        assert_eq!(sizes, [3, 3, 1], "8 MiB hold three of them");
        assert!(!set.has_due_queries(&backend.commits));
    }

    #[test]
    fn what_a_socket_holds_is_bounded() {
        let mut set = SyncQuerySet::default();
        let long = json!({ "callerToken": "x".repeat(MOST_BYTES / 2), "requestId": "r" });
        for id in 0..3 {
            add(&mut set, id, "events:getResult", &long).expect("an answer");
        }
        assert_eq!((set.held.len(), set.take_notices().len()), (1, 2));
        set.remove(0);
        assert_eq!(set.bytes, 0);
        for id in 0..2 * u32::try_from(MOST_QUERIES).expect("small") {
            add(&mut set, id, "events:nothing", &json!({})).expect("an answer");
        }
        assert_eq!(set.held.len(), MOST_QUERIES);
    }
}
