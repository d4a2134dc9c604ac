//! The search of one large file in chunks. Not here: the selection of files, and the collected lines.

use std::fs::File;
use std::io::{self, Read};

use grep_regex::RegexMatcher;
use grep_searcher::Searcher;

use super::halt::Halt;
use super::hits::{Keep, Lines, Unsearched};
use super::sweep::Search;
use super::walk::Spot;
use crate::acp::encoding::Utf8Tally;

/// A file that is not held in memory as a whole.
pub(super) struct LargeFile<'a> {
    pub(super) search: &'a Search<'a>,
    pub(super) spot: &'a Spot<'a>,
}

impl LargeFile<'_> {
    /// Searches the whole file. Also checks whether it is UTF-8, if asked.
    pub(super) fn search(
        &self,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        keep: Keep,
        tally: Option<&mut Utf8Tally>,
    ) -> Result<Lines, Unsearched> {
        let plan = self.search.plan;
        let mut stopped = None;
        let file = self.spot.open().map_err(|_| Unsearched::Unreadable)?;
        let file = Reading {
            file,
            max: plan.max_filesize,
            read: 0,
            halt: self.search.halt,
            stopped: &mut stopped,
            tally,
        };
        let mut lines = Lines::new(matcher.clone(), keep, plan.uncut.clone());
        let result = searcher.search_reader(matcher, file, &mut lines);
        match stopped {
            Some(why) => Err(why),
            None => result.map(|()| lines).map_err(|_| Unsearched::Unreadable),
        }
    }
}

/// A reader that checks the stop signal before each chunk and the size limit after it, because the file may grow
/// meanwhile.
#[derive(Debug)]
struct Reading<'a> {
    file: File,
    max: u64,
    read: u64,
    halt: &'a Halt,
    stopped: &'a mut Option<Unsearched>,
    /// Checks for UTF-8, if wanted.
    tally: Option<&'a mut Utf8Tally>,
}

impl Reading<'_> {
    fn stop(&mut self, why: Unsearched) -> io::Error {
        *self.stopped = Some(why);
        io::Error::other("the search of this file was stopped")
    }
}

impl Read for Reading<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.halt.over() {
            return Err(self.stop(Unsearched::Halted));
        }
        let n = self.file.read(buffer)?;
        self.read += n as u64;
        if self.read > self.max {
            return Err(self.stop(Unsearched::TooLarge));
        }
        if let Some(tally) = &mut self.tally {
            tally.push(&buffer[..n]);
        }
        Ok(n)
    }
}
