//! The traffic of a command with one host: numbers, no contents.

use serde::{Deserialize, Serialize};

/// What a command sent to a host and received from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostTraffic {
    /// The host with its port, as the command named it.
    pub host: String,
    /// The number of connections that were made.
    pub connections: u64,
    /// The number of bytes that the command sent.
    pub sent_bytes: u64,
    /// The number of bytes that the command received.
    pub received_bytes: u64,
    /// The number of connections that were refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
