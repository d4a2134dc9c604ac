//! Preserves the file's bytes in a place that matched loosely. Lines and characters that are equal in the old and the
//! new text stay as in the file.

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::match_tier::{MatchTier, PlainLine};

/// Longer texts (lines of the one times lines of the other) are replaced whole, since a comparison
/// takes that many steps.
const MAX_LINE_PAIRS: usize = 4_000_000;

/// The new text for a place, with the file's own bytes wherever it equals the old text. `fit`
/// indents a line as the file does; `end` is the ending of new lines. `None` if the place's lines
/// differ from the old text, or if the texts are too long.
pub(super) fn replace_preserving(
    place: &[u8],
    (old, new): (&str, &str),
    tier: MatchTier,
    fit: impl Fn(&str) -> Vec<u8>,
    end: &[u8],
) -> Option<Vec<u8>> {
    let old = old.replace("\r\n", "\n");
    let new = new.replace("\r\n", "\n");
    let file: Vec<&[u8]> = place.split_inclusive(|byte| *byte == b'\n').collect();
    let was: Vec<&str> = old.split_inclusive('\n').collect();
    let is: Vec<&str> = new.split_inclusive('\n').collect();
    if file.len() != was.len() || was.len().saturating_mul(is.len()) > MAX_LINE_PAIRS {
        return None;
    }
    let mut out = Vec::with_capacity(place.len() + new.len());
    for op in capture_diff_slices(Algorithm::Myers, &was, &is) {
        if let DiffOp::Equal { old_index, len, .. } = op {
            out.extend(file[old_index..old_index + len].concat());
            continue;
        }
        let mut before = op.old_range();
        for line in op.new_range() {
            let body = is[line].strip_suffix('\n');
            let fitted = fit(body.unwrap_or(is[line]));
            let (kept, kept_end) = match before.next() {
                Some(at) => {
                    let (there, there_end) = split_line_ending(file[at]);
                    let was = fit(was[at].strip_suffix('\n').unwrap_or(was[at]));
                    (change_line(there, &was, &fitted, tier), there_end)
                }
                None => (None, &[][..]),
            };
            out.extend(kept.unwrap_or(fitted));
            if body.is_some() {
                out.extend_from_slice(if kept_end.is_empty() { end } else { kept_end });
            }
        }
    }
    Some(out)
}

fn split_line_ending(line: &[u8]) -> (&[u8], &[u8]) {
    let body = line
        .strip_suffix(b"\n")
        .map_or(line, |body| body.strip_suffix(b"\r").unwrap_or(body));
    line.split_at(body.len())
}

/// Applies the difference of `was` and `is` to a line of the file; `None` if `was` is another line.
/// Trailing blanks are the file's if both texts have the same ones, otherwise the new text's.
fn change_line(there: &[u8], was: &[u8], is: &[u8], tier: MatchTier) -> Option<Vec<u8>> {
    let was = std::str::from_utf8(was).ok()?;
    let is = std::str::from_utf8(is).ok()?;
    let bare_was = was.trim_end();
    let bare_is = is.trim_end();
    let ahead: usize = bare_was
        .chars()
        .zip(bare_is.chars())
        .take_while(|(a, b)| a == b)
        .map(|(c, _)| c.len_utf8())
        .sum();
    let was_rest = &bare_was[ahead..];
    let is_rest = &bare_is[ahead..];
    let behind: usize = (was_rest.chars().rev().zip(is_rest.chars().rev()))
        .take_while(|(a, b)| a == b)
        .map(|(c, _)| c.len_utf8())
        .sum();
    // A line is replaced if only its indentation is unchanged.
    if bare_was[..ahead].trim().is_empty() && behind == 0 {
        return None;
    }
    let (bare, blanks) = there.split_at(there.trim_ascii_end().len());
    let length = |text: &str| PlainLine::from_line(text.as_bytes(), tier).bytes.len();
    let file = PlainLine::from_line(bare, tier);
    let quoted = PlainLine::from_line(bare_was.as_bytes(), tier);
    if file.bytes != quoted.bytes {
        return None;
    }
    let from = file.origin_offset(length(&bare_was[..ahead]));
    let to = file.origin_offset(length(&bare_was[..bare_was.len() - behind]));
    let middle = &is_rest.as_bytes()[..is_rest.len() - behind];
    let blanks_of = |text: &str| text.as_bytes()[text.trim_end().len()..].to_vec();
    let blanks = if blanks_of(was) == blanks_of(is) {
        blanks.to_vec()
    } else {
        blanks_of(is)
    };
    (from <= to).then(|| [&bare[..from], middle, &bare[to..], &blanks].concat())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::match_tier::MatchTier;
    use super::super::quote_search::{find_quote, fit_replacement};

    fn edited(text: &str, old: &str, new: &str) -> String {
        let found = find_quote(text.as_bytes(), old, MatchTier::Indentation).expect(text);
        assert!(found.tier > MatchTier::Exact, "{text:?}");
        let place = &found.places[0];
        let with = fit_replacement(text.as_bytes(), old, new, found.tier, place);
        let all = [
            &text.as_bytes()[..place.range.start],
            &with,
            &text.as_bytes()[place.range.end..],
        ]
        .concat();
        String::from_utf8(all).expect("whole characters")
    }

    #[test]
    fn what_is_the_same_in_both_texts_stays_as_the_file_has_it() {
        for (text, old, new, expect) in [
            // Typographic characters before and after a change in a line, and in unchanged lines.
            (
                "It’s “a” – no\n",
                "It's \"a\" - no",
                "It's \"a\" - yes",
                "It’s “a” – yes\n",
            ),
            (
                "say “no” – it’s…\n",
                "say \"no\" - it's...",
                "say \"yes\" - it's...",
                "say “yes” – it’s…\n",
            ),
            (
                "“one”\nit’s\n“two”\n",
                "\"one\"\nit's\n\"two\"\n",
                "\"one\"\nx\n\"two\"\n",
                "“one”\nx\n“two”\n",
            ),
            // Hard line breaks of Markdown.
            (
                "one  \ntwo  \nthree\n",
                "one\ntwo\nthree",
                "one\ntwenty\nthree",
                "one  \ntwenty  \nthree\n",
            ),
            (
                "one  \ntwo  \nthree\n",
                "one\ntwo\nthree",
                "one\nother\nthree",
                "one  \nother\nthree\n",
            ),
            (
                "one  \ntwo\n",
                "one\ntwo",
                "one\nnew\ntwo",
                "one  \nnew\ntwo\n",
            ),
            // Intended blanks: those of the old text are removed.
            ("one\t\ntwo\n", "one \ntwo", "one\ntwo!", "one\ntwo!\n"),
            // Quoted blanks that the file does not have.
            (
                "def f():\n    ...\n",
                "def f():  \n    ...  ",
                "def f(): ...",
                "def f(): ...\n",
            ),
            (
                "  end: Place\n\n",
                "  end: Place  \n  \n",
                "  end: Place\n  more: bool\n\n",
                "  end: Place\n  more: bool\n\n",
            ),
            // Line endings of both kinds.
            ("a\r\nb\nc\r\n", "a\nb\nc\n", "a\nB\nc\n", "a\r\nB\nc\r\n"),
            ("a\r\nb\r\nc\n", "a\nb\nc\n", "a\nc\n", "a\r\nc\n"),
            // Another indentation.
            (
                "\t\tif “a” {\n\t\t\tb()\n\t\t}\n",
                "if \"a\" {\n\tb()\n}\n",
                "if \"a\" {\n\tc()\n}\n",
                "\t\tif “a” {\n\t\t\tc()\n\t\t}\n",
            ),
            (
                "    a  \n    b\n",
                "a\nb\n",
                "a\nx\nb\n",
                "    a  \n    x\n    b\n",
            ),
        ] {
            assert_eq!(edited(text, old, new), expect, "{text:?} {old:?}");
        }
    }

    #[test]
    fn texts_of_many_lines_are_not_compared() {
        let lines = |line: &str| line.repeat(100_000);
        let numbered = (0..100_000)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join("\n");
        assert!(edited(&lines("“\n"), &lines("\"\n"), &numbered) == numbered);
    }

    proptest! {
        #[test]
        fn nothing_changes_where_the_texts_are_the_same(
            text in "([ \t]{0,2}[ab“’–…]{0,3}[ \t]{0,2}\r?\n){1,6}",
            line in 0_usize..6,
            lines in 1_usize..4,
        ) {
            // Quoted without trailing blanks, as a model would.
            let quoted: Vec<&str> = text.lines().skip(line).take(lines).map(str::trim_end).collect();
            let old = quoted.join("\n").replace('“', "\"").replace('’', "'").replace('–', "-").replace('…', "...");
            prop_assume!(!old.is_empty());
            if let Some(found) = find_quote(text.as_bytes(), &old, MatchTier::Indentation) {
                let place = &found.places[0];
                let same = fit_replacement(text.as_bytes(), &old, &old, found.tier, place);
                if found.tier > MatchTier::Exact {
                    prop_assert_eq!(String::from_utf8_lossy(&same), &text[place.range.clone()]);
                }
            }
        }
    }
}
