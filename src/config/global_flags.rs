//! The global flags of the command line.

use std::fmt;
use std::path::PathBuf;

use super::choices::BackendKind;
use punie_text::redact::Secret;

/// The global flags of the command line.
#[derive(Debug, Clone, Default)]
pub struct GlobalFlags {
    /// `--home`
    pub home: Option<PathBuf>,
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--workspace`, any number of times
    pub workspaces: Vec<PathBuf>,
    /// `--backend-url`
    pub backend_url: Option<String>,
    /// The kind of a backend that the command itself starts; no flag sets it
    pub backend_kind: Option<BackendKind>,
    /// `--log`
    pub log: Option<String>,
    /// `--log-format`
    pub log_format: Option<String>,
    /// `--json`
    pub json: bool,
    /// `--color`
    pub color: Option<ColorChoice>,
    /// `--caller-token`
    pub caller_token: Option<Secret<String>>,
    /// `--device`
    pub device: Option<String>,
}

/// The colour choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ColorChoice {
    /// Colour on a terminal.
    #[default]
    Auto,
    /// Always colour.
    Always,
    /// Never colour.
    Never,
}

impl fmt::Display for ColorChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        })
    }
}
