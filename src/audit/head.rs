//! The head: where the chain was known to stand, kept beside it, so that rows cut off at the end are missed. Signed
//! with the device's key, so that only who has that key can write another.

use std::io;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};
use serde::{Deserialize, Serialize};

use super::row::Link;

/// Where the chain stood, and the device's word for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    /// The last row.
    #[serde(flatten)]
    pub at: Link,
    /// The device's signature of it, 64 bytes as base64; none where nobody could sign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl Head {
    /// The text that is signed.
    pub(super) fn text(at: &Link) -> String {
        format!("punie-audit-head:v1:{}:{}", at.seq, at.hash)
    }

    /// Reads a head as people write it: `SEQ:HASH`, as heartbeats carry it.
    pub fn parse(text: &str) -> Option<Link> {
        let (seq, hash) = text.split_once(':')?;
        let is_hash = hash.len() == super::row::HASH && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then_some(Link { seq: seq.parse().ok()?, hash: hash.to_ascii_lowercase() })
    }

    /// The head that is kept; none where there is none.
    ///
    /// # Errors
    /// It cannot be read, or is no head.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::read_to_string(path) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the signature is this key's (32 bytes as base64).
    pub(super) fn is_signed_by(&self, public_key: &str) -> bool {
        is_signed(&Self::text(&self.at), self.signature.as_deref(), public_key)
    }

    /// Puts it in the place of the one before. Not synced: an older head says less and nothing false.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let draft = path.with_extension("head.new");
        let text = serde_json::to_string(self).expect("plain fields are always JSON") + "\n";
        crate::durable::open_private_file(&draft, |options| options.write(true).create(true).truncate(true))
            .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))?;
        std::fs::rename(draft, path)
    }
}

/// Whether this is the signature of this text by this key, both as base64.
pub(super) fn is_signed(text: &str, signature: Option<&str>, public_key: &str) -> bool {
    let decoded = |text: &str| STANDARD.decode(text).ok();
    let key = decoded(public_key).and_then(|bytes| VerifyingKey::from_bytes(&bytes.try_into().ok()?).ok());
    let signature = signature.and_then(decoded);
    let signature = signature.and_then(|bytes| Signature::from_slice(&bytes).ok());
    match (key, signature) {
        (Some(key), Some(signature)) => key.verify_strict(text.as_bytes(), &signature).is_ok(),
        _ => false,
    }
}
