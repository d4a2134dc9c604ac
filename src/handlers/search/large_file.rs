//! One large file searched piece by piece. Not here: which files (sweep), what is kept of the lines (hits).

use std::fs::File;
use std::io::{self, Read};

use grep_regex::RegexMatcher;
use grep_searcher::Searcher;

use super::halt::Halt;
use super::hits::{Keep, Lines, Unsearched};
use super::sweep::Search;
use super::walk::Spot;
use crate::acp::encoding::Utf8Tally;

/// A file that is not held as a whole.
pub(super) struct LargeFile<'a> {
    pub(super) search: &'a Search<'a>,
    pub(super) spot: &'a Spot<'a>,
}

impl LargeFile<'_> {
    /// Searches it from its beginning to its end, and tells in passing whether it is UTF-8.
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

/// A file being searched piece by piece: each piece looks at the halt, and none is read past the size limit, though
/// the file grow meanwhile.
#[derive(Debug)]
struct Reading<'a> {
    file: File,
    max: u64,
    read: u64,
    halt: &'a Halt,
    stopped: &'a mut Option<Unsearched>,
    /// Tells whether it is UTF-8, where that is asked.
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
