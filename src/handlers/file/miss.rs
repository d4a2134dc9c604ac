//! Why a quoted text was not found: the nearest block and its first difference, in bounded time. It explains and
//! never decides. Not here: finding (matcher).

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::difference::{self, Part, is_invisible};
use super::leniency::{Plain, Tier};
use super::matcher::LineTable;

/// The search for the nearest block takes no longer.
const SEARCH: Duration = Duration::from_millis(40);
/// Lines shown of the nearest block.
const SHOWN: usize = 12;
/// Characters shown of a line.
const WIDTH: usize = 160;
/// Lines less alike than this are not shown (0 to 1).
const ALIKE: f64 = 0.45;

/// Says what stands nearest to `old` and where they part; none where nothing is near.
pub(super) fn explain(text: &[u8], old: &str) -> Option<String> {
    let table = LineTable::of(text);
    let quoted: Vec<&str> = old.lines().collect();
    let start = nearest(&table, &quoted)?;
    let count = quoted.len().min(table.len() - start);
    let mut out = format!("The nearest block is at line{} {}", if count == 1 { "" } else { "s" }, start + 1);
    if count > 1 {
        let _ = write!(out, "-{}", start + count);
    }
    out.push_str(":\n");
    for line in start..start + count.min(SHOWN) {
        let _ = writeln!(out, "{:>6}\t{}", line + 1, shown(&String::from_utf8_lossy(table.body(line))));
    }
    if count > SHOWN {
        let _ = writeln!(out, "[... {} more lines]", count - SHOWN);
    }
    for (at, wanted) in quoted.iter().enumerate() {
        if start + at >= table.len() {
            let _ = write!(out, "The file ends before line {} of old_string: {:?}.", at + 1, shown(wanted));
            return Some(out);
        }
        let body = table.body(start + at);
        let part =
            Part { begins_inside: at == 0, ends_inside: at + 1 == quoted.len() && !old.ends_with('\n') };
        if !part.is_in(body, wanted.as_bytes()) {
            let _ = write!(
                out,
                "First difference, line {}: the file has {:?}, old_string has {:?}.{}",
                start + at + 1,
                shown(&String::from_utf8_lossy(body)),
                shown(wanted),
                difference::of(body, wanted, part)
            );
            return Some(out);
        }
    }
    out.push_str("The lines are the same; they differ in what comes before or after (a line ending or a part of a line).");
    Some(out)
}

fn shown(line: &str) -> String {
    let mut short: String = line.chars().take(WIDTH).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

/// A line without what a reader does not see.
fn seen(line: &[u8]) -> Vec<u8> {
    let plain = Plain::of(line, Tier::Typography);
    let text = String::from_utf8_lossy(plain.bytes.trim_ascii());
    text.chars()
        .filter(|c| !is_invisible(*c) && !c.is_whitespace())
        .flat_map(char::to_lowercase)
        .collect::<String>()
        .into()
}

/// The line at which the block begins that shares most lines with the quoted ones, or has the one most alike.
fn nearest(table: &LineTable<'_>, quoted: &[&str]) -> Option<usize> {
    let until = Instant::now() + SEARCH;
    let wanted: Vec<Vec<u8>> = quoted.iter().map(|line| seen(line.as_bytes())).collect();
    let mut places: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (at, line) in wanted.iter().enumerate().filter(|(_, line)| line.len() > 1) {
        places.entry(line).or_default().push(at);
    }
    let (anchor, key) = wanted.iter().enumerate().max_by_key(|(_, line)| line.len())?;
    if key.is_empty() {
        return None;
    }
    let key_bits = pairs(key);
    // A line that stands in both votes for where the block would begin.
    let mut votes: BTreeMap<usize, usize> = BTreeMap::new();
    let mut alike = (0.0, 0);
    for line in 0..table.len() {
        if line % 256 == 0 && Instant::now() > until {
            break;
        }
        let body = seen(table.body(line));
        for at in places.get(body.as_slice()).into_iter().flatten() {
            *votes.entry(line.saturating_sub(*at)).or_default() += 1;
        }
        let score = likeness(&pairs(&body), &key_bits);
        if score > alike.0 {
            alike = (score, line);
        }
    }
    if let Some((start, _)) = votes.iter().max_by_key(|(start, votes)| (**votes, usize::MAX - **start)) {
        return Some(*start);
    }
    (alike.0 >= ALIKE).then(|| alike.1.saturating_sub(anchor))
}

/// Which pairs of bytes a line has, as 256 bits.
fn pairs(line: &[u8]) -> [u64; 4] {
    let mut bits = [0_u64; 4];
    for pair in line.windows(2).take(400) {
        let at = pair[0].wrapping_mul(31) ^ pair[1].wrapping_mul(167);
        bits[usize::from(at >> 6)] |= 1 << (at & 63);
    }
    bits
}

/// How much two sets of pairs have in common (0 to 1).
fn likeness(a: &[u64; 4], b: &[u64; 4]) -> f64 {
    let count = |bits: &mut dyn Iterator<Item = u64>| bits.map(u64::count_ones).sum::<u32>();
    let both = count(&mut a.iter().zip(b).map(|(a, b)| a & b));
    let any = count(&mut a.iter().zip(b).map(|(a, b)| a | b));
    if any == 0 { 0.0 } else { f64::from(both) / f64::from(any) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_a_miss_is_named() {
        for (file, old, expect) in [
            ("fn a() {\n\tlet x = 1;\n}\n", "fn a() {\n        let y = 1;\n}\n", "\"y = 1;\""),
            ("{\n\tx = compute();\n}\n", "{\n      x = compute();\n)\n", "indented by 1 tab(s)"),
            ("let name\u{200B} = 1;\n", "let name = 1;\n", "U+200B"),
            ("price:\u{A0}10 EUR\n", "price: 10 EUR!\n", "the file ends the line and old_string has \"!\""),
            ("Hello World\n", "hello world\n", "upper and lower case"),
        ] {
            let text = explain(file.as_bytes(), old).unwrap_or_default();
            assert!(text.contains(expect), "{file:?}: {text}");
            assert!(text.contains("First difference, line"), "{text}");
        }
        let text =
            explain(b"  let a = one();\n  let b = two();\n", "let a = one();\n  let b = 2;").expect("near");
        assert!(text.contains("First difference, line 2"), "the end of a line is quoted as it is: {text}");
    }

    #[test]
    fn the_block_that_shares_most_lines_is_nearest() {
        let text = "use a;\nfn one() {\n    work();\n}\nfn two() {\n    work();\n    more();\n}\n";
        let said = explain(text.as_bytes(), "fn two() {\n    work();\n    less();\n}\n").expect("near");
        assert!(said.starts_with("The nearest block is at lines 5-8:"), "{said}");
        assert!(said.contains("line 7") && said.contains("more();"), "{said}");
        assert_eq!(explain(b"completely different\n", "zzz qqq"), None);
        assert_eq!(explain(b"", "x"), None);
    }
}
