//! Calls of the contract's functions as one device: its session, its signatures and their clock.

use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::BackendSession;
use super::error::{BackendError, FunctionRefusal, RecoveryAction};
use super::http::{FunctionKind, HttpFunctions};
use super::signing_clock::SigningClock;
use super::signing_identity::{
    DeviceCredentials, hash_token, heartbeat_signing_text, session_signing_text,
};
use super::wire;
use punie_core::ids::{DeviceId, ProcessId};
use punie_home::HomeError;
use punie_text::redact::Secret;

/// A device of a deployment.
pub(super) struct DeviceClient {
    pub functions: HttpFunctions,
    credentials: DeviceCredentials,
    token: watch::Sender<Option<Secret<String>>>,
    pairing_code: Option<String>,
    /// The deployment that this device works for, once known.
    pub backend_id: OnceLock<String>,
    /// This process of the device, if it sends heartbeats.
    pub process: Option<ProcessId>,
    clock: SigningClock,
}

impl DeviceClient {
    pub fn new(
        functions: HttpFunctions,
        credentials: DeviceCredentials,
        pairing_code: Option<String>,
    ) -> Self {
        Self {
            functions,
            token: watch::Sender::new(credentials.load_token()),
            credentials,
            pairing_code,
            backend_id: OnceLock::new(),
            process: None,
            clock: SigningClock::default(),
        }
    }

    pub fn device_id(&self) -> &DeviceId {
        self.credentials.identity.device_id()
    }

    /// Returns the token of the session, and every later one.
    pub fn watch_token(&self) -> watch::Receiver<Option<Secret<String>>> {
        self.token.subscribe()
    }

    /// Calls a mutation with `{deviceId, token}` added.
    pub async fn mutate(&self, path: &'static str, args: Value) -> Result<Value, BackendError> {
        self.call_with_token(FunctionKind::Mutation, path, args, Duration::ZERO)
            .await
    }

    /// Calls a query with `{deviceId, token}` added. `hold` is the time for which the call asks to be held, or zero.
    pub async fn query(
        &self,
        path: &'static str,
        args: Value,
        hold: Duration,
    ) -> Result<Value, BackendError> {
        self.call_with_token(FunctionKind::Query, path, args, hold)
            .await
    }

    async fn call_with_token(
        &self,
        kind: FunctionKind,
        path: &'static str,
        mut args: Value,
        hold: Duration,
    ) -> Result<Value, BackendError> {
        let token = self.token.borrow().clone().ok_or_else(|| {
            BackendError::Refused(FunctionRefusal {
                code: "DEVICE_UNAUTHORIZED".to_owned(),
                message: "no session is open".to_owned(),
                limit: None,
                server_now_ms: None,
            })
        })?;
        args["deviceId"] = json!(self.device_id().as_str());
        args["token"] = json!(token.expose());
        self.call_and_correct_clock(kind, path, args, hold).await
    }

    async fn call_and_correct_clock(
        &self,
        kind: FunctionKind,
        path: &'static str,
        args: Value,
        hold: Duration,
    ) -> Result<Value, BackendError> {
        let answered = self.functions.call_function(kind, path, &args, hold).await;
        if let Err(BackendError::Refused(refusal)) = &answered
            && let Some(now) = refusal.server_now_ms
        {
            self.clock.reset_server_time(now);
        }
        answered
    }

    /// Calls a mutation that is proved by a signature, and sets the clock by its answer.
    async fn call_signed(
        &self,
        path: &'static str,
        mut args: Value,
        signing_text: impl FnOnce(&DeviceId, i64) -> String,
    ) -> Result<Value, BackendError> {
        let dated_offset = self.functions.date_header_offset_ms();
        let signed_at = self.clock.next_ms(dated_offset);
        let text = signing_text(self.device_id(), signed_at);
        #[expect(
            clippy::cast_precision_loss,
            reason = "milliseconds since 1970 are far below 2^53"
        )]
        let signed_at = signed_at as f64;
        args["deviceId"] = json!(self.device_id().as_str());
        args["signedAtMs"] = json!(signed_at);
        args["signature"] = json!(self.credentials.identity.sign_base64(&text));
        args["processId"] = json!(self.process.as_ref().map(ProcessId::as_str));
        let args = wire::omit_nulls(args);
        let answer = self
            .call_and_correct_clock(FunctionKind::Mutation, path, args, Duration::ZERO)
            .await?;
        let server_now_ms = check_shape(path, wire::parse_server_time(&answer))?;
        self.clock.set_server_time(server_now_ms);
        Ok(answer)
    }

    /// Opens a session. A refusal that carried the backend's clock, or only needs a later time, is signed again.
    pub async fn open_session(&self) -> Result<BackendSession, BackendError> {
        match self.try_open_session().await {
            Err(error)
                if matches!(
                    error.recovery_action(),
                    RecoveryAction::CorrectClock(_) | RecoveryAction::SignAgain
                ) =>
            {
                self.try_open_session().await
            }
            opened => opened,
        }
    }

    async fn try_open_session(&self) -> Result<BackendSession, BackendError> {
        let not_stored = |stored: &str, cause: HomeError| BackendError::Function {
            message: format!("the {stored} cannot be kept: {cause}"),
        };
        let token = self
            .credentials
            .renew_token()
            .map_err(|cause| not_stored("session's token", cause))?;
        let hash = hash_token(&token);
        let args = json!({
            "publicKey": self.credentials.identity.public_key_base64(),
            "name": self.credentials.name,
            "platform": std::env::consts::OS,
            "tokenHash": hash,
            "pairingCode": self.pairing_code,
        });
        let answer = self
            .call_signed("devices:openSession", args, |device, signed_at| {
                session_signing_text(device, signed_at, &hash)
            })
            .await?;
        let backend_id = wire::parse_backend_id(&answer);
        if let Some(id) = &backend_id {
            self.credentials
                .tokens
                .write_id(id)
                .map_err(|cause| not_stored("backend's id", cause))?;
            if self.backend_id.get_or_init(|| id.clone()) != id {
                return Err(BackendError::OtherBackend {
                    url: self.functions.backend_url().to_owned(),
                });
            }
        }
        self.token.send_replace(Some(token));
        Ok(BackendSession {
            server_now_ms: check_shape("devices:openSession", wire::parse_server_time(&answer))?,
            backend_id,
            other_process: wire::other_process_flag(&answer),
            is_new_device: wire::registered_flag(&answer),
        })
    }

    /// Sends a heartbeat with these arguments.
    pub async fn send_heartbeat(&self, args: Value) -> Result<Value, BackendError> {
        self.call_signed("devices:heartbeat", args, heartbeat_signing_text)
            .await
    }
}

/// Returns the parsed answer of a function, or the error for one of another shape.
pub(super) fn check_shape<T>(
    function: &'static str,
    parsed: Result<T, wire::ShapeMismatch>,
) -> Result<T, BackendError> {
    parsed.map_err(|cause| BackendError::Shape { function, cause })
}
