//! The functions about devices: their sessions, their beats, and who is there.

pub(super) mod heartbeat;
pub(super) mod presence;
pub(super) mod session;

/// How often a device beats that does not say, and how often one may.
const BEAT_MS: f64 = 60_000.0;
/// The least often.
const LONGEST_BEAT_MS: f64 = 3_600_000.0;
