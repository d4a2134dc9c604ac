//! Faults on purpose, for people who test an agent or a runner against the embedded backend: which call goes wrong how,
//! and how often. A layer before the routes that exists only where somebody asked for it. Not here: how a fault is
//! written (`script`), and what comes out of the socket (`reply`).

mod reply;
mod script;

pub use script::BadFault;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use serde::Deserialize;

use super::http::BODY_LIMIT;

/// How a call goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The connection is closed before the function runs.
    Unheard,
    /// The function runs and commits, and the connection is closed instead of answering.
    Drop,
    /// The function does not run; this status is the answer.
    Status {
        /// The HTTP status.
        status: u16,
        /// The `code` of the body.
        code: String,
        /// The `Retry-After` header, as it stands.
        retry_after: Option<String>,
    },
    /// The function does not run; the answer sends the caller elsewhere.
    Redirect(String),
    /// The function does not run; a login page is the answer, with status 200.
    Html,
    /// The function runs; of its answer so many bytes come, and then the connection is closed.
    Cut(usize),
    /// The function runs; its answer is whole for HTTP and half for JSON.
    Half,
    /// The function runs; its answer comes at so many bytes a second.
    Slow(usize),
    /// The function runs; so many bytes of white space come before its answer.
    Oversize(usize),
    /// The function runs; the `Date` of its answer is off by so many seconds.
    Date(i64),
    /// The events of the page come last first.
    Reorder,
    /// Each event of the page comes twice.
    Duplicate,
    /// The cursor of the page is that of the very beginning.
    Rewind,
    /// The requests of the page have these arguments instead of theirs.
    Args(String),
}

/// One line of a plan.
#[derive(Debug)]
struct Planned {
    /// `module:function`, a route such as `/version`, or `*` for all.
    target: String,
    /// How often it is still to happen; without a number, until it is taken back.
    left: Option<u32>,
    fault: Fault,
}

#[derive(Debug, Default)]
struct Plan {
    planned: Vec<Planned>,
    calls: HashMap<String, u32>,
}

/// A handle on what goes wrong; its clones are the same plan.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

impl Faults {
    /// Nothing goes wrong yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The plan that a script describes, a line a fault: `events:appendResult x2 drop`.
    ///
    /// # Errors
    /// [`BadFault`] with the line that cannot be understood.
    pub fn parse(script: &str) -> Result<Self, BadFault> {
        let plan = Plan { planned: script::read(script)?, ..Plan::default() };
        Ok(Self(Arc::new(Mutex::new(plan))))
    }

    /// The next `times` calls of a function go wrong, or all of them. Of several faults of one function, the one that
    /// was planned first happens first.
    pub fn plan(&self, target: &str, times: impl Into<Option<u32>>, fault: Fault) {
        let planned = Planned { target: target.to_owned(), left: times.into(), fault };
        self.lock().planned.push(planned);
    }

    /// Nothing goes wrong any more.
    pub fn clear(&self) {
        self.lock().planned.clear();
    }

    /// How often a function was called, well or ill.
    pub fn calls(&self, function: &str) -> u32 {
        self.lock().calls.get(function).copied().unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What becomes of this call.
    pub(super) fn strike(&self, target: String) -> Option<Fault> {
        let mut plan = self.lock();
        let due = plan
            .planned
            .iter_mut()
            .find(|planned| planned.left != Some(0) && (planned.target == "*" || planned.target == target));
        let fault = due.map(|planned| {
            planned.left = planned.left.map(|left| left - 1);
            planned.fault.clone()
        });
        *plan.calls.entry(target).or_default() += 1;
        fault
    }
}

/// Lets a call go as it is planned to.
pub(super) async fn apply(State(faults): State<Faults>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    // A body that cannot be read is answered as it would be without this layer: it names no function.
    let body = to_bytes(body, BODY_LIMIT + 1).await.unwrap_or_default();
    let fault = faults.strike(target(parts.uri.path(), &body));
    let call = next.run(Request::from_parts(parts, Body::from(body)));
    match fault {
        None => call.await,
        Some(fault) => match reply::instead(&fault) {
            Some(answer) => answer,
            None => match call.await {
                // From here on it is a socket, whose calls have faults of their own.
                answer if answer.status() == StatusCode::SWITCHING_PROTOCOLS => answer,
                answer => reply::spoilt(answer, &fault).await,
            },
        },
    }
}

/// The function that a call names, else its route.
fn target(route: &str, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Named {
        path: String,
    }
    if let Some(path) = route.strip_prefix("/api/run/") {
        return path
            .rsplit_once('/')
            .map_or_else(|| path.to_owned(), |(module, name)| format!("{module}:{name}"));
    }
    serde_json::from_slice::<Named>(body).map_or_else(|_| route.to_owned(), |named| named.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_happens_as_often_as_it_is_planned_and_then_the_next() {
        let faults = Faults::new();
        faults.plan("events:claim", 2, Fault::Drop);
        faults.plan("*", 1, Fault::Html);
        let strike = |target: &str| faults.strike(target.to_owned());
        assert_eq!(strike("events:claim"), Some(Fault::Drop));
        assert_eq!(strike("/version"), Some(Fault::Html));
        assert_eq!(strike("events:claim"), Some(Fault::Drop));
        assert_eq!(strike("events:claim"), None);
        faults.plan("events:claim", None, Fault::Half);
        for _ in 0..5 {
            assert_eq!(faults.strike("events:claim".to_owned()), Some(Fault::Half));
        }
        faults.clear();
        assert_eq!((faults.strike("events:claim".to_owned()), faults.calls("events:claim")), (None, 9));
    }

    #[test]
    fn a_call_is_known_by_its_function_however_it_is_made() {
        assert_eq!(target("/api/query", br#"{"path":"events:head","args":{}}"#), "events:head");
        assert_eq!(target("/api/run/events/head", b"{}"), "events:head");
        assert_eq!(target("/version", b""), "/version");
    }
}
