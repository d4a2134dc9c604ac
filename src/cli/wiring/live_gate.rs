//! The gate of a running runner.

use std::sync::Arc;

use super::live_config::LiveConfig;
use punie_host::permission::{PermissionGate, SessionGate};
use punie_tool::{
    ApprovalSubject, CallGate, DeclaredAccess, DecodedCall, GateFuture, RecheckFuture, ToolContext,
    ToolSpec,
};

/// The gate of a running runner: applies a changed configuration before it decides about a call, and first holds the
/// call to the rights of its caller.
pub(super) struct LiveGate {
    pub live: LiveConfig,
    pub sessions: SessionGate,
    pub gate: Arc<PermissionGate>,
}

impl CallGate for LiveGate {
    fn permit_call<'a>(
        &'a self,
        cx: &'a ToolContext,
        tool: &'a ToolSpec,
        call: DecodedCall<'a>,
    ) -> GateFuture<'a> {
        Box::pin(async move {
            self.live.apply_changes(tool.lane).await;
            self.sessions.permit_session(cx, &tool.name).await?;
            self.live.caller_limits().check_call(cx, tool, call).await?;
            self.gate.permit_call(cx, tool, call).await
        })
    }

    fn recheck_approved<'a>(
        &'a self,
        cx: &'a ToolContext,
        tool: &'a ToolSpec,
        access: &'a DeclaredAccess,
        asked: &'a ApprovalSubject,
    ) -> RecheckFuture<'a> {
        self.gate.recheck_approved(cx, tool, access, asked)
    }
}
