//! A row as a line of the file: `{"seq":..,"prev":"..",...,"hash":".."}`. The hash covers the line's own bytes up to
//! it, the hash of the row before among them, so that what is hashed is what anybody can see.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Entry, Event, Who};
use crate::ids::hex;

/// What is hashed begins with this, so that no hash of anything else passes for a row's.
const DOMAIN: &str = "punie-audit-row:v1\n";

/// What stands between a row's text and its hash.
const BEFORE_HASH: &str = ",\"hash\":\"";

/// How long a line's end is: the words before the hash, the hash, the quote and the brace.
const END: usize = BEFORE_HASH.len() + HASH + 2;

/// SHA-256 in hex.
pub(super) const HASH: usize = 64;

/// Where a chain stands: the number and the hash of its last row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The number, from 1; 0 before the first row.
    pub seq: u64,
    /// The hash, in hex.
    pub hash: String,
}

impl Link {
    /// Before the first row.
    pub fn none() -> Self {
        Self { seq: 0, hash: "0".repeat(HASH) }
    }
}

/// A row's own place in the chain, before what it says.
#[derive(Serialize)]
struct Numbered<'a> {
    seq: u64,
    prev: &'a str,
    #[serde(flatten)]
    entry: &'a Entry,
}

/// The line of a row that follows `after`, with its end, and where the chain then stands.
pub(super) fn line(after: &Link, entry: &Entry) -> (String, Link) {
    numbered(after.seq + 1, &after.hash, entry)
}

/// What the device signs of a checkpoint: the last of the rows that went.
pub(super) fn checkpoint_text(gone: &Link) -> String {
    format!("punie-audit-checkpoint:v1:{}:{}", gone.seq, gone.hash)
}

/// The line in the place of rows that went, the last of which is `gone`.
pub(super) fn checkpoint(gone: &Link, entry: &Entry) -> String {
    numbered(gone.seq, &gone.hash, entry).0
}

fn numbered(seq: u64, prev: &str, entry: &Entry) -> (String, Link) {
    let mut text =
        serde_json::to_string(&Numbered { seq, prev, entry }).expect("plain fields are always JSON");
    text.pop();
    let hash = hash(text.as_bytes());
    (format!("{text}{BEFORE_HASH}{hash}\"}}\n"), Link { seq, hash })
}

fn hash(text: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(DOMAIN);
    hash.update(text);
    hex(&hash.finalize())
}

/// What is read of a line to follow the chain.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub seq: u64,
    pub prev: String,
    pub hash: String,
    pub at_ms: i64,
    /// `None`: written by a version that knows more events.
    #[serde(deserialize_with = "known_or_none")]
    pub event: Option<Event>,
    #[serde(deserialize_with = "known_or_none")]
    pub who: Option<Who>,
    #[serde(default)]
    pub through: Option<u64>,
    #[serde(default)]
    pub signature: Option<String>,
    /// Whether the hash is that of the text.
    #[serde(skip)]
    pub is_sound: bool,
}

/// Reads a word of an enum; one that this version does not know is `None`.
fn known_or_none<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(T::deserialize(Value::deserialize(deserializer)?).ok())
}

impl Row {
    /// Reads a line without its end; none where it is no row.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let mut row: Self = serde_json::from_slice(line).ok()?;
        let (text, end) = line.split_at_checked(line.len().checked_sub(END)?)?;
        let hash_there = end.strip_prefix(BEFORE_HASH.as_bytes())?.strip_suffix(b"\"}")?;
        row.is_sound = hash_there == row.hash.as_bytes() && hash(text) == row.hash;
        Some(row)
    }

    /// Where the chain stands after it.
    pub(super) fn link(&self) -> Link {
        // One in the place of rows that went stands for the last of them.
        let hash = if self.is_checkpoint() { &self.prev } else { &self.hash };
        Link { seq: self.seq, hash: hash.clone() }
    }

    /// Whether one of the owner's commands wrote it, which have no need of a runner.
    pub(super) fn is_owners(&self) -> bool {
        self.who == Some(Who::Owner)
    }

    /// Whether it stands in the place of rows that went.
    pub(super) fn is_checkpoint(&self) -> bool {
        self.event == Some(Event::Checkpoint)
    }
}
