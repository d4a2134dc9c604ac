//! Lines that follow each other, found in one pass over a text whatever is in it: each line becomes a number, and the
//! run of numbers is looked for as Knuth, Morris and Pratt do. Not here: which tier is tried when (matcher).

use std::collections::{HashMap, VecDeque};

use super::fitting::Indent;
use super::leniency::{Plain, Tier, split_indent};
use super::matcher::{Line, Lines, Places};

/// The number of a line that is none of the wanted ones.
const OTHER: u32 = u32::MAX;
/// The number of a blank line where indentation is overlooked.
const BLANK: u32 = u32::MAX - 1;

/// Looks for a run of numbers in a stream of them.
struct Run {
    wanted: Vec<u32>,
    /// For each length that fits: the length that still fits when the next one does not.
    back: Vec<usize>,
    fits: usize,
}

impl Run {
    fn of(wanted: Vec<u32>) -> Self {
        let mut back = vec![0; wanted.len() + 1];
        let mut fits = 0;
        for at in 1..wanted.len() {
            while fits > 0 && wanted[at] != wanted[fits] {
                fits = back[fits];
            }
            fits += usize::from(wanted[at] == wanted[fits]);
            back[at + 1] = fits;
        }
        Self { wanted, back, fits: 0 }
    }

    /// Takes the next number; says whether the run ends with it.
    fn push(&mut self, number: u32) -> bool {
        if self.wanted.is_empty() {
            return true;
        }
        if self.fits == self.wanted.len() {
            self.fits = self.back[self.fits];
        }
        while self.fits > 0 && self.wanted[self.fits] != number {
            self.fits = self.back[self.fits];
        }
        self.fits += usize::from(self.wanted[self.fits] == number);
        self.fits == self.wanted.len()
    }
}

/// The numbers of the wanted lines; those of others are not kept.
#[derive(Default)]
struct Numbers {
    of: HashMap<Vec<u8>, u32>,
    /// By length, so that most other lines need no hashing.
    lengths: [u64; 16],
}

impl Numbers {
    fn add(&mut self, line: &[u8]) -> u32 {
        let next = u32::try_from(self.of.len()).unwrap_or(OTHER);
        let (at, bit) = Self::slot(line);
        self.lengths[at] |= bit;
        *self.of.entry(line.to_vec()).or_insert(next)
    }

    fn get(&self, line: &[u8]) -> u32 {
        let (at, bit) = Self::slot(line);
        if self.lengths[at] & bit == 0 {
            return OTHER;
        }
        self.of.get(line).copied().unwrap_or(OTHER)
    }

    fn slot(line: &[u8]) -> (usize, u64) {
        let length = line.len() % 1024;
        (length / 64, 1 << (length % 64))
    }
}

/// A line as a tier compares it, without what it overlooks at the end.
fn bare(bytes: &[u8], tier: Tier) -> &[u8] {
    if tier >= Tier::TrailingSpace { bytes.trim_ascii_end() } else { bytes }
}

/// Finds parts of lines that follow each other, two at least: the end of the first line, the middle ones whole, the
/// beginning of the last.
pub(super) fn follow(text: &[u8], parts: &[&[u8]], tier: Tier, places: &mut Places) {
    let (Some((first, rest)), Some((last, middle))) = (parts.split_first(), parts.split_last()) else {
        return;
    };
    let middle = &middle[1..];
    let (first, last) = (Plain::of(first, tier), Plain::of(last, tier));
    let first = bare(&first.bytes, tier);
    let mut numbers = Numbers::default();
    let wanted = middle.iter().map(|part| numbers.add(bare(&Plain::of(part, tier).bytes, tier))).collect();
    let mut run = Run::of(wanted);
    // The lines from the first part's on, the one that is looked at included.
    let mut window: VecDeque<Line> = VecDeque::with_capacity(rest.len() + 1);
    let mut complete = false;
    for (seen, line) in Lines::of(text).map(Some).chain([None]).enumerate() {
        if complete && seen >= rest.len() {
            let from = window[window.len() - rest.len()];
            let before = window[window.len() - 1];
            if let Some(start) = ends_with(text, from, first, tier)
                && before.has_newline(text)
                && let Some(end) = begins_with(text, before, line, &last, tier)
            {
                places.put(start..end, Indent::Same);
            }
        }
        let Some(line) = line else { break };
        window.push_back(line);
        if window.len() > rest.len() {
            window.pop_front();
        }
        complete = if middle.is_empty() {
            true
        } else {
            run.push(numbers.get(bare(&Plain::of(line.body(text), tier).bytes, tier)))
        };
    }
}

/// Where a line's end begins that is this.
fn ends_with(text: &[u8], line: Line, end: &[u8], tier: Tier) -> Option<usize> {
    let body = Plain::of(line.body(text), tier);
    let at = bare(&body.bytes, tier).strip_suffix(end)?.len();
    line.has_newline(text).then(|| line.start + body.origin(at))
}

/// Where a line's beginning ends that is this; behind the line before where nothing is asked of it.
fn begins_with(text: &[u8], before: Line, line: Option<Line>, last: &Plain<'_>, tier: Tier) -> Option<usize> {
    if last.bytes.is_empty() {
        return Some(before.end);
    }
    let line = line?;
    let body = Plain::of(line.body(text), tier);
    if body.bytes.starts_with(&last.bytes) {
        return Some(line.start + body.origin(last.bytes.len()));
    }
    let same = tier >= Tier::TrailingSpace && bare(&body.bytes, tier) == bare(&last.bytes, tier);
    same.then(|| line.start + line.body(text).len())
}

/// How the indentation of a line parts from that of the line before that is not blank. It is the same for lines that
/// are all indented by as much more.
fn step(before: &[u8], indent: &[u8], core: u32, out: &mut Vec<u8>) {
    let shared = before.iter().zip(indent).take_while(|(a, b)| a == b).count();
    out.clear();
    out.extend_from_slice(&core.to_le_bytes());
    out.extend_from_slice(&(before.len() - shared).to_le_bytes());
    out.extend_from_slice(&before[shared..]);
    out.extend_from_slice(&indent[shared..]);
}

/// Turns lines into numbers that say what stands in them and how they are indented against each other.
#[derive(Default)]
struct Steps {
    cores: Numbers,
    kinds: Numbers,
    key: Vec<u8>,
}

impl Steps {
    /// The number of a line behind one with this indentation, which becomes the line's own.
    fn number(&mut self, line: &[u8], before: &mut Vec<u8>, adding: bool) -> u32 {
        let (indent, rest) = split_indent(line);
        let rest = rest.trim_ascii_end();
        if rest.is_empty() {
            return BLANK;
        }
        let core = if adding { self.cores.add(rest) } else { self.cores.get(rest) };
        let mut number = OTHER;
        if core != OTHER {
            let mut key = std::mem::take(&mut self.key);
            step(before, indent, core, &mut key);
            number = if adding { self.kinds.add(&key) } else { self.kinds.get(&key) };
            self.key = key;
        }
        before.clear();
        before.extend_from_slice(indent);
        number
    }
}

/// Finds whole lines that are all indented by the same more, or the same less.
pub(super) fn indented(text: &[u8], parts: &[&[u8]], places: &mut Places) {
    let ends_whole = parts.len() > 1 && parts.last().is_some_and(|part| part.is_empty());
    let whole = if ends_whole { &parts[..parts.len() - 1] } else { parts };
    let plain: Vec<Plain<'_>> = whole.iter().map(|part| Plain::of(part, Tier::Indentation)).collect();
    let is_blank = |line: &[u8]| line.trim_ascii().is_empty();
    let Some(head) = plain.iter().position(|line| !is_blank(&line.bytes)) else { return };
    let (head_indent, head_core) = split_indent(&plain[head].bytes);
    let head_core = head_core.trim_ascii_end();
    let mut steps = Steps::default();
    let mut before = head_indent.to_vec();
    let behind = plain[head + 1..].iter().map(|line| steps.number(&line.bytes, &mut before, true)).collect();
    let mut run = Run::of(behind);

    let mut window: VecDeque<Line> = VecDeque::with_capacity(whole.len() + 1);
    before.clear();
    for line in Lines::of(text) {
        window.push_back(line);
        if window.len() > whole.len() {
            window.pop_front();
        }
        let number = steps.number(&Plain::of(line.body(text), Tier::Indentation).bytes, &mut before, false);
        if !run.push(number) || window.len() < whole.len() || (ends_whole && !line.has_newline(text)) {
            continue;
        }
        let body = Plain::of(window[head].body(text), Tier::Indentation);
        let (indent, core) = split_indent(&body.bytes);
        let is_blank = |line: &Line| is_blank(&Plain::of(line.body(text), Tier::Indentation).bytes);
        if core.trim_ascii_end() != head_core || !window.iter().take(head).all(is_blank) {
            continue;
        }
        let indent = if let Some(more) = indent.strip_suffix(head_indent) {
            Indent::Deeper(more.to_vec())
        } else if let Some(less) = head_indent.strip_suffix(indent) {
            Indent::Shallower(less.to_vec())
        } else {
            continue;
        };
        let end = if ends_whole { line.end } else { line.start + line.body(text).len() };
        places.put(window[0].start..end, indent);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::handlers::file::matcher::find;

    /// The same by comparing every line with every part.
    fn slowly(text: &[u8], parts: &[&[u8]], tier: Tier) -> Option<usize> {
        let lines: Vec<Line> = Lines::of(text).collect();
        let plain = |line: &[u8]| Plain::of(line, tier).bytes.into_owned();
        let (last, inner) = (parts.len() - 1, parts.len() - 2);
        (0..lines.len())
            .find(|from| {
                let Some(of) = lines.get(*from..from + last) else { return false };
                let rest = lines.get(from + last).map(|line| plain(line.body(text)));
                let (first, end) = (plain(of[0].body(text)), plain(parts[last]));
                of.iter().all(|line| line.has_newline(text))
                    && bare(&first, tier).ends_with(bare(&plain(parts[0]), tier))
                    && (1..=inner)
                        .all(|at| bare(&plain(of[at].body(text)), tier) == bare(&plain(parts[at]), tier))
                    && (end.is_empty()
                        || rest.is_some_and(|rest| {
                            rest.starts_with(&end)
                                || tier >= Tier::TrailingSpace && bare(&rest, tier) == bare(&end, tier)
                        }))
            })
            .map(|from| from + 1)
    }

    /// The same by comparing the indentation of every line with that of every part.
    fn slowly_indented(text: &[u8], parts: &[&[u8]]) -> Option<usize> {
        let lines: Vec<Line> = Lines::of(text).collect();
        let ends_whole = parts.len() > 1 && parts.last().is_some_and(|part| part.is_empty());
        let whole = if ends_whole { &parts[..parts.len() - 1] } else { parts };
        (0..lines.len())
            .find(|from| {
                let Some(of) = lines.get(*from..from + whole.len()) else { return false };
                if ends_whole && !of[of.len() - 1].has_newline(text) {
                    return false;
                }
                let mut shift = None;
                of.iter().zip(whole).all(|(line, part)| {
                    let ((ours, body), (theirs, part)) = (split_indent(line.body(text)), split_indent(part));
                    if body.trim_ascii_end() != part.trim_ascii_end() {
                        return false;
                    }
                    if body.trim_ascii_end().is_empty() {
                        return true;
                    }
                    let this = match (ours.strip_suffix(theirs), theirs.strip_suffix(ours)) {
                        (Some(more), _) => (true, more.to_vec()),
                        (_, Some(less)) => (false, less.to_vec()),
                        _ => return false,
                    };
                    *shift.get_or_insert_with(|| this.clone()) == this
                }) && shift.is_some()
            })
            .map(|from| from + 1)
    }

    fn first_line(text: &str, old: &str, tier: Tier) -> Option<usize> {
        let found = find(text.as_bytes(), old, Tier::Indentation)?;
        assert!(found.tier <= tier, "{found:?}");
        let start = found.places[0].range.start;
        (found.tier == tier).then(|| text[..start].matches('\n').count() + 1)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn blocks_are_found_where_comparing_all_with_all_finds_them(
            text in "([ab]{0,2}[ ]{0,1}\r?\n){0,8}[ab]{0,2}",
            old in "([ab]{0,2}[ ]{0,1}\n){1,4}[ab]{0,2}",
        ) {
            prop_assume!(!old.trim().is_empty());
            let parts: Vec<&[u8]> = old.split('\n').map(str::as_bytes).collect();
            if !text.contains(&old) {
                for tier in [Tier::LineEndings, Tier::TrailingSpace] {
                    if let Some(line) = slowly(text.as_bytes(), &parts, tier) {
                        prop_assert_eq!(first_line(&text, &old, tier), Some(line));
                        break;
                    }
                    prop_assert_ne!(find(text.as_bytes(), &old, Tier::Indentation).map(|found| found.tier), Some(tier));
                }
            }
        }

        #[test]
        fn indented_blocks_are_found_where_comparing_all_with_all_finds_them(
            text in "([ \t]{0,2}[ab]{0,1}\n){0,9}",
            old in "([ \t]{0,2}[ab]{0,1}\n){1,4}",
        ) {
            let parts: Vec<&[u8]> = old.split('\n').map(str::as_bytes).collect();
            let found = find(text.as_bytes(), &old, Tier::Indentation);
            if found.as_ref().is_none_or(|found| found.tier == Tier::Indentation) {
                let line = found.map(|found| text[..found.places[0].range.start].matches('\n').count() + 1);
                prop_assert_eq!(line, slowly_indented(text.as_bytes(), &parts));
            }
        }
    }

    #[test]
    fn many_equal_lines_are_no_trouble() {
        let text = "  a\n".repeat(200_000);
        let old = format!("{}b\n", "a\n".repeat(2_000));
        assert_eq!(find(text.as_bytes(), &old, Tier::Indentation), None);
        let mut text = text;
        text.push_str("  b\n");
        let found = find(text.as_bytes(), &old, Tier::Indentation).expect("at the end");
        assert_eq!((found.tier, found.count), (Tier::Indentation, 1));
    }
}
