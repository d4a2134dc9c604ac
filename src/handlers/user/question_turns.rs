//! The order of the questions of a conversation: a person is asked one at a time.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use punie_core::ids::ConversationId;

/// The turns of questions, by conversation. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct QuestionTurns(Arc<Mutex<HashMap<ConversationId, Arc<AsyncMutex<()>>>>>);

impl QuestionTurns {
    /// Waits for the earlier questions of this conversation. The turn ends when the result is dropped.
    pub(super) async fn wait_for_turn(&self, conversation: &ConversationId) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock();
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(conversation.clone()).or_default())
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_second_question_of_a_conversation_waits_and_others_do_not() {
        let turns = QuestionTurns::default();
        let [one, other] = ["one", "other"].map(|id| ConversationId::parse(id).expect("an id"));
        let first = turns.wait_for_turn(&one).await;
        let _beside = turns.wait_for_turn(&other).await;
        let mut second = Box::pin(turns.wait_for_turn(&one));
        let waiting = tokio::time::timeout(std::time::Duration::ZERO, &mut second).await;
        assert!(waiting.is_err());
        drop(first);
        drop(second.await);
        drop(turns.wait_for_turn(&other));
        assert!(turns.0.lock().len() <= 2, "those that are over are removed");
    }
}
