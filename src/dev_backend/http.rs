//! The server side of Convex's HTTP functions API: parses calls and writes their answers. A refusal before a function
//! runs is a status with `{code, message}`; every answer of a function is a 200.
//! Not here: the functions, the header checks (in `http/`), and the socket (`sync`).

mod door;

pub(super) use door::check_client;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::failure::{Failure, Thrown};
use super::faults;
use super::functions::{self, Answer, Kind, Scope, View};
use super::server::Backend;
use super::sync::{self, Timestamp};
use door::Identity;

/// The largest body: 16 MiB of arguments and their envelope.
pub(super) const BODY_LIMIT: usize = 16 * 1024 * 1024 + 2000;

/// Builds the routes, behind the header checks and the injected faults, if any.
pub(super) fn router(backend: Arc<Backend>) -> Router {
    let faults = backend.faults.clone();
    let routes = Router::new()
        .route("/", get(|| async { "The embedded backend of punie-runner is running." }))
        .route("/version", get(|| async { env!("CARGO_PKG_VERSION") }))
        .route("/instance_name", get(|| async { "punie-dev" }))
        .route("/api/query", post(|state, call| by_kind(state, call, Kind::Query)))
        .route("/api/mutation", post(|state, call| by_kind(state, call, Kind::Mutation)))
        .route("/api/action", post(|state, call| by_kind(state, call, Kind::Action)))
        .route("/api/run/{*path}", post(by_path))
        .route("/api/function", post(by_admin))
        .route("/api/query_ts", post(name_snapshot))
        .route("/api/query_at_ts", post(from_snapshot))
        .route("/api/sync", get(sync::unversioned))
        .route("/api/{version}/sync", get(sync::versioned))
        .fallback(|| async { Refusal::new(StatusCode::NOT_FOUND, "NotFound", "there is no such route") })
        .with_state(backend);
    let routes = match faults {
        Some(faults) => routes.layer(from_fn_with_state(faults, faults::apply)),
        None => routes,
    };
    routes.layer(from_fn(door::guard))
}

/// A refusal of a call before any function ran.
pub(super) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    pub fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    fn bad_body(message: impl Into<String>) -> Self {
        Self::bad_request("BadJsonBody", message)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        json(self.status, serde_json::json!({ "code": self.code, "message": self.message }).to_string())
    }
}

/// The body of a call. `raw` parts are parsed once the function is known.
#[derive(Deserialize)]
struct Call<'b> {
    path: Option<String>,
    #[serde(borrow)]
    args: Option<&'b RawValue>,
    format: Option<String>,
    #[serde(rename = "componentPath")]
    component_path: Option<String>,
    ts: Option<Timestamp>,
}

impl<'b> Call<'b> {
    fn read(body: &'b [u8]) -> Result<Self, Refusal> {
        let call: Self = serde_json::from_slice(body).map_err(|bad| Refusal::bad_body(bad.to_string()))?;
        // Both formats write our values alike, because the functions use no integers, bytes or special floats.
        match call.format.as_deref() {
            None | Some("json" | "convex_encoded_json") => {}
            Some(other) => {
                return Err(Refusal::bad_request("BadFormat", format!("the format {other:?} is unknown")));
            }
        }
        match call.component_path.as_deref() {
            None | Some("") => Ok(call),
            Some(_) => Err(Refusal::bad_request("ComponentNotFound", "there are no components here")),
        }
    }

    /// Returns the function that the body names.
    fn path(&self) -> Result<String, Refusal> {
        canonical(self.path.as_deref().ok_or_else(|| Refusal::bad_body("missing field `path`"))?)
    }

    /// Returns the arguments: an object, or the object in an array.
    fn args(&self) -> Result<&'b RawValue, Refusal> {
        let args = self.args.ok_or_else(|| Refusal::bad_body("missing field `args`: send {} for none"))?;
        if !args.get().starts_with('[') {
            return Ok(args);
        }
        match serde_json::from_str::<Vec<&'b RawValue>>(args.get()).as_deref() {
            Ok([only]) => Ok(only),
            Ok([]) => Err(Refusal::bad_body("args must hold one object, not none")),
            _ => Err(Refusal::bad_body("args must hold one object")),
        }
    }
}

fn canonical(path: &str) -> Result<String, Refusal> {
    functions::canonical(path).map_err(|bad| Refusal::bad_request("BadConvexFunctionIdentifier", bad))
}

type Answered = Result<Response, Refusal>;

/// Handles a call of one kind; the body names the function.
async fn by_kind(State(backend): State<Arc<Backend>>, request: Request, kind: Kind) -> Answered {
    let (body, identity) = accept(request, &backend).await?;
    let call = Call::read(&body)?;
    Ok(answer(&backend, &call.path()?, Some(kind), call.args()?, identity).await)
}

/// Handles a call of any kind by the owner of the database, such as `npx convex run`.
async fn by_admin(State(backend): State<Arc<Backend>>, request: Request) -> Answered {
    let (body, identity) = accept(request, &backend).await?;
    if identity != Identity::Admin {
        let message = "this needs the admin key, as `Authorization: Convex <key>`";
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, "Unauthenticated", message));
    }
    let call = Call::read(&body)?;
    Ok(answer(&backend, &call.path()?, None, call.args()?, identity).await)
}

/// Takes a snapshot and returns its time, for later queries.
async fn name_snapshot(State(backend): State<Arc<Backend>>, headers: HeaderMap) -> Answered {
    door::check_client(&headers)?;
    door::identity(&headers, &backend)?;
    let kept = tokio::task::spawn_blocking(move || backend.snapshots.keep()).await;
    match kept {
        Ok(Ok(seq)) => {
            Ok(json(StatusCode::OK, serde_json::json!({ "ts": Timestamp::of_seq(seq) }).to_string()))
        }
        failed => {
            tracing::warn!(?failed, "the embedded backend cannot keep a snapshot");
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Err(Refusal::new(status, "InternalServerError", "the snapshot could not be kept"))
        }
    }
}

/// Answers a query from an earlier snapshot.
async fn from_snapshot(State(backend): State<Arc<Backend>>, request: Request) -> Answered {
    let (body, _) = accept(request, &backend).await?;
    let call = Call::read(&body)?;
    let ts = call.ts.ok_or_else(|| Refusal::bad_body("missing field `ts`"))?;
    let production = backend.production_errors;
    let query = match functions::look(&call.path()?, call.args()?) {
        Ok(query) => query,
        Err(failure) => return Ok(enveloped(Err(failure), production)),
    };
    let look = move || {
        let read = |seq| backend.snapshots.read(seq, |db| query.look(&View { db }));
        ts.seq().and_then(read)
    };
    match tokio::task::spawn_blocking(look).await {
        Ok(Some(answer)) => Ok(enveloped(answer, production)),
        Ok(None) => Err(Refusal::bad_request(
            "SnapshotTooOld",
            "the snapshot is gone: it can be read for 30 seconds after /api/query_ts named it",
        )),
        Err(_) => Ok(enveloped(Err(Failure::Stopping), production)),
    }
}

/// Handles a call of any kind; the address names the function, its parts separated by slashes.
async fn by_path(
    State(backend): State<Arc<Backend>>,
    Path(path): Path<String>,
    request: Request,
) -> Answered {
    let Some((module, function)) = path.rsplit_once('/') else {
        let message = "the address must name a module and a function";
        return Err(Refusal::bad_request("BadConvexFunctionIdentifier", message));
    };
    let path = canonical(&format!("{module}:{function}"));
    let (body, identity) = accept(request, &backend).await?;
    let call = Call::read(&body)?;
    Ok(answer(&backend, &path?, None, call.args()?, identity).await)
}

async fn answer(
    backend: &Arc<Backend>,
    path: &str,
    kind: Option<Kind>,
    args: &RawValue,
    identity: Identity,
) -> Response {
    let scope = if identity == Identity::Admin { Scope::Operator } else { Scope::Public };
    let called = functions::call(Arc::clone(backend), path, kind, args, scope).await;
    enveloped(called, backend.production_errors)
}

fn enveloped(answer: Answer, production: bool) -> Response {
    match answer {
        Ok(value) => json(StatusCode::OK, format!(r#"{{"status":"success","value":{value}}}"#)),
        Err(failure) => json(StatusCode::OK, error_envelope(&failure, production)),
    }
}

/// Returns a function's error as JSON. In production only the data of raised errors has details.
fn error_envelope(failure: &Failure, production: bool) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Envelope<'e> {
        status: &'static str,
        error_message: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        error_data: Option<&'e Thrown>,
    }
    let told = failure.told(production);
    serde_json::to_string(&Envelope { status: "error", error_message: told.message, error_data: told.data })
        .expect("texts and finite numbers are JSON")
}

/// Checks the headers and reads the body.
async fn accept(request: Request, backend: &Backend) -> Result<(Bytes, Identity), Refusal> {
    door::check_client(request.headers())?;
    let identity = door::identity(request.headers(), backend)?;
    door::check_content_type(request.headers())?;
    let body = to_bytes(request.into_body(), BODY_LIMIT).await.map_err(|bad| {
        Refusal::bad_body(format!("the body could not be read (at most {BODY_LIMIT} bytes): {bad}"))
    })?;
    Ok((body, identity))
}

fn json(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev_backend::failure::Code;

    #[test]
    fn production_hides_everything_but_thrown_data() {
        let refused = error_envelope(&Failure::Refused("a detail".into()), true);
        assert!(refused.contains("[Request ID: ") && !refused.contains("a detail"), "{refused}");
        let thrown = error_envelope(&Failure::thrown(Code::LeaseLost, "a detail"), true);
        assert!(thrown.contains(r#""errorData":{"code":"LEASE_LOST","message":"a detail"}"#), "{thrown}");
        assert!(!thrown.contains("Uncaught"), "{thrown}");
    }

    #[test]
    fn numbers_are_printed_as_floats() {
        let stale = error_envelope(&Failure::stale(1_763_000_000_000.0), false);
        assert!(stale.contains(r#""serverNowMs":1763000000000.0"#), "{stale}");
    }
}
