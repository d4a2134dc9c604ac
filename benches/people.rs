//! Replacing 1,000 contacts in 1 MB of text: English, Japanese, Cyrillic. `cargo bench --bench people`.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use punie_text::redact::people::{IdentifierKind, PersonAliases, PersonIdentifier, make_alias};

const CONTACTS: u32 = 1_000;
const TEXT: usize = 1 << 20;

fn main() {
    divan::main();
}

fn contacts() -> PersonAliases {
    let mut identifiers = Vec::new();
    for at in 0..CONTACTS {
        let code = 31 + 32 * at;
        let letter = |shift: u32| char::from(b'a' + u8::try_from(at / shift % 26).unwrap_or(0));
        let cyrillic = |shift: u32| char::from_u32(0x430 + at / shift % 32).unwrap_or('а');
        let han = |shift: u32| char::from_u32(0x4e00 + at / shift % 700).unwrap_or('一');
        let name = match at % 3 {
            0 => format!("An{}a S{}ith{}", letter(1), letter(26), letter(7)),
            1 => format!("Ив{}н Пе{}ров{}", cyrillic(1), cyrillic(32), cyrillic(5)),
            _ => format!("田{}{}", han(1), han(3)),
        };
        for (kind, text) in [
            (IdentifierKind::Name, name),
            (IdentifierKind::Mail, format!("user{at}@example.org")),
            (
                IdentifierKind::Phone,
                format!("+49 30 {}", 1_000_000 + at * 7_919),
            ),
        ] {
            let number = u8::try_from(identifiers.len() % 3).unwrap_or(0);
            let alias = make_alias(kind, code, number).expect("a code with a digit");
            identifiers.push(PersonIdentifier { kind, text, alias });
        }
    }
    PersonAliases::new(identifiers).expect("not too many")
}

const ENGLISH: &str = "The answer that Anda Saith sent on 12 May 2026 was short: call +49 30 1000000, or write to the office. \
                       Nobody expected the 14,000 lines of the other file;\n    it was kept as it is.\n";
const JAPANESE: &str = "昨日の会議で田一一さんが新しい計画を説明しました。東京の天気は晴れで、カフェの前に人が並んでいました。\
                        電話は +49 30 1000000 です。\n";
const CYRILLIC: &str = "Вчера Иван Петров рассказал о новом плане, и никто не ожидал такого ответа; телефон +49 30 1000000. \
                        Погода в Москве была хорошей.\n";

#[divan::bench(args = [("english", ENGLISH), ("japanese", JAPANESE), ("cyrillic", CYRILLIC)])]
fn replace_people(bencher: Bencher<'_, '_>, (_, line): (&str, &str)) {
    let (people, text) = (contacts(), line.repeat(TEXT / line.len()));
    bencher
        .counter(BytesCount::new(text.len()))
        .bench_local(|| black_box(people.replace_people(black_box(&text))).len());
}

#[divan::bench]
fn prepare_the_search() -> PersonAliases {
    contacts()
}
