//! The key of the owner's secrets: a file beside the device's key, or an entry of the system's keychain.
//!
//! The key is a file that only this user may read. If the owner wishes, it is in the system's keychain, and the file
//! names the entry. Backups and syncs that exclude `keys/` then have no readable values. Other programs of the same
//! user can still read the key.

use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::error::HomeError;
use super::file_modes;
use super::keychain::KeychainEntry;
use super::private_files::{create_private_file, decode_key, replace_private_file};
use super::sealed_text::SealingKey;
use super::tokens::random_bytes;
use punie_text::redact::Secret;

/// The largest file of all secrets.
const MAX_FILE: u64 = 16 << 20;

/// The place of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyPlace {
    /// The file `keys/secrets.key` of the home.
    File,
    /// The system's keychain.
    Keychain,
}

/// The prefix of a key file that names an entry of the keychain.
const KEYCHAIN_PREFIX: &str = "keychain ";

/// The content of the key's file.
pub(super) enum KeyFileContent {
    InFile(SealingKey),
    /// The name of the keychain's entry that holds the key.
    InKeychain(KeychainEntry),
}

impl KeyFileContent {
    fn into_keychain_entry(self) -> Option<KeychainEntry> {
        match self {
            Self::InFile(_) => None,
            Self::InKeychain(entry) => Some(entry),
        }
    }

    pub fn location(&self) -> KeyPlace {
        match self {
            Self::InFile(_) => KeyPlace::File,
            Self::InKeychain(_) => KeyPlace::Keychain,
        }
    }
}

/// The file that holds the key, or names its entry in the keychain.
#[derive(Debug, Clone)]
pub(super) struct SecretsKeyFile {
    path: PathBuf,
    /// The file that the key encrypts, for advice.
    secrets: PathBuf,
}

impl SecretsKeyFile {
    pub fn new(path: PathBuf, secrets: PathBuf) -> Self {
        Self { path, secrets }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the current or future place of the key.
    pub fn current_place(&self) -> Result<KeyPlace, HomeError> {
        let stored = self.read()?;
        Ok(stored.map_or(KeyPlace::File, |stored| stored.location()))
    }

    /// Moves the key to this place, or creates it there. Called under the lock, and only for another place. `before` is
    /// the content of the key's file, if it exists, and the key.
    pub fn move_to(
        &self,
        place: KeyPlace,
        before: Option<(KeyFileContent, SealingKey)>,
    ) -> Result<(), HomeError> {
        let (before, key) = match before {
            Some((stored, key)) => (Some(stored), key),
            None => (None, random_bytes()),
        };
        let entry = match place {
            KeyPlace::File => None,
            KeyPlace::Keychain => Some(self.store_in_keychain(&key)?),
        };
        let text = entry.as_ref().map_or_else(
            || STANDARD.encode(key),
            |entry| format!("{KEYCHAIN_PREFIX}{}", entry.name()),
        );
        let text = text + "\n";
        let written = replace_private_file(&self.path, text.as_bytes());
        // If writing failed halfway, the old file may be back after a power failure.
        let before = before
            .and_then(KeyFileContent::into_keychain_entry)
            .filter(|_| written.is_ok());
        self.delete_unnamed_entries(before.into_iter().chain(entry));
        written
    }

    /// Creates a key. Called under the lock, so that no other process creates one meanwhile.
    pub fn create_sealing_key(&self) -> Result<SealingKey, HomeError> {
        let key = random_bytes();
        let text = STANDARD.encode(key) + "\n";
        create_private_file(&self.path, text.as_bytes())?;
        Ok(key)
    }

    /// Returns the key, if there is one.
    pub fn read_sealing_key(&self) -> Result<Option<SealingKey>, HomeError> {
        self.read()?.map(|stored| self.resolve(&stored)).transpose()
    }

    /// Returns the key that the file holds, or that the keychain has for it.
    pub fn resolve(&self, stored: &KeyFileContent) -> Result<SealingKey, HomeError> {
        match stored {
            KeyFileContent::InFile(key) => Ok(*key),
            KeyFileContent::InKeychain(entry) => self.read_from_keychain(entry),
        }
    }

    /// Deletes those keychain entries that the key's file does not name. Writing may have failed after the file was
    /// replaced, so the file is read again.
    fn delete_unnamed_entries(&self, entries: impl Iterator<Item = KeychainEntry>) {
        let Ok(now) = self.read() else {
            return;
        };
        let named = now.and_then(KeyFileContent::into_keychain_entry);
        entries
            .filter(|entry| Some(entry) != named.as_ref())
            .for_each(|entry| delete_keychain_entry(&entry));
    }

    /// Reads the key's file, if there is one.
    pub fn read(&self) -> Result<Option<KeyFileContent>, HomeError> {
        let Some(text) = read_secret_text(&self.path)? else {
            return Ok(None);
        };
        // The error must not show the text, which may be most of a key.
        let (stored, why) = match text.strip_prefix(KEYCHAIN_PREFIX) {
            Some(name) => (
                KeychainEntry::from_name(name.trim()).map(KeyFileContent::InKeychain),
                "it names no entry of the keychain",
            ),
            None => (
                decode_key(text.as_bytes()).map(KeyFileContent::InFile),
                "it does not hold 32 bytes as base64",
            ),
        };
        let damaged = || HomeError::Damaged {
            path: self.path.clone(),
            why: why.to_owned(),
            mend: secrets_advice(&self.secrets),
        };
        stored.map(Some).ok_or_else(damaged)
    }

    /// Stores the key under a new name. The name is returned only after the key was read back.
    fn store_in_keychain(&self, key: &SealingKey) -> Result<KeychainEntry, HomeError> {
        let entry = KeychainEntry::new();
        entry
            .store_value(&Secret::new(STANDARD.encode(key)))
            .map_err(|why| self.keychain_error(why))?;
        let failed = match self.read_from_keychain(&entry) {
            Ok(given) if given == *key => return Ok(entry),
            Ok(_) => self.keychain_error("it gives something else than it was given".to_owned()),
            Err(failed) => failed,
        };
        delete_keychain_entry(&entry);
        Err(failed)
    }

    fn read_from_keychain(&self, entry: &KeychainEntry) -> Result<SealingKey, HomeError> {
        let value = entry.read_value().map_err(|why| self.keychain_error(why))?;
        decode_key(value.expose().as_bytes())
            .ok_or_else(|| self.keychain_error("what it gives is no key".to_owned()))
    }

    fn keychain_error(&self, why: String) -> HomeError {
        HomeError::Keychain {
            why,
            file: self.path.clone(),
        }
    }
}

fn delete_keychain_entry(entry: &KeychainEntry) {
    if let Err(why) = entry.delete() {
        tracing::warn!(
            why,
            "the keychain keeps a key of the secrets that is not needed"
        );
    }
}

pub(super) fn secrets_advice(file: &Path) -> String {
    format!(
        "Nothing was changed. Restore both from one backup; or move {} aside and set the secrets again",
        file.display()
    )
}

/// Reads the text of a file that only its owner may read.
pub(super) fn read_secret_text(path: &Path) -> Result<Option<String>, HomeError> {
    let Some(file) = file_modes::open_secret_file(path)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE + 1).read_to_end(&mut bytes);
    read.map_err(HomeError::unreadable(path))?;
    let damaged = |why: &str| HomeError::Damaged {
        path: path.to_owned(),
        why: why.to_owned(),
        mend: secrets_advice(path),
    };
    if bytes.len() as u64 > MAX_FILE {
        return Err(damaged("it is far too large"));
    }
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| damaged("it is not text"))
}
