//! The journal as the store of the intents that calls declare.

use crate::journal::Journal;
use punie_core::failpoint::reach_of;
use punie_core::ids::RequestId;
use punie_tool::{CallIntent, ErrorCode, IntentFuture, IntentRecorder, ToolError};

/// Stores declared intents in the journal.
#[derive(Debug, Clone)]
pub(in crate::runner) struct IntentLog(pub Journal);

impl IntentRecorder for IntentLog {
    fn record_intents<'a>(
        &'a self,
        request: &'a RequestId,
        intents: Vec<CallIntent>,
    ) -> IntentFuture<'a> {
        Box::pin(async move {
            let bodies: Result<Vec<String>, _> =
                intents.iter().map(serde_json::to_string).collect();
            let bodies =
                bodies.map_err(|cause| ToolError::internal(format!("A declaration: {cause}")))?;
            if let Err(cause) = self.0.record_intents(request, bodies).await {
                tracing::error!(request.id = %request, %cause, "what a call is about to do cannot be written down");
                let text = "The device's runner cannot write down what it is about to do (is its disk full?), so \
                            nothing was changed. Ask again.";
                return Err(ToolError::new(ErrorCode::Busy, text));
            }
            reach_of("declare.after", request.as_str());
            Ok(())
        })
    }
}
