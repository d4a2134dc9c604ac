//! The check that requests are signed as the owner requires, and the refusal of others. Not here: the signature
//! itself (request).

use super::runner_settings::LiveCallSettings;
use crate::journal::{AcceptedRequest, RequestOrigin};
use punie_core::clock::Clock;
use punie_tool::request::{
    CallFailure, CallOutcome, ErrorCode, RequestAuth, SignatureRejection, ToolRequest,
};

/// Checks the signatures of requests.
pub(super) struct RequestSignatures {
    /// The key that every request must be signed with; `None` if requests need no signature.
    pub auth: Option<RequestAuth>,
    pub clock: Clock,
    /// The settings with the longest time that a request may wait.
    pub calls: LiveCallSettings,
}

impl RequestSignatures {
    /// Returns whether requests must be signed.
    pub(super) fn are_required(&self) -> bool {
        self.auth.is_some()
    }

    /// Returns the earliest possible time, if requests are signed: the backend also reports its own time, and could
    /// hold it back.
    #[expect(
        clippy::cast_precision_loss,
        reason = "milliseconds since 1970 are far below 2^53"
    )]
    pub(super) fn earliest_now_ms(&self) -> f64 {
        match self.auth {
            Some(_) => self.clock.now_ms() as f64 - RequestAuth::SKEW_MS,
            None => 0.0,
        }
    }

    /// Returns the reason to refuse a request because of its signature.
    pub(super) fn problem(&self, request: &ToolRequest) -> Option<SignatureRejection> {
        let auth = self.auth.as_ref()?;
        #[expect(
            clippy::cast_precision_loss,
            reason = "milliseconds since 1970 are far below 2^53"
        )]
        let now_ms = self.clock.now_ms() as f64;
        let ttl_ms = self.calls.current().ttl.as_secs_f64() * 1_000.0;
        auth.check_signature(request, now_ms, ttl_ms).err()
    }

    /// Checks a request that an earlier process accepted, perhaps before a key was set or with another key. It was in
    /// time when it came, so its age is not checked again. A task request of this device has no signature; it is
    /// valid only while the key is unchanged.
    pub(super) fn refuse_leftover(
        &self,
        call: &AcceptedRequest,
        key_is_new: bool,
    ) -> Option<CallOutcome> {
        let why = match call.origin() {
            RequestOrigin::Backend => self.problem(call.tool_request())?,
            RequestOrigin::Task => key_is_new.then_some(SignatureRejection::Missing)?,
        };
        if matches!(
            why,
            SignatureRejection::Expired(_) | SignatureRejection::Early(_)
        ) {
            return None;
        }
        tracing::warn!(request.id = %call.tool_request().id, ?why, "a request that was left is not run: it is not signed");
        Some(CallOutcome::Error(signature_refusal(
            call.tool_request(),
            &why,
        )))
    }
}

/// Creates the refusal of a request because of its signature.
pub(super) fn signature_refusal(request: &ToolRequest, why: &SignatureRejection) -> CallFailure {
    let code = if matches!(why, SignatureRejection::Expired(_)) {
        ErrorCode::Expired
    } else {
        ErrorCode::PolicyDenied
    };
    let text = format!(
        "{} was not run: its owner lets this device run only requests that are signed with a known key, and {}",
        request.tool,
        explain_rejection(why)
    );
    CallFailure::new(code, text)
}

fn explain_rejection(why: &SignatureRejection) -> String {
    let seconds = |ms: &i64| ms / 1_000;
    match why {
        SignatureRejection::Missing => "this one has no signature. Send it anew, under a new id, with `issuedAtMs` and \
                               `signature` (docs/audit-format.md says what is signed)."
            .to_owned(),
        SignatureRejection::Bad => "the signature of this one is not that key's for this request at this device. Sign the id, \
                           the device's id, the tool, the arguments and the times exactly as they are sent, with the \
                           key that the device has pinned, and send it anew under a new id."
            .to_owned(),
        SignatureRejection::Expired(ms) => format!(
            "this one expired {} s ago by this device's clock. Sign and send it anew, under a new id, if it is still \
             wanted.",
            seconds(ms)
        ),
        SignatureRejection::Early(ms) => format!(
            "this one was signed {} s in the future by this device's clock. Set the clocks, and send it anew under a \
             new id.",
            seconds(ms)
        ),
    }
}
