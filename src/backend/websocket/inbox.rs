//! Calls that have arrived and that the runner has not taken yet. The queue is bounded: while it is full, nothing is
//! read from the socket, and the worker has to wait. Calls stay queued until the runner polls with a later cursor.
//! Not here: sockets.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::super::Offered;

/// The most calls in the queue.
const MOST: usize = 1_024;

/// The bytes at which the queue is full; the call that exceeds them is still accepted.
const MOST_BYTES: usize = 16 << 20;

/// The most bytes per page; the first call always fits.
const PAGE_BYTES: usize = 4 << 20;

/// The queued calls of this process.
pub(super) struct Inbox {
    /// The prefix of this process's cursors.
    life: String,
    state: Mutex<State>,
    /// Notified when a call arrives.
    arrived: Notify,
    /// Notified when capacity is freed.
    freed: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// The number of the last call that arrived.
    last: u64,
}

struct Waiting {
    number: u64,
    event: Offered,
    bytes: usize,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            life: uuid::Uuid::new_v4().to_string(),
            state: Mutex::default(),
            arrived: Notify::new(),
            freed: Notify::new(),
        }
    }

    /// Appends an event that came in a frame of this size.
    pub(super) fn put(&self, event: Offered, bytes: usize) {
        let mut state = self.state();
        state.last += 1;
        state.bytes += bytes;
        let number = state.last;
        state.waiting.push_back(Waiting { number, event, bytes });
        drop(state);
        self.arrived.notify_one();
    }

    /// Returns whether the queue accepts more.
    pub(super) fn has_room(&self) -> bool {
        let state = self.state();
        state.waiting.len() < MOST && state.bytes < MOST_BYTES
    }

    /// Waits until the queue accepts more.
    pub(super) async fn room(&self) {
        while !self.has_room() {
            self.freed.notified().await;
        }
    }

    /// Drops the events up to the cursor, which the runner has stored, and returns the next ones with their cursor. A
    /// cursor of another process or backend is ignored.
    pub(super) fn after(&self, cursor: Option<&str>, most: u32) -> (Vec<Offered>, Option<String>) {
        let taken =
            cursor.and_then(|cursor| cursor.strip_prefix(&self.life)?.strip_prefix(':')?.parse().ok());
        let mut state = self.state();
        while let Some(first) = state.waiting.front()
            && taken.is_some_and(|taken: u64| first.number <= taken)
        {
            state.bytes -= first.bytes;
            state.waiting.pop_front();
        }
        let mut bytes = 0;
        let fitting = state.waiting.iter().take(most as usize).take_while(|waiting| {
            let is_first = bytes == 0;
            bytes += waiting.bytes;
            is_first || bytes <= PAGE_BYTES
        });
        let page: Vec<&Waiting> = fitting.collect();
        let behind = page.last().map(|last| format!("{}:{}", self.life, last.number));
        let events = page.into_iter().map(|waiting| waiting.event.clone()).collect();
        drop(state);
        self.freed.notify_one();
        (events, behind)
    }

    /// Waits until a new event arrives.
    pub(super) async fn arrival(&self) {
        self.arrived.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RequestId;

    fn put(inbox: &Inbox, id: &str, bytes: usize) {
        inbox.put(Offered::Cancel(RequestId::parse(id).expect("an id")), bytes);
    }

    fn ids(events: &[Offered]) -> Vec<&str> {
        let id = |event: &Offered| match event {
            Offered::Cancel(id) => id.as_str().to_owned().leak() as &str,
            _ => "",
        };
        events.iter().map(id).collect()
    }

    #[test]
    fn what_the_runner_did_not_take_is_handed_out_again() {
        let inbox = Inbox::new();
        for id in ["a", "b", "c"] {
            put(&inbox, id, 10);
        }
        let (events, behind) = inbox.after(None, 2);
        assert_eq!(ids(&events), ["a", "b"]);
        assert_eq!(ids(&inbox.after(Some("1700000000000000000"), 9).0), ["a", "b", "c"], "another backend's");
        let (events, behind) = inbox.after(behind.as_deref(), 9);
        assert_eq!(ids(&events), ["c"]);
        assert_eq!(ids(&inbox.after(behind.as_deref(), 9).0), Vec::<&str>::new());
    }

    #[test]
    fn it_is_full_by_number_and_by_bytes_and_one_large_call_still_passes() {
        let inbox = Inbox::new();
        put(&inbox, "large", MOST_BYTES);
        assert!(!inbox.has_room());
        let (events, behind) = inbox.after(None, 9);
        assert_eq!(events.len(), 1);
        inbox.after(behind.as_deref(), 9);
        assert!(inbox.has_room());
        (0..MOST).for_each(|_| put(&inbox, "small", 1));
        assert!(!inbox.has_room());
    }
}
