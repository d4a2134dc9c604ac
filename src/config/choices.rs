//! The values that are one of a few names.

use tracing::level_filters::LevelFilter;

use super::toml_document::TomlValue;
use super::value::{ConfigValue, ValueError, quote_list, quote_toml, read_list, read_text};
use punie_core::owner_choices::{DiscoveryMode, ToolProfile, WakeupMode};
use punie_core::tool_effect::{NamedEffect, ToolEffect};
use punie_sandbox::{NetworkAccess, RequiredLevel};

/// Finds a named value, ignoring case. The error is a sentence that names the allowed values.
fn find_word<T: ConfigValue, const N: usize>(
    text: &str,
    words: [(&str, T); N],
) -> Result<T, String> {
    let wanted = text.trim();
    words
        .into_iter()
        .find_map(|(word, value)| wanted.eq_ignore_ascii_case(word).then_some(value))
        .ok_or_else(|| format!("there is no {text:.40?}. It must be {}", T::WANTED))
}

/// Reads and writes a value of a type by its name.
macro_rules! value_names {
    ($Kind:ident, $wanted:literal { $($Name:ident = $text:literal),+ $(,)? }) => {
        impl ConfigValue for $Kind {
            const WANTED: &'static str = $wanted;
            fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
                let words = [$(($text, Self::$Name)),+];
                find_word(read_text(plain)?, words).map_err(ValueError::Invalid)
            }
            fn to_toml(&self) -> Option<String> {
                Some(quote_toml(match self { $(Self::$Name => $text),+ }))
            }
        }
    };
}

/// Declares a type with a few named values.
macro_rules! named {
    ($(#[doc = $about:literal])+ $Kind:ident, $wanted:literal { $($(#[$meta:meta])* $Name:ident = $text:literal),+ $(,)? }) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $Kind { $($(#[$meta])* $Name),+ }

        impl $Kind {
            /// Returns the name in the file.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$Name => $text),+ }
            }

            /// Parses the name, ignoring case.
            ///
            /// # Errors
            /// A sentence that names the allowed values.
            pub fn parse(text: &str) -> Result<Self, String> {
                find_word(text, [$(($text, Self::$Name)),+])
            }
        }

        value_names!($Kind, $wanted { $($Name = $text),+ });
    };
}

named!(
    /// The kind of backend.
    BackendKind, "\"convex\" or \"websocket\"" {
        /// Convex functions over HTTP; the embedded backend speaks the same.
        Convex = "convex",
        /// A worker that sends tool calls over one WebSocket.
        WebSocket = "websocket",
    }
);

value_names!(WakeupMode, "\"auto\", \"on\" or \"off\"" { Auto = "auto", On = "on", Off = "off" });

value_names!(
    ToolProfile, "\"minimal\", \"coding\" or \"all\"" { Minimal = "minimal", Coding = "coding", All = "all" }
);

named!(
    /// What may be done with a category of user signals.
    SignalSwitch, "\"off\", \"preview\" or \"on\"" {
        /// Nothing of it is opened.
        Off = "off",
        /// The owner can look at it.
        Preview = "preview",
        /// Agents can read it, too, once the owner has consented.
        On = "on",
    }
);

value_names!(
    NamedEffect, "\"reads\", \"writes\" or \"executes\"" {
        Reads = "reads",
        Writes = "writes",
        Executes = "executes",
    }
);

impl ConfigValue for Vec<NamedEffect> {
    const WANTED: &'static str = "a list of \"reads\", \"writes\" and \"executes\"";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        read_list(plain, NamedEffect::from_toml)
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote_list(self, |effect| {
            ToolEffect::from(*effect).as_str().into()
        }))
    }
}

value_names!(
    DiscoveryMode, "\"announced\", \"always\" or \"never\"" {
        Announced = "announced",
        Always = "always",
        Never = "never",
    }
);

impl ConfigValue for RequiredLevel {
    const WANTED: &'static str = "\"full\", \"partial\" or \"none\"";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        let levels = [Self::Full, Self::Partial, Self::None];
        find_word(
            read_text(plain)?,
            levels.map(|level| (level.as_str(), level)),
        )
        .map_err(ValueError::Invalid)
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote_toml(self.as_str()))
    }
}

/// Returns the default of the least level: full on Linux, and none where commands cannot be confined yet.
pub(super) const fn default_required_level() -> RequiredLevel {
    if cfg!(target_os = "linux") {
        RequiredLevel::Full
    } else {
        RequiredLevel::None
    }
}

/// Returns the default of `network`: commands have a network of their own on Linux only.
pub(super) const fn default_network() -> NetworkAccess {
    if cfg!(target_os = "linux") {
        NetworkAccess::Ask
    } else {
        NetworkAccess::Loopback
    }
}

impl ConfigValue for NetworkAccess {
    const WANTED: &'static str = "\"none\", \"loopback\", \"ask\" or \"full\"";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        let levels = [Self::None, Self::Loopback, Self::Ask, Self::Full];
        find_word(
            read_text(plain)?,
            levels.map(|access| (access.as_str(), access)),
        )
        .map_err(ValueError::Invalid)
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote_toml(self.as_str()))
    }
}

named!(
    /// The log level.
    LogLevel, "\"off\", \"error\", \"warn\", \"info\", \"debug\" or \"trace\"" {
        /// Nothing.
        Off = "off",
        /// Failures.
        Error = "error",
        /// Also likely failures.
        Warn = "warn",
        /// Also completed work.
        Info = "info",
        /// Also details.
        Debug = "debug",
        /// Also each step.
        Trace = "trace",
    }
);

named!(
    /// The condition for also writing the log to a file of the home.
    LogFile, "\"auto\", \"always\" or \"never\"" {
        /// If stderr is no terminal.
        Auto = "auto",
        /// Always.
        Always = "always",
        /// Never.
        Never = "never",
    }
);

named!(
    /// The form of log lines.
    LogFormat, "\"text\" or \"json\"" {
        /// Lines for people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
);

impl LogLevel {
    /// Returns the level as a `tracing` filter.
    pub fn filter(self) -> LevelFilter {
        match self {
            Self::Off => LevelFilter::OFF,
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}
