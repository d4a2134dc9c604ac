//! The client of Convex's HTTP functions API: sends one call and returns its value or its error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use serde::Serialize;
use serde_json::Value;

use super::address::{BadUrl, parse_address};
use super::dial::WebSocketDialer;
use super::error::BackendError;
use super::http_response::{function_error, is_html_page, parse_date_offset, parse_retry_after};
use super::proxy::ProxyServer;
use super::transport::{TransportOptions, build_client, install_crypto_provider};
use super::upload::{UploadLoad, UploadProgress};
use punie_text::redact::Secret;

/// The kind of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionKind {
    /// It reads; answers may be cached.
    Query,
    /// It writes, in one transaction.
    Mutation,
    /// Any kind. For the operator, whose functions are not public.
    Any,
}

/// A client for the functions of one deployment.
#[derive(Debug, Clone)]
pub struct HttpFunctions {
    /// Shared by all clones; replaced as a whole when its connections are dropped.
    client: Arc<RwLock<Client>>,
    base: Url,
    /// The setting that the address comes from, for errors.
    address_origin: Option<String>,
    /// The operator's key, if the operator calls.
    admin_key: Option<Secret<String>>,
    proxy: Option<ProxyServer>,
    options: TransportOptions,
    /// The backend's clock minus the local one in milliseconds, from the date of the last answer.
    dated_offset_ms: Arc<AtomicI64>,
    /// True once a function has answered.
    has_answered: Arc<AtomicBool>,
    uplink: UploadLoad,
}

/// No answer had a date yet.
const NO_OFFSET: i64 = i64::MIN;

/// The body of a call.
#[derive(Serialize)]
struct FunctionCall<'a> {
    path: &'a str,
    args: &'a Value,
    format: &'static str,
}

impl HttpFunctions {
    /// Creates a client for the deployment at this address.
    ///
    /// # Errors
    /// [`BadUrl`].
    pub fn new(url: &str, options: TransportOptions) -> Result<Self, BadUrl> {
        let base = parse_address(url, "https", "http", options.allow_insecure_http)?;
        install_crypto_provider();
        let proxy = ProxyServer::for_address(&base, &options.proxies)?;
        let client = build_client(&base, proxy.as_ref(), &options)
            .map_err(|cause| BadUrl::Client(cause.to_string()))?;
        Ok(Self {
            client: Arc::new(RwLock::new(client)),
            base,
            address_origin: None,
            admin_key: None,
            proxy,
            options,
            dated_offset_ms: Arc::new(AtomicI64::new(NO_OFFSET)),
            has_answered: Arc::default(),
            uplink: UploadLoad::default(),
        })
    }

    /// Returns the client with the operator's key, which it sends with every call.
    #[must_use]
    pub fn with_admin_key(self, key: Secret<String>) -> Self {
        Self {
            admin_key: Some(key),
            ..self
        }
    }

    /// Returns the client whose errors name the setting that the address comes from.
    #[must_use]
    pub fn with_address_origin(self, origin: &str) -> Self {
        Self {
            address_origin: Some(origin.to_owned()),
            ..self
        }
    }

    /// Returns the address for errors that nothing answered there as a backend.
    fn shown_address(&self) -> String {
        let url = self.backend_url();
        let origin = self.address_origin.as_ref();
        origin.map_or_else(|| url.to_owned(), |origin| format!("{url} (from {origin})"))
    }

    /// Returns the address, without secrets.
    pub fn backend_url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Prepares a connection to the deployment's sync socket. Messages over `most_bytes` are refused.
    ///
    /// # Errors
    /// [`BadUrl`].
    pub(super) fn sync_socket_dialer(&self, most_bytes: usize) -> Result<WebSocketDialer, BadUrl> {
        let url = join_route(&self.base, "api/sync");
        // `http` becomes `ws` and `https` becomes `wss`.
        let url = url.as_str().replacen("http", "ws", 1);
        WebSocketDialer::new(
            &url,
            self.options.allow_insecure_http,
            most_bytes,
            &self.options.proxies,
        )
    }

    /// Drops all pooled connections: after a sleep they are dead without a sign of it. Calls in flight keep theirs.
    pub fn refresh_connections(&self) {
        match build_client(&self.base, self.proxy.as_ref(), &self.options) {
            Ok(fresh) => *self.client.write() = fresh,
            Err(error) => tracing::warn!(%error, "old connections are kept"),
        }
    }

    fn http_client(&self) -> Client {
        self.client.read().clone()
    }

    /// Returns the backend's clock minus the local one in milliseconds, from the date of the last answer.
    pub fn date_header_offset_ms(&self) -> Option<i64> {
        Some(self.dated_offset_ms.load(Ordering::Relaxed)).filter(|offset| *offset != NO_OFFSET)
    }

    /// Checks that the address answers like an event backend.
    ///
    /// # Errors
    /// [`BackendError::Unreachable`], [`BackendError::TlsFailed`], [`BackendError::Intercepted`],
    /// [`BackendError::NoBackend`].
    pub async fn probe_address(&self, timeout: Duration) -> Result<(), BackendError> {
        let sent = self
            .http_client()
            .get(join_route(&self.base, "version"))
            .timeout(timeout)
            .send()
            .await;
        let response = sent.map_err(|cause| self.connection_error(&cause))?;
        let offset = parse_date_offset(response.headers(), SystemTime::now());
        let is_page = is_html_page(response.headers());
        if response.status().is_redirection() || is_page {
            return Err(self.intercepted_error(if is_page { "a web page" } else { "a redirect" }));
        }
        if response.status() == StatusCode::NOT_FOUND {
            return Err(BackendError::NoBackend {
                url: self.shown_address(),
            });
        }
        if let Some(offset) = offset {
            self.dated_offset_ms.store(offset, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Calls a function. `hold` is the time for which the call asks to be held, or zero.
    ///
    /// # Errors
    /// [`BackendError`]. After `Unreachable` the call may or may not have taken effect.
    ///
    /// # Panics
    /// Never: JSON values and texts are always JSON.
    pub async fn call_function(
        &self,
        kind: FunctionKind,
        path: &str,
        args: &Value,
        hold: Duration,
    ) -> Result<Value, BackendError> {
        let route = match kind {
            FunctionKind::Query => "api/query",
            FunctionKind::Mutation => "api/mutation",
            FunctionKind::Any => "api/function",
        };
        let patience = if hold.is_zero() {
            self.options.total_timeout
        } else {
            hold + Duration::from_secs(10)
        };
        let call = FunctionCall {
            path,
            args,
            format: "json",
        };
        let body = serde_json::to_vec(&call).expect("JSON values and texts are always JSON");
        let (body, upload) = self.uplink.start(body);
        tokio::select! {
            answered = self.send_call(route, body) => answered,
            waited = upload.wait_for_stall(patience) => Err(self.stall_error(&upload, waited)),
        }
    }

    async fn send_call(&self, route: &str, body: reqwest::Body) -> Result<Value, BackendError> {
        let mut request = self.http_client().post(join_route(&self.base, route));
        if let Some(key) = &self.admin_key {
            let mut value =
                HeaderValue::from_str(&format!("Convex {}", key.expose())).map_err(|_| {
                    let message = "the admin key cannot stand in a header".to_owned();
                    BackendError::BadCall { status: 0, message }
                })?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let response = request
            .header(CONTENT_TYPE, "application/json")
            .header(
                "Convex-Client",
                concat!("punie-runner-", env!("CARGO_PKG_VERSION")),
            )
            .body(body)
            .send()
            .await
            .map_err(|cause| self.connection_error(&cause))?;
        let status = response.status();
        let now = SystemTime::now();
        let retry_after = parse_retry_after(response.headers(), now);
        let offset = parse_date_offset(response.headers(), now);
        let text = self.read_body(response).await?;
        if status != StatusCode::OK && status.as_u16() != 560 {
            return Err(self.status_error(status, retry_after, &text));
        }
        let answered = self.parse_answer(&text);
        if matches!(
            answered,
            Ok(_) | Err(BackendError::Function { .. } | BackendError::Refused(_))
        ) {
            self.has_answered.store(true, Ordering::Relaxed);
        }
        // The date of an answer that is not the backend's does not count.
        if let Some(offset) = offset
            && !matches!(answered, Err(BackendError::Intercepted { .. }))
        {
            self.dated_offset_ms.store(offset, Ordering::Relaxed);
        }
        answered
    }

    async fn read_body(&self, mut response: Response) -> Result<Vec<u8>, BackendError> {
        let limit = self.options.max_answer_bytes;
        let oversized = || BackendError::Oversized {
            url: self.backend_url().to_owned(),
            limit,
        };
        if response
            .content_length()
            .is_some_and(|announced| announced > limit as u64)
        {
            return Err(oversized());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|cause| self.connection_error(&cause))?
        {
            if body.len() + chunk.len() > limit {
                return Err(oversized());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn parse_answer(&self, body: &[u8]) -> Result<Value, BackendError> {
        let mut answer: Value = serde_json::from_slice(body)
            .map_err(|cause| self.intercepted_error(&format!("not JSON ({cause})")))?;
        match answer["status"].as_str() {
            Some("success") => Ok(answer.get_mut("value").map(Value::take).unwrap_or_default()),
            Some("error") => Err(function_error(&answer)),
            _ => Err(self.intercepted_error("JSON without a status")),
        }
    }

    fn status_error(
        &self,
        status: StatusCode,
        retry_after: Option<Duration>,
        body: &[u8],
    ) -> BackendError {
        let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
        let word = |key: &str| parsed[key].as_str().unwrap_or_default().to_owned();
        match status.as_u16() {
            // The API refuses in JSON. A gateway that answers otherwise says nothing about this device's credentials.
            401 | 403 if parsed.is_object() => BackendError::Unauthorized { code: word("code") },
            401 | 403 | 407 | 511 => {
                self.intercepted_error(&format!("a gate that answers with {status}"))
            }
            201..=299 => self.intercepted_error(&format!("an empty success ({status})")),
            300..=399 => {
                self.intercepted_error(&format!("a redirect ({status}), which is not followed"))
            }
            404 if !self.has_answered.load(Ordering::Relaxed) => BackendError::NoBackend {
                url: self.shown_address(),
            },
            404 | 408 | 409 | 421 | 425 | 429 | 500..=599 => BackendError::Busy {
                status: status.as_u16(),
                code: word("code"),
                retry_after,
            },
            other => BackendError::BadCall {
                status: other,
                message: word("message"),
            },
        }
    }

    fn intercepted_error(&self, cause: &str) -> BackendError {
        BackendError::Intercepted {
            url: self.shown_address(),
            cause: cause.to_owned(),
        }
    }

    fn unreachable_error(&self, cause: String) -> BackendError {
        BackendError::Unreachable {
            url: self.shown_address(),
            cause,
        }
    }

    fn stall_error(&self, upload: &UploadProgress, waited: Duration) -> BackendError {
        let seconds = waited.as_secs();
        let bytes = upload.total_bytes();
        self.unreachable_error(format!(
            "no answer within {seconds} s to a call of {bytes} bytes"
        ))
    }

    /// Returns the error of a lost connection, in the words of its innermost cause.
    fn connection_error(&self, error: &reqwest::Error) -> BackendError {
        let mut innermost: &(dyn std::error::Error + 'static) = error;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        if is_tls_error(innermost) {
            return BackendError::TlsFailed {
                url: self.shown_address(),
                cause: innermost.to_string(),
            };
        }
        self.unreachable_error(innermost.to_string())
    }
}

/// Returns whether an error of a connection is one of TLS, which the transport wraps in I/O errors.
fn is_tls_error(error: &(dyn std::error::Error + 'static)) -> bool {
    let wrapped = error
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref);
    match wrapped {
        Some(inner) => is_tls_error(inner),
        None => error.is::<rustls::Error>(),
    }
}

fn join_route(base: &Url, route: &str) -> Url {
    let mut url = base.clone();
    let path = format!("{}/{route}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url
}

#[cfg(test)]
mod tests {
    use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
    use serde_json::json;

    use super::*;

    fn open(url: &str) -> Result<HttpFunctions, BadUrl> {
        HttpFunctions::new(url, TransportOptions::default())
    }

    #[test]
    fn the_token_never_travels_in_the_clear() {
        assert!(open("http://127.0.0.1:3210").is_ok());
        assert!(open("http://[::1]:3210").is_ok());
        assert!(open("https://name.convex.cloud/").is_ok());
        assert!(matches!(
            open("http://example.com"),
            Err(BadUrl::Insecure(_))
        ));
        assert!(matches!(
            open("http://127.0.0.1.example.com"),
            Err(BadUrl::Insecure(_))
        ));
        assert!(matches!(
            open("ftp://127.0.0.1"),
            Err(BadUrl::Unparsable(..))
        ));
        assert!(matches!(
            open("https://user:pw@example.com"),
            Err(BadUrl::Credentials)
        ));
    }

    #[test]
    fn the_time_to_wait_comes_in_seconds_or_as_a_date_and_has_a_cap() {
        // The example of RFC 9110.
        let now = httpdate::parse_http_date("Fri, 31 Dec 1999 23:59:00 GMT").expect("a date");
        let wait = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().expect("a header"))]);
            parse_retry_after(&headers, now).map(|wait| wait.as_secs())
        };
        assert_eq!(wait("120"), Some(120));
        assert_eq!(wait("Fri, 31 Dec 1999 23:59:59 GMT"), Some(59));
        assert_eq!(wait("86400"), Some(600));
        assert_eq!(wait("Sat, 01 Jan 2005 00:00:00 GMT"), Some(600));
        assert_eq!(wait("99999999999999999999999999"), Some(600));
        for none in ["0", "Fri, 31 Dec 1999 23:58:59 GMT", "soon", "-1", ""] {
            assert_eq!(wait(none), None, "{none:?}");
        }
    }

    #[test]
    fn every_status_has_its_disposition() {
        use super::super::{RecoveryAction, RetryDelay};
        let functions = open("http://127.0.0.1:1").expect("an address");
        let retry = RecoveryAction::Retry(RetryDelay::BackOff);
        let reconnect = RecoveryAction::Retry(RetryDelay::Reconnect);
        let json = br#"{"code":"SomeCode","message":"words"}"#.as_slice();
        let page = b"<html>Please log in</html>".as_slice();
        let disposition = |status: u16, body: &[u8]| {
            let status = StatusCode::from_u16(status).expect("a status");
            let error = functions.status_error(status, None, body);
            (error.recovery_action(), error.connection_problem().as_str())
        };
        for (status, expected, trouble) in [
            (204, reconnect, "intercepted"),
            (301, reconnect, "intercepted"),
            (307, reconnect, "intercepted"),
            (400, RecoveryAction::RetrySlowly, "failing"),
            (401, RecoveryAction::ReopenSession, "refused"),
            (403, RecoveryAction::ReopenSession, "refused"),
            (405, RecoveryAction::RetrySlowly, "failing"),
            (407, reconnect, "intercepted"),
            (408, retry, "busy"),
            (409, retry, "busy"),
            (413, RecoveryAction::Shrink(None), "failing"),
            (421, retry, "busy"),
            (425, retry, "busy"),
            (429, RecoveryAction::Retry(RetryDelay::Intervals(3)), "busy"),
            (500, retry, "busy"),
            (502, retry, "busy"),
            (503, RecoveryAction::Retry(RetryDelay::Intervals(1)), "busy"),
            (504, retry, "busy"),
            (511, reconnect, "intercepted"),
        ] {
            assert_eq!(disposition(status, json), (expected, trouble), "{status}");
        }
        // A gateway that refuses in HTML says nothing about this device.
        for status in [401, 403] {
            assert_eq!(
                disposition(status, page),
                (reconnect, "intercepted"),
                "{status}"
            );
        }
        // A backend that has answered before may miss its functions for a moment; otherwise the address is probably
        // wrong.
        assert_eq!(disposition(404, page), (reconnect, "no_backend"));
        functions.has_answered.store(true, Ordering::Relaxed);
        assert_eq!(disposition(404, json), (retry, "busy"));
        // A wait that the backend asks for takes precedence.
        let named = Some(Duration::from_secs(7));
        for status in [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::NOT_FOUND,
        ] {
            let asked = RecoveryAction::Retry(RetryDelay::Requested(Duration::from_secs(7)));
            assert_eq!(
                functions
                    .status_error(status, named, json)
                    .recovery_action(),
                asked
            );
        }
        for (body, trouble) in [
            (page, "intercepted"),
            (b"{\"status\":\"succ".as_slice(), "intercepted"),
            (b"[]", "intercepted"),
        ] {
            let error = functions.parse_answer(body).expect_err("no answer");
            assert_eq!(
                (error.recovery_action(), error.connection_problem().as_str()),
                (reconnect, trouble)
            );
        }
    }

    #[test]
    fn every_code_of_a_function_has_its_disposition() {
        use super::super::RecoveryAction;
        let disposition = |code: &str| {
            let data = json!({"code": code, "limit": 5.0, "serverNowMs": 7.0});
            function_error(&json!({"status": "error", "errorData": data})).recovery_action()
        };
        for never in [
            "BAD_SIGNATURE",
            "DEVICE_KEY_MISMATCH",
            "REQUEST_ID_REUSED",
            "REQUEST_UNKNOWN",
            "RESULT_EXISTS",
            "LEASE_LOST",
            "PAIRING_REQUIRED",
            "INVALID_ARGUMENT",
            "CALLER_UNAUTHORIZED",
        ] {
            assert_eq!(disposition(never), RecoveryAction::GiveUp, "{never}");
        }
        assert_eq!(disposition("TOO_LARGE"), RecoveryAction::Shrink(Some(5)));
        assert_eq!(
            disposition("DEVICE_UNAUTHORIZED"),
            RecoveryAction::ReopenSession
        );
        assert_eq!(disposition("DEVICE_UNKNOWN"), RecoveryAction::ReopenSession);
        assert_eq!(
            disposition("SIGNATURE_STALE"),
            RecoveryAction::CorrectClock(Some(7.0))
        );
        assert_eq!(disposition("SIGNATURE_REPLAYED"), RecoveryAction::SignAgain);
        assert_eq!(disposition("A_CODE_OF_LATER"), RecoveryAction::RetrySlowly);
    }

    #[test]
    fn the_date_of_an_answer_tells_how_far_the_clocks_are_apart() {
        let now = httpdate::parse_http_date("Fri, 31 Dec 1999 23:59:00 GMT").expect("a date");
        let offset = |date: &str| {
            parse_date_offset(
                &HeaderMap::from_iter([(DATE, date.parse().expect("a header"))]),
                now,
            )
        };
        assert_eq!(offset("Sat, 01 Jan 2000 00:09:00 GMT"), Some(600_000));
        assert_eq!(offset("Fri, 31 Dec 1999 23:49:00 GMT"), Some(-600_000));
        assert_eq!(offset("soon"), None);
        assert_eq!(parse_date_offset(&HeaderMap::new(), now), None);
    }

    #[test]
    fn a_function_error_without_data_is_not_final() {
        let hidden = json!({"status": "error", "errorMessage": "[Request ID: x] Server Error"});
        assert_eq!(
            function_error(&hidden).recovery_action(),
            super::super::RecoveryAction::RetrySlowly
        );
        let coded = json!({"status": "error", "errorMessage": "", "errorData": {"code": "TOO_LARGE", "limit": 921_600.0}});
        assert_eq!(
            function_error(&coded).recovery_action(),
            super::super::RecoveryAction::Shrink(Some(921_600))
        );
    }
}
