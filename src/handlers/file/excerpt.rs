//! Excerpts of a file that is too large to load: the found places with the lines around them, read again from the file.

use std::io::{self, SeekFrom};
use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};

use super::excerpt_text::{ExcerptGap, ExcerptText};
use super::stream_search::StreamMatch;
use punie_host::files::ReadSeek;
use punie_host::files::read_full;

/// Lines copied around a place: one more than is shown.
const CONTEXT: usize = 4;
/// The bytes of a longer line that are copied, both from its beginning and before a place. Reports
/// use less of a line.
const MAX_LINE_PART: usize = 68 << 10;
/// No more places are copied once the text has this many bytes, or this many places.
const MAX_EXCERPT_BYTES: usize = 1 << 20;
const MAX_EXCERPT_PLACES: usize = 20_000;
/// Bytes read at a time.
const READ_CHUNK_BYTES: usize = 64 << 10;

/// Parts of a file.
#[derive(Debug, Default)]
pub(super) struct FileExcerpt {
    text: Vec<u8>,
    gaps: Vec<ExcerptGap>,
    /// The places in the excerpt's text: the first of the requested ones.
    pub places: Vec<Range<usize>>,
}

impl FileExcerpt {
    pub(super) fn as_text(&self) -> ExcerptText<'_> {
        ExcerptText::new(&self.text, &self.gaps)
    }

    /// Copies the places of `old` with their context, from the first on until any answer has
    /// enough.
    ///
    /// # Errors
    /// Read errors; `UnexpectedEof` if the file became shorter.
    pub(super) fn read(
        file: &mut dyn ReadSeek,
        size: u64,
        spots: &[StreamMatch],
        old: &str,
    ) -> io::Result<Self> {
        let mut taking = ExcerptBuilder {
            file,
            size,
            excerpt: Self::default(),
            at: 0,
            newlines: 0,
            run: 0,
            tail: Vec::new(),
        };
        for (n, spot) in spots.iter().enumerate().take(MAX_EXCERPT_PLACES) {
            if n > 0 && taking.excerpt.text.len() > MAX_EXCERPT_BYTES {
                break;
            }
            let range = spot.range(old);
            taking.skip_to_place(range.start, spot.newlines as usize)?;
            let start = taking.excerpt.text.len();
            taking.copy_place(range.end)?;
            let end = taking.excerpt.text.len();
            taking.excerpt.places.push(start..end);
            let next = spots.get(n + 1).map_or(size, |next| next.at);
            taking.copy_lines_after(next)?;
        }
        taking.end_line_run();
        Ok(taking.excerpt)
    }
}

/// An excerpt under construction, from the file's beginning to its end.
struct ExcerptBuilder<'f> {
    file: &'f mut dyn ReadSeek,
    size: u64,
    excerpt: FileExcerpt,
    /// The offset up to which the file is copied or omitted.
    at: u64,
    /// The number of line endings before it.
    newlines: usize,
    /// Bytes copied of the line, or after the place in it.
    run: usize,
    /// The last bytes of a line that is too long; bytes before them may be omitted.
    tail: Vec<u8>,
}

impl ExcerptBuilder<'_> {
    /// Copies the lines before a place, and omits the text before them.
    fn skip_to_place(&mut self, start: u64, newlines: usize) -> io::Result<()> {
        let (from, lines) = self.find_context_start(start)?;
        if from > self.at {
            self.end_line_run();
            let left_out = newlines.saturating_sub(lines).saturating_sub(self.newlines);
            self.excerpt.gaps.push(ExcerptGap {
                at: self.excerpt.text.len(),
                newlines: left_out,
            });
            self.at = from;
            self.newlines += left_out;
        }
        self.copy_until(start)?;
        self.end_line_run();
        Ok(())
    }

    /// Finds the first context line of a place, and counts the line endings between. Stops at the
    /// text that is already copied.
    fn find_context_start(&mut self, start: u64) -> io::Result<(u64, usize)> {
        let mut buffer = vec![0; READ_CHUNK_BYTES];
        let (mut end, mut lines) = (start, 0);
        while end > self.at {
            let from = end.saturating_sub(READ_CHUNK_BYTES as u64).max(self.at);
            let len = buffer_length(end - from);
            self.read_exactly_at(from, &mut buffer[..len])?;
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

    /// Copies a whole place.
    fn copy_place(&mut self, end: u64) -> io::Result<()> {
        let from = self.excerpt.text.len();
        let len = buffer_length(end.saturating_sub(self.at));
        self.excerpt.text.resize(from + len, 0);
        let mut text = std::mem::take(&mut self.excerpt.text);
        let read = self.read_exactly_at(self.at, &mut text[from..]);
        self.newlines += memchr_iter(b'\n', &text[from..]).count();
        self.excerpt.text = text;
        self.at = end;
        read
    }

    /// Copies the lines after a place, up to the next place.
    fn copy_lines_after(&mut self, next: u64) -> io::Result<()> {
        let end = next.min(self.size);
        let mut buffer = vec![0; READ_CHUNK_BYTES];
        let mut lines = 0;
        while self.at < end {
            let len = buffer_length(end - self.at).min(READ_CHUNK_BYTES);
            self.read_exactly_at(self.at, &mut buffer[..len])?;
            let mut to = 0;
            while let Some(newline) = memchr(b'\n', &buffer[to..len]) {
                to += newline + 1;
                lines += 1;
                if lines > CONTEXT {
                    self.append_clipped(&buffer[..to]);
                    return Ok(());
                }
            }
            self.append_clipped(&buffer[..len]);
        }
        Ok(())
    }

    fn copy_until(&mut self, end: u64) -> io::Result<()> {
        let mut buffer = vec![0; READ_CHUNK_BYTES];
        while self.at < end {
            let len = buffer_length(end - self.at).min(READ_CHUNK_BYTES);
            self.read_exactly_at(self.at, &mut buffer[..len])?;
            self.append_clipped(&buffer[..len]);
        }
        Ok(())
    }

    /// Appends the next bytes, without the middle of long lines.
    fn append_clipped(&mut self, bytes: &[u8]) {
        self.at += bytes.len() as u64;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINE_PART.saturating_sub(self.run).min(line.len());
            self.excerpt.text.extend_from_slice(&line[..room]);
            self.tail.extend_from_slice(&line[room..]);
            self.run += line.len();
            if self.tail.len() > 2 * MAX_LINE_PART {
                self.tail.drain(..self.tail.len() - MAX_LINE_PART);
            }
            if line.ends_with(b"\n") {
                self.newlines += 1;
                self.end_line_run();
            }
        }
    }

    fn end_line_run(&mut self) {
        if self.run > MAX_LINE_PART + self.tail.len() {
            self.excerpt.gaps.push(ExcerptGap {
                at: self.excerpt.text.len(),
                newlines: 0,
            });
        }
        self.excerpt.text.append(&mut self.tail);
        self.run = 0;
    }

    fn read_exactly_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        if read_full(self.file, buffer)? < buffer.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

fn buffer_length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(READ_CHUNK_BYTES)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;
    use crate::file::edit_report::{
        describe_replacements, diff_edit, list_line_numbers, show_changed_places,
        show_neighbouring_lines,
    };
    use crate::file::stream_search::StreamSearch;
    use punie_host::files::ByteSplice;

    /// Checks that a report of an excerpt equals the report of the whole text.
    fn compare(text: &[u8], new: &str) -> Result<(), TestCaseError> {
        let scan = StreamSearch {
            old: "#",
            hash: false,
            chunk: 256 << 10,
            is_cancelled: &|| false,
        };
        let spots = scan.run(&mut &*text).unwrap().matches;
        let excerpt =
            FileExcerpt::read(&mut Cursor::new(text), text.len() as u64, &spots, "#").unwrap();
        let whole: Vec<_> = spots
            .iter()
            .map(|spot| buffer_length(spot.at)..buffer_length(spot.at) + 1)
            .collect();
        let splices = |places: &[Range<usize>]| -> Vec<ByteSplice> {
            places
                .iter()
                .map(|range| ByteSplice {
                    range: range.clone(),
                    with: new.as_bytes().to_vec(),
                })
                .collect()
        };
        let nothing = punie_text::output::SecretBoundaries::default();
        let (of_whole, of_parts) = (splices(&whole), splices(&excerpt.places));
        let (sheet, more) = (excerpt.as_text(), whole.len() - of_parts.len());
        prop_assert_eq!(
            describe_replacements(sheet, &of_parts, more),
            describe_replacements(text, &of_whole, 0)
        );
        prop_assert_eq!(
            show_changed_places(sheet, &of_parts, more, &nothing),
            show_changed_places(text, &of_whole, 0, &nothing)
        );
        let count = whole.len() as u64;
        prop_assert_eq!(
            list_line_numbers(sheet, &excerpt.places, count),
            list_line_numbers(text, &whole, count)
        );
        prop_assert_eq!(
            show_neighbouring_lines(sheet, &excerpt.places, &nothing),
            show_neighbouring_lines(text, &whole, &nothing)
        );
        if !sheet.has_cut_lines() {
            prop_assert_eq!(
                diff_edit("f", sheet, &of_parts, more),
                diff_edit("f", text, &of_whole, 0)
            );
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
        let found = StreamSearch {
            old: "#",
            hash: false,
            chunk: 1 << 20,
            is_cancelled: &|| false,
        };
        let spots = found.run(&mut text.as_bytes()).unwrap().matches;
        let excerpt =
            FileExcerpt::read(&mut Cursor::new(&text), text.len() as u64, &spots, "#").unwrap();
        assert!(
            excerpt.places.len() <= MAX_EXCERPT_PLACES
                && excerpt.text.len() <= MAX_EXCERPT_BYTES + READ_CHUNK_BYTES
        );
    }
}
