//! Reads a stored output: a window of it, its end, its size, in constant memory.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use memchr::memchr;
use tokio_util::sync::CancellationToken;

use super::OutputHandle;
use super::line_feed::LineFeed;
use super::line_index::{LineIndex, LineMiss, LineScan, find_last_lines};
use super::long_line::{LineView, char_offset, last_chars_offset};
use super::stored_line_indexes::StoredLineIndexes;
use super::terminal_text::{Utf8Decoder, drop_cut_character};

const CHUNK_BYTES: usize = 64 << 10;

/// Stops a read that runs on another thread.
#[derive(Debug, Clone, Default)]
pub struct OutputReadStop(CancellationToken);

impl OutputReadStop {
    /// Makes the reading fail at its next chunk.
    pub fn stop_reading(&self) {
        self.0.cancel();
    }
}

/// A kept output, open for reading. One that is still being written is seen as far as it was flushed.
#[derive(Debug)]
pub struct StoredOutput {
    handle: OutputHandle,
    file: StoredOutputFile,
    indexes: StoredLineIndexes,
}

/// The file, which gives nothing more once it is halted.
#[derive(Debug)]
pub(super) struct StoredOutputFile {
    file: File,
    halt: OutputReadStop,
}

impl Read for StoredOutputFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.halt.0.is_cancelled() {
            return Err(stopped_error());
        }
        self.file.read(out)
    }
}

fn stopped_error() -> io::Error {
    io::Error::other("the reading was stopped")
}

impl StoredOutputFile {
    /// Bounds a search for lines to the file as long as it is now.
    fn line_scan(&self) -> io::Result<LineScan<'_>> {
        let size = (&self.file).seek(SeekFrom::End(0))?;
        let file = &self.file;
        let cancel = &self.halt.0;
        Ok(LineScan {
            file,
            size,
            reach: u64::MAX,
            feed: LineFeed::Byte,
            is_hashed: false,
            cancel,
        })
    }
}

/// The error of a search for lines that has no bound.
fn line_error(miss: LineMiss) -> io::Error {
    match miss {
        LineMiss::Cancelled => stopped_error(),
        LineMiss::Io(cause) => cause,
        LineMiss::PastEnd | LineMiss::TooFar => io::ErrorKind::UnexpectedEof.into(),
    }
}

impl Seek for StoredOutputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// The size of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutputTotals {
    /// A last line without its end counts.
    pub lines: u64,
    /// In bytes.
    pub bytes: u64,
}

/// The part of an output to read.
#[derive(Debug, Clone, Copy)]
pub struct OutputWindow {
    /// At most so many lines.
    pub limit: u64,
    /// From this character (1-based) of each line on, instead of its two ends.
    pub column: Option<u64>,
    /// Characters in all, each line counted with [`OutputLine::OVERHEAD_CHARS`] more.
    pub max_chars: usize,
}

/// One line as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLine {
    /// Its number, from 1.
    pub number: u64,
    /// Its text without the line end; of a long one a part, which says so.
    pub text: String,
    /// It matches the pattern; a line of context does not.
    pub is_match: bool,
}

impl OutputLine {
    /// Characters that a line's number and end are counted with.
    pub const OVERHEAD_CHARS: usize = 10;

    fn page_cost(&self) -> usize {
        self.text.chars().count() + Self::OVERHEAD_CHARS
    }
}

/// Lines that follow each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutputPage {
    /// The lines.
    pub lines: Vec<OutputLine>,
    /// The size of the whole output.
    pub totals: OutputTotals,
}

impl StoredOutput {
    pub(super) fn new(handle: OutputHandle, file: File, indexes: StoredLineIndexes) -> Self {
        Self {
            handle,
            file: StoredOutputFile {
                file,
                halt: OutputReadStop::default(),
            },
            indexes,
        }
    }

    /// Sets the handle by which another thread stops the reading.
    #[must_use]
    pub fn with_stop(mut self, halt: OutputReadStop) -> Self {
        self.file.halt = halt;
        self
    }

    /// Its name.
    pub fn stored_under(&self) -> &OutputHandle {
        &self.handle
    }

    /// Returns the size. The first call reads the whole output, later ones only the new part.
    pub fn read_totals(&mut self) -> io::Result<OutputTotals> {
        let mut index = self.indexes.find_index(&self.handle);
        self.count_lines(&mut index)
    }

    fn count_lines(&self, index: &mut LineIndex) -> io::Result<OutputTotals> {
        let scan = self.file.line_scan()?;
        let lines = index.count_to_end(&scan).map_err(line_error)?;
        self.indexes.store_index(&self.handle, index.clone());
        Ok(OutputTotals {
            lines,
            bytes: scan.size,
        })
    }

    /// The lines from number `from` (1-based) on.
    pub fn read_window(&mut self, from: u64, window: OutputWindow) -> io::Result<OutputPage> {
        let from = from.max(1);
        let mut index = self.indexes.find_index(&self.handle);
        let totals = self.count_lines(&mut index)?;
        let start = match index.find(&self.file.line_scan()?, from) {
            Err(LineMiss::PastEnd) => {
                return Ok(OutputPage {
                    lines: Vec::new(),
                    totals,
                });
            }
            found => found.map_err(line_error)?,
        };
        let mut lines = StoredLineReader::start_at(&mut self.file, start, from)?;
        let mut page = OutputPage {
            lines: Vec::new(),
            totals,
        };
        let mut room = window.max_chars;
        while (page.lines.len() as u64) < window.limit {
            let Some(mut line) = lines.next(window.column)? else {
                break;
            };
            if line.page_cost() > room {
                if !page.lines.is_empty() {
                    break;
                }
                truncate_with_note(
                    &mut line.text,
                    room.saturating_sub(OutputLine::OVERHEAD_CHARS),
                );
            }
            room = room.saturating_sub(line.page_cost());
            page.lines.push(line);
        }
        // One that is being written may have grown meanwhile.
        page.totals.lines = page
            .totals
            .lines
            .max(page.lines.last().map_or(0, |line| line.number));
        Ok(page)
    }

    /// The last lines: as many of them, from the end, as there is room for.
    pub fn read_tail(&mut self, window: OutputWindow) -> io::Result<OutputPage> {
        let totals = self.read_totals()?;
        let first = totals.lines.saturating_sub(window.limit) + 1;
        let last = find_last_lines(&self.file.line_scan()?, window.limit.max(1), u64::MAX);
        let start = last.map_err(line_error)?.map_or(0, |(start, _)| start);
        let mut lines = StoredLineReader::start_at(&mut self.file, start, first)?;
        let mut last: VecDeque<OutputLine> = VecDeque::new();
        let mut used = 0;
        while let Some(line) = lines.next(window.column)? {
            used += line.page_cost();
            last.push_back(line);
            while used > window.max_chars && last.len() > 1 {
                used -= last.pop_front().map_or(0, |line| line.page_cost());
            }
        }
        if used > window.max_chars
            && let Some(only) = last.front_mut()
        {
            truncate_with_note(
                &mut only.text,
                window.max_chars.saturating_sub(OutputLine::OVERHEAD_CHARS),
            );
        }
        Ok(OutputPage {
            lines: last.into(),
            totals,
        })
    }

    /// The last characters, from the beginning of a line where that leaves at least half of them.
    pub fn read_tail_text(&mut self, max_chars: usize) -> io::Result<String> {
        let wanted = 4 * max_chars as u64 + 4;
        let from = self.file.seek(SeekFrom::End(0))?.saturating_sub(wanted);
        self.file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut self.file)
            .take(wanted)
            .read_to_end(&mut bytes)?;
        if from > 0 {
            drop_cut_character(&mut bytes);
        }
        let text = String::from_utf8_lossy(&bytes);
        let at = last_chars_offset(&text, max_chars);
        if at == 0 || text[..at].ends_with('\n') {
            return Ok(text[at..].to_owned());
        }
        let line =
            memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |newline| at + newline + 1);
        let whole = text[line..].chars().count() * 2 >= max_chars;
        Ok(text[if whole { line } else { at }..].to_owned())
    }

    /// Reads at most `max` bytes from an offset. Returns them with the total size.
    pub fn read_bytes_from(&mut self, from: u64, max: usize) -> io::Result<(Vec<u8>, u64)> {
        let size = self.file.seek(SeekFrom::End(0))?;
        self.file.seek(SeekFrom::Start(from.min(size)))?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut self.file)
            .take(max as u64)
            .read_to_end(&mut bytes)?;
        Ok((bytes, size))
    }

    pub(super) fn rewind_file(&mut self) -> io::Result<&mut StoredOutputFile> {
        self.file.seek(SeekFrom::Start(0))?;
        Ok(&mut self.file)
    }
}

/// Cuts a line that is alone on its page where it is still too long for it.
pub(super) fn truncate_with_note(text: &mut String, room: usize) {
    const NOTE: &str = " [... cut here; column= shows the rest ...]";
    if text.chars().count() <= room {
        return;
    }
    text.truncate(char_offset(text, room.saturating_sub(NOTE.len())));
    text.push_str(NOTE);
}

/// Reads the lines of a file and counts them and their bytes.
struct StoredLineReader<'a> {
    reader: BufReader<&'a mut StoredOutputFile>,
    /// The number of the line that comes next.
    number: u64,
    bytes: u64,
    text: String,
}

impl<'a> StoredLineReader<'a> {
    fn start_at(file: &'a mut StoredOutputFile, start: u64, number: u64) -> io::Result<Self> {
        file.seek(SeekFrom::Start(start))?;
        let reader = BufReader::with_capacity(CHUNK_BYTES, file);
        Ok(Self {
            reader,
            number,
            bytes: start,
            text: String::new(),
        })
    }

    /// The next line; none at the end.
    fn next(&mut self, column: Option<u64>) -> io::Result<Option<OutputLine>> {
        let mut decoder = Utf8Decoder::default();
        let mut line = column.map_or_else(LineView::with_ends, LineView::from_column);
        let before = self.bytes;
        loop {
            let chunk = self.reader.fill_buf()?;
            let newline = memchr(b'\n', chunk);
            let used = newline.map_or(chunk.len(), |at| at + 1);
            let at_end = chunk.is_empty();
            self.text.clear();
            decoder.push(&chunk[..newline.unwrap_or(chunk.len())], &mut self.text);
            if newline.is_some() || at_end {
                decoder.finish(&mut self.text);
            }
            line.push(&self.text);
            self.reader.consume(used);
            self.bytes += used as u64;
            if newline.is_some() || at_end {
                if self.bytes == before {
                    return Ok(None);
                }
                let shown = OutputLine {
                    number: self.number,
                    text: line.shown_text(),
                    is_match: false,
                };
                self.number += 1;
                return Ok(Some(shown));
            }
        }
    }
}
