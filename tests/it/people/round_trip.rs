//! Replacing people and resolving their aliases on long texts of many contacts, whole and in pieces.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use punie_text::redact::Redactor;
use punie_text::redact::people::{IdentifierKind, IdentityMapSource, PersonAliases};

use super::aliases::person_aliases;

const CONTACTS: u32 = 300;
const FIRST: &[&str] = &[
    "José",
    "Anna",
    "Zoë",
    "Иван",
    "Søren",
    "יוסי",
    "محمد",
    "Anna Maria",
    "Łukasz",
    "Ελένη",
];
const LAST: &[&str] = &[
    "Müller",
    "Smith",
    "Петров",
    "כהן",
    "حسن",
    "Smith Jones",
    "Nuñez",
    "Παπάς",
    "Ng",
    "Đặng",
];
const HAN: &[&str] = &["田中", "佐藤", "王", "김", "鈴木"];
const HAN_GIVEN: &[&str] = &["太郎", "花子", "小明", "민수", "一郎", "美咲"];
/// Text between names. None of it continues a name or a number.
const BETWEEN: &[&str] = &[
    " and ", "; ", ".\n", " (", ") ", ", x ", " — ", "\t", " Mr. ", "/",
];

/// A contact: a name, a mail address, a phone number.
fn nth_contact(at: u32) -> [(IdentifierKind, String); 3] {
    let index = at as usize;
    let name = if index % 5 == 4 {
        let number = char::from_u32(0x4e00 + at).expect("a Han character");
        format!("{}{}{number}", HAN[index % 25 / 5], HAN_GIVEN[index % 6])
    } else {
        // Some of these names are prefixes of others.
        format!(
            "{} {}{}",
            FIRST[index % 10],
            LAST[index / 10 % 10],
            ["", " Ü", " Ива", " ש"][index / 100 % 4]
        )
    };
    [
        (IdentifierKind::Name, name),
        (
            IdentifierKind::Mail,
            format!("user{at}@mail{}.example.org", at % 7),
        ),
        (
            IdentifierKind::Phone,
            format!("+49 30 {}", 1_000_000 + at * 7_919),
        ),
    ]
}

fn all_contacts() -> Vec<(IdentifierKind, String)> {
    (0..CONTACTS).flat_map(nth_contact).collect()
}

fn aliases_of(contacts: &[(IdentifierKind, String)]) -> PersonAliases {
    // Each code has a digit, as an alias needs one.
    let rows: Vec<_> = contacts
        .iter()
        .enumerate()
        .map(|(at, (kind, text))| {
            let at = u32::try_from(at).expect("few");
            (
                *kind,
                text.as_str(),
                31 + 32 * (at / 3),
                u8::try_from(at % 3).expect("three"),
            )
        })
        .collect();
    person_aliases(&rows)
}

/// One spelling of an identifier.
fn spell_identifier((kind, text): &(IdentifierKind, String), way: usize) -> String {
    use unicode_normalization::UnicodeNormalization as _;
    match (kind, way) {
        (IdentifierKind::Phone, 0) => text.replace(' ', "-"),
        (IdentifierKind::Phone, 1) => text.replace("+49 30 ", "030/"),
        (IdentifierKind::Phone, 2) => text.replace("+49 30 ", "(030) "),
        (IdentifierKind::Phone, 3) => text.replace("+49 30 ", "+49 (0)30 "),
        (IdentifierKind::Name | IdentifierKind::Mail, 0) => text.to_uppercase(),
        (IdentifierKind::Name, 1) => text.nfd().collect(),
        (IdentifierKind::Name, 2) => text.replace(' ', "\n  "),
        _ => text.clone(),
    }
}

struct FixedMap(std::sync::atomic::AtomicBool);

impl IdentityMapSource for FixedMap {
    fn load_if_changed(&self) -> Option<Result<Option<PersonAliases>, String>> {
        let is_first = !self.0.swap(true, std::sync::atomic::Ordering::Relaxed);
        is_first.then(|| Ok(Some(aliases_of(&all_contacts()))))
    }
}

#[test]
fn no_two_contacts_share_an_alias() {
    let contacts = all_contacts();
    let aliases = aliases_of(&contacts);
    let mut all: Vec<_> = contacts
        .iter()
        .map(|(_, text)| aliases.replace_people(text).into_owned())
        .collect();
    for (alias, (_, text)) in all.iter().zip(&contacts) {
        assert_ne!(alias, text);
        assert_eq!(aliases.resolve_aliases(alias), *text);
    }
    all.sort();
    all.dedup();
    assert_eq!(all.len(), contacts.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn replacing_and_resolving_is_the_identity_up_to_spelling(
        parts in vec((0..CONTACTS as usize * 3, 0..5_usize, 0..BETWEEN.len()), 1..120),
        cuts in vec(1..40_usize, 1..200),
    ) {
        let contacts = all_contacts();
        let redactor = Redactor::default();
        redactor.set_identity_map(Arc::new(FixedMap(false.into())));
        let (mut text, mut canonical) = (String::new(), String::new());
        for (at, way, between) in &parts {
            text.push_str(&spell_identifier(&contacts[*at], *way));
            canonical.push_str(&contacts[*at].1);
            text.push_str(BETWEEN[*between]);
            canonical.push_str(BETWEEN[*between]);
        }
        let replaced = redactor.mask(&text).0.into_owned();
        prop_assert_eq!(redactor.resolve_aliases(&replaced), canonical);
        // The stream masker must give the same text, wherever the pieces are cut.
        let mut stream = redactor.stream_masker();
        let (mut out, mut rest, mut lengths) = (Vec::new(), text.as_bytes(), cuts.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((*lengths.next().expect("a cycle")).min(rest.len()));
            stream.push(piece, &mut out);
            rest = after;
        }
        stream.finish(&mut out);
        prop_assert_eq!(String::from_utf8(out).expect("text"), replaced);
    }

    #[test]
    fn a_name_inside_a_word_stays(at in 0..CONTACTS as usize, before in "[a-zé]{1,3}", after in "[a-zя]{1,3}") {
        let contacts = all_contacts();
        let (_, name) = &contacts[at * 3];
        prop_assume!(at % 5 != 4);
        let aliases = aliases_of(&contacts[at * 3..=at * 3]);
        for text in [format!("{before}{name}"), format!("{name}{after}")] {
            prop_assert_eq!(aliases.replace_people(&text), text.as_str());
        }
    }
}
