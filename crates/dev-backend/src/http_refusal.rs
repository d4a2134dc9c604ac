//! The refusal of a call before any function ran, and the bounds and form of bodies.
//! Not here: failures of functions (`failure`).

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// The largest body: 16 MiB of arguments and their envelope.
pub(super) const BODY_LIMIT: usize = 16 * 1024 * 1024 + 2000;

/// A refusal of a call before any function ran.
pub(super) struct HttpRefusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl HttpRefusal {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }

    pub fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub fn bad_body(message: impl Into<String>) -> Self {
        Self::bad_request("BadJsonBody", message)
    }
}

impl IntoResponse for HttpRefusal {
    fn into_response(self) -> Response {
        json_response(
            self.status,
            serde_json::json!({ "code": self.code, "message": self.message }).to_string(),
        )
    }
}

/// Builds an answer whose body is this JSON text.
pub(super) fn json_response(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
