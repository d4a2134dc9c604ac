//! One post of a reply, with the corrections that the backend asks for.

use tokio::time::Instant;

use super::Delivery;
use super::outbox::PostFailure;
use crate::backend::{
    Backend as _, BackendError, PostOutcome, RecoveryAction, ResultPost, RetryDelay,
};
use crate::journal::{CloseReason, RecordedReply};
use punie_core::failpoint::reach_of;

/// A reply of fewer bytes is not shrunk: it holds little but the metadata.
const MIN_SHRINKABLE_BYTES: usize = 1_000;

/// The answer to the claim of a request whose reply was refused.
enum LateClaim {
    /// Posting again can succeed.
    Granted,
    /// The request has a result already, such as the backend's own after its deadline.
    Answered,
    Refused,
}

impl Delivery {
    /// Posts a reply until the backend has it, rejects it for good, or must be retried later.
    pub(super) async fn post_until_final(
        &self,
        mut reply: RecordedReply,
    ) -> Result<(), PostFailure> {
        // Three corrections suffice for every refusal that can be corrected.
        for _ in 0..3 {
            let generation = self.handles.sessions.current_generation();
            let began = Instant::now();
            let post = ResultPost {
                id: reply.request_id(),
                lease: reply.lease_id(),
                kind: reply.outcome_kind(),
                payload: reply.payload_text(),
                truncated: reply.is_truncated(),
            };
            let error = match self.handles.backend.post_result(post).await {
                Ok(posted) => {
                    reach_of("post.after", reply.request_id().as_str());
                    let close = if posted == PostOutcome::Sent {
                        CloseReason::Sent
                    } else {
                        CloseReason::Delivered
                    };
                    return self.close_reply(&reply, close).await;
                }
                Err(error) => error,
            };
            match error.recovery_action() {
                RecoveryAction::GiveUp => match self.try_late_claim(&reply, &error).await? {
                    LateClaim::Granted => {}
                    LateClaim::Answered => {
                        return self.close_reply(&reply, CloseReason::Delivered).await;
                    }
                    LateClaim::Refused => return self.close_refused(&reply, &error).await,
                },
                RecoveryAction::Shrink(limit) => {
                    self.record_failed_post(&reply, &error).await;
                    reply = self.shrink_reply(&reply, limit).await?;
                }
                RecoveryAction::ReopenSession => {
                    if let Err(cause) = self.handles.sessions.reopen(generation).await {
                        self.record_failed_post(&reply, &cause).await;
                        return Err(match cause.recovery_action() {
                            RecoveryAction::Retry(pause) => {
                                self.classify_failure(&cause, pause, began)
                            }
                            _ => PostFailure::Refused,
                        });
                    }
                }
                action => {
                    let failure = match action {
                        RecoveryAction::Retry(pause) => self.classify_failure(&error, pause, began),
                        _ => PostFailure::Reply,
                    };
                    self.record_failed_post(&reply, &error).await;
                    return Err(failure);
                }
            }
        }
        Err(PostFailure::Reply)
    }

    /// Returns how a failed post affects the others. A failure while other calls are answered says nothing about the
    /// whole backend: perhaps a proxy rejects large calls.
    fn classify_failure(
        &self,
        error: &BackendError,
        pause: RetryDelay,
        began: Instant,
    ) -> PostFailure {
        let no_answer = matches!(
            error,
            BackendError::Unreachable { .. }
                | BackendError::TlsFailed { .. }
                | BackendError::Intercepted { .. }
                | BackendError::NoBackend { .. }
        );
        if no_answer && !self.handles.backend.has_answered_since(began) {
            PostFailure::Unreachable
        } else {
            PostFailure::Backend(pause)
        }
    }

    /// Claims the request of a refused reply if it was never claimed. A tool with effects never ran unclaimed, so the
    /// refusal of a claimed reply is final.
    async fn try_late_claim(
        &self,
        reply: &RecordedReply,
        error: &BackendError,
    ) -> Result<LateClaim, PostFailure> {
        match error.refusal_code() {
            Some("LEASE_LOST") if !reply.is_claimed() => {}
            Some("RESULT_EXISTS") if !reply.is_claimed() => return Ok(LateClaim::Answered),
            _ => return Ok(LateClaim::Refused),
        }
        match self
            .handles
            .backend
            .claim_request(reply.request_id(), reply.lease_id())
            .await
        {
            Ok(claim) if claim.leased_for.is_some() => Err(PostFailure::Reply),
            Ok(claim) if claim.granted => Ok(LateClaim::Granted),
            Ok(claim) if claim.answered => Ok(LateClaim::Answered),
            Ok(_) => Ok(LateClaim::Refused),
            Err(error) => match error.recovery_action() {
                RecoveryAction::GiveUp => Ok(LateClaim::Refused),
                RecoveryAction::Retry(pause) => Err(PostFailure::Backend(pause)),
                _ => Err(PostFailure::Reply),
            },
        }
    }

    /// Shrinks the reply. If the backend names a limit that the reply already meets, it counts differently; then half
    /// the size is used.
    async fn shrink_reply(
        &self,
        reply: &RecordedReply,
        limit: Option<u64>,
    ) -> Result<RecordedReply, PostFailure> {
        let now = reply.payload_text().len();
        let named = limit
            .and_then(|limit| usize::try_from(limit).ok())
            .filter(|limit| *limit < now);
        let target = named.unwrap_or(now / 2);
        if now <= MIN_SHRINKABLE_BYTES {
            return Err(PostFailure::Reply);
        }
        let smaller = punie_tool::request::shrink_payload(reply.payload_text(), target)
            .ok_or(PostFailure::Reply)?;
        match self.handles.journal.replace_reply(reply, smaller).await {
            Ok(smaller) => Ok(smaller),
            Err(error) => {
                tracing::error!(request.id = %reply.request_id(), %error, "a smaller reply could not be recorded");
                Err(PostFailure::Reply)
            }
        }
    }

    async fn close_reply(
        &self,
        reply: &RecordedReply,
        close: CloseReason,
    ) -> Result<(), PostFailure> {
        if let CloseReason::Undeliverable(reason) = &close {
            tracing::warn!(request.id = %reply.request_id(), reason, "the backend does not take this reply");
        }
        // A reply that stays open is posted again later, which does no harm.
        let id = reply.request_id();
        let handles = &self.handles;
        let closing_ms = handles.server_clock.closing_ms();
        let closed = handles.journal.close_request(id, close, closing_ms);
        closed.await.map_err(|error| {
            tracing::error!(request.id = %id, %error, "a delivered reply could not be closed");
            PostFailure::Reply
        })
    }

    async fn record_failed_post(&self, reply: &RecordedReply, error: &BackendError) {
        // An outage is reported by the poll.
        if !error.is_unreachable() {
            tracing::info!(request.id = %reply.request_id(), %error, "a reply could not be posted now; it is kept");
        }
        let id = reply.request_id();
        let handles = &self.handles;
        let error = error.to_string();
        let now_ms = handles.clock.now_ms();
        let recorded = handles.journal.record_failed_post(id, error, now_ms);
        if let Err(error) = recorded.await {
            tracing::warn!(request.id = %id, %error, "the failed post could not be noted");
        }
    }

    /// Closes the request of a reply that the backend does not accept.
    async fn close_refused(
        &self,
        reply: &RecordedReply,
        error: &BackendError,
    ) -> Result<(), PostFailure> {
        let reason = error.to_string();
        let code = error.refusal_code();
        let id = reply.request_id();
        let audit = &self.handles.audit;
        audit.record_undeliverable(id, code, &reason);
        self.close_reply(reply, CloseReason::Undeliverable(reason))
            .await
    }
}
