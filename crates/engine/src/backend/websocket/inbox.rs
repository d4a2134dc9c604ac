//! Calls that have arrived and that the runner has not taken yet. The queue is bounded: while it is full, nothing is
//! read from the socket, and the worker has to wait. Calls stay queued until the runner polls with a later cursor.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::OfferedEvent;

/// The most calls in the queue.
const MAX_CALLS: usize = 1_024;

/// The bytes at which the queue is full; the call that exceeds them is still accepted.
const MOST_BYTES: usize = 16 << 20;

/// The most bytes per page; the first call always fits.
const PAGE_BYTES: usize = 4 << 20;

/// The queued calls of this process.
pub(super) struct CallInbox {
    /// The prefix of this process's cursors.
    run_id: String,
    state: Mutex<InboxState>,
    arrived: Notify,
    /// Notified when capacity is freed.
    freed: Notify,
}

#[derive(Default)]
struct InboxState {
    waiting: VecDeque<QueuedCall>,
    bytes: usize,
    /// The number of the last call that arrived.
    last: u64,
}

struct QueuedCall {
    number: u64,
    event: OfferedEvent,
    bytes: usize,
}

impl CallInbox {
    pub(super) fn new() -> Self {
        Self {
            run_id: uuid::Uuid::new_v4().to_string(),
            state: Mutex::default(),
            arrived: Notify::new(),
            freed: Notify::new(),
        }
    }

    /// Appends an event that came in a frame of this size.
    pub(super) fn push_event(&self, event: OfferedEvent, bytes: usize) {
        let mut state = self.state.lock();
        state.last += 1;
        state.bytes += bytes;
        let number = state.last;
        state.waiting.push_back(QueuedCall {
            number,
            event,
            bytes,
        });
        drop(state);
        self.arrived.notify_one();
    }

    /// Returns whether the queue accepts more.
    pub(super) fn has_capacity(&self) -> bool {
        let state = self.state.lock();
        state.waiting.len() < MAX_CALLS && state.bytes < MOST_BYTES
    }

    /// Waits until the queue accepts more.
    pub(super) async fn wait_for_capacity(&self) {
        while !self.has_capacity() {
            self.freed.notified().await;
        }
    }

    /// Drops the events up to the cursor, which the runner has stored, and returns the next ones with their cursor. A
    /// cursor of another process or backend is ignored.
    pub(super) fn page_after(
        &self,
        cursor: Option<&str>,
        most: u32,
    ) -> (Vec<OfferedEvent>, Option<String>) {
        let taken = cursor.and_then(|cursor| {
            cursor
                .strip_prefix(&self.run_id)?
                .strip_prefix(':')?
                .parse()
                .ok()
        });
        let mut state = self.state.lock();
        while let Some(first) = state.waiting.front()
            && taken.is_some_and(|taken: u64| first.number <= taken)
        {
            state.bytes -= first.bytes;
            state.waiting.pop_front();
        }
        let mut bytes = 0;
        let fitting = state
            .waiting
            .iter()
            .take(most as usize)
            .take_while(|waiting| {
                let is_first = bytes == 0;
                bytes += waiting.bytes;
                is_first || bytes <= PAGE_BYTES
            });
        let page: Vec<&QueuedCall> = fitting.collect();
        let behind = page
            .last()
            .map(|last| format!("{}:{}", self.run_id, last.number));
        let events = page
            .into_iter()
            .map(|waiting| waiting.event.clone())
            .collect();
        drop(state);
        self.freed.notify_one();
        (events, behind)
    }

    /// Waits until a new event arrives.
    pub(super) async fn wait_for_arrival(&self) {
        self.arrived.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punie_core::ids::RequestId;

    fn put(inbox: &CallInbox, id: &str, bytes: usize) {
        inbox.push_event(
            OfferedEvent::Cancel(RequestId::parse(id).expect("an id")),
            bytes,
        );
    }

    fn ids(events: &[OfferedEvent]) -> Vec<&str> {
        let id = |event: &OfferedEvent| match event {
            OfferedEvent::Cancel(id) => id.as_str().to_owned().leak() as &str,
            _ => "",
        };
        events.iter().map(id).collect()
    }

    #[test]
    fn what_the_runner_did_not_take_is_handed_out_again() {
        let inbox = CallInbox::new();
        for id in ["a", "b", "c"] {
            put(&inbox, id, 10);
        }
        let (events, behind) = inbox.page_after(None, 2);
        assert_eq!(ids(&events), ["a", "b"]);
        assert_eq!(
            ids(&inbox.page_after(Some("1700000000000000000"), 9).0),
            ["a", "b", "c"],
            "another backend's"
        );
        let (events, behind) = inbox.page_after(behind.as_deref(), 9);
        assert_eq!(ids(&events), ["c"]);
        assert_eq!(
            ids(&inbox.page_after(behind.as_deref(), 9).0),
            Vec::<&str>::new()
        );
    }

    #[test]
    fn it_is_full_by_number_and_by_bytes_and_one_large_call_still_passes() {
        let inbox = CallInbox::new();
        put(&inbox, "large", MOST_BYTES);
        assert!(!inbox.has_capacity());
        let (events, behind) = inbox.page_after(None, 9);
        assert_eq!(events.len(), 1);
        inbox.page_after(behind.as_deref(), 9);
        assert!(inbox.has_capacity());
        (0..MAX_CALLS).for_each(|_| put(&inbox, "small", 1));
        assert!(!inbox.has_capacity());
    }
}
