//! ACP's file methods. Not here: who serves them.

/// Reads and writes text files inside the workspace.
pub trait FileClient: Send + Sync + 'static {}
