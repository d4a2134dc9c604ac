//! The owner's secrets, by name, in one encrypted file. Without the key nobody can read them, and any change to the
//! file is detected. Not here: its key (secrets_key), the runner's own tokens
//! (tokens), and passing secrets to commands (mounted_secrets).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::HomeError;
use super::folder_watch::{FolderSignal, FolderWatch};
use super::layout::Home;
use super::runner_lock;
use super::sealed_text::{self, SealingKey};
use super::secrets_key::{
    KeyFileContent, KeyPlace, SecretsKeyFile, read_secret_text, secrets_advice,
};

use super::private_files::replace_private_file;
use punie_core::clock::unix_time_ms;
use punie_text::redact::Secret;

/// The longest value, more than any key or certificate needs.
const MAX_VALUE: usize = 64 << 10;
const MAX_NAME: usize = 128;
/// The time within which further uses are not recorded.
const USE_INTERVAL_MS: i64 = 60_000;

/// The secrets of one home.
#[derive(Debug, Clone)]
pub struct SecretStore {
    file: PathBuf,
    /// The times of use, by name. Values are not in it.
    uses: PathBuf,
    key: SecretsKeyFile,
    lock: PathBuf,
}

/// The public part of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretEntry {
    /// The name by which skills request it.
    pub name: String,
    /// The time when it was set, in milliseconds since 1970.
    pub set_at_ms: i64,
    /// The request of an agent in answer to which it was last stored.
    pub asked: Option<SecretRequest>,
    /// The time when a command last got it, to a minute, in milliseconds since 1970.
    pub used_at_ms: Option<i64>,
}

/// An agent's request for a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretRequest {
    /// The request whose call asked.
    pub request: String,
    /// What it said that the secret is for.
    pub purpose: String,
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

/// The encrypted content, by name.
type SecretMap = BTreeMap<String, StoredSecret>;

#[derive(Serialize, Deserialize)]
struct StoredSecret {
    value: String,
    set_at_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked: Option<SecretRequest>,
}

impl SecretStore {
    /// Returns the secrets of this home.
    pub fn in_home(home: &Home) -> Self {
        Self {
            key: SecretsKeyFile::new(home.secrets_key_file(), home.secrets_file()),
            file: home.secrets_file(),
            uses: home.secret_uses_file(),
            lock: home.secrets_lock_file(),
        }
    }

    /// Returns the names, sorted.
    ///
    /// # Errors
    /// [`HomeError`] when the file or its key is damaged, missing, or open to others.
    pub fn list(&self) -> Result<Vec<SecretEntry>, HomeError> {
        let uses = self.read_uses();
        let entry = |(name, stored): (String, StoredSecret)| SecretEntry {
            used_at_ms: uses.get(&name).copied(),
            name,
            set_at_ms: stored.set_at_ms,
            asked: stored.asked,
        };
        Ok(self.read_secrets()?.0.into_iter().map(entry).collect())
    }

    /// Returns the value of this name, if there is one.
    ///
    /// # Errors
    /// As above.
    pub fn get(&self, name: &str) -> Result<Option<Secret<String>>, HomeError> {
        Ok(self
            .read_secrets()?
            .0
            .remove(name)
            .map(|stored| Secret::new(stored.value)))
    }

    /// Returns every value, for masking.
    ///
    /// # Errors
    /// As above.
    pub fn values(&self) -> Result<Vec<Secret<String>>, HomeError> {
        Ok(self
            .read_secrets()?
            .0
            .into_values()
            .map(|stored| Secret::new(stored.value))
            .collect())
    }

    /// Stores a value under this name, replacing an existing one. Returns whether the name is new.
    ///
    /// # Errors
    /// [`SecretError`] for a name or a value that cannot be used, and as above. The stored secrets are then unchanged.
    pub fn set_secret(&self, name: &str, value: &Secret<String>) -> Result<bool, SecretError> {
        self.set_asked_secret(name, value, None)
    }

    /// As [`SecretStore::set_secret`], in answer to this request.
    ///
    /// # Errors
    /// As there.
    pub fn set_asked_secret(
        &self,
        name: &str,
        value: &Secret<String>,
        asked: Option<SecretRequest>,
    ) -> Result<bool, SecretError> {
        check_secret(name, value.expose()).map_err(SecretError::Unusable)?;
        let _writing = runner_lock::lock_exclusively(&self.lock)?;
        let (mut all, key) = self.read_secrets()?;
        let stored = StoredSecret {
            value: value.expose().clone(),
            set_at_ms: unix_time_ms(),
            asked: asked.or_else(|| all.get(name)?.asked.clone()),
        };
        let is_new = all.insert(name.to_owned(), stored).is_none();
        self.write(&all, key)?;
        Ok(is_new)
    }

    /// Removes this name. Returns whether it existed.
    ///
    /// # Errors
    /// As [`SecretStore::list`], and when the file cannot be written.
    pub fn remove(&self, name: &str) -> Result<bool, HomeError> {
        let _writing = runner_lock::lock_exclusively(&self.lock)?;
        let (mut all, key) = self.read_secrets()?;
        let was_there = all.remove(name).is_some();
        if was_there {
            self.write(&all, key)?;
        }
        Ok(was_there)
    }

    /// Records that a command gets these secrets now. Only the list of secrets shows it: a failure changes nothing else.
    pub fn record_use<'n>(&self, names: impl Iterator<Item = &'n str>) {
        let mut uses = self.read_uses();
        let now = unix_time_ms();
        let mut is_changed = false;
        for name in names {
            let last = uses.entry(name.to_owned()).or_default();
            is_changed |= now - *last >= USE_INTERVAL_MS;
            *last = now;
        }
        if !is_changed {
            return;
        }
        let text = serde_json::to_vec(&uses).unwrap_or_default();
        if let Err(error) = replace_private_file(&self.uses, &text) {
            tracing::warn!(%error, "the last use of a secret is not recorded");
        }
    }

    fn read_uses(&self) -> BTreeMap<String, i64> {
        let text = read_secret_text(&self.uses).ok().flatten();
        text.and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default()
    }

    /// Returns the current or future place of the key.
    ///
    /// # Errors
    /// [`HomeError`] when its file cannot be read.
    pub fn key_place(&self) -> Result<KeyPlace, HomeError> {
        self.key.current_place()
    }

    /// Moves the key to this place, or creates it there. Returns whether the place changed.
    ///
    /// # Errors
    /// [`HomeError::Keychain`] if the keychain does not store or return it, and as [`SecretStore::list`]. The
    /// key is then still in its old place.
    pub fn move_key_to(&self, place: KeyPlace) -> Result<bool, HomeError> {
        let _writing = runner_lock::lock_exclusively(&self.lock)?;
        let stored = self.key.read()?;
        if stored
            .as_ref()
            .map_or(KeyPlace::File, KeyFileContent::location)
            == place
        {
            return Ok(false);
        }
        // The keychain may ask a person, so it is asked once.
        let key = stored
            .as_ref()
            .map(|stored| self.key.resolve(stored))
            .transpose()?;
        // A missing or wrong key is not moved, because that would hide the fault.
        if let Some(text) = read_secret_text(&self.file)? {
            self.unseal(&text, key)?;
        }
        self.key.move_to(place, stored.zip(key)).map(|()| true)
    }

    /// Watches the file for changes; `None` if the system cannot.
    pub fn watch(&self) -> Option<FolderSignal> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        FolderWatch::signal_changes(folder, |_| true)
            .inspect_err(|error| {
                tracing::warn!(%error, "secrets that are stored from now on are masked only once they are used");
            })
            .ok()
    }

    /// Reads all secrets, with the key that decrypts them; none if there is no file.
    fn read_secrets(&self) -> Result<(SecretMap, Option<SealingKey>), HomeError> {
        let Some(text) = read_secret_text(&self.file)? else {
            return Ok((SecretMap::new(), None));
        };
        let key = self.key.read_sealing_key()?;
        Ok((self.unseal(&text, key)?, key))
    }

    fn unseal(&self, text: &str, key: Option<SealingKey>) -> Result<SecretMap, HomeError> {
        let Some(key) = key else {
            return Err(self.damaged(format!(
                "its key {} is gone, and without it nobody can read it",
                self.key.path().display()
            )));
        };
        let plain =
            sealed_text::open_sealed(&key, text).map_err(|why| self.damaged(why.to_owned()))?;
        serde_json::from_slice(&plain)
            .map_err(|_| self.damaged("what is sealed in it cannot be read".to_owned()))
    }

    /// Writes all secrets, with the key that [`SecretStore::read_secrets`] returned. Only called after that read, so
    /// that an unreadable file is never overwritten.
    fn write(&self, all: &SecretMap, key: Option<SealingKey>) -> Result<(), HomeError> {
        let key = match key.map_or_else(|| self.key.read_sealing_key(), |key| Ok(Some(key)))? {
            Some(key) => key,
            None => self.key.create_sealing_key()?,
        };
        let plain = serde_json::to_vec(all).expect("texts and numbers are JSON");
        let text = sealed_text::seal_bytes(&key, &plain);
        replace_private_file(&self.file, text.as_bytes())
    }

    fn damaged(&self, why: String) -> HomeError {
        HomeError::Damaged {
            path: self.file.clone(),
            why,
            mend: secrets_advice(&self.file),
        }
    }
}

/// Checks the name of a secret; an error is a part of a sentence.
///
/// # Errors
/// The name has other characters, or is too long.
pub fn check_secret_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(fits) {
        return Err(format!(
            "{name:?} is not a secret's name: 1 to {MAX_NAME} letters, digits and . _ - / : @"
        ));
    }
    Ok(())
}

/// Checks a name and a value; an error is a sentence.
fn check_secret(name: &str, value: &str) -> Result<(), String> {
    check_secret_name(name).map_err(|why| format!("{why}. Nothing was kept"))?;
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
