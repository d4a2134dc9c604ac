//! The queries of one socket: which it holds, what its client was last told of each, and what is to be told now.
//! Not here: messages on their way, and the socket's versions (`session`).

use std::collections::BTreeMap;
use std::fmt;

use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::messages::{Add, Modification};
use crate::dev_backend::commits::{Commits, Topics};
use crate::dev_backend::failure::Failure;
use crate::dev_backend::functions::{self, Answer, Look, View};
use crate::dev_backend::secrets::Hash;

/// The most queries that a socket may hold.
pub(super) const MOST_QUERIES: usize = 1024;
/// The most bytes that they may be.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// A Transition ends before this many bytes of values, unless its first one alone is more; the next one goes on from
/// there. Clients refuse frames of more than 16 MiB, and a socket must not hold a reader for long.
const TRANSITION_BYTES: usize = 8 * 1024 * 1024;

/// The queries, by the client's own numbers.
#[derive(Debug, Default)]
pub(super) struct QuerySet {
    held: BTreeMap<u32, Held>,
    bytes: usize,
    /// What the next Transition says beside values.
    said: Vec<Modification>,
}

struct Held {
    query: Result<Box<dyn Look>, Refused>,
    reads: Topics,
    bytes: usize,
    /// The count of commits before the snapshot of the last look.
    looked: Option<u64>,
    /// What the client knows. Values themselves are not kept.
    told: Option<Hash>,
}

/// Why a query will never have a value.
#[derive(Debug)]
struct Refused(String);

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("reads", &self.reads)
            .field("looked", &self.looked)
            .finish_non_exhaustive()
    }
}

impl QuerySet {
    /// Holds a query from now on. One too many is answered with why, and is not held.
    ///
    /// # Errors
    /// When the number is taken: client and server are of two minds about the set.
    pub fn add(&mut self, add: &Add<'_>, production: bool) -> Result<(), String> {
        if self.held.contains_key(&add.query_id) {
            return Err(format!("the query {} is held already", add.query_id));
        }
        let bytes = add.udf_path.len() + add.args.only().map_or(0, |args| args.get().len());
        if self.held.len() >= MOST_QUERIES || self.bytes + bytes > MOST_BYTES {
            let why = format!("a socket may hold {MOST_QUERIES} queries of {MOST_BYTES} bytes together");
            self.said.push(Modification::failed(add.query_id, &Failure::Refused(why), production));
            return Ok(());
        }
        let query = read(&add.udf_path, add.component_path.as_deref(), add.args.only());
        let query = query.map_err(|why| Refused(why.to_string()));
        let reads = query.as_ref().map_or(Topics::Only(Vec::new()), |query| query.reads());
        self.bytes += bytes;
        self.held.insert(add.query_id, Held { query, reads, bytes, looked: None, told: None });
        Ok(())
    }

    /// Lets a query go; one that was refused is not here any more.
    pub fn remove(&mut self, query_id: u32) {
        if let Some(gone) = self.held.remove(&query_id) {
            self.bytes -= gone.bytes;
        }
        self.said.push(Modification::QueryRemoved { query_id });
    }

    /// Whether any value may have changed since it was last looked at.
    pub fn is_due(&self, commits: &Commits) -> bool {
        self.held.values().any(|held| held.is_due(commits))
    }

    /// What is to be told beside values.
    pub fn take_said(&mut self) -> Vec<Modification> {
        std::mem::take(&mut self.said)
    }

    /// Looks at all that is due, in one snapshot that is younger than `count` commits, and tells what changed. False:
    /// there is more than one Transition should hold.
    pub fn look(
        &mut self,
        view: &View<'_>,
        (commits, count): (&Commits, u64),
        production: bool,
        changed: &mut Vec<Modification>,
    ) -> bool {
        let mut bytes = 0;
        for (query_id, held) in self.held.iter_mut().filter(|(_, held)| held.is_due(commits)) {
            let answer = match &held.query {
                Ok(query) => query.look(view),
                Err(Refused(why)) => Err(Failure::Refused(why.clone())),
            };
            let (hash, size) = fingerprint(&answer);
            let is_news = held.told != Some(hash);
            if is_news && bytes > 0 && bytes + size > TRANSITION_BYTES {
                return false;
            }
            held.looked = Some(count);
            if is_news {
                bytes += size;
                held.told = Some(hash);
                changed.push(match answer {
                    Ok(value) => Modification::updated(*query_id, value),
                    Err(failure) => Modification::failed(*query_id, &failure, production),
                });
            }
        }
        true
    }
}

impl Held {
    fn is_due(&self, commits: &Commits) -> bool {
        self.looked.is_none_or(|count| commits.touched_since(count, &self.reads))
    }
}

/// A query by its path and arguments.
fn read(
    path: &str,
    component: Option<&str>,
    args: Result<&RawValue, Failure>,
) -> Result<Box<dyn Look>, Failure> {
    functions::look(&super::path(path, component)?, args?)
}

/// What tells two answers apart, and about how many bytes it takes to tell this one.
fn fingerprint(answer: &Answer) -> (Hash, usize) {
    let (mark, text) = match answer {
        Ok(value) => (b'v', value.get().to_owned()),
        Err(failure) => (b'f', format!("{failure:?}")),
    };
    let hash = Sha256::new().chain_update([mark]).chain_update(&text).finalize();
    (hash.into(), text.len())
}
