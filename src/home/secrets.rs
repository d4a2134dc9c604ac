//! The owner's secrets, by name: one sealed file, its key beside the device's. Not here: the runner's own tokens (tokens),
//! and giving secrets to commands (mounted).
//!
//! The key is a file that only this user may read, or, at the owner's wish, in the system's keychain, which the file then
//! says. That keeps the values out of backups and syncs of the home that leave `keys/` out, out of the way of whoever
//! looks at the file, and shows any change to it. It does not keep them from other programs of the same user.

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
use super::keychain::Entry;
use super::layout::Home;
use super::lock;
use super::modes;
use super::sealed::{self, Key};
use super::tokens::random_32;
use crate::durable::{self, Readers};
use crate::redact::Secret;

/// More than any key or certificate has.
const MAX_VALUE: usize = 64 << 10;
/// More than all of them together.
const MAX_FILE: u64 = 16 << 20;
const MAX_NAME: usize = 128;

/// The secrets of one home.
#[derive(Debug, Clone)]
pub struct Secrets {
    file: PathBuf,
    key: PathBuf,
    lock: PathBuf,
}

/// What is told of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretEntry {
    /// The name under which skills ask for it.
    pub name: String,
    /// When it was set, in milliseconds since 1970.
    pub set_at_ms: i64,
}

/// Tells of changes as long as it is kept.
#[derive(Debug)]
pub struct SecretsWatch {
    /// Changes whenever the file may have.
    pub changed: watch::Receiver<()>,
    _watcher: RecommendedWatcher,
    // Keeps the receiver from hearing "closed" should the system give the watcher up.
    _sender: watch::Sender<()>,
}

/// Why a secret cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The name or the value cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// The home's files.
    #[error(transparent)]
    Home(#[from] HomeError),
}

/// Where the key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyPlace {
    /// In a file of the home's, `keys/secrets.key`.
    File,
    /// In the system's keychain.
    Keychain,
}

/// How a key's file begins that says where the key is: then comes the name of the keychain's entry.
const ELSEWHERE: &str = "keychain ";

/// What the key's file holds.
enum Stored {
    /// The key.
    Here(Key),
    /// The entry of the keychain that does.
    Elsewhere(Entry),
}

impl Stored {
    fn entry(self) -> Option<Entry> {
        match self {
            Self::Here(_) => None,
            Self::Elsewhere(entry) => Some(entry),
        }
    }

    fn place(&self) -> KeyPlace {
        match self {
            Self::Here(_) => KeyPlace::File,
            Self::Elsewhere(_) => KeyPlace::Keychain,
        }
    }
}

/// What is sealed, by name.
type All = BTreeMap<String, Kept>;

#[derive(Serialize, Deserialize)]
struct Kept {
    value: String,
    set_at_ms: i64,
}

impl Secrets {
    /// Those of this home.
    pub fn of(home: &Home) -> Self {
        Self { file: home.secrets_file(), key: home.secrets_key_file(), lock: home.secrets_lock_file() }
    }

    /// The names, in their order.
    ///
    /// # Errors
    /// [`HomeError`] when the file or its key is damaged, gone, or open to others.
    pub fn list(&self) -> Result<Vec<SecretEntry>, HomeError> {
        let entry = |(name, kept): (String, Kept)| SecretEntry { name, set_at_ms: kept.set_at_ms };
        Ok(self.read()?.0.into_iter().map(entry).collect())
    }

    /// The value of this name, if there is one.
    ///
    /// # Errors
    /// As above.
    pub fn get(&self, name: &str) -> Result<Option<Secret<String>>, HomeError> {
        Ok(self.read()?.0.remove(name).map(|kept| Secret::new(kept.value)))
    }

    /// Every value, for masking.
    ///
    /// # Errors
    /// As above.
    pub fn values(&self) -> Result<Vec<Secret<String>>, HomeError> {
        Ok(self.read()?.0.into_values().map(|kept| Secret::new(kept.value)).collect())
    }

    /// Keeps a value under this name, in place of the one that may be there. Returns whether the name is new.
    ///
    /// # Errors
    /// [`SecretError`] for a name or a value that cannot be used, and as above. What was kept stays as it was then.
    pub fn set(&self, name: &str, value: &Secret<String>) -> Result<bool, SecretError> {
        check(name, value.expose()).map_err(SecretError::Unusable)?;
        let _writing = lock::wait_for(&self.lock)?;
        let (mut all, key) = self.read()?;
        let kept = Kept { value: value.expose().clone(), set_at_ms: now_ms() };
        let is_new = all.insert(name.to_owned(), kept).is_none();
        self.write(&all, key)?;
        Ok(is_new)
    }

    /// Forgets this name. Returns whether it was there.
    ///
    /// # Errors
    /// As [`Secrets::list`], and when the file cannot be written.
    pub fn remove(&self, name: &str) -> Result<bool, HomeError> {
        let _writing = lock::wait_for(&self.lock)?;
        let (mut all, key) = self.read()?;
        let was_there = all.remove(name).is_some();
        if was_there {
            self.write(&all, key)?;
        }
        Ok(was_there)
    }

    /// Where the key is, or will be.
    ///
    /// # Errors
    /// [`HomeError`] when its file cannot be read.
    pub fn key_place(&self) -> Result<KeyPlace, HomeError> {
        Ok(self.key_file()?.map_or(KeyPlace::File, |stored| stored.place()))
    }

    /// Moves the key, or makes it there. Returns whether it was elsewhere.
    ///
    /// # Errors
    /// [`HomeError::Keychain`] where the keychain does not keep it or does not give it, and as [`Secrets::list`]. The key
    /// is where it was then.
    pub fn keep_key_in(&self, place: KeyPlace) -> Result<bool, HomeError> {
        let _writing = lock::wait_for(&self.lock)?;
        let before = self.key_file()?;
        if before.as_ref().map_or(KeyPlace::File, Stored::place) == place {
            return Ok(false);
        }
        let key = before.as_ref().map(|stored| self.key_in(stored)).transpose()?;
        // A key that does not open what is sealed, or that is gone, is not moved: that would look as if all were well.
        if let Some(text) = text_of(&self.file)? {
            self.unsealed(&text, key)?;
        }
        let key = key.unwrap_or_else(random_32);
        let entry = match place {
            KeyPlace::File => None,
            KeyPlace::Keychain => Some(self.keep_in_keychain(&key)?),
        };
        let text =
            entry.as_ref().map_or_else(|| STANDARD.encode(key), |it| format!("{ELSEWHERE}{}", it.name()));
        let written = durable::replace_file(&self.key, format!("{text}\n").as_bytes(), Readers::OwnerOnly);
        // The file of before may be there again after a power cut, where writing did not get to its end.
        let before = before.and_then(Stored::entry).filter(|_| written.is_ok());
        self.forget_unnamed(before.into_iter().chain(entry));
        written.map(|()| true).map_err(HomeError::unwritable(&self.key))
    }

    /// Forgets those entries of the keychain that the key's file does not name. Writing may fail once the file is replaced:
    /// only it says which is needed.
    fn forget_unnamed(&self, entries: impl Iterator<Item = Entry>) {
        let Ok(now) = self.key_file() else { return };
        let named = now.and_then(Stored::entry);
        entries.filter(|entry| Some(entry) != named.as_ref()).for_each(|entry| forget(&entry));
    }

    /// What the key's file says, where there is one.
    fn key_file(&self) -> Result<Option<Stored>, HomeError> {
        let Some(text) = text_of(&self.key)? else { return Ok(None) };
        // What was read is not shown: it may be most of a key.
        let (stored, why) = match text.strip_prefix(ELSEWHERE) {
            Some(name) => {
                (Entry::named(name.trim()).map(Stored::Elsewhere), "it names no entry of the keychain")
            }
            None => (key_of(&text).map(Stored::Here), "it does not hold 32 bytes as base64"),
        };
        let damaged =
            || HomeError::Damaged { path: self.key.clone(), why: why.to_owned(), mend: mend(&self.file) };
        stored.map(Some).ok_or_else(damaged)
    }

    /// Under a new name, which it is only told by once it was seen to be there.
    fn keep_in_keychain(&self, key: &Key) -> Result<Entry, HomeError> {
        let entry = Entry::new();
        let told = |why| HomeError::Keychain { why, file: self.key.clone() };
        entry.keep(&Secret::new(STANDARD.encode(key))).map_err(told)?;
        let failed = match self.in_keychain(&entry) {
            Ok(given) if given == *key => return Ok(entry),
            Ok(_) => told("it gives something else than it was given".to_owned()),
            Err(failed) => failed,
        };
        forget(&entry);
        Err(failed)
    }

    fn in_keychain(&self, entry: &Entry) -> Result<Key, HomeError> {
        let told = |why| HomeError::Keychain { why, file: self.key.clone() };
        let value = entry.value().map_err(told)?;
        key_of(value.expose()).ok_or_else(|| told("what it gives is no key".to_owned()))
    }

    /// Tells when the file changes; none where the system cannot.
    pub fn watch(&self) -> Option<SecretsWatch> {
        let (sender, changed) = watch::channel(());
        let heard = sender.clone();
        let watched = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // Reading is no change, or looking at the file would set this off again.
            if event.map_or(true, |event| !event.kind.is_access()) {
                let _ = heard.send(());
            }
        });
        let looking = watched.and_then(|mut eyes| {
            let folder = self.file.parent().unwrap_or(Path::new("."));
            eyes.watch(folder, RecursiveMode::NonRecursive).map(|()| eyes)
        });
        match looking {
            Ok(eyes) => Some(SecretsWatch { changed, _watcher: eyes, _sender: sender }),
            Err(error) => {
                tracing::warn!(%error, "secrets that are stored from now on are masked only once they are used");
                None
            }
        }
    }

    /// All that is kept, with the key that opens it; nothing where there is no file.
    fn read(&self) -> Result<(All, Option<Key>), HomeError> {
        let Some(text) = text_of(&self.file)? else { return Ok((All::new(), None)) };
        let key = self.read_key()?;
        Ok((self.unsealed(&text, key)?, key))
    }

    fn unsealed(&self, text: &str, key: Option<Key>) -> Result<All, HomeError> {
        let Some(key) = key else {
            return Err(self.damaged(format!(
                "its key {} is gone, and without it nobody can read it",
                self.key.display()
            )));
        };
        let plain = sealed::open(&key, text).map_err(|why| self.damaged(why.to_owned()))?;
        serde_json::from_slice(&plain)
            .map_err(|_| self.damaged("what is sealed in it cannot be read".to_owned()))
    }

    /// Only after [`Secrets::read`] has read what is there, and with the key that it gave: a file that could not be read is
    /// never written over.
    fn write(&self, all: &All, key: Option<Key>) -> Result<(), HomeError> {
        let key = match key.map_or_else(|| self.read_key(), |key| Ok(Some(key)))? {
            Some(key) => key,
            None => self.new_key()?,
        };
        let plain = serde_json::to_vec(all).expect("texts and numbers are JSON");
        let text = sealed::seal(&key, &plain);
        durable::replace_file(&self.file, text.as_bytes(), Readers::OwnerOnly)
            .map_err(HomeError::unwritable(&self.file))
    }

    fn read_key(&self) -> Result<Option<Key>, HomeError> {
        self.key_file()?.map(|stored| self.key_in(&stored)).transpose()
    }

    fn key_in(&self, stored: &Stored) -> Result<Key, HomeError> {
        match stored {
            Stored::Here(key) => Ok(*key),
            Stored::Elsewhere(entry) => self.in_keychain(entry),
        }
    }

    /// Under the lock, so that nobody makes another one meanwhile.
    fn new_key(&self) -> Result<Key, HomeError> {
        let key = random_32();
        let text = STANDARD.encode(key) + "\n";
        durable::create_file(&self.key, text.as_bytes(), Readers::OwnerOnly)
            .map_err(HomeError::unwritable(&self.key))?;
        Ok(key)
    }

    fn damaged(&self, why: String) -> HomeError {
        HomeError::Damaged { path: self.file.clone(), why, mend: mend(&self.file) }
    }
}

fn forget(entry: &Entry) {
    if let Err(why) = entry.forget() {
        tracing::warn!(why, "the keychain keeps a key of the secrets that is not needed");
    }
}

fn key_of(text: &str) -> Option<Key> {
    STANDARD.decode(text.trim()).ok().and_then(|bytes| Key::try_from(bytes).ok())
}

fn mend(file: &Path) -> String {
    format!(
        "Nothing was changed. Restore both from one backup; or move {} aside and set the secrets again",
        file.display()
    )
}

/// The text of a file that only its owner may read.
fn text_of(path: &Path) -> Result<Option<String>, HomeError> {
    let Some(file) = modes::open_secret(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE + 1).read_to_end(&mut bytes);
    read.map_err(HomeError::unreadable(path))?;
    let damaged =
        |why: &str| HomeError::Damaged { path: path.to_owned(), why: why.to_owned(), mend: mend(path) };
    if bytes.len() as u64 > MAX_FILE {
        return Err(damaged("it is far too large"));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| damaged("it is not text"))
}

/// Says what is wrong with a name or a value, as a sentence.
fn check(name: &str, value: &str) -> Result<(), String> {
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
        return Err(format!("the value has more than {MAX_VALUE} bytes. Nothing was kept"));
    }
    if value.contains('\0') {
        return Err("the value has a NUL byte, which no variable can hold. Nothing was kept".to_owned());
    }
    Ok(())
}

fn now_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}
