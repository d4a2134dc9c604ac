//! The functions about devices: their sessions, their beats, and who is there.

pub(super) mod heartbeat;
pub(super) mod presence;
pub(super) mod session;

/// How often a device is asked to beat.
const BEAT_MS: f64 = 60_000.0;
