//! A row as a line of the file: `{"seq":..,"prev":"..",...,"hash":".."}`. The hash covers the line's own bytes before
//! it, including the hash of the previous row. So the hashed text is exactly the visible text.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{AuditActor, AuditEntry, AuditEvent};
use punie_core::ids::to_hex;

/// The prefix of every hashed text, so that a hash of anything else is never valid for a row.
const HASH_DOMAIN: &str = "punie-audit-row:v1\n";

/// The text between a row's content and its hash.
const BEFORE_HASH: &str = ",\"hash\":\"";

/// The length of a line's end: the text before the hash, the hash, the quote and the brace.
const LINE_END_LENGTH: usize = BEFORE_HASH.len() + HASH_HEX_LENGTH + 2;

/// The length of a SHA-256 in hex.
pub(super) const HASH_HEX_LENGTH: usize = 64;

/// A position in the chain: the number and the hash of its last row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainLink {
    /// The number, from 1; 0 before the first row.
    pub seq: u64,
    /// The hash, in hex.
    pub hash: String,
}

impl ChainLink {
    /// The link before the first row.
    pub fn before_first() -> Self {
        Self {
            seq: 0,
            hash: "0".repeat(HASH_HEX_LENGTH),
        }
    }
}

/// An entry with its number and the hash of the previous row.
#[derive(Serialize)]
struct NumberedEntry<'a> {
    seq: u64,
    prev: &'a str,
    #[serde(flatten)]
    entry: &'a AuditEntry,
}

/// Returns the line of the row that follows `after`, with its line end, and the new last link.
pub(super) fn format_row(after: &ChainLink, entry: &AuditEntry) -> (String, ChainLink) {
    format_numbered(after.seq + 1, &after.hash, entry)
}

/// Returns the text that the device signs for a checkpoint: the last removed row.
pub(super) fn checkpoint_signed_text(gone: &ChainLink) -> String {
    format!("punie-audit-checkpoint:v1:{}:{}", gone.seq, gone.hash)
}

/// Returns the line that replaces removed rows, the last of which is `gone`.
pub(super) fn format_checkpoint(gone: &ChainLink, entry: &AuditEntry) -> String {
    format_numbered(gone.seq, &gone.hash, entry).0
}

fn format_numbered(seq: u64, prev: &str, entry: &AuditEntry) -> (String, ChainLink) {
    let mut text = serde_json::to_string(&NumberedEntry { seq, prev, entry })
        .expect("plain fields are always JSON");
    text.pop();
    let hash = hash(text.as_bytes());
    (
        format!("{text}{BEFORE_HASH}{hash}\"}}\n"),
        ChainLink { seq, hash },
    )
}

fn hash(text: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(HASH_DOMAIN);
    hash.update(text);
    to_hex(&hash.finalize())
}

/// The fields of a line that verification needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuditRow {
    pub seq: u64,
    pub prev: String,
    pub hash: String,
    pub at_ms: i64,
    /// `None`: written by a version that knows more events.
    #[serde(deserialize_with = "deserialize_known")]
    pub event: Option<AuditEvent>,
    #[serde(deserialize_with = "deserialize_known")]
    pub who: Option<AuditActor>,
    #[serde(default)]
    pub through: Option<u64>,
    #[serde(default)]
    pub signature: Option<String>,
    /// The hash matches the text.
    #[serde(skip)]
    pub is_sound: bool,
}

/// Parses an enum's name; a name that this version does not know becomes `None`.
fn deserialize_known<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(T::deserialize(Value::deserialize(deserializer)?).ok())
}

impl AuditRow {
    /// Parses a line without its line end; `None` if it is not a row.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let mut row: Self = serde_json::from_slice(line).ok()?;
        let (text, end) = line.split_at_checked(line.len().checked_sub(LINE_END_LENGTH)?)?;
        let hash_there = end
            .strip_prefix(BEFORE_HASH.as_bytes())?
            .strip_suffix(b"\"}")?;
        row.is_sound = hash_there == row.hash.as_bytes() && hash(text) == row.hash;
        Some(row)
    }

    /// Returns the chain's link after this row.
    pub(super) fn chain_link(&self) -> ChainLink {
        // A checkpoint represents the last removed row.
        let hash = if self.is_checkpoint() {
            &self.prev
        } else {
            &self.hash
        };
        ChainLink {
            seq: self.seq,
            hash: hash.clone(),
        }
    }

    /// Returns whether one of the owner's commands wrote it, which need no runner.
    pub(super) fn is_by_owner(&self) -> bool {
        self.who == Some(AuditActor::Owner)
    }

    /// Returns whether it replaces removed rows.
    pub(super) fn is_checkpoint(&self) -> bool {
        self.event == Some(AuditEvent::Checkpoint)
    }
}
