//! The queue to the journal's thread. The standard library's channel rouses its receiver while it holds the lock that
//! the receiver needs next, so that each write of an idle runner would wake a processor twice; here the lock is free by
//! then.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// A queue with no bound: the callers that wait for queued items are the bound.
pub(super) fn unbounded_queue<T>() -> (QueueSender<T>, QueueReceiver<T>) {
    let state = JobQueueState {
        waiting: VecDeque::new(),
        senders: 1,
        is_read: true,
    };
    let shared = Arc::new(QueueShared {
        state: Mutex::new(state),
        news: Condvar::new(),
    });
    (QueueSender(Arc::clone(&shared)), QueueReceiver(shared))
}

struct QueueShared<T> {
    state: Mutex<JobQueueState<T>>,
    news: Condvar,
}

struct JobQueueState<T> {
    waiting: VecDeque<T>,
    senders: usize,
    /// The receiver is there.
    is_read: bool,
}

/// The end of the queue to which any thread adds items.
pub(super) struct QueueSender<T>(Arc<QueueShared<T>>);

impl<T> QueueSender<T> {
    /// Puts something at the end. It is dropped if the receiver is gone.
    pub fn send(&self, item: T) {
        let mut state = self.0.state.lock();
        if !state.is_read {
            drop(state);
            return drop(item);
        }
        state.waiting.push_back(item);
        drop(state);
        self.0.news.notify_one();
    }
}

impl<T> Clone for QueueSender<T> {
    fn clone(&self) -> Self {
        self.0.state.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for QueueSender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.senders -= 1;
        let is_last = state.senders == 0;
        drop(state);
        if is_last {
            self.0.news.notify_one();
        }
    }
}

/// The end of the queue from which items are taken, in order.
pub(super) struct QueueReceiver<T>(Arc<QueueShared<T>>);

/// The reason for which no item was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EmptyQueue {
    /// The time is up.
    TimedOut,
    /// The queue is empty and no sender is left.
    AnyMore,
}

impl<T> QueueReceiver<T> {
    /// The next, once there is one; none once there can be no more.
    pub fn next(&self) -> Option<T> {
        let mut state = self.0.state.lock();
        let is_idle = |state: &mut JobQueueState<T>| state.waiting.is_empty() && state.senders > 0;
        self.0.news.wait_while(&mut state, is_idle);
        state.waiting.pop_front()
    }

    /// The same, if it comes by then.
    ///
    /// # Errors
    /// The reason for which none came.
    pub fn next_until(&self, until: Instant) -> Result<T, EmptyQueue> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(item) = state.waiting.pop_front() {
                return Ok(item);
            }
            if state.senders == 0 {
                return Err(EmptyQueue::AnyMore);
            }
            if Instant::now() >= until {
                return Err(EmptyQueue::TimedOut);
            }
            self.0.news.wait_until(&mut state, until);
        }
    }

    /// Takes the items that wait now, at most so many.
    pub fn drain_up_to(&self, most: usize) -> Vec<T> {
        let mut state = self.0.state.lock();
        let count = most.min(state.waiting.len());
        state.waiting.drain(..count).collect()
    }
}

impl<T> Drop for QueueReceiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_read = false;
        let left = std::mem::take(&mut state.waiting);
        drop(state);
        // Not under the lock: dropping may send.
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_comes_out_in_order_and_then_nothing_any_more() {
        let (sender, receiver) = unbounded_queue();
        let other = sender.clone();
        for n in 0..5 {
            sender.send(n);
        }
        assert_eq!(receiver.next(), Some(0));
        assert_eq!(receiver.drain_up_to(2), [1, 2]);
        drop(sender);
        assert_eq!(receiver.next_until(Instant::now()), Ok(3));
        assert_eq!(receiver.drain_up_to(9), [4]);
        assert_eq!(
            receiver.next_until(Instant::now()),
            Err(EmptyQueue::TimedOut)
        );
        drop(other);
        assert_eq!(
            (receiver.next_until(Instant::now()), receiver.next()),
            (Err(EmptyQueue::AnyMore), None)
        );
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let (sender, receiver) = unbounded_queue();
        let senders: Vec<_> = (0..4)
            .map(|_| {
                let sender = sender.clone();
                std::thread::spawn(move || (1..=1_000_u64).for_each(|n| sender.send(n)))
            })
            .collect();
        drop(sender);
        let sum: u64 = std::iter::from_fn(|| receiver.next()).sum();
        assert_eq!(sum, 4 * 500_500);
        for sender in senders {
            sender.join().expect("it sent");
        }
    }

    #[test]
    fn what_nobody_takes_is_dropped() {
        let (sender, receiver) = unbounded_queue();
        let thing = Arc::new(());
        sender.send(Arc::clone(&thing));
        drop(receiver);
        sender.send(Arc::clone(&thing));
        assert_eq!(Arc::strong_count(&thing), 1);
    }
}
