//! The contract's functions over Convex's HTTP API, with typed arguments and answers. All decisions on errors are the
//! caller's.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};

use super::address::BadUrl;
use super::device_client::{DeviceClient, check_shape};
use super::dial::WebSocketDialer;
use super::error::BackendError;
use super::http::HttpFunctions;
use super::signing_identity::DeviceCredentials;
use super::{
    Backend, BackendReply, BackendSession, CatalogEntry, CatalogKind, ClaimReply, EventPage,
    HeartbeatReply, OfferedEvent, PostOutcome, ProgressReply, RemoteAnswer, RemoteApprovals,
    RemoteQuestion, ResultPost, StoredQuestion, wakeup, wire,
};
use punie_core::approval_answer::ApprovalOption;
use punie_core::ids::{LeaseId, ProcessId, RequestId};

/// A Convex deployment, or a server with the same API.
pub struct ConvexBackend {
    device: DeviceClient,
    /// Created on first use, because loading the system's certificates takes time.
    wakeup_dialer: OnceLock<Result<Arc<WebSocketDialer>, BadUrl>>,
    lease: Duration,
}

impl ConvexBackend {
    /// Creates a client for a device. The pairing code is needed once, when the device is new to the deployment.
    /// `lease` is the lifetime of a claim without renewal.
    pub fn new(
        functions: HttpFunctions,
        credentials: DeviceCredentials,
        pairing_code: Option<String>,
        lease: Duration,
    ) -> Self {
        Self {
            device: DeviceClient::new(functions, credentials, pairing_code),
            wakeup_dialer: OnceLock::new(),
            lease,
        }
    }

    /// Restricts sessions to the deployment of this id, if one is known.
    #[must_use]
    pub fn with_id(mut self, backend_id: Option<String>) -> Self {
        self.device.backend_id = backend_id.map(OnceLock::from).unwrap_or_default();
        self
    }

    /// Sets the process id, by which the backend tells processes with the same identity apart.
    #[must_use]
    pub fn with_process_id(mut self, process: ProcessId) -> Self {
        self.device.process = Some(process);
        self
    }
}

/// Returns a wait as an argument, or `None` if there is none.
fn wait_argument(wait: Duration) -> Option<f64> {
    Some(wire::whole_millis(wait)).filter(|ms| *ms > 0.0)
}

impl Backend for ConvexBackend {
    fn open_session(&self) -> BackendReply<'_, BackendSession> {
        Box::pin(self.device.open_session())
    }

    fn clock_offset_ms(&self) -> Option<i64> {
        self.device.functions.date_header_offset_ms()
    }

    fn poll_events<'a>(
        &'a self,
        cursor: Option<&'a str>,
        limit: u32,
        wait: Duration,
    ) -> BackendReply<'a, EventPage> {
        Box::pin(async move {
            let function = "events:listForDevice";
            let limit = f64::from(limit);
            let mut args = wire::omit_nulls(json!({"limit": limit, "waitMs": wait_argument(wait)}));
            // Null at the first poll, so it must not be left out.
            args["cursor"] = json!(cursor);
            let answer = self.device.query(function, args, wait).await?;
            check_shape(function, wire::parse_page(&answer, self.device.device_id()))
        })
    }

    fn list_open_requests(&self) -> BackendReply<'_, Vec<OfferedEvent>> {
        Box::pin(async move {
            let function = "events:listOpenIds";
            let answer = self.device.query(function, json!({}), Duration::ZERO);
            check_shape(function, wire::parse_open_ids(&answer.await?))
        })
    }

    fn fetch_open_requests<'a>(
        &'a self,
        ids: &'a [RequestId],
    ) -> BackendReply<'a, Vec<OfferedEvent>> {
        Box::pin(async move {
            let function = "events:listOpen";
            let ids: Vec<&str> = ids.iter().map(RequestId::as_str).collect();
            let args = json!({"requestIds": ids});
            let answer = self.device.query(function, args, Duration::ZERO).await?;
            check_shape(
                function,
                wire::parse_open_requests(&answer, self.device.device_id()),
            )
        })
    }

    fn claim_request<'a>(
        &'a self,
        id: &'a RequestId,
        lease: &'a LeaseId,
    ) -> BackendReply<'a, ClaimReply> {
        Box::pin(async move {
            let args = json!({
                "requestId": id.as_str(),
                "leaseId": lease.as_str(),
                "leaseMs": wire::whole_millis(self.lease),
            });
            let answer = self.device.mutate("events:claim", args).await?;
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
            #[expect(clippy::cast_precision_loss, reason = "parts are counted from zero")]
            let n = n as f64;
            let args = json!({
                "requestId": id.as_str(),
                "leaseId": lease.as_str(),
                "n": n,
                "data": data,
            });
            let answer = self.device.mutate("events:appendProgress", args).await?;
            Ok(ProgressReply {
                cancelled: wire::cancelled_flag(&answer),
                watched: wire::watched_flag(&answer),
            })
        })
    }

    fn post_result<'a>(&'a self, result: ResultPost<'a>) -> BackendReply<'a, PostOutcome> {
        Box::pin(async move {
            let args = wire::omit_nulls(json!({
                "requestId": result.id.as_str(),
                "leaseId": result.lease.as_str(),
                "outcome": result.kind.as_str(),
                "payload": result.payload,
                "truncated": result.truncated.then_some(true),
            }));
            let answer = self.device.mutate("events:appendResult", args).await?;
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
            let args = json!({
                "online": (!online).then_some(false),
                "beatMs": wire::whole_millis(every),
                "health": (!health.is_null()).then(|| health.to_string()),
            });
            let answer = self.device.send_heartbeat(args).await?;
            check_shape("devices:heartbeat", wire::parse_heartbeat(&answer))
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
                self.device
                    .functions
                    .sync_socket_dialer(wakeup::MOST_BYTES)
                    .map(Arc::new)
            });
            let dialer = dialer.as_ref().map_err(|bad| BackendError::BadCall {
                status: 0,
                message: bad.to_string(),
            })?;
            Err(wakeup::listen_on_socket(
                Arc::clone(dialer),
                self.device.device_id(),
                self.device.watch_token(),
                heard,
            )
            .await)
        })
    }

    fn refresh_connections(&self) {
        self.device.functions.refresh_connections();
    }

    fn publish_catalog<'a>(
        &'a self,
        kind: CatalogKind,
        revision: u64,
        complete: bool,
        items: &'a [CatalogEntry],
    ) -> BackendReply<'a, ()> {
        let items: Vec<Value> = items
            .iter()
            .map(|item| json!({"key": item.key, "hash": item.hash, "body": item.body}))
            .collect();
        #[expect(
            clippy::cast_precision_loss,
            reason = "milliseconds since 1970 are far below 2^53"
        )]
        let revision = revision as f64;
        let args = json!({
            "kind": kind.as_str(),
            "revision": revision,
            "complete": complete,
            "items": items,
        });
        Box::pin(async move {
            let stored = self.device.mutate("catalog:upsertMany", args).await;
            stored.map(drop)
        })
    }
}

impl RemoteApprovals for ConvexBackend {
    fn ask_caller<'a>(&'a self, question: &'a RemoteQuestion) -> BackendReply<'a, StoredQuestion> {
        Box::pin(async move {
            let args = wire::question_args(question);
            let asked = self.device.mutate("permissions:ask", args).await?;
            Ok(StoredQuestion {
                is_asked_again: asked["created"] == false,
                answer: wire::parse_remote_answer(&asked),
                caller_listens: asked["callerListens"].as_bool(),
            })
        })
    }

    fn fetch_answer<'a>(
        &'a self,
        id: &'a RequestId,
        wait: Duration,
    ) -> BackendReply<'a, Option<RemoteAnswer>> {
        Box::pin(async move {
            let args = wire::omit_nulls(json!({"waitMs": wait_argument(wait)}));
            let open = self.device.query("permissions:pending", args, wait).await?;
            Ok(wire::find_answer(&open, id))
        })
    }

    fn submit_answer<'a>(
        &'a self,
        id: &'a RequestId,
        option: ApprovalOption,
        text: Option<&'a str>,
    ) -> BackendReply<'a, Option<RemoteAnswer>> {
        Box::pin(async move {
            let args = wire::answer_args(id, option, text);
            let answered = self.device.mutate("permissions:answer", args).await?;
            Ok(wire::parse_remote_answer(&answered))
        })
    }
}
