//! The file of the identity map: reading, changing, and noticing changes of other processes.

use std::path::PathBuf;
use std::time::SystemTime;

use parking_lot::Mutex;
use ring::hmac;
use serde::{Deserialize, Serialize};

use super::person_checks::{check_identifier, comparable_form};
use crate::error::HomeError;
use crate::layout::Home;
use crate::secrets_key::SecretsKeyFile;
use crate::state_file::StateFile;
use crate::{runner_lock, sealed_text, tokens};
use punie_text::redact::people::{
    ALIAS_CODES, IdentifierKind, IdentityMapSource, PersonAliases, PersonIdentifier, make_alias,
};

/// The most identifiers of a person: their numbers are one letter of an alias.
const MAX_IDENTIFIERS: u8 = 32;
const MAX_PEOPLE: usize = 20_000;

/// The identity map of one home.
#[derive(Debug)]
pub struct IdentityMapStore {
    file: StateFile<String>,
    path: PathBuf,
    key: SecretsKeyFile,
    pub(super) lock: PathBuf,
    /// The file as it was when it was last loaded.
    loaded: Mutex<Option<FileStamp>>,
}

/// A person to add. All its identifiers get aliases of one person.
#[derive(Debug, Clone, Default)]
pub struct NewPerson {
    /// The full name.
    pub name: String,
    /// Other spellings of it.
    pub also: Vec<String>,
    /// Mail addresses.
    pub mails: Vec<String>,
    /// Phone numbers.
    pub phones: Vec<String>,
}

/// A person, as the owner sees it.
#[derive(Debug, Clone, Serialize)]
pub struct ListedPerson {
    /// The alias of the name.
    pub alias: String,
    /// The names, mail addresses and phone numbers, each with its alias.
    pub identifiers: Vec<(String, String)>,
}

/// The reason why the map cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum IdentityMapError {
    /// The person cannot be added or removed.
    #[error("{0}. Nothing was changed")]
    Refused(String),
    /// The map cannot be read or written.
    #[error(transparent)]
    Home(#[from] HomeError),
}

/// The state of the file. `None` inside if there is no file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp(Option<(u64, Option<SystemTime>, u64)>);

/// The content, encrypted as a whole.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredMap {
    version: u32,
    /// The key of the aliases, as hexadecimal digits.
    alias_key: String,
    people: Vec<StoredPerson>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPerson {
    code: u32,
    identifiers: Vec<StoredIdentifier>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredIdentifier {
    kind: StoredKind,
    number: u8,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StoredKind {
    Name,
    Mail,
    Phone,
}

impl StoredKind {
    pub(super) fn identifier_kind(self) -> IdentifierKind {
        match self {
            Self::Name => IdentifierKind::Name,
            Self::Mail => IdentifierKind::Mail,
            Self::Phone => IdentifierKind::Phone,
        }
    }
}

impl StoredIdentifier {
    fn comparable(&self) -> String {
        comparable_form(self.kind.identifier_kind(), &self.text)
    }
}

impl IdentityMapStore {
    /// Returns the identity map of this home.
    pub fn in_home(home: &Home) -> Self {
        Self {
            file: StateFile::new(home.identity_map_file()),
            path: home.identity_map_file(),
            key: SecretsKeyFile::new(home.identity_map_key_file(), home.identity_map_file()),
            lock: home.identity_map_lock_file(),
            loaded: Mutex::new(None),
        }
    }

    /// Adds a person, or identifiers to the person who has this name. Returns the person.
    ///
    /// # Errors
    /// [`IdentityMapError`], when an identifier cannot be used or belongs to another person.
    pub fn add_person(&self, person: &NewPerson) -> Result<ListedPerson, IdentityMapError> {
        let wanted = checked_identifiers(person).map_err(IdentityMapError::Refused)?;
        let _changing = runner_lock::lock_exclusively(&self.lock)?;
        let mut map = self.read()?.unwrap_or_else(new_map);
        let changed = map
            .add_identifiers(&wanted)
            .map_err(IdentityMapError::Refused)?;
        let listed = map.people[changed].to_listed();
        self.write(&map)?;
        Ok(listed)
    }

    /// Removes the person with this name or alias; `None` if there is none.
    ///
    /// # Errors
    /// [`HomeError`], when the map cannot be read or written.
    pub fn remove_person(&self, name: &str) -> Result<Option<ListedPerson>, HomeError> {
        let _changing = runner_lock::lock_exclusively(&self.lock)?;
        let Some(mut map) = self.read()? else {
            return Ok(None);
        };
        let Some(at) = map.people.iter().position(|person| person.is_called(name)) else {
            return Ok(None);
        };
        let removed = map.people.remove(at).to_listed();
        self.write(&map)?;
        Ok(Some(removed))
    }

    /// Returns all people in the order in which they were added; `None` without a map.
    ///
    /// # Errors
    /// [`HomeError`], when the map cannot be read.
    pub fn list_people(&self) -> Result<Option<Vec<ListedPerson>>, HomeError> {
        let map = self.read()?;
        Ok(map.map(|map| map.people.iter().map(StoredPerson::to_listed).collect()))
    }

    /// Returns the aliases; `None` without a map.
    ///
    /// # Errors
    /// As above.
    pub fn load_aliases(&self) -> Result<Option<PersonAliases>, HomeError> {
        let Some(map) = self.read()? else {
            return Ok(None);
        };
        map.to_aliases().map(Some).map_err(|why| self.damaged(why))
    }

    pub(super) fn read(&self) -> Result<Option<StoredMap>, HomeError> {
        let sealed = self.file.read().map_err(|error| match error {
            HomeError::Damaged { why, .. } => self.damaged(why),
            other => other,
        })?;
        let Some(sealed) = sealed else {
            return Ok(None);
        };
        let missing = || self.damaged(format!("its key {} is gone", self.key.path().display()));
        let key = self.key.read_sealing_key()?.ok_or_else(missing)?;
        let plain =
            sealed_text::open_sealed(&key, &sealed).map_err(|why| self.damaged(why.to_owned()))?;
        // The reader's message could show a name.
        let map: StoredMap = serde_json::from_slice(&plain)
            .map_err(|_| self.damaged("its content is of another version".to_owned()))?;
        Ok(Some(map))
    }

    /// Writes the map. Called under the lock and after a successful read, so that no unreadable map is replaced.
    pub(super) fn write(&self, map: &StoredMap) -> Result<(), HomeError> {
        let key = match self.key.read_sealing_key()? {
            Some(key) => key,
            None => self.key.create_sealing_key()?,
        };
        let plain = serde_json::to_vec(map).expect("texts and numbers are JSON");
        self.file.write(&sealed_text::seal_bytes(&key, &plain))
    }

    pub(super) fn damaged(&self, why: String) -> HomeError {
        HomeError::Damaged {
            path: self.path.clone(),
            why,
            mend: "Nothing was changed. Restore it and its key from one backup; or move it aside, which ends the \
                   replacing of names, and add the people again"
                .to_owned(),
        }
    }

    fn stamp(&self) -> FileStamp {
        let Ok(found) = std::fs::metadata(&self.path) else {
            return FileStamp(None);
        };
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(&found);
        #[cfg(not(unix))]
        let number = 0;
        FileStamp(Some((found.len(), found.modified().ok(), number)))
    }
}

impl IdentityMapSource for IdentityMapStore {
    fn load_if_changed(&self) -> Option<Result<Option<PersonAliases>, String>> {
        let mut loaded = self.loaded.lock();
        let stamp = self.stamp();
        if loaded.as_ref() == Some(&stamp) {
            return None;
        }
        let result = self.load_aliases();
        // A map that cannot be read is tried again at the next call.
        *loaded = result.is_ok().then_some(stamp);
        Some(result.map_err(|error| {
            format!(
                "Refused: this device replaces names of people in what it answers, and its list of them cannot be \
                 read. The owner must mend it at the device ({error})"
            )
        }))
    }
}

pub(super) fn new_map() -> StoredMap {
    StoredMap {
        version: 1,
        alias_key: punie_core::ids::to_hex(&tokens::random_bytes()),
        people: Vec::new(),
    }
}

fn checked_identifiers(person: &NewPerson) -> Result<Vec<(StoredKind, String)>, String> {
    let names = std::iter::once(&person.name).chain(&person.also);
    let names = names.map(|text| (StoredKind::Name, text));
    let mails = person.mails.iter().map(|text| (StoredKind::Mail, text));
    let phones = person.phones.iter().map(|text| (StoredKind::Phone, text));
    names
        .chain(mails)
        .chain(phones)
        .map(|(kind, text)| Ok((kind, check_identifier(kind.identifier_kind(), text)?)))
        .collect()
}

impl StoredMap {
    pub(super) fn to_aliases(&self) -> Result<PersonAliases, String> {
        let identifiers = self.people.iter().flat_map(StoredPerson::to_identifiers);
        PersonAliases::new(identifiers.collect())
    }

    /// Adds identifiers to the person of the first one, or to a new person. Returns the person's place.
    pub(super) fn add_identifiers(
        &mut self,
        wanted: &[(StoredKind, String)],
    ) -> Result<usize, String> {
        let (_, name) = wanted.first().ok_or("a person needs a name")?;
        let at = match self.people.iter().position(|person| person.is_called(name)) {
            Some(at) => at,
            None => self.create_person(name)?,
        };
        for (kind, text) in wanted {
            let mut identifier = StoredIdentifier {
                kind: *kind,
                number: 0,
                text: text.clone(),
            };
            let holder = self
                .people
                .iter()
                .position(|person| person.has_identifier(&identifier));
            match holder {
                Some(holder) if holder == at => continue,
                Some(_) => return Err(format!("{text:?} belongs to another person")),
                None => {}
            }
            let person = &mut self.people[at];
            // A number of a removed identifier is not given again.
            let last = person
                .identifiers
                .iter()
                .map(|identifier| identifier.number + 1)
                .max();
            identifier.number = last.unwrap_or(0);
            if identifier.number >= MAX_IDENTIFIERS {
                return Err(format!(
                    "a person has at most {MAX_IDENTIFIERS} names, mail addresses and phone numbers"
                ));
            }
            person.identifiers.push(identifier);
        }
        Ok(at)
    }

    /// Creates a person with a code that nobody has. It is derived from the first name, so that a map that is made again
    /// with the same key has the same aliases.
    fn create_person(&mut self, name: &str) -> Result<usize, String> {
        if self.people.len() >= MAX_PEOPLE {
            return Err(format!(
                "the map has {MAX_PEOPLE} people, the most that it takes"
            ));
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.alias_key.as_bytes());
        let text = comparable_form(IdentifierKind::Name, name);
        let code = (0..u32::MAX)
            .map(|attempt| {
                let tag = hmac::sign(&key, format!("{attempt} {text}").as_bytes());
                let four = tag.as_ref().first_chunk().expect("a tag has 32 bytes");
                u32::from_be_bytes(*four) % ALIAS_CODES
            })
            .find(|code| {
                make_alias(IdentifierKind::Name, *code, 0).is_some()
                    && self.people.iter().all(|person| person.code != *code)
            })
            .expect("there are more codes than people");
        self.people.push(StoredPerson {
            code,
            identifiers: Vec::new(),
        });
        Ok(self.people.len() - 1)
    }
}

impl StoredPerson {
    fn is_called(&self, name: &str) -> bool {
        let wanted = comparable_form(IdentifierKind::Name, name);
        self.to_identifiers().any(|identifier| {
            identifier.kind == IdentifierKind::Name
                && (comparable_form(identifier.kind, &identifier.text) == wanted
                    || identifier.alias.eq_ignore_ascii_case(name.trim()))
        })
    }

    fn has_identifier(&self, other: &StoredIdentifier) -> bool {
        let form = other.comparable();
        let mut own = self.identifiers.iter();
        own.any(|identifier| identifier.kind == other.kind && identifier.comparable() == form)
    }

    fn to_identifiers(&self) -> impl Iterator<Item = PersonIdentifier> + '_ {
        self.identifiers.iter().filter_map(|identifier| {
            let kind = identifier.kind.identifier_kind();
            Some(PersonIdentifier {
                kind,
                text: identifier.text.clone(),
                alias: make_alias(kind, self.code, identifier.number)?,
            })
        })
    }

    fn to_listed(&self) -> ListedPerson {
        let identifiers: Vec<_> = self
            .to_identifiers()
            .map(|identifier| (identifier.text, identifier.alias))
            .collect();
        let alias = identifiers.first().map(|(_, alias)| alias.clone());
        ListedPerson {
            alias: alias.unwrap_or_default(),
            identifiers,
        }
    }
}
