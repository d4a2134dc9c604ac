//! The global flags of the command line, with their help texts.

use std::fmt;
use std::path::PathBuf;

use clap::Args;

use super::choices::BackendKind;
use punie_text::redact::Secret;

// Hidden from rustdoc, which takes the brackets of the help texts for links.
#[doc(hidden)]
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct GlobalFlags {
    /// The home folder [env: PUNIE_HOME] [default: ~/.punie]
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// The configuration file [env: PUNIE_CONFIG] [default: config.toml in the home]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A folder for the tools to work in; repeatable, relative paths start in the first [env: PUNIE_WORKSPACE]
    #[arg(long = "workspace", global = true, value_name = "DIR")]
    pub workspaces: Vec<PathBuf>,
    /// The backend's address [env: PUNIE_BACKEND_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub backend_url: Option<String>,
    /// The kind of a backend that the command itself starts; no flag sets it
    #[arg(skip)]
    pub backend_kind: Option<BackendKind>,
    /// The least severe messages to log: off, error, warn, info, debug, trace [env: PUNIE_LOG]
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log: Option<String>,
    /// The form of log lines: text, json [env: PUNIE_LOG_FORMAT]
    #[arg(long, global = true, value_name = "FORM")]
    pub log_format: Option<String>,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    pub json: bool,
    /// When to use colour: auto, always, never
    #[arg(long, global = true, value_name = "WHEN", value_parser = parse_color)]
    pub color: Option<ColorChoice>,
    /// The caller's token [env: PUNIE_CALLER_TOKEN] [default: tokens/BACKEND/approver in the home, else caller]
    #[arg(long, global = true, value_name = "TOKEN", value_parser = parse_secret, hide = true)]
    pub caller_token: Option<Secret<String>>,
    /// The device that runs the request [env: PUNIE_DEVICE] [default: this one]
    #[arg(long, global = true, value_name = "ID")]
    pub device: Option<String>,
}

fn parse_color(text: &str) -> Result<ColorChoice, String> {
    match text {
        "auto" => Ok(ColorChoice::Auto),
        "always" => Ok(ColorChoice::Always),
        "never" => Ok(ColorChoice::Never),
        other => Err(format!("{other:?} is none of auto, always, never")),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the shape of a clap value parser")]
fn parse_secret(text: &str) -> Result<Secret<String>, String> {
    Ok(Secret::new(text.to_owned()))
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
