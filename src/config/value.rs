//! The kinds of values that a key can have: how each is read, bounded and written. Not here: the keys.

use std::fmt::Display;
use std::ops::{RangeFull, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

use tracing::level_filters::LevelFilter;

use super::public_key::PublicKey;
use super::raw::Plain;
use super::url::BackendUrl;

/// Why a value was not taken.
pub(super) enum Refusal {
    /// It is of another kind.
    Kind,
    /// It is of the kind, and this is wrong with it.
    Because(String),
}

/// A kind of value.
pub(super) trait Value: Sized {
    /// What is wanted, for errors.
    const WANTED: &'static str;
    /// What the file that `init` writes shows where there is no default.
    const EXAMPLE: &'static str = "";

    fn read(plain: &Plain) -> Result<Self, Refusal>;

    /// As the file has it; nothing if it is not set.
    fn written(&self) -> Option<String>;
}

/// Which values of a kind are sensible.
pub(super) trait Bounds<T> {
    fn hold(&self, value: &T) -> bool;
    /// After "must be ...".
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

/// Milliseconds in the file; the keys say so.
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
    // Nobody has its private half: it is a hash.
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

/// A text between quotes, as TOML has it.
pub(super) fn quoted(text: &str) -> String {
    // JSON escapes all that TOML forbids but one character.
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

/// A kind with a few named values.
macro_rules! named {
    ($(#[doc = $about:literal])+ $Kind:ident, $wanted:literal { $($(#[$meta:meta])* $Name:ident = $text:literal),+ $(,)? }) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $Kind { $($(#[$meta])* $Name),+ }

        impl $Kind {
            /// As it is written.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$Name => $text),+ }
            }

            /// The value of this name, in capitals or not.
            ///
            /// # Errors
            /// A sentence that names the values there are.
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
    /// When the wake-up socket is opened.
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
    /// What somebody may be asked about.
    AskedAbout, "\"reads\", \"writes\" or \"executes\"" {
        /// Calls that only look.
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
    /// When an editor is asked for tools of its own.
    Discover, "\"announced\", \"always\" or \"never\"" {
        /// When it says that it has some.
        Announced = "announced",
        /// Whatever it says.
        Always = "always",
        /// Never.
        Never = "never",
    }
);

named!(
    /// The least level of confinement at which commands run.
    Require, "\"full\", \"partial\" or \"none\"" {
        /// Every way out that is tried is shut.
        Full = "full",
        /// Some of them are.
        Partial = "partial",
        /// Whatever there is.
        None = "none",
    }
);

impl Require {
    /// The default: all where it is built, and nothing where commands cannot be confined yet.
    pub(super) const fn of_this_system() -> Self {
        if cfg!(target_os = "linux") { Self::Full } else { Self::None }
    }
}

named!(
    /// What commands reach by network.
    Network, "\"none\", \"loopback\" or \"full\"" {
        /// Nothing.
        None = "none",
        /// Each other.
        Loopback = "loopback",
        /// Everything.
        Full = "full",
    }
);

named!(
    /// How much is logged.
    LogLevel, "\"off\", \"error\", \"warn\", \"info\", \"debug\" or \"trace\"" {
        /// Nothing.
        Off = "off",
        /// What failed.
        Error = "error",
        /// And what may fail soon.
        Warn = "warn",
        /// And what was done.
        Info = "info",
        /// And how.
        Debug = "debug",
        /// And each step.
        Trace = "trace",
    }
);

named!(
    /// Whether the log also goes to a file of the home.
    LogFile, "\"auto\", \"always\" or \"never\"" {
        /// When nobody watches stderr.
        Auto = "auto",
        /// Always.
        Always = "always",
        /// Never.
        Never = "never",
    }
);

impl LogLevel {
    /// The level as the log takes it.
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

/// "must be a whole number between 1 and 64, not 99".
pub(super) fn must_be<T: Value>(bounds: &dyn Bounds<T>, found: &(impl Display + ?Sized)) -> String {
    format!("must be {}{}, not {found}", T::WANTED, bounds.words())
}
