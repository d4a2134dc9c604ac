//! The types of values that a key can have: how each is read, bounded and written. Not here: the keys.

use std::fmt::Display;
use std::ops::{RangeFull, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

use tracing::level_filters::LevelFilter;

use super::public_key::PublicKey;
use super::toml_document::TomlValue;
use super::url::BackendUrl;

/// The reason why a value was rejected.
pub(super) enum ValueError {
    /// It has the wrong type.
    WrongType,
    /// It has the right type and is wrong for this reason.
    Invalid(String),
}

/// A type of value.
pub(super) trait ConfigValue: Sized {
    /// The expected form, for errors.
    const WANTED: &'static str;
    /// The example in the generated file where there is no default.
    const EXAMPLE: &'static str = "";

    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError>;

    /// Formats the value as in the file; `None` if it is not set.
    fn to_toml(&self) -> Option<String>;
}

/// The allowed values of a type.
pub(super) trait ValueBounds<T> {
    fn allows_value(&self, value: &T) -> bool;
    /// The text after "must be ...".
    fn describe_bounds(&self) -> String;
}

impl<T> ValueBounds<T> for RangeFull {
    fn allows_value(&self, _: &T) -> bool {
        true
    }
    fn describe_bounds(&self) -> String {
        String::new()
    }
}

impl<T: PartialOrd + ConfigValue> ValueBounds<T> for RangeInclusive<T> {
    fn allows_value(&self, value: &T) -> bool {
        self.contains(value)
    }
    fn describe_bounds(&self) -> String {
        let [low, high] = [self.start(), self.end()].map(|end| end.to_toml().unwrap_or_default());
        format!(" between {low} and {high}")
    }
}

fn read_integer<T: TryFrom<i64>>(plain: &TomlValue) -> Result<T, ValueError> {
    match plain {
        TomlValue::Integer(Some(whole)) => T::try_from(*whole).map_err(|_| ValueError::WrongType),
        _ => Err(ValueError::WrongType),
    }
}

impl ConfigValue for usize {
    const WANTED: &'static str = "a whole number";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        read_integer(plain)
    }
    fn to_toml(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// Given in milliseconds, as the keys' names say.
impl ConfigValue for Duration {
    const WANTED: &'static str = "a whole number of milliseconds";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        read_integer(plain).map(Duration::from_millis)
    }
    fn to_toml(&self) -> Option<String> {
        Some(self.as_millis().to_string())
    }
}

impl ConfigValue for f64 {
    const WANTED: &'static str = "a number";
    #[expect(
        clippy::cast_precision_loss,
        reason = "bounded afterwards to a small range"
    )]
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        match plain {
            TomlValue::Float(Some(fraction)) => Ok(*fraction),
            TomlValue::Integer(Some(whole)) => Ok(*whole as f64),
            _ => Err(ValueError::WrongType),
        }
    }
    fn to_toml(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }
}

impl ConfigValue for bool {
    const WANTED: &'static str = "true or false";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        if let TomlValue::Boolean(truth) = plain {
            Ok(*truth)
        } else {
            Err(ValueError::WrongType)
        }
    }
    fn to_toml(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl ConfigValue for Option<BackendUrl> {
    const WANTED: &'static str = "an address in quotes";
    const EXAMPLE: &'static str = "\"https://your-deployment.convex.cloud\"";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        let TomlValue::Text(text) = plain else {
            return Err(ValueError::WrongType);
        };
        BackendUrl::parse_url(text)
            .map(Some)
            .map_err(ValueError::Invalid)
    }
    fn to_toml(&self) -> Option<String> {
        self.as_ref().map(|url| quote_toml(url.as_str()))
    }
}

impl ConfigValue for Option<PublicKey> {
    const WANTED: &'static str = "an Ed25519 public key in quotes, as base64 or in hex";
    // No private key for this exists: it is a hash.
    const EXAMPLE: &'static str = "\"T64rUJbvmpXUmjxh1Cxn14gSXLrRhWVhxm31pHvctcU=\"";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        let TomlValue::Text(text) = plain else {
            return Err(ValueError::WrongType);
        };
        PublicKey::parse(text)
            .map(Some)
            .map_err(ValueError::Invalid)
    }
    fn to_toml(&self) -> Option<String> {
        self.as_ref().map(|key| quote_toml(&key.encode_base64()))
    }
}

impl ConfigValue for Vec<PathBuf> {
    const WANTED: &'static str = "a list of paths in quotes";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        let TomlValue::List(list) = plain else {
            return Err(ValueError::WrongType);
        };
        let path = |plain: &TomlValue| match plain {
            TomlValue::Text(text) if text.is_empty() => {
                Err(ValueError::Invalid("a path in it is empty".to_owned()))
            }
            TomlValue::Text(text) => Ok(PathBuf::from(text)),
            _ => Err(ValueError::WrongType),
        };
        list.iter().map(path).collect()
    }
    fn to_toml(&self) -> Option<String> {
        let paths: Vec<String> = self
            .iter()
            .map(|path| quote_toml(&path.to_string_lossy()))
            .collect();
        Some(format!("[{}]", paths.join(", ")))
    }
}

impl ConfigValue for Vec<String> {
    const WANTED: &'static str = "a list of words in quotes";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        let TomlValue::List(list) = plain else {
            return Err(ValueError::WrongType);
        };
        let word = |plain: &TomlValue| match plain {
            TomlValue::Text(text) => Ok(text.clone()),
            _ => Err(ValueError::WrongType),
        };
        list.iter().map(word).collect()
    }
    fn to_toml(&self) -> Option<String> {
        let words: Vec<String> = self.iter().map(|word| quote_toml(word)).collect();
        Some(format!("[{}]", words.join(", ")))
    }
}

/// Quotes a text for TOML.
pub(super) fn quote_toml(text: &str) -> String {
    // JSON escapes everything that TOML requires except for this character.
    serde_json::Value::from(text)
        .to_string()
        .replace('\u{7f}', "\\u007F")
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
                match text.trim().to_ascii_lowercase().as_str() {
                    $($text => Ok(Self::$Name),)+
                    _ => Err(format!("there is no {text:.40?}. It must be {}", $wanted)),
                }
            }
        }

        impl ConfigValue for $Kind {
            const WANTED: &'static str = $wanted;
            fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
                let TomlValue::Text(text) = plain else { return Err(ValueError::WrongType) };
                Self::parse(text).map_err(ValueError::Invalid)
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
        let TomlValue::List(list) = plain else {
            return Err(ValueError::WrongType);
        };
        list.iter().map(AskedAbout::from_toml).collect()
    }
    fn to_toml(&self) -> Option<String> {
        let words: Vec<String> = self.iter().map(|word| quote_toml(word.as_str())).collect();
        Some(format!("[{}]", words.join(", ")))
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

named!(
    /// The least level of confinement at which commands run.
    Require, "\"full\", \"partial\" or \"none\"" {
        /// Every tested escape is blocked.
        Full = "full",
        /// Some tested escapes are blocked.
        Partial = "partial",
        /// Any level.
        None = "none",
    }
);

impl Require {
    /// The default: full on Linux, and none where commands cannot be confined yet.
    pub(super) const fn system_default() -> Self {
        if cfg!(target_os = "linux") {
            Self::Full
        } else {
            Self::None
        }
    }
}

named!(
    /// The network access of commands.
    Network, "\"none\", \"loopback\" or \"full\"" {
        /// None.
        None = "none",
        /// Each other only.
        Loopback = "loopback",
        /// Everything.
        Full = "full",
    }
);

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

impl LogLevel {
    /// Returns the level as a `tracing` filter.
    pub fn level_filter(self) -> LevelFilter {
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

/// Formats "must be a whole number between 1 and 64, not 99".
pub(super) fn expected_text<T: ConfigValue>(
    bounds: &dyn ValueBounds<T>,
    found: &(impl Display + ?Sized),
) -> String {
    format!(
        "must be {}{}, not {found}",
        T::WANTED,
        bounds.describe_bounds()
    )
}
