//! Edits in files that are not plain UTF-8: every byte that is not part of the place stays.

use std::fs;

use proptest::prelude::*;
use punie_host::encoding::FileEncoding;
use serde_json::json;

use super::Bench;

fn legacy(label: &str) -> FileEncoding {
    FileEncoding::from_label(label).expect("a known label")
}

fn stored(encoding: FileEncoding, text: &str) -> Vec<u8> {
    let body = encoding.encode_text(text).expect("it has all of them");
    [encoding.bom_bytes(), &body].concat()
}

/// Enough of a language that its encoding is told from the bytes.
const FRENCH: &str =
    "Le café du théâtre est fermé à midi.\nOù est passée la clé ?\nÇa coûte très cher.\n";
const JAPANESE: &str =
    "こんにちは、世界。これはテストです。\n日本語の文章を編集します。\n終わりです。\n";
const RUSSIAN: &str = "Съешь же ещё этих мягких французских булок.\nДа выпей чаю.\nКонец.\n";

#[tokio::test]
async fn an_edit_keeps_the_encoding_of_the_file() {
    for (encoding, content, old, new) in cases! {
        (legacy("windows-1252"), FRENCH, "fermé à midi", "ouvert dès l’été"),
        (legacy("shift_jis"), JAPANESE, "日本語の文章", "短い文"),
        (legacy("windows-1251"), RUSSIAN, "выпей чаю", "выпей ещё кофе"),
        (FileEncoding::Utf16Le, JAPANESE, "日本語の文章", "🦀の文"),
        (FileEncoding::Utf16Be, FRENCH, "Où est passée la clé ?\nÇa", "Rien.\nCela"),
        (FileEncoding::Utf8Bom, FRENCH, "Le café", "La gare"),
    } {
        for (from, to) in [("\n", "\n"), ("\n", "\r\n")] {
            let bench = Bench::new();
            let content = content.replace(from, to);
            let stored_new = new.replace(from, to);
            bench.put("f", stored(encoding, &content));
            let args = json!({"file_path": "f", "old_string": old, "new_string": new});
            bench.ok("Edit", args).await;
            let expected = content.replacen(&old.replace(from, to), &stored_new, 1);
            assert_eq!(
                fs::read(bench.root.join("f")).unwrap(),
                stored(encoding, &expected),
                "{} {to:?}",
                encoding.as_str()
            );
            let edits = json!([{"old_string": new, "new_string": old}]);
            bench
                .ok("MultiEdit", json!({"file_path": "f", "edits": edits}))
                .await;
            assert_eq!(
                fs::read(bench.root.join("f")).unwrap(),
                stored(encoding, &content)
            );
        }
    }
}

#[tokio::test]
async fn a_character_that_the_encoding_lacks_is_refused_by_name() {
    let bench = Bench::new();
    let before = stored(legacy("windows-1252"), FRENCH);
    bench.put("f", &before);
    for (tool, args) in [
        (
            "Edit",
            json!({"file_path": "f", "old_string": "café", "new_string": "🦀"}),
        ),
        (
            "MultiEdit",
            json!({"file_path": "f", "edits": [{"old_string": "café", "new_string": "🦀"}]}),
        ),
    ] {
        assert_error!(bench.refused(tool, args).await, InvalidArgs: "windows-1252", "U+1F980");
    }
    assert_eq!(fs::read(bench.root.join("f")).unwrap(), before);
}

#[tokio::test]
async fn a_second_spelling_of_a_character_is_left_as_it_is() {
    let bench = Bench::new();
    // Two codes of Shift_JIS stand for one character: 81 CA and EE F9 are both U+FFE2.
    let body = stored(legacy("shift_jis"), JAPANESE);
    let odd = [b"\xEE\xF9 \x81\xCA\n".as_slice(), &body].concat();
    bench.put("f", &odd);
    let args = json!({"file_path": "f", "old_string": "終わり", "new_string": "おわり"});
    bench.ok("Edit", args).await;
    let expected = [
        b"\xEE\xF9 \x81\xCA\n".as_slice(),
        &stored(legacy("shift_jis"), &JAPANESE.replace("終わり", "おわり")),
    ]
    .concat();
    assert_eq!(fs::read(bench.root.join("f")).unwrap(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn an_edit_changes_exactly_its_bytes_in_every_encoding(
        before in "[a-z é\n]{0,60}",
        old in "[A-Z]{3,8}",
        new in "[a-zé0-9\n]{0,20}",
        after in "[a-z é\n]{0,60}",
        which in 0_usize..5,
        crlf: bool,
    ) {
        // A text that tells its encoding, ahead of what varies.
        let encoding =
            [FileEncoding::Utf8, FileEncoding::Utf8Bom, FileEncoding::Utf16Le, FileEncoding::Utf16Be, legacy("windows-1252")][which];
        let ending = if crlf { "\r\n" } else { "\n" };
        let shape = |text: &str| text.replace('\n', ending);
        let (head, tail) = (shape(&format!("{FRENCH}{before}")), shape(&after));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new();
            let original = stored(encoding, &format!("{head}{old}{tail}"));
            bench.put("f", &original);
            bench.ok("Edit", json!({"file_path": "f", "old_string": old, "new_string": new})).await;
            let expected = stored(encoding, &format!("{head}{}{tail}", shape(&new)));
            prop_assert_eq!(fs::read(bench.root.join("f")).unwrap(), expected);
            if !new.is_empty() && !format!("{FRENCH}{before}{after}").contains(&new) {
                let back = bench.call("Edit", json!({"file_path": "f", "old_string": new, "new_string": old})).await;
                if back.is_ok() {
                    prop_assert_eq!(fs::read(bench.root.join("f")).unwrap(), original);
                }
            }
            Ok(())
        })?;
    }
}
