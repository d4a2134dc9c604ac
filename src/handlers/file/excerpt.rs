//! What an answer needs of a file that is too big to hold: the places with the lines around them, read again where a
//! scan found them. Not here: how they are shown (edit_report).

use std::io::{self, SeekFrom};
use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};

use super::scan::Spot;
use super::sheet::{Gap, Sheet};
use crate::acp::files::ReadSeek;
use crate::acp::files::read_full;

/// Lines taken around a place: one more than is shown.
const CONTEXT: usize = 4;
/// Of a longer line this much is taken from its beginning and this much before a place. What an answer makes of a
/// line is decided by less.
const LONG_LINE: usize = 68 << 10;
/// No more places are taken when the text has this many bytes, or so many places are in it.
const ENOUGH: usize = 1 << 20;
const MOST: usize = 20_000;
/// Read at a time.
const CHUNK: usize = 64 << 10;

/// Parts of a file.
#[derive(Debug, Default)]
pub(super) struct Excerpt {
    text: Vec<u8>,
    gaps: Vec<Gap>,
    /// Where the places are in the text; the first of those that were asked for.
    pub places: Vec<Range<usize>>,
}

impl Excerpt {
    pub(super) fn sheet(&self) -> Sheet<'_> {
        Sheet::new(&self.text, &self.gaps)
    }

    /// The places of `old` with what is around them, from the first on until it is enough for any answer.
    ///
    /// # Errors
    /// Those of reading; `UnexpectedEof` where the file became shorter.
    pub(super) fn of(file: &mut dyn ReadSeek, size: u64, spots: &[Spot], old: &str) -> io::Result<Self> {
        let mut taking =
            Taking { file, size, excerpt: Self::default(), at: 0, newlines: 0, run: 0, tail: Vec::new() };
        for (n, spot) in spots.iter().enumerate().take(MOST) {
            if n > 0 && taking.excerpt.text.len() > ENOUGH {
                break;
            }
            let range = spot.range(old);
            taking.go_near(range.start, spot.newlines as usize)?;
            let start = taking.excerpt.text.len();
            taking.place(range.end)?;
            let end = taking.excerpt.text.len();
            taking.excerpt.places.push(start..end);
            let next = spots.get(n + 1).map_or(size, |next| next.at);
            taking.lines_behind(next)?;
        }
        taking.end_run();
        Ok(taking.excerpt)
    }
}

/// An excerpt while it is made, from the file's beginning to its end.
struct Taking<'f> {
    file: &'f mut dyn ReadSeek,
    size: u64,
    excerpt: Excerpt,
    /// All before this is taken or left out.
    at: u64,
    /// How many lines end before it.
    newlines: usize,
    /// Bytes taken of the line, or behind the place in it.
    run: usize,
    /// The last bytes of a line that was too long; more may have been between.
    tail: Vec<u8>,
}

impl Taking<'_> {
    /// Takes the lines before a place, and leaves out what is before them.
    fn go_near(&mut self, start: u64, newlines: usize) -> io::Result<()> {
        let (from, lines) = self.lines_before(start)?;
        if from > self.at {
            self.end_run();
            let left_out = newlines.saturating_sub(lines).saturating_sub(self.newlines);
            self.excerpt.gaps.push(Gap { at: self.excerpt.text.len(), newlines: left_out });
            self.at = from;
            self.newlines += left_out;
        }
        self.take_to(start)?;
        self.end_run();
        Ok(())
    }

    /// Where the line begins that is so many before a place, and how many lines end between; not before what is
    /// taken already.
    fn lines_before(&mut self, start: u64) -> io::Result<(u64, usize)> {
        let mut buffer = vec![0; CHUNK];
        let (mut end, mut lines) = (start, 0);
        while end > self.at {
            let from = end.saturating_sub(CHUNK as u64).max(self.at);
            let len = length(end - from);
            self.read(from, &mut buffer[..len])?;
            let mut left = &buffer[..len];
            while let Some(newline) = memrchr(b'\n', left) {
                if lines == CONTEXT {
                    return Ok((from + newline as u64 + 1, lines));
                }
                lines += 1;
                left = &left[..newline];
            }
            end = from;
        }
        Ok((self.at, lines))
    }

    /// Takes a place, all of it.
    fn place(&mut self, end: u64) -> io::Result<()> {
        let from = self.excerpt.text.len();
        let len = length(end.saturating_sub(self.at));
        self.excerpt.text.resize(from + len, 0);
        let mut text = std::mem::take(&mut self.excerpt.text);
        let read = self.read(self.at, &mut text[from..]);
        self.newlines += memchr_iter(b'\n', &text[from..]).count();
        self.excerpt.text = text;
        self.at = end;
        read
    }

    /// Takes the lines behind a place, but not from the next one on.
    fn lines_behind(&mut self, next: u64) -> io::Result<()> {
        let end = next.min(self.size);
        let mut buffer = vec![0; CHUNK];
        let mut lines = 0;
        while self.at < end {
            let len = length(end - self.at).min(CHUNK);
            self.read(self.at, &mut buffer[..len])?;
            let mut to = 0;
            while let Some(newline) = memchr(b'\n', &buffer[to..len]) {
                to += newline + 1;
                lines += 1;
                if lines > CONTEXT {
                    self.take(&buffer[..to]);
                    return Ok(());
                }
            }
            self.take(&buffer[..len]);
        }
        Ok(())
    }

    fn take_to(&mut self, end: u64) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        while self.at < end {
            let len = length(end - self.at).min(CHUNK);
            self.read(self.at, &mut buffer[..len])?;
            self.take(&buffer[..len]);
        }
        Ok(())
    }

    /// Takes these bytes, the next ones, but for the middle of long lines.
    fn take(&mut self, bytes: &[u8]) {
        self.at += bytes.len() as u64;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LONG_LINE.saturating_sub(self.run).min(line.len());
            self.excerpt.text.extend_from_slice(&line[..room]);
            self.tail.extend_from_slice(&line[room..]);
            self.run += line.len();
            if self.tail.len() > 2 * LONG_LINE {
                self.tail.drain(..self.tail.len() - LONG_LINE);
            }
            if line.ends_with(b"\n") {
                self.newlines += 1;
                self.end_run();
            }
        }
    }

    fn end_run(&mut self) {
        if self.run > LONG_LINE + self.tail.len() {
            self.excerpt.gaps.push(Gap { at: self.excerpt.text.len(), newlines: 0 });
        }
        self.excerpt.text.append(&mut self.tail);
        self.run = 0;
    }

    fn read(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        if read_full(self.file, buffer)? < buffer.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(CHUNK)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;
    use crate::acp::files::Splice;
    use crate::handlers::file::edit_report::{after, diff, lines_of, neighbours, replacements};
    use crate::handlers::file::scan::Scan;

    /// What is said of an excerpt is what is said of the whole text.
    fn compare(text: &[u8], new: &str) -> Result<(), TestCaseError> {
        let scan = Scan { old: "#", hash: false, chunk: 256 << 10, is_cancelled: &|| false };
        let spots = scan.run(&mut &*text).unwrap().spots;
        let excerpt = Excerpt::of(&mut Cursor::new(text), text.len() as u64, &spots, "#").unwrap();
        let whole: Vec<_> = spots.iter().map(|spot| length(spot.at)..length(spot.at) + 1).collect();
        let splices = |places: &[Range<usize>]| -> Vec<Splice> {
            places
                .iter()
                .map(|range| Splice { range: range.clone(), with: new.as_bytes().to_vec() })
                .collect()
        };
        let nothing = crate::output::Uncut::default();
        let (of_whole, of_parts) = (splices(&whole), splices(&excerpt.places));
        let (sheet, more) = (excerpt.sheet(), whole.len() - of_parts.len());
        prop_assert_eq!(replacements(sheet, &of_parts, more), replacements(text, &of_whole, 0));
        prop_assert_eq!(after(sheet, &of_parts, more, &nothing), after(text, &of_whole, 0, &nothing));
        let count = whole.len() as u64;
        prop_assert_eq!(lines_of(sheet, &excerpt.places, count), lines_of(text, &whole, count));
        prop_assert_eq!(neighbours(sheet, &excerpt.places, &nothing), neighbours(text, &whole, &nothing));
        if !sheet.cuts_lines() {
            prop_assert_eq!(diff("f", sheet, &of_parts, more), diff("f", text, &of_whole, 0));
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn an_excerpt_says_what_the_whole_says(
            parts in prop::collection::vec(
                prop_oneof![
                    4 => "[a#\r\n]{0,6}",
                    3 => (1_usize..40).prop_map(|lines| "b\n".repeat(lines)),
                    1 => Just("c".repeat(300)),
                ],
                0..30,
            ),
            new in "[xy\n]{0,5}",
        ) {
            compare(parts.concat().as_bytes(), &new)?;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn long_lines_are_cut_and_nobody_sees_it(
            parts in prop::collection::vec(
                prop_oneof![
                    3 => "[a#\n]{0,3}",
                    2 => (60_000_usize..300_000).prop_map(|len| "d".repeat(len)),
                    1 => (1_usize..20).prop_map(|lines| "b\n".repeat(lines)),
                ],
                0..10,
            ),
            new in "[xy\n]{0,3}",
        ) {
            compare(parts.concat().as_bytes(), &new)?;
        }
    }

    #[test]
    fn many_places_are_as_much_as_an_answer_shows() {
        let text = "some words # of a line\n".repeat(60_000);
        compare(text.as_bytes(), "%").unwrap();
        let found = Scan { old: "#", hash: false, chunk: 1 << 20, is_cancelled: &|| false };
        let spots = found.run(&mut text.as_bytes()).unwrap().spots;
        let excerpt = Excerpt::of(&mut Cursor::new(&text), text.len() as u64, &spots, "#").unwrap();
        assert!(excerpt.places.len() <= MOST && excerpt.text.len() <= ENOUGH + CHUNK);
    }
}
