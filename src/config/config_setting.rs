//! One value in force, for display.

use super::sources::ValueOrigin;

/// One value in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSetting {
    /// The key, with its table.
    pub key: &'static str,
    /// The value as the file would have it; never a secret.
    pub value: String,
    /// The value's origin.
    pub origin: ValueOrigin,
}
