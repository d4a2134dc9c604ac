//! Reads a stored output: a window of it, its end, its size, in constant memory. Not here: writing (store) and
//! searching (search).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use memchr::memchr;
use tokio_util::sync::CancellationToken;

use super::hygiene::Decoder;
use super::kept_indexes::KeptIndexes;
use super::line::{LineView, char_at, last_chars};
use super::line_feed::LineFeed;
use super::line_index::{LineIndex, LineMiss, LineScan, find_last_lines};
use super::{Budget, Clipped, HeadTail, OutputHandle};

const CHUNK: usize = 64 << 10;

/// Stops a read that runs on another thread.
#[derive(Debug, Clone, Default)]
pub struct Halt(CancellationToken);

impl Halt {
    /// Makes the reading fail at its next chunk.
    pub fn stop(&self) {
        self.0.cancel();
    }
}

/// A kept output, open for reading. One that is still being written is seen as far as it was flushed.
#[derive(Debug)]
pub struct KeptOutput {
    handle: OutputHandle,
    file: KeptFile,
    indexes: KeptIndexes,
}

/// The file, which gives nothing more once it is halted.
#[derive(Debug)]
pub(super) struct KeptFile {
    file: File,
    halt: Halt,
}

impl Read for KeptFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.halt.0.is_cancelled() {
            return Err(stopped());
        }
        self.file.read(out)
    }
}

fn stopped() -> io::Error {
    io::Error::other("the reading was stopped")
}

impl KeptFile {
    /// Bounds a search for lines to the file as long as it is now.
    fn line_scan(&self) -> io::Result<LineScan<'_>> {
        let size = (&self.file).seek(SeekFrom::End(0))?;
        let (file, cancel) = (&self.file, &self.halt.0);
        Ok(LineScan { file, size, reach: u64::MAX, feed: LineFeed::Byte, is_hashed: false, cancel })
    }
}

/// The error of a search for lines that has no bound.
fn line_error(miss: LineMiss) -> io::Error {
    match miss {
        LineMiss::Cancelled => stopped(),
        LineMiss::Io(cause) => cause,
        LineMiss::PastEnd | LineMiss::TooFar => io::ErrorKind::UnexpectedEof.into(),
    }
}

impl Seek for KeptFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// The size of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// A last line without its end counts.
    pub lines: u64,
    /// In bytes.
    pub bytes: u64,
}

/// The part of an output to read.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// At most so many lines.
    pub limit: u64,
    /// From this character (1-based) of each line on, instead of its two ends.
    pub column: Option<u64>,
    /// Characters in all, each line counted with [`KeptLine::FRAME`] more.
    pub room: usize,
}

/// One line as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptLine {
    /// Its number, from 1.
    pub number: u64,
    /// Its text without the line end; of a long one a part, which says so.
    pub text: String,
    /// It matches the pattern; a line of context does not.
    pub matched: bool,
}

impl KeptLine {
    /// Characters that a line's number and end are counted with.
    pub const FRAME: usize = 10;

    fn cost(&self) -> usize {
        self.text.chars().count() + Self::FRAME
    }
}

/// Lines that follow each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The lines.
    pub lines: Vec<KeptLine>,
    /// The size of the whole output.
    pub totals: Totals,
}

impl KeptOutput {
    pub(super) fn new(handle: OutputHandle, file: File, indexes: KeptIndexes) -> Self {
        Self { handle, file: KeptFile { file, halt: Halt::default() }, indexes }
    }

    /// Sets the handle by which another thread stops the reading.
    #[must_use]
    pub fn halted_by(mut self, halt: Halt) -> Self {
        self.file.halt = halt;
        self
    }

    /// Its name.
    pub fn handle(&self) -> &OutputHandle {
        &self.handle
    }

    /// Returns the size. The first call reads the whole output, later ones only the new part.
    pub fn totals(&mut self) -> io::Result<Totals> {
        let mut index = self.indexes.find(&self.handle);
        self.count_lines(&mut index)
    }

    fn count_lines(&self, index: &mut LineIndex) -> io::Result<Totals> {
        let scan = self.file.line_scan()?;
        let lines = index.count_all(&scan).map_err(line_error)?;
        self.indexes.store(&self.handle, index.clone());
        Ok(Totals { lines, bytes: scan.size })
    }

    /// The lines from number `from` (1-based) on.
    pub fn window(&mut self, from: u64, window: Window) -> io::Result<Page> {
        let from = from.max(1);
        let mut index = self.indexes.find(&self.handle);
        let totals = self.count_lines(&mut index)?;
        let start = match index.find_line(&self.file.line_scan()?, from) {
            Err(LineMiss::PastEnd) => return Ok(Page { lines: Vec::new(), totals }),
            found => found.map_err(line_error)?,
        };
        let mut lines = Lines::at(&mut self.file, start, from)?;
        let mut page = Page { lines: Vec::new(), totals };
        let mut room = window.room;
        while (page.lines.len() as u64) < window.limit {
            let Some(mut line) = lines.next(window.column)? else { break };
            if line.cost() > room {
                if !page.lines.is_empty() {
                    break;
                }
                shorten(&mut line.text, room.saturating_sub(KeptLine::FRAME));
            }
            room = room.saturating_sub(line.cost());
            page.lines.push(line);
        }
        // One that is being written may have grown meanwhile.
        page.totals.lines = page.totals.lines.max(page.lines.last().map_or(0, |line| line.number));
        Ok(page)
    }

    /// The last lines: as many of them, from the end, as there is room for.
    pub fn tail(&mut self, window: Window) -> io::Result<Page> {
        let totals = self.totals()?;
        let first = totals.lines.saturating_sub(window.limit) + 1;
        let last = find_last_lines(&self.file.line_scan()?, window.limit.max(1), u64::MAX);
        let start = last.map_err(line_error)?.map_or(0, |(start, _)| start);
        let mut lines = Lines::at(&mut self.file, start, first)?;
        let mut last: VecDeque<KeptLine> = VecDeque::new();
        let mut used = 0;
        while let Some(line) = lines.next(window.column)? {
            used += line.cost();
            last.push_back(line);
            while used > window.room && last.len() > 1 {
                used -= last.pop_front().map_or(0, |line| line.cost());
            }
        }
        if used > window.room
            && let Some(only) = last.front_mut()
        {
            shorten(&mut only.text, window.room.saturating_sub(KeptLine::FRAME));
        }
        Ok(Page { lines: last.into(), totals })
    }

    /// The last characters, from the beginning of a line where that leaves at least half of them.
    pub fn tail_text(&mut self, max_chars: usize) -> io::Result<String> {
        let wanted = 4 * max_chars as u64 + 4;
        let from = self.file.seek(SeekFrom::End(0))?.saturating_sub(wanted);
        self.file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut self.file).take(wanted).read_to_end(&mut bytes)?;
        if from > 0 {
            let inside = bytes.iter().take(3).take_while(|byte| (**byte & 0xc0) == 0x80).count();
            bytes.drain(..inside);
        }
        let text = String::from_utf8_lossy(&bytes);
        let at = last_chars(&text, max_chars);
        if at == 0 || text[..at].ends_with('\n') {
            return Ok(text[at..].to_owned());
        }
        let line = memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |newline| at + newline + 1);
        let whole = text[line..].chars().count() * 2 >= max_chars;
        Ok(text[if whole { line } else { at }..].to_owned())
    }

    /// Reads at most `max` bytes from an offset. Returns them with the total size.
    pub fn bytes_from(&mut self, from: u64, max: usize) -> io::Result<(Vec<u8>, u64)> {
        let size = self.file.seek(SeekFrom::End(0))?;
        self.file.seek(SeekFrom::Start(from.min(size)))?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut self.file).take(max as u64).read_to_end(&mut bytes)?;
        Ok((bytes, size))
    }

    /// The whole within a budget, with its own handle in the marker.
    pub fn clipped(&mut self, budget: Budget) -> io::Result<Clipped> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut kept = HeadTail::new(budget);
        let mut decoder = Decoder::default();
        let mut chunk = vec![0; CHUNK];
        let mut text = String::new();
        loop {
            let read = self.file.read(&mut chunk)?;
            decoder.push(&chunk[..read], &mut text);
            if read == 0 {
                decoder.finish(&mut text);
            }
            kept.push(&text);
            text.clear();
            if read == 0 {
                return Ok(kept.render(Some(self.handle.as_str())));
            }
        }
    }

    pub(super) fn file(&mut self) -> io::Result<&mut KeptFile> {
        self.file.seek(SeekFrom::Start(0))?;
        Ok(&mut self.file)
    }
}

/// Cuts a line that is alone on its page where it is still too long for it.
pub(super) fn shorten(text: &mut String, room: usize) {
    const NOTE: &str = " [... cut here; column= shows the rest ...]";
    if text.chars().count() <= room {
        return;
    }
    text.truncate(char_at(text, room.saturating_sub(NOTE.len())));
    text.push_str(NOTE);
}

/// Reads the lines of a file and counts them and their bytes.
struct Lines<'a> {
    reader: BufReader<&'a mut KeptFile>,
    /// The number of the line that comes next.
    number: u64,
    bytes: u64,
    text: String,
}

impl<'a> Lines<'a> {
    fn at(file: &'a mut KeptFile, start: u64, number: u64) -> io::Result<Self> {
        file.seek(SeekFrom::Start(start))?;
        let reader = BufReader::with_capacity(CHUNK, file);
        Ok(Self { reader, number, bytes: start, text: String::new() })
    }

    /// The next line; none at the end.
    fn next(&mut self, column: Option<u64>) -> io::Result<Option<KeptLine>> {
        let mut decoder = Decoder::default();
        let mut line = column.map_or_else(LineView::ends, LineView::from_column);
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
                let shown = KeptLine { number: self.number, text: line.shown(), matched: false };
                self.number += 1;
                return Ok(Some(shown));
            }
        }
    }
}
