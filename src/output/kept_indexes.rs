//! How many lines come before each megabyte of a kept output, so that a later look at it begins near what it wants.
//! Not here: the lines (kept).

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, PoisonError};

use memchr::memchr_iter;

use super::OutputHandle;
use super::kept::Totals;

/// Bytes between two marks.
const STEP: u64 = 1 << 20;
const CHUNK: usize = 64 << 10;
/// Outputs whose marks are remembered.
const REMEMBERED: usize = 32;

/// The line ends before each mark; the first mark is the beginning.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks(Vec<u64>);

impl Marks {
    /// Sets the marks that the output has grown past since, and counts what comes after the last one.
    pub(super) fn survey(&mut self, file: &mut (impl Read + Seek)) -> io::Result<Totals> {
        if self.0.is_empty() {
            self.0.push(0);
        }
        let mut at = (self.0.len() as u64 - 1) * STEP;
        let mut newlines = self.0.last().copied().unwrap_or_default();
        file.seek(SeekFrom::Start(at))?;
        let mut chunk = vec![0; CHUNK];
        let mut last = b'\n';
        loop {
            let to_mark = usize::try_from(STEP - at % STEP).unwrap_or(CHUNK).min(CHUNK);
            let read = match file.read(&mut chunk[..to_mark]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if read == 0 {
                break;
            }
            newlines += memchr_iter(b'\n', &chunk[..read]).count() as u64;
            last = chunk[read - 1];
            at += read as u64;
            if at.is_multiple_of(STEP) {
                self.0.push(newlines);
            }
        }
        if at > 0 && at.is_multiple_of(STEP) {
            file.seek(SeekFrom::Start(at - 1))?;
            file.read_exact(&mut chunk[..1])?;
            last = chunk[0];
        }
        Ok(Totals { lines: newlines + u64::from(last != b'\n'), bytes: at })
    }

    /// Where to begin on the way to a line (from 1), and the number of the line that this place lies in. At least one
    /// line end lies between the two, or it is the beginning.
    pub(super) fn before(&self, line: u64) -> (u64, u64) {
        let later = self.0.partition_point(|newlines| newlines + 1 < line);
        match later.checked_sub(1) {
            Some(mark) => (mark as u64 * STEP, self.0[mark] + 1),
            None => (0, 1),
        }
    }
}

/// The marks of the outputs that were looked at last.
#[derive(Debug, Clone, Default)]
pub(super) struct MarkBook(Arc<Mutex<BTreeMap<OutputHandle, Marks>>>);

impl MarkBook {
    pub(super) fn of(&self, handle: &OutputHandle) -> Marks {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(handle).cloned().unwrap_or_default()
    }

    pub(super) fn note(&self, handle: &OutputHandle, marks: Marks) {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if book.len() >= REMEMBERED && !book.contains_key(handle) {
            book.pop_first();
        }
        book.insert(handle.clone(), marks);
    }

    /// Another output takes this name.
    pub(super) fn forget(&self, handle: &OutputHandle) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(handle);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn marks_know_the_lines_before_them_also_of_an_output_that_grows() {
        let line = "x".repeat(99) + "\n";
        let mut text = line.repeat(30_000);
        let mut marks = Marks::default();
        let totals = marks.survey(&mut Cursor::new(text.as_bytes())).expect("read");
        assert_eq!((totals.lines, totals.bytes, marks.0.len()), (30_000, 3_000_000, 3));
        text += &"y".repeat(1 << 20);
        let totals = marks.survey(&mut Cursor::new(text.as_bytes())).expect("read");
        assert_eq!((totals.lines, totals.bytes), (30_001, 3_000_000 + (1 << 20)));
        assert_eq!(marks.before(1), (0, 1));
        for wanted in [2, 10_485, 10_486, 10_487, 20_000, 30_001, 99_999] {
            let (start, number) = marks.before(wanted);
            let ends =
                text.as_bytes()[..usize::try_from(start).expect("small")].iter().filter(|b| **b == b'\n');
            assert_eq!(ends.count() as u64 + 1, number);
            assert!(number < wanted, "{wanted}: {number}");
        }
        for size in [0, 1 << 20, 2 << 20] {
            let text = "z".repeat(size);
            let totals = Marks::default().survey(&mut Cursor::new(text.as_bytes())).expect("read");
            assert_eq!((totals.lines, totals.bytes), (u64::from(size > 0), size as u64));
        }
    }
}
