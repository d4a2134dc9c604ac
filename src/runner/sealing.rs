//! From an outcome to the reply that is recorded. Not here: what sealing is (request), and how it is recorded (execute).

use std::time::Duration;

use super::bench::on_a_thread;
use super::engine::Engine;
use crate::request::{CleanReply, Outcome, Sealing, ToolRequest};

/// What is masked in no time; more may also be kept in a file.
const SMALL: usize = 16 * 1024;

impl Engine {
    /// Masks, clips and keeps what an outcome says. A large one holds up nothing else meanwhile.
    pub(super) async fn seal(
        &self,
        request: &ToolRequest,
        outcome: Outcome,
        attempt: Option<u32>,
        duration: Duration,
    ) -> CleanReply {
        let is_small = outcome.weight() <= SMALL;
        let (redactor, store) = (self.redactor.clone(), self.outputs.clone());
        let (request, tool) = (request.id.clone(), request.tool.clone());
        let seal = move || {
            outcome.seal(&Sealing {
                redactor: &redactor,
                store: &store,
                request: &request,
                tool: &tool,
                duration,
                attempt,
            })
        };
        if is_small { seal() } else { on_a_thread(seal).await }
    }
}
