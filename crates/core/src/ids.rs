//! The identifiers of the contract, validated once on arrival, and the hexadecimal form of hashes.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The reason why a text is not an identifier.
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
        && text.bytes().all(|b| {
            b.is_ascii_alphanumeric() || b"_-".contains(&b) || extra.as_bytes().contains(&b)
        });
    if fits {
        return Ok(());
    }
    let shown: String = text.chars().take(40).collect();
    Err(BadId {
        kind,
        max,
        extra,
        got: format!("{shown:?}"),
    })
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $max:literal, $extra:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks the grammar and creates the identifier.
            ///
            /// # Errors
            /// [`BadId`] if the text is empty, too long, or contains other characters.
            pub fn parse(text: impl Into<String>) -> Result<Self, BadId> {
                let text = text.into();
                check($kind, &text, $max, $extra)?;
                Ok(Self(text))
            }

            /// Returns the identifier's text.
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
    /// A request's id, made by the caller (UUIDv7 by convention). It also names files, hence its grammar.
    RequestId, "a request id", 128, ""
);
identifier!(
    /// This device's id: a UUID made once and stored in the home folder.
    DeviceId, "a device id", 128, ""
);
identifier!(
    /// The key by which a caller names a conversation. Callers use their own keys, hence the wider grammar.
    ConversationName, "a conversation id", 256, ".:/@+="
);
identifier!(
    /// A tool's name as a request gives it; the tool need not exist.
    ToolName, "a tool name", 128, "."
);
identifier!(
    /// The id under which a process claims requests: made at its start, renewed while it runs.
    LeaseId, "a lease id", 128, ""
);
identifier!(
    /// The id of a device's process, made at its start. It tells two processes with the same identity apart.
    ProcessId, "a process id", 128, ""
);

/// The first character of the key of a request's own conversation. No caller's key can contain it.
const OWN_CONVERSATION: char = '~';

/// A conversation. Calls of one conversation keep their order, and share answers of people, terminals and temporary
/// files. Callers choose both the ids of requests and the names of conversations, so that equal texts do not make a
/// request a part of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ConversationId {
    /// The conversation that requests name.
    Named(ConversationName),
    /// The conversation of a request that names none. No other request can join it.
    OwnOf(RequestId),
}

impl ConversationId {
    /// Parses the conversation that a request names.
    ///
    /// # Errors
    /// [`BadId`] if the text is empty, too long, or contains other characters.
    pub fn parse(text: impl Into<String>) -> Result<Self, BadId> {
        ConversationName::parse(text).map(Self::Named)
    }

    /// Returns the text under which this conversation is stored, and no other one.
    pub fn key(&self) -> String {
        match self {
            Self::Named(name) => name.as_str().to_owned(),
            Self::OwnOf(request) => format!("{OWN_CONVERSATION}{request}"),
        }
    }

    /// Reads what [`ConversationId::key`] returned.
    ///
    /// # Errors
    /// [`BadId`] if the text is no key.
    pub fn from_key(key: impl Into<String>) -> Result<Self, BadId> {
        let key = key.into();
        match key.strip_prefix(OWN_CONVERSATION) {
            Some(request) => RequestId::parse(request).map(Self::OwnOf),
            None => Self::parse(key),
        }
    }

    /// Returns whether other requests can join it.
    pub fn is_named(&self) -> bool {
        matches!(self, Self::Named(_))
    }
}

impl TryFrom<String> for ConversationId {
    type Error = BadId;
    fn try_from(key: String) -> Result<Self, BadId> {
        Self::from_key(key)
    }
}

impl From<ConversationId> for String {
    fn from(id: ConversationId) -> Self {
        id.key()
    }
}

/// Writes the caller's name for it, or the id of the request.
impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => name.fmt(f),
            Self::OwnOf(request) => request.fmt(f),
        }
    }
}

/// Returns the bytes in lower-case hexadecimal, the form of all hashes and random names.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes
        .iter()
        .flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]);
    digits.map(char::from).collect()
}

impl RequestId {
    /// Creates a time-ordered id (UUIDv7, RFC 9562 section 5.7).
    pub fn new() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }

    /// Creates the id of something that belongs to a request: always the same one for the same words (UUIDv8, RFC 9562
    /// section 5.8).
    pub fn derive(request: &Self, words: &[&str]) -> Self {
        let mut hasher = Sha256::new();
        for word in std::iter::once(&request.0.as_str()).chain(words) {
            hasher.update((word.len() as u64).to_le_bytes());
            hasher.update(word.as_bytes());
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize()[..16]);
        let id = uuid::Builder::from_custom_bytes(bytes).into_uuid();
        Self(id.to_string())
    }

    /// Returns the creation time in milliseconds since 1970 if the id is a UUIDv7 in its usual form. Other ids carry no
    /// time.
    pub fn creation_time_ms(&self) -> Option<i64> {
        let id = uuid::Uuid::try_parse(&self.0).ok()?;
        let is_v7 = id.get_version_num() == 7 && id.get_variant() == uuid::Variant::RFC4122;
        let (seconds, nanos) = id
            .get_timestamp()
            .filter(|_| is_v7 && self.0.len() == 36)?
            .to_unix();
        i64::try_from(seconds * 1_000 + u64::from(nanos / 1_000_000)).ok()
    }
}

impl Default for RequestId {
    fn default() -> Self {
        Self::new()
    }
}

impl DeviceId {
    /// Creates a random id (UUIDv4, RFC 9562 section 5.4).
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }
}

impl LeaseId {
    /// Creates a random id, one for each process.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }
}

impl ProcessId {
    /// Creates a random id, one for each start of a process.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_id_is_the_same_for_the_same_words_only() {
        let derive = |request: &str, words: &[&str]| {
            let request = RequestId::parse(request).expect("an id");
            let id = RequestId::derive(&request, words);
            assert!(RequestId::parse(id.as_str()).is_ok() && id.creation_time_ms().is_none());
            id
        };
        let one = derive("r1", &["ab", "c"]);
        assert_eq!(one, derive("r1", &["ab", "c"]));
        for other in [
            derive("r2", &["ab", "c"]),
            derive("r1", &["a", "bc"]),
            derive("r1", &["abc"]),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn no_name_leads_to_the_conversation_of_another_request() {
        let own = ConversationId::OwnOf(RequestId::parse("r1").expect("an id"));
        let named = ConversationId::parse("r1").expect("a name");
        assert_ne!(own, named);
        assert_eq!(own.to_string(), named.to_string());
        for id in [&own, &named] {
            assert_eq!(ConversationId::from_key(id.key()).as_ref(), Ok(id));
        }
        let refused = ConversationId::parse(own.key()).expect_err("a key is no name");
        assert!(refused.to_string().contains("~r1"), "{refused}");
    }

    #[test]
    fn a_path_is_not_an_id() {
        let refused = RequestId::parse("../../x").expect_err("a path");
        assert!(refused.to_string().contains("../../x"), "{refused}");
        assert!(RequestId::parse("").is_err());
        assert!(RequestId::parse("a".repeat(129)).is_err());
        assert!(RequestId::parse("req_1-A").is_ok());
    }

    #[test]
    fn a_uuid_of_version_7_tells_when_it_was_made_and_nothing_else_does() {
        let made = |text: &str| RequestId::parse(text).expect("an id").creation_time_ms();
        // The example of RFC 9562, appendix A.6.
        assert_eq!(
            made("017f22e2-79b0-7cc3-98c4-dc0c0c07398f"),
            Some(1_645_557_742_000)
        );
        assert_eq!(
            made("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"),
            Some(1_645_557_742_000)
        );
        for other in [
            "req-1",
            "017f22e279b07cc398c4dc0c0c07398f",
            "017f22e2-79b0-4cc3-98c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-18c4-dc0c0c07398f",
        ] {
            assert_eq!(made(other), None, "{other}");
        }
    }

    #[test]
    fn every_byte_is_two_digits() {
        assert_eq!(to_hex(&[0x00, 0x0f, 0xa5, 0xff]), "000fa5ff");
        assert_eq!(to_hex(&[]), "");
    }

    #[test]
    fn a_bad_id_in_json_is_an_error_of_that_field() {
        let refused = serde_json::from_str::<DeviceId>("\"a b\"").expect_err("a blank");
        assert!(refused.to_string().contains("a device id"), "{refused}");
    }
}
