//! The plan of a content search: its answer mode, order, limits and compiled pattern.

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Encoding, MmapChoice, Searcher, SearcherBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use super::file_hits::MatchDetail;
use punie_text::output::SecretBoundaries;

/// The largest chunk in memory. A longer line cannot be searched.
const MAX_CHUNK_BYTES: usize = 64 << 20;

/// The parts of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutputMode {
    #[default]
    FilesWithMatches,
    Content,
    Count,
}

/// The order of the files in an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    #[default]
    Path,
    Mtime,
    Any,
}

/// The way to search, and the amount to keep.
#[derive(Debug, Clone)]
pub(super) struct SearchPlan {
    pub(super) mode: OutputMode,
    /// Keep only the matching parts of lines.
    pub(super) only_matching: bool,
    pub(super) before: usize,
    pub(super) after: usize,
    pub(super) max: u64,
    pub(super) offset: u64,
    pub(super) order: Order,
    pub(super) multiline: bool,
    pub(super) max_filesize: u64,
    /// The call asked for a higher limit than the maximum.
    pub(super) is_filesize_lowered: bool,
    pub(super) encoding: Option<Encoding>,
    /// The secrets that are masked in answers.
    pub(super) uncut: SecretBoundaries,
}

/// The compiled pattern.
#[derive(Debug, Clone)]
pub(super) struct SearchPatterns {
    pub(super) exact: RegexMatcher,
    /// The same pattern for any case, for a hint if nothing matches.
    pub(super) any_case: Option<RegexMatcher>,
    /// The pattern is ASCII text, whose bytes are the same in every encoding except UTF-16.
    pub(super) is_ascii: bool,
}

impl SearchPlan {
    /// Returns one more than is shown, which tells whether more exists.
    pub(super) fn needed_results(&self) -> u64 {
        self.offset + self.max + 1
    }

    /// Returns whether the search ends when enough is found. Counts must be complete.
    pub(super) fn stops_early(&self) -> bool {
        match self.order {
            Order::Any => true,
            Order::Path => self.mode != OutputMode::Count,
            Order::Mtime => false,
        }
    }

    /// Returns the detail to keep of matching lines.
    pub(super) fn match_detail(&self) -> MatchDetail {
        match self.mode {
            OutputMode::FilesWithMatches => MatchDetail::Exists,
            OutputMode::Count => MatchDetail::Count,
            OutputMode::Content if self.only_matching => MatchDetail::Matches,
            OutputMode::Content => MatchDetail::Lines,
        }
    }

    /// Builds a searcher that treats NUL bytes in this way, and decodes from this encoding. `lines` searchers report
    /// numbered lines with their context.
    pub(super) fn build_searcher(
        &self,
        lines: bool,
        binary: BinaryDetection,
        encoding: Option<Encoding>,
    ) -> Searcher {
        SearcherBuilder::new()
            .line_number(lines)
            .multi_line(self.multiline)
            .before_context(if lines { self.before } else { 0 })
            .after_context(if lines { self.after } else { 0 })
            .max_matches(lines.then(|| self.needed_results()))
            .binary_detection(binary)
            .memory_map(MmapChoice::never())
            .heap_limit(Some(MAX_CHUNK_BYTES))
            .encoding(encoding.or_else(|| self.encoding.clone()))
            .build()
    }
}
