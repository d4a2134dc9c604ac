//! Aliases for people whom one text names and who need not be in the identity map. The map stays as it is: else the names
//! of strangers would be replaced in every file that an agent reads.

use super::person_checks::check_identifier;
use super::store::{IdentityMapStore, StoredKind, StoredMap, new_map};
use crate::home::error::HomeError;
use crate::home::runner_lock;
use crate::redact::people::PersonAliases;

/// The text in place of a name that can have no alias.
const HIDDEN: &str = "[name]";
/// A shorter text is a part of many words.
const MIN_HIDDEN_CHARS: usize = 4;
const MIN_PHONE_DIGITS: usize = 6;

/// A person whom a text may name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetPerson {
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
    pub fn prepare_met_people(&self, people: &[MetPerson]) -> Result<MetPeopleAliases, HomeError> {
        let mut map = self.read_or_create_map()?;
        let mut without_alias = Vec::new();
        for person in people {
            let given = std::iter::once(&person.name).chain(&person.identifiers);
            let mut given = given
                .map(|text| text.trim())
                .filter(|text| !text.is_empty());
            let Some(first) = given.next() else { continue };
            let first = (kind_of(first), first.to_owned());
            for text in std::iter::once(&*first.1).chain(given) {
                let kind = kind_of(text);
                // One that belongs to another person has the alias of that person.
                let added = check_identifier(kind.identifier_kind(), text)
                    .map(|checked| map.add_identifiers(&[first.clone(), (kind, checked)]));
                if added.is_err() && text.chars().count() >= MIN_HIDDEN_CHARS {
                    without_alias.push(text.to_owned());
                }
            }
        }
        without_alias.sort_by_key(|text| std::cmp::Reverse(text.len()));
        let aliases = map.to_aliases().map_err(|why| self.damaged(why))?;
        Ok(MetPeopleAliases {
            aliases,
            without_alias,
        })
    }

    /// Reads the map; without one, creates one without people.
    fn read_or_create_map(&self) -> Result<StoredMap, HomeError> {
        if let Some(map) = self.read_map()? {
            return Ok(map);
        }
        let _changing = runner_lock::lock_exclusively(&self.lock)?;
        if let Some(map) = self.read_map()? {
            return Ok(map);
        }
        let map = new_map();
        self.write_map(&map)?;
        Ok(map)
    }
}

/// Replaces people by aliases.
#[derive(Debug)]
pub struct MetPeopleAliases {
    aliases: PersonAliases,
    /// Texts that have no alias, the longest first.
    without_alias: Vec<String>,
}

impl MetPeopleAliases {
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
    use crate::home::{Home, NewPerson};

    fn met(name: &str, identifiers: &[&str]) -> MetPerson {
        MetPerson {
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
            met("Ann Bonny", &["ann@b.example", "+49 30 1234567"]),
            met("", &["+1 415 555 1234"]),
            met("Al", &[]),
            met("12345", &[]),
        ];
        let text = "Ann Bonny <ann@b.example>, +49301234567, +14155551234, Al, Alpha, 12345";
        let replace = || {
            let aliases = store.prepare_met_people(&people).expect("prepared");
            aliases.replace_people(text)
        };
        let first = replace();
        for name in ["Ann", "ann@", "1234567", "5551234", "12345,"] {
            assert!(!first.contains(name), "{first}");
        }
        assert!(first.ends_with(", Al, Alpha, [name]"), "{first}");
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
