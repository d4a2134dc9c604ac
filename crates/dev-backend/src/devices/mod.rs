//! The functions about devices: sessions, heartbeats, and presence.

pub(super) mod heartbeat;
pub(super) mod presence;
mod processes;
pub(super) mod session;

/// The default interval of heartbeats, which is also the shortest.
const BEAT_MS: f64 = 60_000.0;
/// The longest interval of heartbeats.
const LONGEST_BEAT_MS: f64 = 3_600_000.0;

/// A condition for `#[serde(skip_serializing_if)]`: false is omitted.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the shape that serde calls"
)]
fn is_false(is_so: &bool) -> bool {
    !is_so
}
