//! Convex's HTTP functions API: what a call looks like on the wire, and its answer.
//! Refusals before a function runs are statuses with `{code, message}`; whatever a function says is
//! a 200. Not here: what the functions do.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::failure::{Failure, Thrown};
use super::faults::{self, Faults};
use super::functions::{self, Kind};
use super::server::Backend;

/// The largest body: 16 MiB of arguments and what surrounds them.
pub(super) const BODY_LIMIT: usize = 16 * 1024 * 1024 + 2000;

/// The routes, behind faults where there are any to come.
pub(super) fn router(backend: Arc<Backend>, faults: Option<Faults>) -> Router {
    let routes = Router::new()
        .route("/", get(|| async { "The embedded backend of punie-runner is running." }))
        .route("/version", get(|| async { env!("CARGO_PKG_VERSION") }))
        .route("/instance_name", get(|| async { "punie-dev" }))
        .route("/api/query", post(|state, call| by_kind(state, call, Kind::Query)))
        .route("/api/mutation", post(|state, call| by_kind(state, call, Kind::Mutation)))
        .route("/api/action", post(|state, call| by_kind(state, call, Kind::Action)))
        .route("/api/run/{*path}", post(by_path))
        .fallback(|| async { Refusal::new(StatusCode::NOT_FOUND, "NotFound", "there is no such route") })
        .with_state(backend);
    match faults {
        Some(faults) => routes.layer(from_fn_with_state(faults, faults::apply)),
        None => routes,
    }
}

/// A call refused before any function ran.
struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
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

/// The body of a call. `raw` parts are read only once the function is known.
#[derive(Deserialize)]
struct Call<'b> {
    path: Option<String>,
    #[serde(borrow)]
    args: Option<&'b RawValue>,
    format: Option<String>,
}

impl<'b> Call<'b> {
    fn read(body: &'b [u8]) -> Result<Self, Refusal> {
        let call: Self = serde_json::from_slice(body).map_err(|bad| Refusal::bad_body(bad.to_string()))?;
        // Both print our values alike: the functions use no integers, bytes or special floats.
        match call.format.as_deref() {
            None | Some("json" | "convex_encoded_json") => Ok(call),
            Some(other) => Err(Refusal::bad_request("BadFormat", format!("the format {other:?} is unknown"))),
        }
    }

    /// The arguments: an object, or an array that holds it.
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

/// A call of one kind: the body names the function.
async fn by_kind(State(backend): State<Arc<Backend>>, request: Request, kind: Kind) -> Response {
    match accept(request).await {
        Ok(body) => answer(backend, &body, None, Some(kind)).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// A call of any kind: the address names the function, its parts divided by slashes.
async fn by_path(
    State(backend): State<Arc<Backend>>,
    Path(path): Path<String>,
    request: Request,
) -> Response {
    let Some((module, function)) = path.rsplit_once('/') else {
        let message = "the address must name a module and a function";
        return Refusal::bad_request("BadConvexFunctionIdentifier", message).into_response();
    };
    let path = format!("{module}:{function}");
    match accept(request).await {
        Ok(body) => answer(backend, &body, Some(path), None).await,
        Err(refusal) => refusal.into_response(),
    }
}

async fn answer(backend: Arc<Backend>, body: &[u8], path: Option<String>, kind: Option<Kind>) -> Response {
    let production = backend.production_errors;
    let called = async {
        let call = Call::read(body)?;
        let named =
            path.or_else(|| call.path.clone()).ok_or_else(|| Refusal::bad_body("missing field `path`"))?;
        let path = canonical(&named)?;
        Ok(functions::call(backend, &path, kind, call.args()?).await)
    };
    match called.await {
        Ok(Ok(value)) => json(StatusCode::OK, format!(r#"{{"status":"success","value":{value}}}"#)),
        Ok(Err(failure)) => json(StatusCode::OK, error_envelope(&failure, production)),
        Err(refusal) => Refusal::into_response(refusal),
    }
}

/// `events.js:list` is `events:list`, and a path without a function names the default one.
fn canonical(path: &str) -> Result<String, Refusal> {
    let (module, function) = path.split_once(':').unwrap_or((path, "default"));
    let module = module.strip_suffix(".js").unwrap_or(module);
    let word = |part: &str| {
        !part.is_empty() && part.len() <= 64 && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    if path.len() <= 256 && module.split('/').all(word) && word(function) {
        return Ok(format!("{module}:{function}"));
    }
    let shown: String = path.chars().take(80).collect();
    Err(Refusal::bad_request(
        "BadConvexFunctionIdentifier",
        format!("{shown:?} is not the path of a function"),
    ))
}

/// What a function's error looks like. In production only thrown data tells what happened.
fn error_envelope(failure: &Failure, production: bool) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Envelope<'e> {
        status: &'static str,
        error_message: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        error_data: Option<&'e Thrown>,
    }
    let error_message = if production {
        let id = uuid::Uuid::new_v4().simple().to_string();
        format!("[Request ID: {}] Server Error", &id[..16])
    } else {
        failure.to_string()
    };
    let error_data = match failure {
        Failure::Thrown(thrown) => Some(thrown),
        Failure::Refused(_) => None,
        Failure::Database(_) | Failure::Reply(_) | Failure::Stopping => {
            tracing::warn!(error = %failure, "a function of the embedded backend failed");
            None
        }
    };
    serde_json::to_string(&Envelope { status: "error", error_message, error_data })
        .expect("texts and finite numbers are JSON")
}

/// Checks the headers and takes the body.
async fn accept(request: Request) -> Result<axum::body::Bytes, Refusal> {
    check_client(request.headers())?;
    check_authorization(request.headers())?;
    check_content_type(request.headers())?;
    to_bytes(request.into_body(), BODY_LIMIT).await.map_err(|bad| {
        Refusal::bad_body(format!("the body could not be read (at most {BODY_LIMIT} bytes): {bad}"))
    })
}

fn check_client(headers: &HeaderMap) -> Result<(), Refusal> {
    match headers.get("convex-client") {
        Some(client) if !client.as_bytes().contains(&b'-') => {
            Err(Refusal::bad_request("InvalidClientVersion", "Convex-Client must be <name>-<version>"))
        }
        _ => Ok(()),
    }
}

/// Tokens of ours travel in the arguments. Admin keys are let through and give no rights; no
/// provider of user tokens is configured, so none of those can be good.
fn check_authorization(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(value) = headers.get(header::AUTHORIZATION).map(HeaderValue::to_str) else {
        return Ok(());
    };
    let value =
        value.map_err(|_| Refusal::bad_request("HeaderParseFailure", "Authorization must be plain ASCII"))?;
    if value.len() < 7 {
        return Err(Refusal::bad_request("InvalidHeaderFailure", "Authorization is too short"));
    }
    let refused = |code, message: &str| Err(Refusal::new(StatusCode::UNAUTHORIZED, code, message));
    match value.split_once(' ') {
        Some(("Convex", _)) => Ok(()),
        Some(("Bearer", token)) if looks_like_jwt(token) => {
            refused("NoAuthProvider", "no provider of this user token is configured here")
        }
        Some(("Bearer", _)) => refused("InvalidAuthHeader", "the bearer is not a JWT"),
        _ => refused("InvalidAuthHeader", "Authorization must begin with Convex or Bearer"),
    }
}

fn looks_like_jwt(token: &str) -> bool {
    let parts: Vec<_> = token.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).ok()).collect();
    let [Some(head), Some(claims), Some(_)] = parts.as_slice() else {
        return false;
    };
    [head, claims].iter().all(|part| serde_json::from_slice::<serde_json::Map<_, _>>(part).is_ok())
}

/// Only JSON is read. This also keeps web pages out: a form cannot send it without a preflight.
fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let essence = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .map(|essence| essence.trim().to_ascii_lowercase())
        .unwrap_or_default();
    let is_json =
        essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"));
    if is_json { Ok(()) } else { Err(Refusal::bad_body("Content-Type must be application/json")) }
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
    fn paths_have_one_spelling() {
        assert_eq!(canonical("events.js:list").ok().as_deref(), Some("events:list"));
        assert_eq!(canonical("agent/devices:beat").ok().as_deref(), Some("agent/devices:beat"));
        assert_eq!(canonical("events").ok().as_deref(), Some("events:default"));
        for bad in ["", ":", "a:b:c", "a b:c", "../x:y", "a//b:c"] {
            assert!(canonical(bad).is_err(), "{bad}");
        }
    }

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

    #[test]
    fn a_bearer_is_a_jwt_or_it_is_not() {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        assert!(looks_like_jwt(&format!("{}.{}.{}", part("{}"), part("{}"), part("x"))));
        assert!(!looks_like_jwt("opaque"));
        assert!(!looks_like_jwt(&format!("{}.{}.{}", part("1"), part("{}"), part("x"))));
    }
}
