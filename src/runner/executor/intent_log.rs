//! The journal as the store of the intents that calls declare. Not here: their use after a crash (aftermath).

use crate::failpoint::reach_of;
use crate::ids::RequestId;
use crate::journal::Journal;
use crate::tool::{Declared, ErrorCode, Intent, Intents, ToolError};

/// Stores declared intents in the journal.
#[derive(Debug, Clone)]
pub(in crate::runner) struct IntentLog(pub Journal);

impl Intents for IntentLog {
    fn declare<'a>(&'a self, request: &'a RequestId, intents: Vec<Intent>) -> Declared<'a> {
        Box::pin(async move {
            let bodies: Result<Vec<String>, _> = intents.iter().map(serde_json::to_string).collect();
            let bodies = bodies.map_err(|cause| ToolError::internal(format!("A declaration: {cause}")))?;
            if let Err(cause) = self.0.declare(request, bodies).await {
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
