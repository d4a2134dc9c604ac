//! The server side of Convex's HTTP functions API: parses calls and writes their answers. A refusal before a function
//! runs is a status with `{code, message}`; every answer of a function is a 200.

pub(super) mod header_checks;

use std::sync::Arc;

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::backend_state::BackendState;
use super::connections;
use super::failure::{FunctionFailure, ThrownError};
use super::faults;
use super::function_traits::{FunctionAnswer, SnapshotView};
use super::functions::{self, CallKind, FunctionScope};
use super::http_refusal::{BODY_LIMIT, HttpRefusal, json_response};
use super::sync::{self, CommitTimestamp};
use header_checks::CallerIdentity;

/// Builds the routes, behind the tracking of connections, the header checks and the injected faults, if any.
pub(super) fn build_router(backend: Arc<BackendState>) -> Router {
    let faults = backend.faults.clone();
    let routes = Router::new()
        .route(
            "/",
            get(|| async { "The embedded backend of punie-runner is running." }),
        )
        .route("/version", get(|| async { env!("CARGO_PKG_VERSION") }))
        .route("/instance_name", get(|| async { "punie-dev" }))
        .route(
            "/api/query",
            post(|state, call| handle_by_kind(state, call, CallKind::Query)),
        )
        .route(
            "/api/mutation",
            post(|state, call| handle_by_kind(state, call, CallKind::Mutation)),
        )
        .route(
            "/api/action",
            post(|state, call| handle_by_kind(state, call, CallKind::Action)),
        )
        .route("/api/run/{*path}", post(handle_by_path))
        .route("/api/function", post(handle_by_admin))
        .route("/api/query_ts", post(handle_name_snapshot))
        .route("/api/query_at_ts", post(handle_query_at))
        .route("/api/sync", get(sync::accept_unversioned))
        .route("/api/{version}/sync", get(sync::accept_versioned))
        .fallback(|| async {
            HttpRefusal::new(StatusCode::NOT_FOUND, "NotFound", "there is no such route")
        })
        .with_state(backend);
    let routes = match faults {
        Some(faults) => routes.layer(from_fn_with_state(faults, faults::inject_faults)),
        None => routes,
    };
    routes
        .layer(from_fn(header_checks::guard_origin))
        .layer(from_fn(connections::track_request))
}

/// The body of a call. `raw` parts are parsed once the function is known.
#[derive(Deserialize)]
struct CallBody<'b> {
    path: Option<String>,
    #[serde(borrow)]
    args: Option<&'b RawValue>,
    format: Option<String>,
    #[serde(rename = "componentPath")]
    component_path: Option<String>,
    ts: Option<CommitTimestamp>,
}

impl<'b> CallBody<'b> {
    fn parse(body: &'b [u8]) -> Result<Self, HttpRefusal> {
        let call: Self =
            serde_json::from_slice(body).map_err(|bad| HttpRefusal::bad_body(bad.to_string()))?;
        // Both formats write our values alike, because the functions use no integers, bytes or special floats.
        match call.format.as_deref() {
            None | Some("json" | "convex_encoded_json") => {}
            Some(other) => {
                return Err(HttpRefusal::bad_request(
                    "BadFormat",
                    format!("the format {other:?} is unknown"),
                ));
            }
        }
        match call.component_path.as_deref() {
            None | Some("") => Ok(call),
            Some(_) => Err(HttpRefusal::bad_request(
                "ComponentNotFound",
                "there are no components here",
            )),
        }
    }

    /// Returns the function that the body names.
    fn function_path(&self) -> Result<String, HttpRefusal> {
        canonical_or_refuse(
            self.path
                .as_deref()
                .ok_or_else(|| HttpRefusal::bad_body("missing field `path`"))?,
        )
    }

    /// Returns the arguments: an object, or the object in an array.
    fn single_args(&self) -> Result<&'b RawValue, HttpRefusal> {
        let args = self
            .args
            .ok_or_else(|| HttpRefusal::bad_body("missing field `args`: send {} for none"))?;
        if !args.get().starts_with('[') {
            return Ok(args);
        }
        match serde_json::from_str::<Vec<&'b RawValue>>(args.get()).as_deref() {
            Ok([only]) => Ok(only),
            Ok([]) => Err(HttpRefusal::bad_body("args must hold one object, not none")),
            _ => Err(HttpRefusal::bad_body("args must hold one object")),
        }
    }
}

fn canonical_or_refuse(path: &str) -> Result<String, HttpRefusal> {
    functions::canonical_path(path)
        .map_err(|bad| HttpRefusal::bad_request("BadConvexFunctionIdentifier", bad))
}

type HttpAnswer = Result<Response, HttpRefusal>;

/// Handles a call of one kind; the body names the function.
async fn handle_by_kind(
    State(backend): State<Arc<BackendState>>,
    request: Request,
    kind: CallKind,
) -> HttpAnswer {
    let (body, identity) = accept_call(request, &backend).await?;
    let call = CallBody::parse(&body)?;
    Ok(answer_call(
        &backend,
        &call.function_path()?,
        Some(kind),
        call.single_args()?,
        identity,
    )
    .await)
}

/// Handles a call of any kind by the owner of the database, such as `npx convex run`.
async fn handle_by_admin(State(backend): State<Arc<BackendState>>, request: Request) -> HttpAnswer {
    let (body, identity) = accept_call(request, &backend).await?;
    if identity != CallerIdentity::Admin {
        let message = "this needs the admin key, as `Authorization: Convex <key>`";
        return Err(HttpRefusal::new(
            StatusCode::UNAUTHORIZED,
            "Unauthenticated",
            message,
        ));
    }
    let call = CallBody::parse(&body)?;
    Ok(answer_call(
        &backend,
        &call.function_path()?,
        None,
        call.single_args()?,
        identity,
    )
    .await)
}

/// Takes a snapshot and returns its time, for later queries.
async fn handle_name_snapshot(
    State(backend): State<Arc<BackendState>>,
    headers: HeaderMap,
) -> HttpAnswer {
    header_checks::check_client_header(&headers)?;
    header_checks::authorization_identity(&headers, &backend)?;
    let kept = tokio::task::spawn_blocking(move || backend.snapshots.take_snapshot()).await;
    match kept {
        Ok(Ok(seq)) => Ok(json_response(
            StatusCode::OK,
            serde_json::json!({ "ts": CommitTimestamp::from_seq(seq) }).to_string(),
        )),
        failed => {
            tracing::warn!(?failed, "the embedded backend cannot keep a snapshot");
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Err(HttpRefusal::new(
                status,
                "InternalServerError",
                "the snapshot could not be kept",
            ))
        }
    }
}

/// Answers a query from an earlier snapshot.
async fn handle_query_at(State(backend): State<Arc<BackendState>>, request: Request) -> HttpAnswer {
    let (body, _) = accept_call(request, &backend).await?;
    let call = CallBody::parse(&body)?;
    let ts = call
        .ts
        .ok_or_else(|| HttpRefusal::bad_body("missing field `ts`"))?;
    let query = match functions::prepare_query(&call.function_path()?, call.single_args()?) {
        Ok(query) => query,
        Err(failure) => return Ok(reply_envelope(Err(failure))),
    };
    let look = move || {
        let read = |seq| {
            backend.snapshots.read(seq, |db| {
                query.answer_from(&SnapshotView {
                    db,
                    caller_reads: &backend.caller_reads,
                })
            })
        };
        ts.to_seq().and_then(read)
    };
    match tokio::task::spawn_blocking(look).await {
        Ok(Some(answer)) => Ok(reply_envelope(answer)),
        Ok(None) => Err(HttpRefusal::bad_request(
            "SnapshotTooOld",
            "the snapshot is gone: it can be read for 30 seconds after /api/query_ts named it",
        )),
        Err(_) => Ok(reply_envelope(Err(FunctionFailure::Stopping))),
    }
}

/// Handles a call of any kind; the address names the function, its parts separated by slashes.
async fn handle_by_path(
    State(backend): State<Arc<BackendState>>,
    Path(path): Path<String>,
    request: Request,
) -> HttpAnswer {
    let Some((module, function)) = path.rsplit_once('/') else {
        let message = "the address must name a module and a function";
        return Err(HttpRefusal::bad_request(
            "BadConvexFunctionIdentifier",
            message,
        ));
    };
    let path = canonical_or_refuse(&format!("{module}:{function}"));
    let (body, identity) = accept_call(request, &backend).await?;
    let call = CallBody::parse(&body)?;
    Ok(answer_call(&backend, &path?, None, call.single_args()?, identity).await)
}

async fn answer_call(
    backend: &Arc<BackendState>,
    path: &str,
    kind: Option<CallKind>,
    args: &RawValue,
    identity: CallerIdentity,
) -> Response {
    let scope = if identity == CallerIdentity::Admin {
        FunctionScope::Operator
    } else {
        FunctionScope::Public
    };
    let called = functions::call_by_path(Arc::clone(backend), path, kind, args, scope).await;
    reply_envelope(called)
}

fn reply_envelope(answer: FunctionAnswer) -> Response {
    match answer {
        Ok(value) => json_response(
            StatusCode::OK,
            format!(r#"{{"status":"success","value":{value}}}"#),
        ),
        Err(failure) => json_response(StatusCode::OK, error_envelope(&failure)),
    }
}

/// Returns a function's error as JSON.
fn error_envelope(failure: &FunctionFailure) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ErrorEnvelope<'e> {
        status: &'static str,
        error_message: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        error_data: Option<&'e ThrownError>,
    }
    serde_json::to_string(&ErrorEnvelope {
        status: "error",
        error_message: failure.client_message(),
        error_data: failure.thrown_data(),
    })
    .expect("texts and finite numbers are JSON")
}

/// Checks the headers and reads the body.
async fn accept_call(
    request: Request,
    backend: &BackendState,
) -> Result<(Bytes, CallerIdentity), HttpRefusal> {
    header_checks::check_client_header(request.headers())?;
    let identity = header_checks::authorization_identity(request.headers(), backend)?;
    header_checks::check_content_type(request.headers())?;
    let body = to_bytes(request.into_body(), BODY_LIMIT)
        .await
        .map_err(|bad| {
            HttpRefusal::bad_body(format!(
                "the body could not be read (at most {BODY_LIMIT} bytes): {bad}"
            ))
        })?;
    Ok((body, identity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_floats() {
        let stale = error_envelope(&FunctionFailure::stale_signature(1_763_000_000_000.0));
        assert!(
            stale.contains(r#""serverNowMs":1763000000000.0"#),
            "{stale}"
        );
    }
}
