//! The functions about devices: their sessions, their beats, and who is there.

pub(super) mod heartbeat;
pub(super) mod presence;
mod processes;
pub(super) mod session;

/// How often a device beats that does not say, and how often one may.
const BEAT_MS: f64 = 60_000.0;
/// The least often.
const LONGEST_BEAT_MS: f64 = 3_600_000.0;

/// For `#[serde(skip_serializing_if)]`: what is not so is left out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
fn is_false(is_so: &bool) -> bool {
    !is_so
}
