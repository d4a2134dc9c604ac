//! The changes of commits, for subscribed queries: a count of commits, and per topic the last commit that may have
//! changed it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// The number of topic slots. Two topics in the same slot cost an unnecessary run of a query, nothing else.
const TOPIC_SLOTS: usize = 1024;

/// A unit that queries read and mutations write: the rows of one table with one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CommitTopic(usize);

impl CommitTopic {
    fn new(table: &str, key: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (table, key).hash(&mut hasher);
        #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
        Self(hasher.finish() as usize % TOPIC_SLOTS)
    }

    /// Returns the topic of a device's inbox.
    pub fn for_inbox(device_id: &str) -> Self {
        Self::new("inbox", device_id)
    }

    /// Returns the topic of a request's result.
    pub fn for_result(request_id: &str) -> Self {
        Self::new("result", request_id)
    }

    /// Returns the topic of a request's progress.
    pub fn for_progress(request_id: &str) -> Self {
        Self::new("progress", request_id)
    }
}

/// The topics that a query reads, or that a commit changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum TopicSet {
    /// Any topic: the default without a declaration.
    #[default]
    All,
    /// At most these.
    Only(Vec<CommitTopic>),
}

/// The commits of this process so far.
#[derive(Debug)]
pub(super) struct CommitNotifier {
    count: watch::Sender<u64>,
    everything: AtomicU64,
    slots: Box<[AtomicU64]>,
}

impl Default for CommitNotifier {
    fn default() -> Self {
        Self {
            count: watch::Sender::new(0),
            everything: AtomicU64::new(0),
            slots: (0..TOPIC_SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl CommitNotifier {
    /// Announces a commit that is readable now, with its changes.
    pub fn publish(&self, changed: &TopicSet) {
        self.count.send_modify(|count| {
            *count += 1;
            match changed {
                TopicSet::All => self.everything.store(*count, Ordering::Release),
                TopicSet::Only(topics) => {
                    for topic in topics {
                        self.slots[topic.0].store(*count, Ordering::Release);
                    }
                }
            }
        });
    }

    /// Subscribes to all later commits.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    /// Returns the number of commits. Call it before taking a snapshot: later commits may be missing from it.
    pub fn count(&self) -> u64 {
        *self.count.borrow()
    }

    /// Returns whether a commit since that count may have changed these topics.
    pub fn may_have_changed(&self, count: u64, read: &TopicSet) -> bool {
        let newer = |place: &AtomicU64| place.load(Ordering::Acquire) > count;
        match read {
            TopicSet::All => self.count() > count,
            TopicSet::Only(topics) => {
                newer(&self.everything) || topics.iter().any(|topic| newer(&self.slots[topic.0]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_is_touched_by_its_own_topics_and_by_those_who_do_not_say() {
        let commits = CommitNotifier::default();
        let reads = TopicSet::Only(vec![
            CommitTopic::for_result("r-1"),
            CommitTopic::for_inbox("d"),
        ]);
        let other = TopicSet::Only(vec![CommitTopic::for_progress("r-1")]);
        let none = TopicSet::Only(Vec::new());

        commits.publish(&TopicSet::Only(vec![CommitTopic::for_progress("r-1")]));
        assert!(!commits.may_have_changed(0, &reads));
        assert!(commits.may_have_changed(0, &other) && commits.may_have_changed(0, &TopicSet::All));
        commits.publish(&none);
        assert!(
            !commits.may_have_changed(1, &other) && commits.may_have_changed(1, &TopicSet::All)
        );
        commits.publish(&TopicSet::Only(vec![CommitTopic::for_inbox("d")]));
        assert!(commits.may_have_changed(2, &reads) && !commits.may_have_changed(3, &reads));
        commits.publish(&TopicSet::All);
        assert!(commits.may_have_changed(3, &reads) && commits.may_have_changed(3, &other));
        assert_eq!(commits.count(), 4);
    }
}
