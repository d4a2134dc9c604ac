//! The calls that a person allowed lately. A task that such a call made needs no further approval, because the person
//! saw it completely.

use std::collections::VecDeque;

use parking_lot::Mutex;

use punie_core::ids::RequestId;

/// The most calls that are stored; older ones are dropped.
const CAPACITY: usize = 1_000;
/// The suffix of a task's id, after the id of the call that made it.
const TASK_SUFFIX: &str = "-task";

/// The calls that a person allowed lately.
#[derive(Debug, Default)]
pub struct AllowedCalls(Mutex<VecDeque<RequestId>>);

impl AllowedCalls {
    /// Records that a person allowed this call.
    pub fn record(&self, request: &RequestId) {
        let mut calls = self.0.lock();
        if calls.len() == CAPACITY {
            calls.pop_front();
        }
        calls.push_back(request.clone());
    }

    /// Returns whether a person allowed the call that made this task.
    pub fn has_made_task(&self, task: &RequestId) -> bool {
        let calls = self.0.lock();
        let maker = task.as_str().strip_suffix(TASK_SUFFIX);
        maker.is_some_and(|maker| calls.iter().any(|call| call.as_str() == maker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_known_by_the_call_that_made_it() {
        let allowed = AllowedCalls::default();
        let made = RequestId::new();
        let other = RequestId::new();
        allowed.record(&made);
        let task = |id: &RequestId| RequestId::parse(format!("{id}-task")).expect("an id");
        assert!(allowed.has_made_task(&task(&made)));
        assert!(!allowed.has_made_task(&task(&other)) && !allowed.has_made_task(&made));
    }
}
