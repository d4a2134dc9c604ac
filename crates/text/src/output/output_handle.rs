//! The names of kept outputs.

use std::fmt;

use sha2::{Digest, Sha256};

use punie_core::ids::{RequestId, to_hex};

/// The name of a kept output: `out_` and twelve hex digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputHandle(String);

impl OutputHandle {
    const PREFIX: &'static str = "out_";
    const DIGITS: usize = 12;

    /// Parses a handle as a model writes it. The grammar cannot express a path.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(Self::PREFIX)?;
        let hex = digits
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        (digits.len() == Self::DIGITS && hex).then(|| Self(text.to_owned()))
    }

    /// Returns the handle of a request's `n`-th output (from 0). It is the same after a restart, so that recovery finds
    /// the output of a killed call.
    pub(super) fn for_request(request: &RequestId, n: u32) -> Self {
        let digest = Sha256::digest(format!("{request}:{n}"));
        Self(format!(
            "{}{}",
            Self::PREFIX,
            to_hex(&digest[..Self::DIGITS / 2])
        ))
    }

    /// The handle as shown to the model.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OutputHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
