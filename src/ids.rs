//! The identifiers that travel on the wire, each parsed once, at the door; and how hashes are written.
//! Not here: how any of them is stored or sent.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a text is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} must be 1 to {max} characters of A-Z a-z 0-9 _ -{extra}, not {got}")]
pub struct BadId {
    kind: &'static str,
    max: usize,
    extra: &'static str,
    got: String,
}

fn check(kind: &'static str, text: &str, max: usize, extra: &'static str) -> Result<(), BadId> {
    let fits = !text.is_empty()
        && text.len() <= max
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b) || extra.as_bytes().contains(&b));
    if fits {
        return Ok(());
    }
    let shown: String = text.chars().take(40).collect();
    Err(BadId { kind, max, extra, got: format!("{shown:?}") })
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $max:literal, $extra:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks the grammar and takes the text.
            ///
            /// # Errors
            /// [`BadId`] when the text is empty, too long or has other characters.
            pub fn parse(text: impl Into<String>) -> Result<Self, BadId> {
                let text = text.into();
                check($kind, &text, $max, $extra)?;
                Ok(Self(text))
            }

            /// The identifier as it travels.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadId;
            fn try_from(text: String) -> Result<Self, BadId> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

identifier!(
    /// One request, made by the caller (UUIDv7 by convention). It also names files, hence its grammar.
    RequestId, "a request id", 128, ""
);
identifier!(
    /// This device: a UUID made once and kept in the home.
    DeviceId, "a device id", 128, ""
);
identifier!(
    /// A conversation: calls of one are kept in order. Callers use their own keys, hence the wider grammar.
    ConversationId, "a conversation id", 256, ".:/@+="
);
identifier!(
    /// The name of a tool as asked for; it need not exist.
    ToolName, "a tool name", 128, "."
);
identifier!(
    /// One process life's claim on requests: made at start, renewed while it runs.
    LeaseId, "a lease id", 128, ""
);
identifier!(
    /// One process of a device: made at its start, so that two processes with one identity are told apart.
    ProcessId, "a process id", 128, ""
);

/// Bytes in lower-case hexadecimal, as every hash and every random name travels.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]);
    digits.map(char::from).collect()
}

impl RequestId {
    /// A new, time-ordered id (UUIDv7, RFC 9562 section 5.7).
    pub fn new() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }
}

impl Default for RequestId {
    fn default() -> Self {
        Self::new()
    }
}

impl DeviceId {
    /// A new random id (UUIDv4, RFC 9562 section 5.4).
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }
}

impl LeaseId {
    /// A new random id, one for each process life.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }
}

impl ProcessId {
    /// A new random id, one for each start of a process.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }
}

impl From<&RequestId> for ConversationId {
    /// A request without a conversation is its own conversation.
    fn from(id: &RequestId) -> Self {
        Self(id.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_not_an_id() {
        let refused = RequestId::parse("../../x").expect_err("a path");
        assert!(refused.to_string().contains("../../x"), "{refused}");
        assert!(RequestId::parse("").is_err());
        assert!(RequestId::parse("a".repeat(129)).is_err());
        assert!(RequestId::parse("req_1-A").is_ok());
    }

    #[test]
    fn every_byte_is_two_digits() {
        assert_eq!(hex(&[0x00, 0x0f, 0xa5, 0xff]), "000fa5ff");
        assert_eq!(hex(&[]), "");
    }

    #[test]
    fn a_bad_id_in_json_is_an_error_of_that_field() {
        let refused = serde_json::from_str::<DeviceId>("\"a b\"").expect_err("a blank");
        assert!(refused.to_string().contains("a device id"), "{refused}");
    }
}
