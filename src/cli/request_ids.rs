//! The ids of requests as people type and read them: the last characters of an id, its beginning, or `@last`.

use std::collections::BTreeSet;

use super::exit::{CommandError, Exit};
use punie_engine::journal::JournalReader;
use punie_home::Home;

/// The word for the newest request of the journal.
pub const LAST: &str = "@last";
/// The fewest characters of an end that names an id.
const SHORTEST_END: usize = 4;
/// The most candidates that an error lists.
const MAX_CANDIDATES: usize = 5;

/// Finds the request that is meant by an id, its end, its beginning or `@last` in the journal; `None` if it knows none.
///
/// # Errors
/// Several requests are meant, or the journal cannot be read.
pub fn find_in_journal(
    reader: Option<&JournalReader>,
    typed: &str,
) -> anyhow::Result<Option<String>> {
    let Some(reader) = reader else {
        return Ok(None);
    };
    if typed == LAST {
        return Ok(reader.newest_id()?);
    }
    if typed.is_empty() {
        return Ok(None);
    }
    if reader.read_full_history(typed)?.is_some() {
        return Ok(Some(typed.to_owned()));
    }
    let limit = u32::try_from(MAX_CANDIDATES + 1).unwrap_or(u32::MAX);
    let mut alike = Vec::new();
    if typed.chars().count() >= SHORTEST_END {
        alike = reader.ids_ending_with(typed, limit)?;
    }
    if alike.is_empty() {
        alike = reader.ids_beginning_with(typed, limit)?;
    }
    match alike.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only.clone())),
        several => Err(several_meant(typed, several)),
    }
}

/// Finds the request as [`find_in_journal`] in this home. One that the journal does not know stays as it was typed:
/// another device's, or one of which only a backup or an audit row is left.
///
/// # Errors
/// As [`find_in_journal`]; and `@last` without any request.
pub fn expand_in_journal(home: &Home, typed: &str) -> anyhow::Result<String> {
    let reader = JournalReader::find(&home.journal_file())?;
    match find_in_journal(reader.as_ref(), typed)? {
        Some(id) => Ok(id),
        None if typed == LAST => Err(CommandError::with_exit(
            Exit::Failed,
            "there is no last request: this device has received none yet",
        )),
        None => Ok(typed.to_owned()),
    }
}

/// Finds the request as [`expand_in_journal`], or else among these ids, which may be older than the journal's memory.
///
/// # Errors
/// As [`expand_in_journal`]; and several of these ids are meant.
pub fn find_request<'i>(
    home: &Home,
    typed: &str,
    known: impl Iterator<Item = &'i str>,
) -> anyhow::Result<String> {
    let id = expand_in_journal(home, typed)?;
    let known: Vec<&str> = known.collect::<BTreeSet<_>>().into_iter().collect();
    let found = find_among(&known, &id, |id| id)?;
    Ok(found.map_or(id.clone(), |found| (*found).to_owned()))
}

/// Returns the one of these that has a matching id: the whole id, else its end, else its beginning.
///
/// # Errors
/// Several match.
pub fn find_among<'a, T>(
    items: &'a [T],
    typed: &str,
    id_of: impl Fn(&T) -> &str,
) -> anyhow::Result<Option<&'a T>> {
    if typed.is_empty() {
        return Ok(None);
    }
    if let Some(exact) = items.iter().find(|item| id_of(item) == typed) {
        return Ok(Some(exact));
    }
    let has_length = typed.chars().count() >= SHORTEST_END;
    let ends = |item: &&T| has_length && id_of(item).ends_with(typed);
    let mut alike: Vec<&T> = items.iter().filter(ends).collect();
    if alike.is_empty() {
        let begins = |item: &&T| id_of(item).starts_with(typed);
        alike = items.iter().filter(begins).collect();
    }
    match alike.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        several => {
            let ids: Vec<&str> = several.iter().map(|item| id_of(item)).collect();
            Err(several_meant(typed, &ids))
        }
    }
}

fn several_meant(typed: &str, ids: &[impl AsRef<str>]) -> anyhow::Error {
    let mut lines: Vec<&str> = ids.iter().map(AsRef::as_ref).take(MAX_CANDIDATES).collect();
    if ids.len() > MAX_CANDIDATES {
        lines.push("...");
    }
    CommandError::with_exit(
        Exit::Usage,
        format!(
            "several ids begin or end with {typed:?}; type more of the one you mean:\n  {}",
            lines.join("\n  ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_by_its_end_its_beginning_and_itself() {
        let ids = ["0199-aaaa-11112222", "0199-bbbb-33334444", "0199"];
        let find = |typed: &str| find_among(&ids, typed, |id| id);
        assert_eq!(find("33334444").expect("one"), Some(&ids[1]));
        assert_eq!(find("4444").expect("one"), Some(&ids[1]));
        assert_eq!(find("444").expect("too short"), None);
        assert_eq!(find("0199-a").expect("one"), Some(&ids[0]));
        assert_eq!(find("0199").expect("itself"), Some(&ids[2]));
        assert_eq!(find("zzzz").expect("none"), None);
        let error = find("0199-").expect_err("two").to_string();
        assert!(
            error.contains(ids[0]) && error.contains(ids[1]) && error.lines().count() == 3,
            "{error}"
        );
    }

    #[test]
    fn an_end_is_meant_before_a_beginning() {
        let ids = ["abcd-0000", "0000-abcd"];
        let found = find_among(&ids, "abcd", |id| id).expect("one");
        assert_eq!(found, Some(&ids[1]));
    }

    #[test]
    fn five_of_many_ids_are_listed() {
        let ids: Vec<String> = (0..9).map(|n| format!("{n}-same")).collect();
        let found = find_among(&ids, "same", |id| id);
        let error = found.expect_err("nine").to_string();
        assert!(
            error.contains("4-same") && !error.contains("5-same") && error.ends_with("..."),
            "{error}"
        );
    }
}
