//! The shares of conversations in the proxy's connections: one that keeps many open leaves some for the others.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::call_network::NetworkCaller;
use punie_core::ids::ConversationId;

/// The most connections at a time, of all calls together. Each needs two descriptors of usually 1,024.
pub(super) const MAX_CONNECTIONS: usize = 256;

/// The open connections of all conversations.
#[derive(Debug, Default)]
pub(super) struct ConnectionShares(Mutex<HashMap<ConversationId, usize>>);

/// An open connection; dropping it gives its place back.
pub(super) struct OpenConnection {
    shares: Arc<ConnectionShares>,
    conversation: ConversationId,
}

impl ConnectionShares {
    /// Counts a connection. A conversation may have as many as it leaves free: 128 if it is alone, 64 beside one that has
    /// 128, and so on.
    ///
    /// # Errors
    /// The number of its connections, which is the most now.
    pub fn open_connection(
        self: &Arc<Self>,
        caller: &NetworkCaller,
    ) -> Result<OpenConnection, usize> {
        let own_one = || ConversationId::OwnOf(caller.request.clone());
        let conversation = caller.conversation.clone().unwrap_or_else(own_one);
        let mut open = self.0.lock();
        let all: usize = open.values().sum();
        let own = open.get(&conversation).copied().unwrap_or(0);
        if own >= MAX_CONNECTIONS - all {
            return Err(own);
        }
        open.insert(conversation.clone(), own + 1);
        Ok(OpenConnection {
            shares: Arc::clone(self),
            conversation,
        })
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut open = self.shares.0.lock();
        if let Some(own) = open.get_mut(&self.conversation) {
            *own -= 1;
        }
        open.retain(|_, own| *own > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punie_core::ids::RequestId;

    fn caller(conversation: Option<&str>) -> NetworkCaller {
        NetworkCaller {
            tool: "Bash".to_owned(),
            command: "a test".to_owned(),
            request: RequestId::new(),
            conversation: conversation.map(|id| ConversationId::parse(id).expect("an id")),
        }
    }

    #[test]
    fn each_conversation_leaves_as_many_connections_as_it_has() {
        let shares = Arc::new(ConnectionShares::default());
        let mut open = Vec::new();
        let mut open_all = |callers: &[NetworkCaller]| {
            let before = open.len();
            while let Some(one) = callers
                .iter()
                .find_map(|caller| shares.open_connection(caller).ok())
            {
                open.push(one);
            }
            open.len() - before
        };
        // The calls of a conversation have one share.
        assert_eq!(open_all(&[caller(Some("a")), caller(Some("a"))]), 128);
        assert_eq!(open_all(&[caller(Some("b"))]), 64);
        assert_eq!(open_all(&[caller(None)]), 32);
        assert_eq!(open_all(&[caller(None)]), 16);
        drop(open);
        assert!(shares.0.lock().is_empty());
    }
}
