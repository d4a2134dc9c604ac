//! Choices that the owner makes in the configuration or a manifest, and that other crates act on. Not here: reading
//! them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The condition under which the wake-up socket is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeupMode {
    /// Opened once polls turn out not to be held.
    Auto,
    /// Opened from the start.
    On,
    /// Never opened.
    Off,
}

/// The condition for asking an editor for its own tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DiscoveryMode {
    /// If the editor announced that it can be asked.
    #[default]
    Announced,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A part of the catalog of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolProfile {
    /// A few tools of the device: less than 12,000 bytes.
    Minimal,
    /// The tools for files, search, commands, git and tasks, and those of plugins and editors.
    Coding,
    /// All tools.
    #[default]
    All,
}

impl ToolProfile {
    /// All profiles by their names.
    pub const NAMES: [(&str, Self); 3] = [
        ("minimal", Self::Minimal),
        ("coding", Self::Coding),
        ("all", Self::All),
    ];

    /// Returns the profile's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Coding => "coding",
            Self::All => "all",
        }
    }
}

/// The access of processes to the workspaces, and to the additional paths that the owner makes writable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkspaceAccess {
    /// They see nothing of it.
    #[default]
    #[serde(rename = "none")]
    Hidden,
    /// They read there.
    Read,
    /// They write there.
    Write,
}

/// The proxies to the backend, in the form of the variables `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`. They
/// may contain passwords, so `Debug` hides them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProxyVariables {
    /// For backends with an `http` or `ws` address.
    pub http: String,
    /// For backends with an `https` or `wss` address.
    pub https: String,
    /// For backends that have no proxy by the two above.
    pub all: String,
    /// The hosts to reach directly, separated by commas.
    pub no: String,
}

impl fmt::Debug for ProxyVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyVariables").finish_non_exhaustive()
    }
}
