//! Injected faults, to test an agent or a runner against the embedded backend. A layer in front of the routes, present
//! only on request, fails chosen calls a chosen number of times.

mod fault_script;
mod faulty_reply;
mod injected_fault;

pub use fault_script::BadFault;
pub use injected_fault::InjectedFault;

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use parking_lot::Mutex;
use serde::Deserialize;

use super::http_refusal::BODY_LIMIT;
use injected_fault::PlannedFault;

#[derive(Debug, Default)]
struct FaultPlan {
    planned: Vec<PlannedFault>,
    calls: HashMap<String, u32>,
}

/// A handle on the planned faults; clones share the plan.
#[derive(Debug, Clone, Default)]
pub struct FaultInjector(Arc<Mutex<FaultPlan>>);

impl FaultInjector {
    /// Creates a plan without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a plan from a script with one fault per line, such as `events:appendResult x2 drop`.
    ///
    /// # Errors
    /// [`BadFault`] with the invalid line.
    pub fn parse_script(script: &str) -> Result<Self, BadFault> {
        let plan = FaultPlan {
            planned: fault_script::parse_lines(script)?,
            ..FaultPlan::default()
        };
        Ok(Self(Arc::new(Mutex::new(plan))))
    }

    /// Plans a fault for the next `times` calls of a function, or for all of them. Faults of the same function happen
    /// in the order of planning.
    pub fn plan(&self, target: &str, times: impl Into<Option<u32>>, fault: InjectedFault) {
        let planned = PlannedFault {
            target: target.to_owned(),
            remaining: times.into(),
            fault,
        };
        self.0.lock().planned.push(planned);
    }

    /// Removes all planned faults.
    pub fn clear(&self) {
        self.0.lock().planned.clear();
    }

    /// Returns the number of calls of a function, with and without faults.
    pub fn calls(&self, function: &str) -> u32 {
        self.0.lock().calls.get(function).copied().unwrap_or(0)
    }

    /// Takes the fault for this call, if one is planned.
    pub(super) fn take(&self, target: String) -> Option<InjectedFault> {
        let mut plan = self.0.lock();
        let due = plan.planned.iter_mut().find(|planned| {
            planned.remaining != Some(0) && (planned.target == "*" || planned.target == target)
        });
        let fault = due.map(|planned| {
            planned.remaining = planned.remaining.map(|left| left - 1);
            planned.fault.clone()
        });
        *plan.calls.entry(target).or_default() += 1;
        fault
    }
}

/// Handles a call with its planned fault.
pub(super) async fn inject_faults(
    State(faults): State<FaultInjector>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    // An unreadable body names no function, and is answered as without this layer.
    let body = to_bytes(body, BODY_LIMIT + 1).await.unwrap_or_default();
    let fault = faults.take(call_target(parts.uri.path(), &body));
    let call = next.run(Request::from_parts(parts, Body::from(body)));
    match fault {
        None => call.await,
        Some(fault) => match faulty_reply::replacement_reply(&fault) {
            Some(answer) => answer,
            None => match call.await {
                // The connection is now a socket, whose calls have their own faults.
                answer if answer.status() == StatusCode::SWITCHING_PROTOCOLS => answer,
                answer => faulty_reply::corrupt_reply(answer, &fault).await,
            },
        },
    }
}

/// Returns the function that a call names, or its route.
fn call_target(route: &str, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct NamedFunction {
        path: String,
    }
    if let Some(path) = route.strip_prefix("/api/run/") {
        return path.rsplit_once('/').map_or_else(
            || path.to_owned(),
            |(module, name)| format!("{module}:{name}"),
        );
    }
    serde_json::from_slice::<NamedFunction>(body)
        .map_or_else(|_| route.to_owned(), |named| named.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_happens_as_often_as_it_is_planned_and_then_the_next() {
        let faults = FaultInjector::new();
        faults.plan("events:claim", 2, InjectedFault::Drop);
        faults.plan("*", 1, InjectedFault::Html);
        let strike = |target: &str| faults.take(target.to_owned());
        assert_eq!(strike("events:claim"), Some(InjectedFault::Drop));
        assert_eq!(strike("/version"), Some(InjectedFault::Html));
        assert_eq!(strike("events:claim"), Some(InjectedFault::Drop));
        assert_eq!(strike("events:claim"), None);
        faults.plan("events:claim", None, InjectedFault::Half);
        for _ in 0..5 {
            assert_eq!(
                faults.take("events:claim".to_owned()),
                Some(InjectedFault::Half)
            );
        }
        faults.clear();
        assert_eq!(
            (
                faults.take("events:claim".to_owned()),
                faults.calls("events:claim")
            ),
            (None, 9)
        );
    }

    #[test]
    fn a_call_is_known_by_its_function_however_it_is_made() {
        assert_eq!(
            call_target("/api/query", br#"{"path":"events:head","args":{}}"#),
            "events:head"
        );
        assert_eq!(call_target("/api/run/events/head", b"{}"), "events:head");
        assert_eq!(call_target("/version", b""), "/version");
    }
}
