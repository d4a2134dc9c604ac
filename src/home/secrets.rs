//! The owner's secrets, by name: one encrypted file, with its key beside the device's. Not here: the runner's own
//! tokens (tokens), and passing secrets to commands (mounted_secrets).
//!
//! The key is a file that only this user may read. If the owner wishes, it is in the system's keychain, and the file
//! names the entry. Backups and syncs that exclude `keys/` then have no readable values. A person who opens the file
//! cannot read them, and any change to it is detected. Other programs of the same user can still read them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::error::HomeError;
use super::file_modes;
use super::keychain::KeychainEntry;
use super::layout::Home;
use super::runner_lock;
use super::sealed_text::{self, SealingKey};
use super::tokens::random_bytes;
use crate::durable::{self, Readers};
use crate::redact::Secret;

/// The longest value, more than any key or certificate needs.
const MAX_VALUE: usize = 64 << 10;
/// The largest file of all secrets.
const MAX_FILE: u64 = 16 << 20;
const MAX_NAME: usize = 128;

/// The secrets of one home.
#[derive(Debug, Clone)]
pub struct SecretStore {
    file: PathBuf,
    key: PathBuf,
    lock: PathBuf,
}

/// The public part of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretEntry {
    /// The name by which skills request it.
    pub name: String,
    /// The time when it was set, in milliseconds since 1970.
    pub set_at_ms: i64,
}

/// Reports changes as long as it is held.
#[derive(Debug)]
pub struct SecretsWatch {
    /// Notified whenever the file may have changed.
    pub changed: watch::Receiver<()>,
    _watcher: RecommendedWatcher,
    // Keeps the receiver open if the system drops the watcher.
    _sender: watch::Sender<()>,
}

/// The reason why a secret cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The name or the value cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// The home's files cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
}

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
enum KeyFileContent {
    /// The key.
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

    fn key_location(&self) -> KeyPlace {
        match self {
            Self::InFile(_) => KeyPlace::File,
            Self::InKeychain(_) => KeyPlace::Keychain,
        }
    }
}

/// The encrypted content, by name.
type SecretMap = BTreeMap<String, StoredSecret>;

#[derive(Serialize, Deserialize)]
struct StoredSecret {
    value: String,
    set_at_ms: i64,
}

impl SecretStore {
    /// Returns the secrets of this home.
    pub fn in_home(home: &Home) -> Self {
        Self {
            file: home.secrets_file(),
            key: home.secrets_key_file(),
            lock: home.secrets_lock_file(),
        }
    }

    /// Returns the names, sorted.
    ///
    /// # Errors
    /// [`HomeError`] when the file or its key is damaged, missing, or open to others.
    pub fn list_secrets(&self) -> Result<Vec<SecretEntry>, HomeError> {
        let entry = |(name, kept): (String, StoredSecret)| SecretEntry {
            name,
            set_at_ms: kept.set_at_ms,
        };
        Ok(self.read_secrets()?.0.into_iter().map(entry).collect())
    }

    /// Returns the value of this name, if there is one.
    ///
    /// # Errors
    /// As above.
    pub fn get_secret(&self, name: &str) -> Result<Option<Secret<String>>, HomeError> {
        Ok(self
            .read_secrets()?
            .0
            .remove(name)
            .map(|kept| Secret::new(kept.value)))
    }

    /// Returns every value, for masking.
    ///
    /// # Errors
    /// As above.
    pub fn secret_values(&self) -> Result<Vec<Secret<String>>, HomeError> {
        Ok(self
            .read_secrets()?
            .0
            .into_values()
            .map(|kept| Secret::new(kept.value))
            .collect())
    }

    /// Stores a value under this name, replacing an existing one. Returns whether the name is new.
    ///
    /// # Errors
    /// [`SecretError`] for a name or a value that cannot be used, and as above. The stored secrets are then unchanged.
    pub fn set_secret(&self, name: &str, value: &Secret<String>) -> Result<bool, SecretError> {
        check_secret(name, value.expose()).map_err(SecretError::Unusable)?;
        let _writing = runner_lock::lock_exclusively(&self.lock)?;
        let (mut all, key) = self.read_secrets()?;
        let kept = StoredSecret {
            value: value.expose().clone(),
            set_at_ms: now_ms(),
        };
        let is_new = all.insert(name.to_owned(), kept).is_none();
        self.write_secrets(&all, key)?;
        Ok(is_new)
    }

    /// Removes this name. Returns whether it existed.
    ///
    /// # Errors
    /// As [`SecretStore::list_secrets`], and when the file cannot be written.
    pub fn remove_secret(&self, name: &str) -> Result<bool, HomeError> {
        let _writing = runner_lock::lock_exclusively(&self.lock)?;
        let (mut all, key) = self.read_secrets()?;
        let was_there = all.remove(name).is_some();
        if was_there {
            self.write_secrets(&all, key)?;
        }
        Ok(was_there)
    }

    /// Returns the current or future place of the key.
    ///
    /// # Errors
    /// [`HomeError`] when its file cannot be read.
    pub fn key_place(&self) -> Result<KeyPlace, HomeError> {
        Ok(self
            .read_key_file()?
            .map_or(KeyPlace::File, |stored| stored.key_location()))
    }

    /// Moves the key to this place, or creates it there. Returns whether the place changed.
    ///
    /// # Errors
    /// [`HomeError::Keychain`] if the keychain does not store or return it, and as [`SecretStore::list_secrets`]. The
    /// key is then still in its old place.
    pub fn move_key_to(&self, place: KeyPlace) -> Result<bool, HomeError> {
        let _writing = runner_lock::lock_exclusively(&self.lock)?;
        let before = self.read_key_file()?;
        if before
            .as_ref()
            .map_or(KeyPlace::File, KeyFileContent::key_location)
            == place
        {
            return Ok(false);
        }
        let key = before
            .as_ref()
            .map(|stored| self.resolve_key(stored))
            .transpose()?;
        // A missing or wrong key is not moved, because that would hide the fault.
        if let Some(text) = read_secret_text(&self.file)? {
            self.unseal_secrets(&text, key)?;
        }
        let key = key.unwrap_or_else(random_bytes);
        let entry = match place {
            KeyPlace::File => None,
            KeyPlace::Keychain => Some(self.store_in_keychain(&key)?),
        };
        let text = entry.as_ref().map_or_else(
            || STANDARD.encode(key),
            |it| format!("{KEYCHAIN_PREFIX}{}", it.entry_name()),
        );
        let written = durable::replace_file(
            &self.key,
            format!("{text}\n").as_bytes(),
            Readers::OwnerOnly,
        );
        // If writing failed halfway, the old file may be back after a power failure.
        let before = before
            .and_then(KeyFileContent::into_keychain_entry)
            .filter(|_| written.is_ok());
        self.delete_unnamed_entries(before.into_iter().chain(entry));
        written
            .map(|()| true)
            .map_err(HomeError::unwritable(&self.key))
    }

    /// Deletes those keychain entries that the key's file does not name. Writing may have failed after the file was
    /// replaced, so the file is read again.
    fn delete_unnamed_entries(&self, entries: impl Iterator<Item = KeychainEntry>) {
        let Ok(now) = self.read_key_file() else {
            return;
        };
        let named = now.and_then(KeyFileContent::into_keychain_entry);
        entries
            .filter(|entry| Some(entry) != named.as_ref())
            .for_each(|entry| delete_keychain_entry(&entry));
    }

    /// Reads the key's file, if there is one.
    fn read_key_file(&self) -> Result<Option<KeyFileContent>, HomeError> {
        let Some(text) = read_secret_text(&self.key)? else {
            return Ok(None);
        };
        // The error must not show the text, which may be most of a key.
        let (stored, why) = match text.strip_prefix(KEYCHAIN_PREFIX) {
            Some(name) => (
                KeychainEntry::from_entry_name(name.trim()).map(KeyFileContent::InKeychain),
                "it names no entry of the keychain",
            ),
            None => (
                parse_sealing_key(&text).map(KeyFileContent::InFile),
                "it does not hold 32 bytes as base64",
            ),
        };
        let damaged = || HomeError::Damaged {
            path: self.key.clone(),
            why: why.to_owned(),
            mend: secrets_advice(&self.file),
        };
        stored.map(Some).ok_or_else(damaged)
    }

    /// Stores the key under a new name. The name is returned only after the key was read back.
    fn store_in_keychain(&self, key: &SealingKey) -> Result<KeychainEntry, HomeError> {
        let entry = KeychainEntry::new();
        let told = |why| HomeError::Keychain {
            why,
            file: self.key.clone(),
        };
        entry
            .store_value(&Secret::new(STANDARD.encode(key)))
            .map_err(told)?;
        let failed = match self.read_from_keychain(&entry) {
            Ok(given) if given == *key => return Ok(entry),
            Ok(_) => told("it gives something else than it was given".to_owned()),
            Err(failed) => failed,
        };
        delete_keychain_entry(&entry);
        Err(failed)
    }

    fn read_from_keychain(&self, entry: &KeychainEntry) -> Result<SealingKey, HomeError> {
        let told = |why| HomeError::Keychain {
            why,
            file: self.key.clone(),
        };
        let value = entry.read_value().map_err(told)?;
        parse_sealing_key(value.expose()).ok_or_else(|| told("what it gives is no key".to_owned()))
    }

    /// Watches the file for changes; `None` if the system cannot.
    pub fn watch_secrets(&self) -> Option<SecretsWatch> {
        let (sender, changed) = watch::channel(());
        let heard = sender.clone();
        let watched = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // Reading is not a change; otherwise reading the file would trigger another event.
            if event.map_or(true, |event| !event.kind.is_access()) {
                let _ = heard.send(());
            }
        });
        let looking = watched.and_then(|mut eyes| {
            let folder = self.file.parent().unwrap_or(Path::new("."));
            eyes.watch(folder, RecursiveMode::NonRecursive)
                .map(|()| eyes)
        });
        match looking {
            Ok(eyes) => Some(SecretsWatch {
                changed,
                _watcher: eyes,
                _sender: sender,
            }),
            Err(error) => {
                tracing::warn!(%error, "secrets that are stored from now on are masked only once they are used");
                None
            }
        }
    }

    /// Reads all secrets, with the key that decrypts them; none if there is no file.
    fn read_secrets(&self) -> Result<(SecretMap, Option<SealingKey>), HomeError> {
        let Some(text) = read_secret_text(&self.file)? else {
            return Ok((SecretMap::new(), None));
        };
        let key = self.read_sealing_key()?;
        Ok((self.unseal_secrets(&text, key)?, key))
    }

    fn unseal_secrets(&self, text: &str, key: Option<SealingKey>) -> Result<SecretMap, HomeError> {
        let Some(key) = key else {
            return Err(self.damaged_secrets(format!(
                "its key {} is gone, and without it nobody can read it",
                self.key.display()
            )));
        };
        let plain = sealed_text::open_sealed(&key, text)
            .map_err(|why| self.damaged_secrets(why.to_owned()))?;
        serde_json::from_slice(&plain)
            .map_err(|_| self.damaged_secrets("what is sealed in it cannot be read".to_owned()))
    }

    /// Writes all secrets, with the key that [`SecretStore::read_secrets`] returned. Only called after that read, so
    /// that an unreadable file is never overwritten.
    fn write_secrets(&self, all: &SecretMap, key: Option<SealingKey>) -> Result<(), HomeError> {
        let key = match key.map_or_else(|| self.read_sealing_key(), |key| Ok(Some(key)))? {
            Some(key) => key,
            None => self.create_sealing_key()?,
        };
        let plain = serde_json::to_vec(all).expect("texts and numbers are JSON");
        let text = sealed_text::seal_bytes(&key, &plain);
        durable::replace_file(&self.file, text.as_bytes(), Readers::OwnerOnly)
            .map_err(HomeError::unwritable(&self.file))
    }

    fn read_sealing_key(&self) -> Result<Option<SealingKey>, HomeError> {
        self.read_key_file()?
            .map(|stored| self.resolve_key(&stored))
            .transpose()
    }

    fn resolve_key(&self, stored: &KeyFileContent) -> Result<SealingKey, HomeError> {
        match stored {
            KeyFileContent::InFile(key) => Ok(*key),
            KeyFileContent::InKeychain(entry) => self.read_from_keychain(entry),
        }
    }

    /// Creates a key. Called under the lock, so that no other process creates one meanwhile.
    fn create_sealing_key(&self) -> Result<SealingKey, HomeError> {
        let key = random_bytes();
        let text = STANDARD.encode(key) + "\n";
        durable::create_file(&self.key, text.as_bytes(), Readers::OwnerOnly)
            .map_err(HomeError::unwritable(&self.key))?;
        Ok(key)
    }

    fn damaged_secrets(&self, why: String) -> HomeError {
        HomeError::Damaged {
            path: self.file.clone(),
            why,
            mend: secrets_advice(&self.file),
        }
    }
}

fn delete_keychain_entry(entry: &KeychainEntry) {
    if let Err(why) = entry.delete_entry() {
        tracing::warn!(
            why,
            "the keychain keeps a key of the secrets that is not needed"
        );
    }
}

fn parse_sealing_key(text: &str) -> Option<SealingKey> {
    STANDARD
        .decode(text.trim())
        .ok()
        .and_then(|bytes| SealingKey::try_from(bytes).ok())
}

fn secrets_advice(file: &Path) -> String {
    format!(
        "Nothing was changed. Restore both from one backup; or move {} aside and set the secrets again",
        file.display()
    )
}

/// Reads the text of a file that only its owner may read.
fn read_secret_text(path: &Path) -> Result<Option<String>, HomeError> {
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

/// Checks a name and a value; an error is a sentence.
fn check_secret(name: &str, value: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(fits) {
        return Err(format!(
            "{name:?} is not a secret's name: 1 to {MAX_NAME} letters, digits and . _ - / : @. Nothing was kept"
        ));
    }
    if value.is_empty() {
        return Err("the value is empty. Nothing was kept".to_owned());
    }
    if value.len() > MAX_VALUE {
        return Err(format!(
            "the value has more than {MAX_VALUE} bytes. Nothing was kept"
        ));
    }
    if value.contains('\0') {
        return Err(
            "the value has a NUL byte, which no variable can hold. Nothing was kept".to_owned(),
        );
    }
    Ok(())
}

fn now_ms() -> i64 {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}
