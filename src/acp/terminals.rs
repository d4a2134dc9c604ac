//! ACP's terminal methods. Not here: who serves them.

/// Starts commands and looks after them.
pub trait TerminalClient: Send + Sync + 'static {}
