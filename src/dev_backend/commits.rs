//! What commits changed, for whoever holds the values of queries: a count, and by topic the last commit that may have
//! changed what it names. Not here: the values, and who waits for one device's inbox (`wakeups`).

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// How many topics are told apart. Two that share a place cost a query that is run in vain, nothing else.
const PLACES: usize = 1024;

/// Something that a query reads and a mutation writes: one table's rows of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Topic(usize);

impl Topic {
    fn new(table: &str, key: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (table, key).hash(&mut hasher);
        #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
        Self(hasher.finish() as usize % PLACES)
    }

    /// The inbox of a device.
    pub fn inbox(device_id: &str) -> Self {
        Self::new("inbox", device_id)
    }

    /// The result of a request.
    pub fn result(request_id: &str) -> Self {
        Self::new("result", request_id)
    }

    /// What a request has to say while it runs.
    pub fn progress(request_id: &str) -> Self {
        Self::new("progress", request_id)
    }
}

/// Which topics: of a query, those it reads; of a commit, those it changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Topics {
    /// Any of them: what is true of whoever does not say.
    #[default]
    All,
    /// These at most.
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
    /// Says that a commit is there to be read, and what it changed.
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

    /// Hears of every commit from now on.
    pub fn listen(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    /// How many there were. Ask before taking a snapshot: what is published later may be missing from it.
    pub fn count(&self) -> u64 {
        *self.count.borrow()
    }

    /// Whether a commit since that count may have changed what is read.
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
