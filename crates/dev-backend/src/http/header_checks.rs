//! Checks of a call's headers before anything runs. Only programs on this machine and pages that it serves may call.
//! Not here: tokens in the arguments, which each function checks.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::backend_state::BackendState;
use crate::http_refusal::HttpRefusal;

/// Refuses calls from pages of other hosts, also after DNS rebinding, and lets pages of this machine read the answers.
pub(super) async fn guard_origin(request: Request, next: Next) -> Response {
    if let Err(refusal) = check_host(request.headers()) {
        return refusal.into_response();
    }
    let Some(origin) = request.headers().get(header::ORIGIN).cloned() else {
        return next.run(request).await;
    };
    if !is_local_page(&origin) {
        let message = "pages of other hosts may not use this backend";
        return HttpRefusal::new(StatusCode::FORBIDDEN, "ForeignOrigin", message).into_response();
    }
    let asked = request
        .headers()
        .get(header::ACCESS_CONTROL_REQUEST_HEADERS)
        .cloned();
    let is_preflight = request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut answer = if is_preflight {
        StatusCode::NO_CONTENT.into_response()
    } else {
        next.run(request).await
    };
    let headers = answer.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(
        header::VARY,
        HeaderValue::from_static("origin, access-control-request-headers"),
    );
    if is_preflight {
        let mut allow = |name: HeaderName, value: HeaderValue| drop(headers.insert(name, value));
        allow(
            header::ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static("GET, POST"),
        );
        allow(
            header::ACCESS_CONTROL_MAX_AGE,
            HeaderValue::from_static("600"),
        );
        if let Some(asked) = asked {
            allow(header::ACCESS_CONTROL_ALLOW_HEADERS, asked);
        }
    }
    answer
}

/// Refuses names of other hosts that resolve to this machine (DNS rebinding).
fn check_host(headers: &HeaderMap) -> Result<(), HttpRefusal> {
    match headers.get(header::HOST).map(HeaderValue::to_str) {
        None => Ok(()),
        Some(Ok(host)) if is_local_authority(host) => Ok(()),
        Some(_) => Err(HttpRefusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "ForeignHost",
            "this backend answers to localhost and to addresses of this machine only",
        )),
    }
}

fn is_local_page(origin: &HeaderValue) -> bool {
    let Some(origin) = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.parse::<Uri>().ok())
    else {
        return false;
    };
    matches!(origin.scheme_str(), Some("http" | "https"))
        && origin
            .authority()
            .is_some_and(|authority| is_local_authority(authority.as_str()))
}

/// Returns whether this is `localhost`, a name below it, or a loopback address, with or without a port.
fn is_local_authority(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<axum::http::uri::Authority>() else {
        return false;
    };
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority
        .host()
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_ascii_lowercase();
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// Checks the form of the client's version header, if there is one.
pub(crate) fn check_client_header(headers: &HeaderMap) -> Result<(), HttpRefusal> {
    match headers.get("convex-client") {
        Some(client) if !client.as_bytes().contains(&b'-') => Err(HttpRefusal::bad_request(
            "InvalidClientVersion",
            "Convex-Client must be <name>-<version>",
        )),
        _ => Ok(()),
    }
}

/// The identity in a call's Authorization header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallerIdentity {
    /// None; callers' and devices' tokens are in the arguments.
    None,
    /// The owner of the database.
    Admin,
}

/// Returns the identity in the Authorization header. User tokens are always refused, because no provider of them is
/// configured.
pub(super) fn authorization_identity(
    headers: &HeaderMap,
    backend: &BackendState,
) -> Result<CallerIdentity, HttpRefusal> {
    let Some(value) = headers.get(header::AUTHORIZATION).map(HeaderValue::to_str) else {
        return Ok(CallerIdentity::None);
    };
    let value = value.map_err(|_| {
        HttpRefusal::bad_request("HeaderParseFailure", "Authorization must be plain ASCII")
    })?;
    if value.len() < 7 {
        return Err(HttpRefusal::bad_request(
            "InvalidHeaderFailure",
            "Authorization is too short",
        ));
    }
    let refused =
        |code, message: &str| Err(HttpRefusal::new(StatusCode::UNAUTHORIZED, code, message));
    match value.split_once(' ') {
        Some(("Convex", key)) if backend.is_admin_key(key) => Ok(CallerIdentity::Admin),
        Some(("Convex", _)) => refused("BadAdminKey", "this is not the admin key of this backend"),
        Some(("Bearer", token)) if looks_like_jwt(token) => refused(
            "NoAuthProvider",
            "no provider of this user token is configured here",
        ),
        Some(("Bearer", _)) => refused("InvalidAuthHeader", "the bearer is not a JWT"),
        _ => refused(
            "InvalidAuthHeader",
            "Authorization must begin with Convex or Bearer",
        ),
    }
}

fn looks_like_jwt(token: &str) -> bool {
    let parts: Vec<_> = token
        .split('.')
        .map(|part| URL_SAFE_NO_PAD.decode(part).ok())
        .collect();
    let [Some(head), Some(claims), Some(_)] = parts.as_slice() else {
        return false;
    };
    [head, claims]
        .iter()
        .all(|part| serde_json::from_slice::<serde_json::Map<_, _>>(part).is_ok())
}

/// Requires JSON. This also keeps web pages out, because a form cannot send it without a preflight request.
pub(super) fn check_content_type(headers: &HeaderMap) -> Result<(), HttpRefusal> {
    let essence = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .map(|essence| essence.trim().to_ascii_lowercase())
        .unwrap_or_default();
    let is_json = essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"));
    if is_json {
        Ok(())
    } else {
        Err(HttpRefusal::bad_body(
            "Content-Type must be application/json",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_is_a_jwt_or_it_is_not() {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        assert!(looks_like_jwt(&format!(
            "{}.{}.{}",
            part("{}"),
            part("{}"),
            part("x")
        )));
        assert!(!looks_like_jwt("opaque"));
        assert!(!looks_like_jwt(&format!(
            "{}.{}.{}",
            part("1"),
            part("{}"),
            part("x")
        )));
    }

    #[test]
    fn only_pages_of_this_machine_are_local() {
        for local in [
            "http://localhost",
            "http://localhost:5173",
            "https://LOCALHOST:3000",
            "http://app.localhost:1",
            "http://127.0.0.1:8080",
            "http://127.8.9.1",
            "http://[::1]:3000",
        ] {
            assert!(is_local_page(&HeaderValue::from_static(local)), "{local}");
        }
        for foreign in [
            "null",
            "",
            "file://",
            "http://example.com",
            "http://localhost.example.com",
            "http://notlocalhost",
            "http://127.0.0.1.example.com",
            "http://localhost@example.com",
            "http://user@localhost",
            "http://[::2]",
            "http://0.0.0.0:1",
            "ftp://localhost",
            "localhost",
        ] {
            assert!(
                !is_local_page(&HeaderValue::from_static(foreign)),
                "{foreign}"
            );
        }
        assert!(is_local_authority("localhost:80") && !is_local_authority("evil.test:80"));
    }
}
