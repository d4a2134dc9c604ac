//! Aliases for people whom one text names and who need not be in the identity map. The map stays as it is: else the names
//! of strangers would be replaced in every file that an agent reads.

use super::person_checks::{MIN_PHONE_DIGITS, check_identifier};
use super::store::{IdentityMapStore, StoredKind, StoredMap, new_map};
use crate::error::HomeError;
use crate::runner_lock;
use punie_text::redact::people::PersonAliases;

/// The text in place of a name that can have no alias.
const HIDDEN: &str = "[name]";
/// A shorter text is a part of many words.
const MIN_HIDDEN_CHARS: usize = 4;

/// A person whom a text may name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedPerson {
    /// The name; it may be empty.
    pub name: String,
    /// Mail addresses, phone numbers, names of accounts.
    pub identifiers: Vec<String>,
}

impl IdentityMapStore {
    /// Prepares the replacing of these people and those of the map. The same person has the same alias in every text: the
    /// map's key makes it, and is created if there is none.
    ///
    /// # Errors
    /// [`HomeError`], when the map cannot be read or written.
    pub fn prepare_text_aliases(&self, people: &[NamedPerson]) -> Result<TextAliases, HomeError> {
        let mut map = self.read_or_create()?;
        let mut without_alias = Vec::new();
        for person in people {
            let texts = std::iter::once(&person.name).chain(&person.identifiers);
            let texts = texts
                .map(|text| text.trim())
                .filter(|text| !text.is_empty());
            let mut first = None;
            for text in texts {
                let kind = kind_of(text);
                match check_identifier(kind.identifier_kind(), text) {
                    Ok(checked) => {
                        let first = first.get_or_insert_with(|| (kind, checked.clone())).clone();
                        // One that belongs to another person has the alias of that person.
                        let _ = map.add_identifiers(&[first, (kind, checked)]);
                    }
                    Err(_) if text.chars().count() >= MIN_HIDDEN_CHARS => {
                        without_alias.push(text.to_owned());
                    }
                    Err(_) => {}
                }
            }
        }
        without_alias.sort_by_key(|text| std::cmp::Reverse(text.len()));
        let aliases = map.to_aliases().map_err(|why| self.damaged(why))?;
        Ok(TextAliases {
            aliases,
            without_alias,
        })
    }

    /// Reads the map; without one, creates one without people.
    fn read_or_create(&self) -> Result<StoredMap, HomeError> {
        if let Some(map) = self.read()? {
            return Ok(map);
        }
        let _changing = runner_lock::lock_exclusively(&self.lock)?;
        if let Some(map) = self.read()? {
            return Ok(map);
        }
        let map = new_map();
        self.write(&map)?;
        Ok(map)
    }
}

/// Replaces people by aliases.
#[derive(Debug)]
pub struct TextAliases {
    aliases: PersonAliases,
    /// Texts that have no alias, the longest first.
    without_alias: Vec<String>,
}

impl TextAliases {
    /// Replaces the people in a text.
    pub fn replace_people(&self, text: &str) -> String {
        let mut replaced = self.aliases.replace_people(text).into_owned();
        for name in &self.without_alias {
            replaced = replaced.replace(name, HIDDEN);
        }
        replaced
    }
}

fn kind_of(text: &str) -> StoredKind {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    if text.contains('@') {
        StoredKind::Mail
    } else if digits >= MIN_PHONE_DIGITS && !text.contains(char::is_alphabetic) {
        StoredKind::Phone
    } else {
        StoredKind::Name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Home, NewPerson};

    fn person(name: &str, identifiers: &[&str]) -> NamedPerson {
        NamedPerson {
            name: name.to_owned(),
            identifiers: identifiers.iter().map(|&text| text.to_owned()).collect(),
        }
    }

    #[test]
    fn people_of_a_text_have_lasting_aliases_and_the_map_stays_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = Home::open_home(&folder.path().join("home")).expect("a home");
        let store = IdentityMapStore::in_home(&home);
        let people = [
            person("Ann Bonny", &["ann@b.example", "+49 30 1234567"]),
            person("", &["+1 415 555 1234"]),
            person("Al", &[]),
            person("12345", &["al@b.example"]),
        ];
        let text =
            "Ann Bonny <ann@b.example>, +49301234567, +14155551234, Al, Alpha, 12345, al@b.example";
        let replace = || {
            let aliases = store.prepare_text_aliases(&people).expect("prepared");
            aliases.replace_people(text)
        };
        let first = replace();
        for name in ["Ann", "ann@", "1234567", "5551234", "12345,", "al@"] {
            assert!(!first.contains(name), "{first}");
        }
        assert!(first.contains(", Al, Alpha, [name], person-"), "{first}");
        assert_eq!(replace(), first);
        assert_eq!(
            store.list_people().expect("read").map(|all| all.len()),
            Some(0)
        );
        let known = NewPerson {
            name: "Ann Bonny".to_owned(),
            ..NewPerson::default()
        };
        let alias = store.add_person(&known).expect("added").alias;
        assert!(replace().starts_with(&alias), "{alias} is her alias");
    }
}
