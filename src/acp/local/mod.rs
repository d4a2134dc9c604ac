//! This machine as the client: its file system and its processes.

/// Serves the client tools on this machine.
#[derive(Debug, Clone)]
pub struct LocalClient {}
