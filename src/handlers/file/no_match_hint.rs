//! Explains a failed search for a quoted text: the nearest block and its first difference. Its work is bounded for any
//! file. It never affects a match.

use std::collections::HashMap;
use std::fmt::Write as _;

use memchr::memmem;

use super::block_search::LineTable;
use super::first_line_difference::find_first_difference;
use super::line_diff_hint::is_invisible_char;
use super::match_tier::{MatchTier, PlainLine};

use punie_text::output::{SecretBoundaries, number_format};

/// The bytes of a text that are searched.
const MAX_SEARCHED_BYTES: usize = 4 << 20;
/// The lines that are searched, because each line has a cost of its own.
const MAX_SEARCHED_LINES: usize = 1 << 20;
/// A line that occurs more often in the quote says too little about the block's start.
const MAX_VOTES_PER_LINE: usize = 4;
/// Bytes of a line that are compared.
const MAX_COMPARED_BYTES: usize = 400;
/// Lines shown of the nearest block.
const MAX_BLOCK_LINES: usize = 12;
/// Characters shown of a line.
const MAX_LINE_CHARS: usize = 160;
/// The similarity (0 to 1) below which lines are not shown.
const MIN_SIMILARITY: f64 = 0.45;
/// The length of a quote part that is unlikely to occur in a long line by chance.
const ANCHOR_BYTES: usize = 24;

/// Describes the nearest match for `old` and its first difference; `None` if nothing is near.
pub(super) fn explain_unmatched_quote(
    text: &[u8],
    old: &str,
    uncut: &SecretBoundaries,
) -> Option<String> {
    let whole = text.len();
    let head = &text[..whole.min(MAX_SEARCHED_BYTES)];
    let head = if head.len() < whole {
        &head[..uncut.cut_end_before(head, head.len(), false)]
    } else {
        head
    };
    // The hint quotes parts of lines. Masking first ensures that no part of a secret is quoted.
    let masked = uncut.mask_bytes(head);
    let text = &*masked;
    let mut lines = LineTable::split_lines(text, 0);
    lines.truncate(MAX_SEARCHED_LINES);
    let quoted: Vec<&str> = old.lines().collect();
    let mut said = match find_nearest_block(&lines, &quoted) {
        Some(start) => Some(describe_nearest_block(&lines, &quoted, old, start)),
        None => find_line_fragment(&lines, old),
    };
    let end = lines.text.len();
    if head.len() < whole || end < text.len() {
        let note = format!(
            "\nOnly the first {} were looked at for what is near.",
            number_format::format_size(end as u64)
        );
        said.get_or_insert_with(|| "Nothing that was looked at is like it.".to_owned())
            .push_str(&note);
    }
    said
}

/// Describes the block that begins at a line, and its first difference.
fn describe_nearest_block(
    lines: &LineTable<'_>,
    quoted: &[&str],
    old: &str,
    start: usize,
) -> String {
    let count = quoted.len().min(lines.len() - start);
    let body = |line: usize| lines.body(line);
    let mut out = format!(
        "The nearest block is at line{} {}",
        if count == 1 { "" } else { "s" },
        start + 1
    );
    if count > 1 {
        let _ = write!(out, "-{}", start + count);
    }
    out.push_str(":\n");
    for line in start..start + count.min(MAX_BLOCK_LINES) {
        let _ = writeln!(out, "{:>6}\t{}", line + 1, clip_line_bytes(body(line)));
    }
    if count > MAX_BLOCK_LINES {
        let _ = writeln!(out, "[... {} more lines]", count - MAX_BLOCK_LINES);
    }
    let there: Vec<&[u8]> = (start..start + count).map(body).collect();
    if let Some((at, how)) = find_first_difference(&there, quoted, old.ends_with('\n')) {
        let _ = write!(
            out,
            "First difference, line {}: the file has {:?}, old_string has {:?}.{how}",
            start + at + 1,
            clip_line_bytes(there[at]),
            clip_line(quoted[at]),
        );
        return out;
    }
    if let Some(wanted) = quoted.get(count) {
        let _ = write!(
            out,
            "The file ends before line {} of old_string: {:?}.",
            count + 1,
            clip_line(wanted)
        );
        return out;
    }
    let last = start + count - 1;
    if old.ends_with('\n') && last + 1 == lines.len() && !lines.ends_in_newline(last) {
        out.push_str(
            "The lines are the same, but the file does not end in a line ending, and old_string does.",
        );
    } else {
        out.push_str(
            "The lines are the same; they differ in what comes before or after (a line ending or a part of a line).",
        );
    }
    out
}

fn clip_line(line: &str) -> String {
    let mut short: String = line.chars().take(MAX_LINE_CHARS).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

fn clip_line_bytes(line: &[u8]) -> String {
    // The widest character has four bytes.
    let head = &line[..line.len().min(4 * MAX_LINE_CHARS + 4)];
    let mut short = clip_line(&String::from_utf8_lossy(head));
    if head.len() < line.len() && !short.ends_with('…') {
        short.push('…');
    }
    short
}

/// The line without invisible characters; of a long line only its beginning.
fn visible_line<'b>(line: &[u8], buffer: &'b mut Vec<u8>) -> &'b [u8] {
    buffer.clear();
    let line = &line[..line.len().min(2 * MAX_COMPARED_BYTES)];
    if line.is_ascii() {
        let visible = line.iter().filter(|byte| !byte.is_ascii_whitespace());
        buffer.extend(visible.map(u8::to_ascii_lowercase));
        return buffer;
    }
    let plain = PlainLine::from_line(line, MatchTier::Typography);
    for chunk in plain.bytes.utf8_chunks() {
        let visible = chunk
            .valid()
            .chars()
            .filter(|c| !is_invisible_char(*c) && !c.is_whitespace());
        for c in visible.flat_map(char::to_lowercase) {
            buffer.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        if !chunk.invalid().is_empty() {
            buffer.extend_from_slice("\u{FFFD}".as_bytes());
        }
    }
    buffer
}

/// Finds the first line of the block that shares most lines with the quote, or has the most similar
/// one.
fn find_nearest_block(lines: &LineTable<'_>, quoted: &[&str]) -> Option<usize> {
    let mut buffer = Vec::new();
    let wanted: Vec<Vec<u8>> = quoted
        .iter()
        .map(|line| visible_line(line.as_bytes(), &mut buffer).to_vec())
        .collect();
    let mut places: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (at, line) in wanted
        .iter()
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
    {
        let places = places.entry(line).or_default();
        if places.len() < MAX_VOTES_PER_LINE {
            places.push(at);
        }
    }
    let (anchor, key) = wanted
        .iter()
        .enumerate()
        .max_by_key(|(_, line)| line.len())?;
    if key.is_empty() {
        return None;
    }
    let lengths: Vec<bool> = {
        let longest = wanted.iter().map(Vec::len).max().unwrap_or_default();
        (0..=longest)
            .map(|length| places.keys().any(|line| line.len() == length))
            .collect()
    };
    let key_bits = byte_pair_set(key);
    // A line that is in both votes for the block's start. A line of one character, such as a brace,
    // occurs often, so its vote weighs less: only most of the quoted lines together decide.
    let wanted_lines = wanted.iter().filter(|line| !line.is_empty()).count();
    let mut votes = vec![0_usize; lines.len()];
    let mut alike = (0.0, 0);
    for line in 0..lines.len() {
        let body = visible_line(lines.body(line), &mut buffer);
        if lengths.get(body.len()).copied().unwrap_or_default() {
            for at in places.get(body).into_iter().flatten() {
                votes[line.saturating_sub(*at)] += if body.len() > 1 { wanted_lines } else { 1 };
            }
        }
        let score = pair_similarity(&byte_pair_set(body), &key_bits);
        if score > alike.0 {
            alike = (score, line);
        }
    }
    let best = votes
        .iter()
        .enumerate()
        .max_by_key(|(start, votes)| (**votes, usize::MAX - *start));
    match best {
        Some((start, votes)) if *votes > wanted_lines / 2 => Some(start),
        _ => (alike.0 >= MIN_SIMILARITY).then(|| alike.1.saturating_sub(anchor)),
    }
}

/// The byte pairs of a line, as a set of 256 bits.
fn byte_pair_set(line: &[u8]) -> [u64; 4] {
    let mut bits = [0_u64; 4];
    for pair in line.windows(2).take(MAX_COMPARED_BYTES) {
        let at = pair[0].wrapping_mul(31) ^ pair[1].wrapping_mul(167);
        bits[usize::from(at >> 6)] |= 1 << (at & 63);
    }
    bits
}

/// The overlap of two sets of pairs (0 to 1).
fn pair_similarity(a: &[u64; 4], b: &[u64; 4]) -> f64 {
    let count = |bits: &mut dyn Iterator<Item = u64>| bits.map(u64::count_ones).sum::<u32>();
    let both = count(&mut a.iter().zip(b).map(|(a, b)| a & b));
    let any = count(&mut a.iter().zip(b).map(|(a, b)| a | b));
    if any == 0 {
        0.0
    } else {
        f64::from(both) / f64::from(any)
    }
}

/// Finds a piece of the quote in the file. A long line is never similar as a whole.
fn find_line_fragment(lines: &LineTable<'_>, old: &str) -> Option<String> {
    let text = lines.text;
    let old = old.trim();
    let cut = |from: usize| {
        old.char_indices()
            .map(|(at, _)| at)
            .find(|at| *at >= from)
            .unwrap_or(old.len())
    };
    let pieces = [0, old.len() / 4, old.len() / 2, old.len() * 3 / 4];
    let (begin, at) = pieces.into_iter().find_map(|from| {
        let begin = cut(from);
        let end = cut(from + ANCHOR_BYTES);
        let piece = old[begin..end]
            .lines()
            .next()
            .filter(|piece| piece.len() >= ANCHOR_BYTES / 2)?;
        memmem::find(text, piece.as_bytes()).map(|at| (begin, at))
    })?;
    let line = lines.number_at(at);
    // Extends the match while both sides are equal.
    let ahead = text[at..]
        .iter()
        .zip(&old.as_bytes()[begin..])
        .take_while(|(a, b)| a == b)
        .count();
    let back = text[..at]
        .iter()
        .rev()
        .zip(old.as_bytes()[..begin].iter().rev())
        .take_while(|(a, b)| a == b);
    let from = at - back.count();
    let around = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let rest = |bytes: &[u8]| around(&bytes[..bytes.len().min(60)]);
    Some(format!(
        "A part of it stands in line {}: {:?}. Behind that the file has {:?}, old_string has {:?}.",
        line + 1,
        clip_line(&around(&text[from..at + ahead])),
        rest(&text[at + ahead..]),
        rest(&old.as_bytes()[begin + ahead..]),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_a_miss_is_named() {
        for (file, old, expect) in [
            (
                "fn a() {\n\tlet x = 1;\n}\n",
                "fn a() {\n        let y = 1;\n}\n",
                "\"y = 1;\"",
            ),
            (
                "{\n\tx = compute();\n}\n",
                "{\n      x = compute();\n)\n",
                "indented by 1 tab(s)",
            ),
            ("let name\u{200B} = 1;\n", "let name = 1;\n", "U+200B"),
            (
                "price:\u{A0}10 EUR\n",
                "price: 10 EUR!\n",
                "the file ends the line and old_string has \"!\"",
            ),
            ("Hello World\n", "hello world\n", "upper and lower case"),
        ] {
            let text = explain_unmatched_quote(file.as_bytes(), old, &SecretBoundaries::default())
                .unwrap_or_default();
            assert!(text.contains(expect), "{file:?}: {text}");
            assert!(text.contains("First difference, line"), "{text}");
        }
        let text = explain_unmatched_quote(
            b"  let a = one();\n  let b = two();\n",
            "let a = one();\n  let b = 2;",
            &SecretBoundaries::default(),
        )
        .expect("near");
        assert!(
            text.contains("First difference, line 2"),
            "the end of a line is quoted as it is: {text}"
        );
    }

    #[test]
    fn the_block_that_shares_most_lines_is_nearest() {
        let text = "use a;\nfn one() {\n    work();\n}\nfn two() {\n    work();\n    more();\n}\n";
        let said = explain_unmatched_quote(
            text.as_bytes(),
            "fn two() {\n    work();\n    less();\n}\n",
            &SecretBoundaries::default(),
        )
        .expect("near");
        assert!(
            said.starts_with("The nearest block is at lines 5-8:"),
            "{said}"
        );
        assert!(
            said.contains("line 7") && said.contains("more();"),
            "{said}"
        );
        assert_eq!(
            explain_unmatched_quote(
                b"completely different\n",
                "zzz qqq",
                &SecretBoundaries::default()
            ),
            None
        );
        assert_eq!(
            explain_unmatched_quote(b"", "x", &SecretBoundaries::default()),
            None
        );
    }

    #[test]
    fn a_piece_of_a_long_line_is_found() {
        let text = format!(
            "{{{}\"name\":\"alpha beta gamma delta\",{}}}\n",
            "\"k\":1,".repeat(900),
            "\"z\":2,".repeat(900)
        );
        let said = explain_unmatched_quote(
            text.as_bytes(),
            "\"name\":\"alpha beta gamma DELTA\"",
            &SecretBoundaries::default(),
        )
        .expect("a piece");
        assert!(
            said.contains("in line 1") && said.contains("alpha beta gamma "),
            "{said}"
        );
        assert!(
            said.contains("the file has \"delta") && said.contains("old_string has \"DELTA"),
            "{said}"
        );
    }

    #[test]
    fn a_final_line_ending_that_the_file_lacks_is_named() {
        let said = explain_unmatched_quote(
            b"one two three\nfour five six",
            "one two three\nfour five six\n",
            &SecretBoundaries::default(),
        )
        .expect("near");
        assert!(said.contains("does not end in a line ending"), "{said}");
    }
}
