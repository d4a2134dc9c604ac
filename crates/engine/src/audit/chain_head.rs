//! The head: the last link known to be in the file, stored beside it so that rows cut off at the end are noticed. It
//! is signed with the device's key, so that nothing without that key can write another.

use std::io;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};
use serde::{Deserialize, Serialize};

use super::row::ChainLink;
use punie_core::durable::{allow_missing, open_private_file};

/// Signs a text with the device's key: 64 bytes as base64.
pub type TextSigner = Box<dyn Fn(&str) -> String + Send>;

/// The chain's last known link and the device's signature of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditHead {
    /// The last row.
    #[serde(flatten)]
    pub at: ChainLink,
    /// The device's signature of the row, 64 bytes as base64; `None` without a signing key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl AuditHead {
    /// Creates the head of this link, signed if there is a key.
    pub(super) fn new(at: ChainLink, sign: Option<&TextSigner>) -> Self {
        let signature = sign.map(|sign| sign(&Self::signed_text(&at)));
        Self { at, signature }
    }

    pub(super) fn signed_text(at: &ChainLink) -> String {
        format!("punie-audit-head:v1:{}:{}", at.seq, at.hash)
    }

    /// Parses a head in the form `SEQ:HASH`, as heartbeats carry it.
    pub fn parse_link(text: &str) -> Option<ChainLink> {
        let (seq, hash) = text.split_once(':')?;
        let is_hash = hash.len() == super::row::HASH_HEX_LENGTH
            && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then_some(ChainLink {
            seq: seq.parse().ok()?,
            hash: hash.to_ascii_lowercase(),
        })
    }

    /// Reads the stored head; `None` if there is none.
    ///
    /// # Errors
    /// The head cannot be read or parsed.
    pub fn read_head(path: &Path) -> io::Result<Option<Self>> {
        let text = allow_missing(std::fs::read_to_string(path))?;
        text.map(|text| serde_json::from_str(&text).map_err(io::Error::other))
            .transpose()
    }

    /// Returns whether the signature was made with this key (32 bytes as base64).
    pub(super) fn is_signed_by(&self, public_key: &str) -> bool {
        is_validly_signed(
            &Self::signed_text(&self.at),
            self.signature.as_deref(),
            public_key,
        )
    }

    /// Replaces the stored head. The file is not synced: an older head proves fewer rows and nothing false.
    pub(super) fn write_head(&self, path: &Path) -> io::Result<()> {
        let draft = path.with_extension("head.new");
        let text = serde_json::to_string(self).expect("plain fields are always JSON") + "\n";
        open_private_file(&draft, |options| {
            options.write(true).create(true).truncate(true)
        })
        .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))?;
        std::fs::rename(draft, path)
    }
}

/// Returns whether the signature of this text was made with this key; both are base64.
pub(super) fn is_validly_signed(text: &str, signature: Option<&str>, public_key: &str) -> bool {
    let decoded = |text: &str| STANDARD.decode(text).ok();
    let key = decoded(public_key)
        .and_then(|bytes| VerifyingKey::from_bytes(&bytes.try_into().ok()?).ok());
    let signature = signature.and_then(decoded);
    let signature = signature.and_then(|bytes| Signature::from_slice(&bytes).ok());
    match (key, signature) {
        (Some(key), Some(signature)) => key.verify_strict(text.as_bytes(), &signature).is_ok(),
        _ => false,
    }
}
