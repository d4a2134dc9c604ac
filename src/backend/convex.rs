//! The contract's functions over Convex's HTTP API, with typed arguments and answers. It renews sessions by itself only
//! to correct a signature's time; all other decisions are the caller's.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::dial::WebSocketDialer;
use super::error::{BackendError, FunctionRefusal, RecoveryAction};
use super::http::{FunctionKind, HttpFunctions};
use super::signing_clock::SigningClock;
use super::signing_identity::{
    DeviceSigner, TokenStore, hash_token, heartbeat_signing_text, session_signing_text,
};
use super::transport::BadUrl;
use super::{
    Backend, BackendReply, BackendSession, CatalogEntry, CatalogKind, ClaimReply, EventPage,
    HeartbeatReply, OfferedEvent, PostOutcome, ProgressReply, RemoteAnswer, RemoteApprovals,
    RemoteQuestion, ResultPost, wakeup, wire,
};
use crate::approval_answer::ApprovalOption;
use crate::ids::{LeaseId, ProcessId, RequestId};
use crate::redact::Secret;

/// The largest part of a catalog in one call.
const CATALOG_PAGE_BYTES: usize = 2 << 20;
const CATALOG_PAGE_ITEMS: usize = 100;

/// A Convex deployment, or a server with the same API.
pub struct ConvexBackend {
    functions: HttpFunctions,
    signer: Arc<dyn DeviceSigner>,
    tokens: Arc<dyn TokenStore>,
    token: watch::Sender<Option<Secret<String>>>,
    /// Created on first use, because loading the system's certificates takes time.
    wakeup_dialer: OnceLock<Result<Arc<WebSocketDialer>, BadUrl>>,
    pairing_code: Mutex<Option<String>>,
    /// The deployment that this device works for, once known.
    backend_id: OnceLock<String>,
    lease: Duration,
    /// This process of the device, if it sends heartbeats.
    process: Option<ProcessId>,
    clock: SigningClock,
}

impl ConvexBackend {
    /// Creates a client for a device. The pairing code is needed once, when the device is new to the deployment.
    /// `lease` is the lifetime of a claim without renewal.
    pub fn new(
        functions: HttpFunctions,
        signer: Arc<dyn DeviceSigner>,
        tokens: Arc<dyn TokenStore>,
        pairing_code: Option<String>,
        lease: Duration,
    ) -> Self {
        let token = tokens.load_token();
        Self {
            functions,
            signer,
            tokens,
            token: watch::Sender::new(token),
            wakeup_dialer: OnceLock::new(),
            pairing_code: Mutex::new(pairing_code),
            backend_id: OnceLock::new(),
            lease,
            process: None,
            clock: SigningClock::default(),
        }
    }

    /// Restricts sessions to the deployment of this id, if one is known.
    #[must_use]
    pub fn with_backend_id(self, backend_id: Option<String>) -> Self {
        Self {
            backend_id: backend_id.map(OnceLock::from).unwrap_or_default(),
            ..self
        }
    }

    /// Sets the process id, by which the backend tells processes with the same identity apart.
    #[must_use]
    pub fn with_process_id(mut self, process: ProcessId) -> Self {
        self.process = Some(process);
        self
    }

    fn process_id_json(&self) -> Option<Value> {
        self.process.as_ref().map(|process| json!(process.as_str()))
    }

    async fn call_and_correct_clock(
        &self,
        kind: FunctionKind,
        path: &'static str,
        args: Value,
        held: Duration,
    ) -> Result<Value, BackendError> {
        let answered = self.functions.call_function(kind, path, &args, held).await;
        if let Err(BackendError::Refused(FunctionRefusal {
            server_now_ms: Some(now),
            ..
        })) = &answered
        {
            self.clock.reset_server_time(*now);
        }
        answered
    }

    /// Calls a function with `{deviceId, token}` added.
    async fn call_as_device<const N: usize>(
        &self,
        kind: FunctionKind,
        path: &'static str,
        fields: [(&str, Option<Value>); N],
        held: Duration,
    ) -> Result<Value, BackendError> {
        let token = self.token.borrow().clone();
        let Some(token) = token else {
            return Err(BackendError::Refused(FunctionRefusal {
                code: "DEVICE_UNAUTHORIZED".to_owned(),
                message: "no session is open".to_owned(),
                limit: None,
                server_now_ms: None,
            }));
        };
        let mut args = wire::args_object(fields);
        args["deviceId"] = json!(self.signer.device_id().as_str());
        args["token"] = json!(token.expose());
        self.call_and_correct_clock(kind, path, args, held).await
    }

    fn next_signing_time(&self) -> i64 {
        self.clock
            .next_signing_ms(self.functions.date_header_offset_ms())
    }

    async fn try_open_session(&self) -> Result<BackendSession, BackendError> {
        let token = self
            .tokens
            .renew_token()
            .map_err(|cause| BackendError::Function {
                message: format!("the session's token cannot be kept: {cause}"),
            })?;
        let code = self
            .pairing_code
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let hash = hash_token(&token);
        let signed_at = self.next_signing_time();
        let device = self.signer.device_id();
        let args = wire::args_object([
            ("deviceId", Some(json!(device.as_str()))),
            ("publicKey", Some(json!(self.signer.signing_public_key()))),
            ("name", Some(json!(self.signer.device_name()))),
            ("platform", Some(json!(std::env::consts::OS))),
            ("signedAtMs", Some(wire::millis_value(signed_at))),
            ("tokenHash", Some(json!(hash))),
            (
                "signature",
                Some(json!(
                    self.signer
                        .sign_text(&session_signing_text(device, signed_at, &hash))
                )),
            ),
            ("pairingCode", code.map(Value::String)),
            ("processId", self.process_id_json()),
        ]);
        let answer = self
            .call_and_correct_clock(
                FunctionKind::Mutation,
                "devices:openSession",
                args,
                Duration::ZERO,
            )
            .await?;
        let server_now_ms = check_shape("devices:openSession", wire::parse_server_time(&answer))?;
        self.clock.set_server_time(server_now_ms);
        let backend_id = wire::parse_backend_id(&answer);
        if let Some(id) = &backend_id {
            self.tokens
                .store_backend_id(id)
                .map_err(|cause| BackendError::Function {
                    message: format!("the backend's id cannot be kept: {cause}"),
                })?;
            if self.backend_id.get_or_init(|| id.clone()) != id {
                return Err(BackendError::OtherBackend {
                    url: self.functions.backend_url().to_owned(),
                });
            }
        }
        self.token.send_replace(Some(token));
        Ok(BackendSession {
            server_now_ms,
            backend_id,
            other_process: wire::other_process_flag(&answer),
        })
    }

    async fn publish_catalog_page(
        &self,
        kind: CatalogKind,
        revision: u64,
        complete: bool,
        items: &[CatalogEntry],
    ) -> Result<(), BackendError> {
        let items: Vec<Value> = items
            .iter()
            .map(|item| json!({"key": item.key, "hash": item.hash, "body": item.body}))
            .collect();
        #[expect(
            clippy::cast_precision_loss,
            reason = "milliseconds since 1970 are far below 2^53"
        )]
        let fields = [
            ("kind", Some(json!(kind.as_str()))),
            ("revision", Some(json!(revision as f64))),
            ("complete", Some(json!(complete))),
            ("items", Some(Value::Array(items))),
        ];
        self.call_as_device(
            FunctionKind::Mutation,
            "catalog:upsertMany",
            fields,
            Duration::ZERO,
        )
        .await
        .map(drop)
    }
}

fn check_shape<T>(
    function: &'static str,
    fitted: Result<T, wire::ShapeMismatch>,
) -> Result<T, BackendError> {
    fitted.map_err(|cause| BackendError::Shape { function, cause })
}

impl Backend for ConvexBackend {
    fn open_session(&self) -> BackendReply<'_, BackendSession> {
        Box::pin(async move {
            match self.try_open_session().await {
                // The refusal carried the backend's clock, or only needs a later time: signing again fixes both.
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
        })
    }

    fn clock_offset_ms(&self) -> Option<i64> {
        self.functions.date_header_offset_ms()
    }

    fn poll_events<'a>(
        &'a self,
        cursor: Option<&'a str>,
        limit: u32,
        wait: Duration,
    ) -> BackendReply<'a, EventPage> {
        Box::pin(async move {
            let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
            let fields = [
                (
                    "cursor",
                    Some(cursor.map_or(Value::Null, |cursor| json!(cursor))),
                ),
                ("limit", Some(wire::millis_value(i64::from(limit)))),
                ("waitMs", (wait_ms > 0).then(|| wire::millis_value(wait_ms))),
            ];
            let answer = self
                .call_as_device(FunctionKind::Query, "events:listForDevice", fields, wait)
                .await?;
            check_shape(
                "events:listForDevice",
                wire::parse_page(&answer, self.signer.device_id()),
            )
        })
    }

    fn list_open_requests(&self) -> BackendReply<'_, Vec<OfferedEvent>> {
        Box::pin(async move {
            let answer = self
                .call_as_device(
                    FunctionKind::Query,
                    "events:listOpenIds",
                    [],
                    Duration::ZERO,
                )
                .await?;
            check_shape("events:listOpenIds", wire::parse_open_ids(&answer))
        })
    }

    fn fetch_open_requests<'a>(
        &'a self,
        ids: &'a [RequestId],
    ) -> BackendReply<'a, Vec<OfferedEvent>> {
        Box::pin(async move {
            let ids = ids.iter().map(|id| json!(id.as_str())).collect();
            let fields = [("requestIds", Some(Value::Array(ids)))];
            let answer = self
                .call_as_device(
                    FunctionKind::Query,
                    "events:listOpen",
                    fields,
                    Duration::ZERO,
                )
                .await?;
            check_shape(
                "events:listOpen",
                wire::parse_open_requests(&answer, self.signer.device_id()),
            )
        })
    }

    fn claim_request<'a>(
        &'a self,
        id: &'a RequestId,
        lease: &'a LeaseId,
    ) -> BackendReply<'a, ClaimReply> {
        Box::pin(async move {
            let lease_ms = i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX);
            let fields = [
                ("requestId", Some(json!(id.as_str()))),
                ("leaseId", Some(json!(lease.as_str()))),
                ("leaseMs", Some(wire::millis_value(lease_ms))),
            ];
            let answer = self
                .call_as_device(
                    FunctionKind::Mutation,
                    "events:claim",
                    fields,
                    Duration::ZERO,
                )
                .await?;
            check_shape("events:claim", wire::parse_claim(&answer))
        })
    }

    fn send_progress<'a>(
        &'a self,
        id: &'a RequestId,
        lease: &'a LeaseId,
        n: u64,
        data: &'a str,
    ) -> BackendReply<'a, ProgressReply> {
        Box::pin(async move {
            let fields = [
                ("requestId", Some(json!(id.as_str()))),
                ("leaseId", Some(json!(lease.as_str()))),
                (
                    "n",
                    Some(wire::millis_value(i64::try_from(n).unwrap_or(i64::MAX))),
                ),
                ("data", Some(json!(data))),
            ];
            let answer = self
                .call_as_device(
                    FunctionKind::Mutation,
                    "events:appendProgress",
                    fields,
                    Duration::ZERO,
                )
                .await?;
            Ok(ProgressReply {
                cancelled: wire::cancelled_flag(&answer),
                watched: wire::watched_flag(&answer),
            })
        })
    }

    fn post_result<'a>(&'a self, result: ResultPost<'a>) -> BackendReply<'a, PostOutcome> {
        Box::pin(async move {
            let fields = [
                ("requestId", Some(json!(result.id.as_str()))),
                ("leaseId", Some(json!(result.lease.as_str()))),
                ("outcome", Some(json!(result.kind.as_str()))),
                ("payload", Some(json!(result.payload))),
                ("truncated", result.truncated.then_some(Value::Bool(true))),
            ];
            let answer = self
                .call_as_device(
                    FunctionKind::Mutation,
                    "events:appendResult",
                    fields,
                    Duration::ZERO,
                )
                .await?;
            check_shape("events:appendResult", wire::parse_post_outcome(&answer))
        })
    }

    fn send_heartbeat(
        &self,
        online: bool,
        every: Duration,
        health: Value,
    ) -> BackendReply<'_, HeartbeatReply> {
        Box::pin(async move {
            let every_ms = i64::try_from(every.as_millis()).unwrap_or(i64::MAX);
            let device = self.signer.device_id();
            let signed_at = self.next_signing_time();
            let args = wire::args_object([
                ("deviceId", Some(json!(device.as_str()))),
                ("signedAtMs", Some(wire::millis_value(signed_at))),
                (
                    "signature",
                    Some(json!(
                        self.signer
                            .sign_text(&heartbeat_signing_text(device, signed_at))
                    )),
                ),
                ("online", (!online).then_some(Value::Bool(false))),
                ("beatMs", Some(wire::millis_value(every_ms))),
                (
                    "health",
                    (!health.is_null()).then(|| Value::String(health.to_string())),
                ),
                ("processId", self.process_id_json()),
            ]);
            let answer = self
                .call_and_correct_clock(
                    FunctionKind::Mutation,
                    "devices:heartbeat",
                    args,
                    Duration::ZERO,
                )
                .await?;
            let beat = check_shape("devices:heartbeat", wire::parse_heartbeat(&answer))?;
            self.clock.set_server_time(beat.server_now_ms);
            Ok(beat)
        })
    }

    fn remote_approvals(&self) -> Option<&dyn RemoteApprovals> {
        Some(self)
    }

    fn listen_for_wakeups<'a>(
        &'a self,
        heard: &'a (dyn Fn() + Send + Sync),
    ) -> BackendReply<'a, Infallible> {
        Box::pin(async move {
            let dialer = self.wakeup_dialer.get_or_init(|| {
                self.functions
                    .sync_socket_dialer(wakeup::MOST_BYTES)
                    .map(Arc::new)
            });
            let dialer = dialer.as_ref().map_err(|bad| BackendError::BadCall {
                status: 0,
                message: bad.to_string(),
            })?;
            Err(wakeup::listen_on_socket(
                Arc::clone(dialer),
                self.signer.device_id(),
                self.token.subscribe(),
                heard,
            )
            .await)
        })
    }

    fn refresh_connections(&self) {
        self.functions.refresh_connections();
    }

    fn publish_catalog<'a>(
        &'a self,
        kind: CatalogKind,
        revision: u64,
        items: &'a [CatalogEntry],
    ) -> BackendReply<'a, ()> {
        Box::pin(async move {
            let mut rest = items;
            // Only a `complete` call deletes items, namely all that it does not list, so it would have to list
            // everything. A set of several pages is therefore first reduced to its first page and then extended.
            let mut complete = true;
            loop {
                let mut bytes = 0;
                let fits = rest.iter().take(CATALOG_PAGE_ITEMS).take_while(|item| {
                    bytes += item.body.len();
                    bytes <= CATALOG_PAGE_BYTES
                });
                let count = fits.count().max(1).min(rest.len());
                let (page, later) = rest.split_at(count);
                self.publish_catalog_page(kind, revision, complete, page)
                    .await?;
                complete = false;
                if later.is_empty() {
                    return Ok(());
                }
                rest = later;
            }
        })
    }
}

impl RemoteApprovals for ConvexBackend {
    fn ask_caller<'a>(
        &'a self,
        question: &'a RemoteQuestion,
    ) -> BackendReply<'a, Option<RemoteAnswer>> {
        Box::pin(async move {
            let fields = wire::question_fields(question);
            let asked = self
                .call_as_device(
                    FunctionKind::Mutation,
                    "permissions:ask",
                    fields,
                    Duration::ZERO,
                )
                .await?;
            Ok(wire::parse_remote_answer(&asked))
        })
    }

    fn fetch_answer<'a>(
        &'a self,
        id: &'a RequestId,
        wait: Duration,
    ) -> BackendReply<'a, Option<RemoteAnswer>> {
        Box::pin(async move {
            let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
            let fields = [("waitMs", (wait_ms > 0).then(|| wire::millis_value(wait_ms)))];
            let open = self
                .call_as_device(FunctionKind::Query, "permissions:pending", fields, wait)
                .await?;
            Ok(wire::find_answer(&open, id))
        })
    }

    fn submit_answer<'a>(
        &'a self,
        id: &'a RequestId,
        option: ApprovalOption,
    ) -> BackendReply<'a, Option<RemoteAnswer>> {
        Box::pin(async move {
            let fields = [
                ("permissionId", Some(json!(id.as_str()))),
                ("optionId", Some(json!(option.as_str()))),
            ];
            let answered = self
                .call_as_device(
                    FunctionKind::Mutation,
                    "permissions:answer",
                    fields,
                    Duration::ZERO,
                )
                .await?;
            Ok(wire::parse_remote_answer(&answered))
        })
    }
}
