//! Finding identifiers in text, and their boundaries.

use punie_text::redact::people::{IdentifierKind, PersonAliases, PersonIdentifier, make_alias};

/// Makes the aliases of these identifiers, each with its code and number.
pub(super) fn person_aliases(identifiers: &[(IdentifierKind, &str, u32, u8)]) -> PersonAliases {
    let identifiers = identifiers
        .iter()
        .map(|(kind, text, code, number)| PersonIdentifier {
            kind: *kind,
            text: (*text).to_owned(),
            alias: make_alias(*kind, *code, *number).expect("a code with a digit"),
        });
    PersonAliases::new(identifiers.collect()).expect("few")
}

const ANNA: u32 = 30;

fn aliases_of_names(names: &[&str]) -> PersonAliases {
    let names: Vec<_> = names
        .iter()
        .zip(0..)
        .map(|(name, at)| (IdentifierKind::Name, *name, ANNA, at))
        .collect();
    person_aliases(&names)
}

fn alias_text(number: u8) -> String {
    make_alias(IdentifierKind::Name, ANNA, number).expect("a code with a digit")
}

#[test]
fn a_name_is_found_in_every_spelling_and_not_within_a_word() {
    for (name, text, found) in cases! {
        ("Anna Smith", "ask ANNA SMITH.", "ask @."),
        ("Anna Smith", "Anna\n   Smith's", "@'s"),
        ("Anna Smith", "Anna \nSmith, Anna\u{a0}Smith", "@, @"),
        (
            "Anna Smith",
            "Joanna Smith, Anna Smithson, Anna Smith2",
            "Joanna Smith, Anna Smithson, Anna Smith2",
        ),
        ("Anna Smith", "Anna Smith_final.pdf x", "@_final.pdf x"),
        ("René Noé", "Rene\u{301} Noe\u{301}! RENÉ NOÉ", "@! @"),
        ("René Noé", "René Noéé", "René Noéé"),
        ("Andre Noe", "Andre Noe\u{301}", "Andre Noe\u{301}"),
        ("José", "Jose Joséphine", "Jose Joséphine"),
        ("Groß Max", "GROSS MAX, Groß Max", "@, @"),
        ("Nikos Papas", "ΝΙΚΟΣ, Nikos Papa\u{ad}s", "ΝΙΚΟΣ, @"),
        ("Νίκος Παπάς", "ΝΊΚΟΣ ΠΑΠΆΣ", "@"),
        ("Иван Петров", "ИВАН ПЕТРОВ и Иван Петрович", "@ и Иван Петрович"),
        ("田中太郎", "私は田中太郎です。", "私は@です。"),
        ("김민수", "김민수가 왔다", "@가 왔다"),
        ("สมชาย ใจดี", "คุณสมชาย ใจดีมา", "คุณ@มา"),
        ("יוסי כהן", "שלום יוסי כהן.", "שלום @."),
        ("O'Brien Pat", "O\u{2019}Brien Pat", "@"),
        ("Anna Smith", r#"{"a":"x\nAnna Smith\tAnna Smith"}"#, r#"{"a":"x\n@\t@"}"#),
        ("Anna Smith", "%20Anna Smith \\u003cAnna Smith", "%20@ \\u003c@"),
        (
            "Anna Smith",
            "\u{1b}[31mAnna Smith\u{1b}[0m \u{1b}[1;38;5;200mAnna Smith",
            "\u{1b}[31m@\u{1b}[0m \u{1b}[1;38;5;200m@",
        ),
    } {
        let people = aliases_of_names(&[name]);
        assert_eq!(
            people.replace_people(text),
            found.replace('@', &alias_text(0)),
            "{name} in {text:?}"
        );
    }
}

#[test]
fn the_longest_of_overlapping_names_counts_and_no_alias_is_replaced_again() {
    let people = aliases_of_names(&["Anna Smith", "Anna", "Anna Smith Jones", "Smith Person"]);
    let replaced = people
        .replace_people("Anna Smith Jones, Anna Smithson, anna smith, Anna, Anna Smith Person");
    let expected = format!(
        "{}, {} Smithson, {}, {}, {} Person",
        alias_text(2),
        alias_text(1),
        alias_text(0),
        alias_text(1),
        alias_text(0)
    );
    assert_eq!(replaced, expected);
    assert_eq!(people.replace_people(&expected), expected);
}

#[test]
fn a_phone_number_is_found_in_its_spellings_on_one_line() {
    let people = person_aliases(&[(IdentifierKind::Phone, "+49 30 1234567", ANNA, 1)]);
    let alias = make_alias(IdentifierKind::Phone, ANNA, 1).expect("a code with a digit");
    for number in [
        "+49 30 1234567",
        "+49 (0)30 123-45-67",
        "0049301234567",
        "030 / 123 45 67",
        "(030) 1234567",
        "+49\u{a0}30\u{a0}1234567",
        "(+49) 30 1234567",
    ] {
        let replaced = people.replace_people(number).into_owned();
        assert_eq!(replaced, alias, "{number}");
        let inside = format!("12 {number}; 5");
        assert_eq!(
            people.replace_people(&inside),
            format!("12 {alias}; 5"),
            "{number}"
        );
    }
    for other in [
        "9030123456712",
        "030 123\n4567",
        "030 1234568",
        "1030 1234567",
    ] {
        assert_eq!(people.replace_people(other), other);
    }
}

#[test]
fn a_mail_address_ends_where_its_host_ends() {
    let people = person_aliases(&[(IdentifierKind::Mail, "anna@x.org", ANNA, 1)]);
    let alias = make_alias(IdentifierKind::Mail, ANNA, 1).expect("a code with a digit");
    let text = "<Anna@X.org>, anna@x.org. joanna@x.org anna@x.org.uk my.anna@x.org ...anna@x.org \
                _anna@x.org_ my_anna@x.org \\tanna@x.org";
    let expected = format!(
        "<{alias}>, {alias}. joanna@x.org anna@x.org.uk my.anna@x.org ...{alias} \
             _{alias}_ my_anna@x.org \\t{alias}"
    );
    assert_eq!(people.replace_people(text), expected);
}

#[test]
fn text_right_after_an_alias_changes_nothing_in_the_way_back() {
    let people = person_aliases(&[
        (IdentifierKind::Name, "田中太郎", ANNA, 0),
        (IdentifierKind::Name, "Taro Tanaka", ANNA, 1),
        (IdentifierKind::Mail, "taro@x.jp", ANNA, 2),
    ]);
    for text in [
        "田中太郎b田中太郎2",
        "田中太郎@example.invalid",
        "Taro Tanaka-2, Taro Tanaka-b taro@x.jp",
        "x田中太郎Taro Tanaka",
    ] {
        let replaced = people.replace_people(text);
        let back = people.resolve_aliases(&replaced);
        assert_eq!(back, text, "{replaced}");
    }
}

#[test]
fn an_alias_inside_a_word_stays() {
    let people = aliases_of_names(&["Anna Smith"]);
    let alias = alias_text(0);
    for text in [
        format!("x{alias}"),
        format!("{alias}y"),
        format!("Jo{alias}, 2{alias}"),
    ] {
        assert_eq!(people.resolve_aliases(&text), text);
    }
    assert_eq!(
        people.resolve_aliases(&format!("\\n{alias}: _{alias}_")),
        "\\nAnna Smith: _Anna Smith_"
    );
}

#[test]
fn an_alias_in_a_pattern_is_understood_escaped_or_not() {
    let people = person_aliases(&[
        (IdentifierKind::Name, "Ben O. Okoro-Smith", ANNA, 0),
        (IdentifierKind::Mail, "ben@x.org", ANNA, 1),
        (IdentifierKind::Phone, "+49 30 1234567", ANNA, 2),
    ]);
    let alias = |kind, number| make_alias(kind, ANNA, number).expect("a code with a digit");
    let name = alias(IdentifierKind::Name, 0);
    let mail = alias(IdentifierKind::Mail, 1);
    let phone = alias(IdentifierKind::Phone, 2);
    for (pattern, text) in [
        (format!(r"\b{name}\b"), "Ben O. Okoro-Smith"),
        (regex::escape(&name), "Ben O. Okoro-Smith"),
        (format!("(?:{name})?x"), "Ben O. Okoro-Smithx"),
        (format!("{name}?x"), "x"),
        (regex::escape(&mail), "ben@x.org"),
        (mail.replace('.', r"\."), "ben@x.org"),
        (mail, "ben@x.org"),
        (regex::escape(&phone), "+49 30 1234567"),
        (phone, "+49 30 1234567"),
    ] {
        let resolved = people.resolve_in_pattern(&pattern).into_owned();
        let whole = regex::Regex::new(&format!("^(?:{resolved})$")).expect("a pattern");
        assert!(whole.is_match(text), "{pattern} became {resolved}");
    }
    for other in ["person-0000000", r"a\+9991", "Person-k7q2mx"] {
        assert_eq!(people.resolve_in_pattern(other), other);
    }
}

#[test]
fn text_of_a_megabyte_without_words_is_read_once() {
    let people = aliases_of_names(&["Anna Smith"]);
    for text in [
        "a  ".repeat(330_000),
        format!("a{}", "\u{301}".repeat(500_000)),
        "\u{ad}".repeat(500_000),
        " ".repeat(1_000_000),
        "\u{1161}".repeat(300_000),
    ] {
        assert_eq!(people.replace_people(&text), text);
    }
}
