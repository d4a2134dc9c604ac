//! The values that are one of a few names.

use tracing::level_filters::LevelFilter;

use super::toml_document::TomlValue;
use super::value::{ConfigValue, ValueError, quote_list, quote_toml, read_list, read_text};
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

        impl ConfigValue for $Kind {
            const WANTED: &'static str = $wanted;
            fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
                Self::parse(read_text(plain)?).map_err(ValueError::Invalid)
            }
            fn to_toml(&self) -> Option<String> {
                Some(quote_toml(self.as_str()))
            }
        }
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

named!(
    /// The time at which the wake-up socket is opened.
    WakeUp, "\"auto\", \"on\" or \"off\"" {
        /// Once polls turn out not to be held.
        Auto = "auto",
        /// From the start.
        On = "on",
        /// Never.
        Off = "off",
    }
);

named!(
    /// The name of a profile of tools.
    ToolProfileName, "\"minimal\", \"coding\" or \"all\"" {
        /// A few tools.
        Minimal = "minimal",
        /// The tools that programming needs.
        Coding = "coding",
        /// All tools.
        All = "all",
    }
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

named!(
    /// The effects that can require approval.
    AskedAbout, "\"reads\", \"writes\" or \"executes\"" {
        /// Calls that only read.
        Reads = "reads",
        /// Calls that change files.
        Writes = "writes",
        /// Calls that run something.
        Executes = "executes",
    }
);

impl ConfigValue for Vec<AskedAbout> {
    const WANTED: &'static str = "a list of \"reads\", \"writes\" and \"executes\"";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        read_list(plain, AskedAbout::from_toml)
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote_list(self, |asked| asked.as_str().into()))
    }
}

named!(
    /// The condition for asking an editor for its own tools.
    Discover, "\"announced\", \"always\" or \"never\"" {
        /// If it announces that it has some.
        Announced = "announced",
        /// Always, whatever it announces.
        Always = "always",
        /// Never.
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
