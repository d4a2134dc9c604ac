//! The parts of a response that have a meaning of their own: dates, waits, and the errors of functions.

use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

use super::error::{BackendError, FunctionRefusal};

/// Returns the error that a function answered with.
pub(super) fn function_error(answer: &Value) -> BackendError {
    let message = answer["errorMessage"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let data = &answer["errorData"];
    let Some(code) = data["code"].as_str() else {
        return BackendError::Function { message };
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a byte count far below 2^53"
    )]
    let limit = data["limit"].as_f64().map(|limit| limit.max(0.0) as u64);
    BackendError::Refused(FunctionRefusal {
        code: code.to_owned(),
        message: data["message"].as_str().unwrap_or_default().to_owned(),
        limit,
        server_now_ms: data["serverNowMs"].as_f64(),
    })
}

/// Parses `Retry-After`: seconds or an HTTP date (RFC 9110 section 10.2.3), capped at ten minutes.
pub(super) fn parse_retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    const CAP: Duration = Duration::from_mins(10);
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        // Zero gives no time, so only the back-off applies.
        return (seconds > 0).then(|| Duration::from_secs(seconds).min(CAP));
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(CAP);
    }
    let at = httpdate::parse_http_date(text).ok()?;
    at.duration_since(now).ok().map(|wait| wait.min(CAP))
}

/// Returns the answer's `Date` minus now in milliseconds, exact to the second.
pub(super) fn parse_date_offset(headers: &HeaderMap, now: SystemTime) -> Option<i64> {
    let at = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
    let ms = |age: Duration| i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    Some(
        at.duration_since(now)
            .map_or_else(|behind| -ms(behind.duration()), ms),
    )
}

/// Returns whether the answer is an HTML page.
pub(super) fn is_html_page(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| {
        kind.trim_start()
            .to_ascii_lowercase()
            .starts_with("text/html")
    })
}
