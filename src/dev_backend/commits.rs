//! The changes of commits, for subscribed queries: a count of commits, and per topic the last commit that may have
//! changed it.
//! Not here: the values, and calls that wait for a device's inbox (`wakeups`).

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// The number of topic slots. Two topics in the same slot cost an unnecessary run of a query, nothing else.
const PLACES: usize = 1024;

/// A unit that queries read and mutations write: the rows of one table with one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Topic(usize);

impl Topic {
    fn new(table: &str, key: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (table, key).hash(&mut hasher);
        #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
        Self(hasher.finish() as usize % PLACES)
    }

    /// Returns the topic of a device's inbox.
    pub fn inbox(device_id: &str) -> Self {
        Self::new("inbox", device_id)
    }

    /// Returns the topic of a request's result.
    pub fn result(request_id: &str) -> Self {
        Self::new("result", request_id)
    }

    /// Returns the topic of a request's progress.
    pub fn progress(request_id: &str) -> Self {
        Self::new("progress", request_id)
    }
}

/// The topics that a query reads, or that a commit changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Topics {
    /// Any topic: the default without a declaration.
    #[default]
    All,
    /// At most these.
    Only(Vec<Topic>),
}

/// The commits of this process so far.
#[derive(Debug)]
pub(super) struct Commits {
    count: watch::Sender<u64>,
    everything: AtomicU64,
    places: Box<[AtomicU64]>,
}

impl Default for Commits {
    fn default() -> Self {
        Self {
            count: watch::Sender::new(0),
            everything: AtomicU64::new(0),
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Commits {
    /// Announces a commit that is readable now, with its changes.
    pub fn publish(&self, changed: &Topics) {
        self.count.send_modify(|count| {
            *count += 1;
            match changed {
                Topics::All => self.everything.store(*count, Ordering::Release),
                Topics::Only(topics) => {
                    for topic in topics {
                        self.places[topic.0].store(*count, Ordering::Release);
                    }
                }
            }
        });
    }

    /// Subscribes to all later commits.
    pub fn listen(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    /// Returns the number of commits. Call it before taking a snapshot: later commits may be missing from it.
    pub fn count(&self) -> u64 {
        *self.count.borrow()
    }

    /// Returns whether a commit since that count may have changed these topics.
    pub fn touched_since(&self, count: u64, read: &Topics) -> bool {
        let newer = |place: &AtomicU64| place.load(Ordering::Acquire) > count;
        match read {
            Topics::All => self.count() > count,
            Topics::Only(topics) => {
                newer(&self.everything) || topics.iter().any(|topic| newer(&self.places[topic.0]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_is_touched_by_its_own_topics_and_by_those_who_do_not_say() {
        let commits = Commits::default();
        let reads = Topics::Only(vec![Topic::result("r-1"), Topic::inbox("d")]);
        let other = Topics::Only(vec![Topic::progress("r-1")]);
        let none = Topics::Only(Vec::new());

        commits.publish(&Topics::Only(vec![Topic::progress("r-1")]));
        assert!(!commits.touched_since(0, &reads));
        assert!(commits.touched_since(0, &other) && commits.touched_since(0, &Topics::All));
        commits.publish(&none);
        assert!(!commits.touched_since(1, &other) && commits.touched_since(1, &Topics::All));
        commits.publish(&Topics::Only(vec![Topic::inbox("d")]));
        assert!(commits.touched_since(2, &reads) && !commits.touched_since(3, &reads));
        commits.publish(&Topics::All);
        assert!(commits.touched_since(3, &reads) && commits.touched_since(3, &other));
        assert_eq!(commits.count(), 4);
    }
}
