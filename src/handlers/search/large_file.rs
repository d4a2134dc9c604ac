//! The search of one large file in chunks.

use std::fs::File;
use std::io::{self, Read};

use grep_regex::RegexMatcher;
use grep_searcher::Searcher;

use super::file_hits::{FileSearchError, LineCollector, MatchDetail};
use super::search_plan::SearchPlan;
use super::search_stop::SearchStop;
use super::walk_entry::WalkEntry;
use punie_host::encoding::Utf8Tally;

/// A file that is not held in memory as a whole.
pub(super) struct LargeFile<'a> {
    pub(super) plan: &'a SearchPlan,
    pub(super) halt: &'a SearchStop,
    pub(super) entry: &'a WalkEntry<'a>,
}

impl LargeFile<'_> {
    /// Searches the whole file. Also checks whether it is UTF-8, if asked.
    pub(super) fn search_in_chunks(
        &self,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        keep: MatchDetail,
        tally: Option<&mut Utf8Tally>,
    ) -> Result<LineCollector, FileSearchError> {
        let mut stopped = None;
        let file = self.entry.open().map_err(|_| FileSearchError::Unreadable)?;
        let file = LimitedReader {
            file,
            max: self.plan.max_filesize,
            read: 0,
            halt: self.halt,
            stopped: &mut stopped,
            tally,
        };
        let mut lines = LineCollector::new(matcher.clone(), keep, self.plan.uncut.clone());
        let result = searcher.search_reader(matcher, file, &mut lines);
        match stopped {
            Some(why) => Err(why),
            None => result
                .map(|()| lines)
                .map_err(|_| FileSearchError::Unreadable),
        }
    }
}

/// A reader that checks the stop signal before each chunk and the size limit after it, because the file may grow
/// meanwhile.
#[derive(Debug)]
struct LimitedReader<'a> {
    file: File,
    max: u64,
    read: u64,
    halt: &'a SearchStop,
    stopped: &'a mut Option<FileSearchError>,
    /// Checks for UTF-8, if wanted.
    tally: Option<&'a mut Utf8Tally>,
}

impl LimitedReader<'_> {
    fn record_stop(&mut self, why: FileSearchError) -> io::Error {
        *self.stopped = Some(why);
        io::Error::other("the search of this file was stopped")
    }
}

impl Read for LimitedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.halt.should_stop() {
            return Err(self.record_stop(FileSearchError::Halted));
        }
        let n = self.file.read(buffer)?;
        self.read += n as u64;
        if self.read > self.max {
            return Err(self.record_stop(FileSearchError::TooLarge));
        }
        if let Some(tally) = &mut self.tally {
            tally.count_piece(&buffer[..n]);
        }
        Ok(n)
    }
}
