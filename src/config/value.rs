//! The types of values that a key can have: how each is read, bounded and written. Not here: the keys.

use std::fmt::Display;
use std::ops::{RangeFull, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

use tracing::level_filters::LevelFilter;

use super::public_key::PublicKey;
use super::raw::Plain;
use super::url::BackendUrl;

/// The reason why a value was rejected.
pub(super) enum Refusal {
    /// It has the wrong type.
    Kind,
    /// It has the right type and is wrong for this reason.
    Because(String),
}

/// A type of value.
pub(super) trait Value: Sized {
    /// The expected form, for errors.
    const WANTED: &'static str;
    /// The example in the generated file where there is no default.
    const EXAMPLE: &'static str = "";

    fn read(plain: &Plain) -> Result<Self, Refusal>;

    /// Formats the value as in the file; `None` if it is not set.
    fn written(&self) -> Option<String>;
}

/// The allowed values of a type.
pub(super) trait Bounds<T> {
    fn hold(&self, value: &T) -> bool;
    /// The text after "must be ...".
    fn words(&self) -> String;
}

impl<T> Bounds<T> for RangeFull {
    fn hold(&self, _: &T) -> bool {
        true
    }
    fn words(&self) -> String {
        String::new()
    }
}

impl<T: PartialOrd + Value> Bounds<T> for RangeInclusive<T> {
    fn hold(&self, value: &T) -> bool {
        self.contains(value)
    }
    fn words(&self) -> String {
        let [low, high] = [self.start(), self.end()].map(|end| end.written().unwrap_or_default());
        format!(" between {low} and {high}")
    }
}

fn whole<T: TryFrom<i64>>(plain: &Plain) -> Result<T, Refusal> {
    match plain {
        Plain::Whole(Some(whole)) => T::try_from(*whole).map_err(|_| Refusal::Kind),
        _ => Err(Refusal::Kind),
    }
}

impl Value for usize {
    const WANTED: &'static str = "a whole number";
    fn read(plain: &Plain) -> Result<Self, Refusal> {
        whole(plain)
    }
    fn written(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// Given in milliseconds, as the keys' names say.
impl Value for Duration {
    const WANTED: &'static str = "a whole number of milliseconds";
    fn read(plain: &Plain) -> Result<Self, Refusal> {
        whole(plain).map(Duration::from_millis)
    }
    fn written(&self) -> Option<String> {
        Some(self.as_millis().to_string())
    }
}

impl Value for f64 {
    const WANTED: &'static str = "a number";
    #[expect(clippy::cast_precision_loss, reason = "bounded afterwards to a small range")]
    fn read(plain: &Plain) -> Result<Self, Refusal> {
        match plain {
            Plain::Fraction(Some(fraction)) => Ok(*fraction),
            Plain::Whole(Some(whole)) => Ok(*whole as f64),
            _ => Err(Refusal::Kind),
        }
    }
    fn written(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }
}

impl Value for bool {
    const WANTED: &'static str = "true or false";
    fn read(plain: &Plain) -> Result<Self, Refusal> {
        if let Plain::Truth(truth) = plain { Ok(*truth) } else { Err(Refusal::Kind) }
    }
    fn written(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for Option<BackendUrl> {
    const WANTED: &'static str = "an address in quotes";
    const EXAMPLE: &'static str = "\"https://your-deployment.convex.cloud\"";
    fn read(plain: &Plain) -> Result<Self, Refusal> {
        let Plain::Text(text) = plain else { return Err(Refusal::Kind) };
        BackendUrl::parse(text).map(Some).map_err(Refusal::Because)
    }
    fn written(&self) -> Option<String> {
        self.as_ref().map(|url| quoted(url.as_str()))
    }
}

impl Value for Option<PublicKey> {
    const WANTED: &'static str = "an Ed25519 public key in quotes, as base64 or in hex";
    // No private key for this exists: it is a hash.
    const EXAMPLE: &'static str = "\"T64rUJbvmpXUmjxh1Cxn14gSXLrRhWVhxm31pHvctcU=\"";
    fn read(plain: &Plain) -> Result<Self, Refusal> {
        let Plain::Text(text) = plain else { return Err(Refusal::Kind) };
        PublicKey::parse(text).map(Some).map_err(Refusal::Because)
    }
    fn written(&self) -> Option<String> {
        self.as_ref().map(|key| quoted(&key.base64()))
    }
}

impl Value for Vec<PathBuf> {
    const WANTED: &'static str = "a list of paths in quotes";
    fn read(plain: &Plain) -> Result<Self, Refusal> {
        let Plain::List(list) = plain else { return Err(Refusal::Kind) };
        let path = |plain: &Plain| match plain {
            Plain::Text(text) if text.is_empty() => Err(Refusal::Because("a path in it is empty".to_owned())),
            Plain::Text(text) => Ok(PathBuf::from(text)),
            _ => Err(Refusal::Kind),
        };
        list.iter().map(path).collect()
    }
    fn written(&self) -> Option<String> {
        let paths: Vec<String> = self.iter().map(|path| quoted(&path.to_string_lossy())).collect();
        Some(format!("[{}]", paths.join(", ")))
    }
}

impl Value for Vec<String> {
    const WANTED: &'static str = "a list of words in quotes";
    fn read(plain: &Plain) -> Result<Self, Refusal> {
        let Plain::List(list) = plain else { return Err(Refusal::Kind) };
        let word = |plain: &Plain| match plain {
            Plain::Text(text) => Ok(text.clone()),
            _ => Err(Refusal::Kind),
        };
        list.iter().map(word).collect()
    }
    fn written(&self) -> Option<String> {
        let words: Vec<String> = self.iter().map(|word| quoted(word)).collect();
        Some(format!("[{}]", words.join(", ")))
    }
}

/// Quotes a text for TOML.
pub(super) fn quoted(text: &str) -> String {
    // JSON escapes everything that TOML requires except for this character.
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
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

        impl Value for $Kind {
            const WANTED: &'static str = $wanted;
            fn read(plain: &Plain) -> Result<Self, Refusal> {
                let Plain::Text(text) = plain else { return Err(Refusal::Kind) };
                Self::parse(text).map_err(Refusal::Because)
            }
            fn written(&self) -> Option<String> {
                Some(quoted(self.as_str()))
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

impl Value for Vec<AskedAbout> {
    const WANTED: &'static str = "a list of \"reads\", \"writes\" and \"executes\"";
    fn read(plain: &Plain) -> Result<Self, Refusal> {
        let Plain::List(list) = plain else { return Err(Refusal::Kind) };
        list.iter().map(AskedAbout::read).collect()
    }
    fn written(&self) -> Option<String> {
        let words: Vec<String> = self.iter().map(|word| quoted(word.as_str())).collect();
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
    pub(super) const fn of_this_system() -> Self {
        if cfg!(target_os = "linux") { Self::Full } else { Self::None }
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

/// Formats "must be a whole number between 1 and 64, not 99".
pub(super) fn must_be<T: Value>(bounds: &dyn Bounds<T>, found: &(impl Display + ?Sized)) -> String {
    format!("must be {}{}, not {found}", T::WANTED, bounds.words())
}
