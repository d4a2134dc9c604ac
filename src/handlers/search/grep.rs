//! Grep: files and lines by content.

use std::time::Duration;

use grep_searcher::Encoding;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::SearchDeps;
use super::content_search::{ContentSearch, SearchFindings};
use super::file_glob::{FileGlob, join_glob_list};
use super::grep_report::GrepReport;
use super::line_pattern::{self, PatternOptions};
use super::result_text::{ignored_matches_hint, take_zero_as_all};
use super::search_plan::{Order, OutputMode, SearchPatterns, SearchPlan};
use super::search_scope::{SearchScope, select_file_types};
use super::search_stop;
use punie_host::RawPath;
use punie_text::output::number_format::format_count;
use punie_text::output::{SecretBoundaries, TextBudget};
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, DefaultLocation, PeopleField, Tool, ToolContext,
    ToolEffect, ToolError, ToolReply,
};

/// The largest number of files or lines in an answer.
const MAX_RESULTS: u64 = 2_000;
/// The largest offset into the results.
const MAX_OFFSET: u64 = 100_000;
/// A multiline search holds a whole file in memory.
const MAX_MULTILINE: u64 = 64 << 20;
/// The largest number of context lines on each side.
const MAX_CONTEXT: u64 = 50;

/// Search file contents by regular expression (ripgrep's syntax: no look-around, no backreferences).
///
/// `content` shows `12: text`, context as `11- text`; `count` gives matching lines per file. Skips ignored files
/// and `.git`; a binary file that matches is one line.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own that a model sets by name"
)]
pub(super) struct Grep {
    /// A regular expression.
    pattern: String,
    /// Folder or file; else all workspaces.
    path: Option<RawPath>,
    /// Only `*.rs`, or all but `!*.js`.
    glob: Option<String>,
    /// Such as `rust`, `py`, `ts`.
    #[serde(rename = "type")]
    file_type: Option<String>,
    /// Paths (default), lines, counts.
    #[serde(default)]
    output_mode: OutputMode,
    /// `a` also matches `A`.
    #[serde(default)]
    case_insensitive: bool,
    /// Lines before, at most 50.
    before_context: Option<u64>,
    /// Lines after, at most 50.
    after_context: Option<u64>,
    /// Lines before and after.
    #[serde(default)]
    context_lines: u64,
    /// Match across lines; `.` matches line ends.
    #[serde(default)]
    multiline: bool,
    /// Only the parts that match.
    #[serde(default)]
    only_matching: bool,
    /// The pattern is plain text.
    #[serde(default)]
    literal: bool,
    /// Files or lines, at most 2000.
    #[serde(default = "default_results")]
    max_results: u64,
    /// Results to skip.
    #[serde(default)]
    offset: u64,
    /// `path` (default), or `any`: fastest.
    #[serde(default)]
    sort: Order,
    /// Include ignored files.
    #[serde(default)]
    include_ignored: bool,
    /// Include dot files.
    #[serde(default = "yes")]
    hidden: bool,
    /// Skip files of more bytes.
    #[serde(default = "default_filesize")]
    max_filesize: u64,
    /// Milliseconds until it stops.
    #[serde(default = "default_timeout")]
    timeout_ms: u64,
    /// Such as `shift_jis`; detected if absent.
    encoding: Option<String>,
    /// Characters; 30000 if absent.
    max_chars: Option<u64>,
}

fn default_results() -> u64 {
    100
}

fn default_filesize() -> u64 {
    10_000_000
}

fn default_timeout() -> u64 {
    20_000
}

fn yes() -> bool {
    true
}

impl Tool for Grep {
    const NAME: &'static str = "Grep";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const KNOWN_AS: &'static [&'static str] = &[
        "grep_search",
        "grep_files",
        "search_file_content",
        "rg",
        "ripgrep",
        "search_files",
    ];
    const LIMITS: &'static [&'static str] = &[
        "100 results an answer, 2,000 at most, in all; offset up to 100,000",
        "20 seconds a search, then what was found so far",
        "files up to 10,000,000 bytes, max_filesize up to 1 GiB, 64 MiB with multiline",
        "patterns up to 64 KiB of text and 10 MiB compiled; matching is linear in the text",
        "lines over 400 bytes are cut around the match; 50 lines of context a side",
    ];
    // Line numbers are always shown.
    const ACCEPTED: &'static [&'static str] = &["-n", "line_numbers", "case_sensitive"];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"pattern":"fn main","type":"rust"}"#,
        r#"{"pattern":"TODO|FIXME","output_mode":"content","context_lines":2,"path":"src"}"#,
    ];
    const PEOPLE_FIELDS: &'static [PeopleField] = &[PeopleField::Pattern("pattern", "literal")];
    type Deps = SearchDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::reading_paths(self.path.as_ref().map(RawPath::as_str))
            .with_default_location(DefaultLocation::AllWorkspaces(None))
    }

    fn describe(&self) -> CallDescription {
        CallDescription::with_title(CallTitle::from_sentence(format!(
            "Search for `{}`",
            self.pattern
        )))
    }

    fn normalize(arguments: &mut Map<String, Value>) {
        if arguments
            .get("case_sensitive")
            .is_some_and(|sensitive| sensitive == false)
        {
            arguments.insert("case_insensitive".to_owned(), Value::Bool(true));
        }
        if let Some(glob) = arguments.get("glob").and_then(join_glob_list) {
            arguments.insert("glob".to_owned(), Value::from(glob));
        }
        take_zero_as_all(arguments, "max_results", MAX_RESULTS);
    }

    async fn run(self, cx: &ToolContext, deps: &SearchDeps) -> Result<ToolReply, ToolError> {
        let patterns = self.compile_patterns()?;
        let glob = non_empty(self.glob.as_deref())
            .map(FileGlob::new)
            .transpose()?;
        let types = non_empty(self.file_type.as_deref())
            .map(select_file_types)
            .transpose()?;
        let plan = self.build_plan(&cx.secret_boundaries)?;
        let view = deps.view_for_call(cx).await?;
        let scope = SearchScope {
            roots: SearchScope::resolve_roots(
                &deps.workspace,
                self.path.as_ref(),
                view.as_deref(),
            )?,
            include_ignored: self.include_ignored,
            hidden: self.hidden,
            types,
            view,
            deps: deps.clone(),
        };
        let budget = TextBudget::from_requested(self.max_chars);
        search_stop::run_search(cx, self.timeout_ms, move |halt| {
            let mut search = ContentSearch {
                scope: &scope,
                glob: glob.as_ref(),
                halt,
                plan: &plan,
            };
            let mut findings = search.search_files(&patterns, None);
            let literal = glob.as_ref().and_then(FileGlob::with_literal_brackets);
            let mut reading = "";
            if findings.coverage.searched == 0 && literal.is_some() {
                search.glob = literal.as_ref();
                findings = search.search_files(&patterns, None);
                reading = "\n[the brackets of `glob` were taken as letters of names]";
            }
            let hints = if findings.files.is_empty() {
                self.find_hints(&search, &findings, patterns)
            } else {
                Vec::new()
            };
            let report = GrepReport {
                pattern: &self.pattern,
                scope: &scope,
                plan: &plan,
                findings: &findings,
                hints,
            };
            Ok(ToolReply::from_text(report.render() + reading).with_budget(budget))
        })
        .await
    }
}

impl Grep {
    fn compile_patterns(&self) -> Result<SearchPatterns, ToolError> {
        let options = PatternOptions {
            literal: self.literal,
            case_insensitive: self.case_insensitive,
            multiline: self.multiline,
        };
        let exact = line_pattern::compile_pattern(&self.pattern, options)?;
        let other_case = !self.case_insensitive && self.pattern.chars().any(char::is_alphabetic);
        let any_case = other_case
            .then(|| line_pattern::compile_for_any_case(&self.pattern, options))
            .flatten();
        Ok(SearchPatterns {
            exact,
            any_case,
            is_ascii: line_pattern::is_plain_ascii(&self.pattern, self.literal),
        })
    }

    fn build_plan(&self, uncut: &SecretBoundaries) -> Result<SearchPlan, ToolError> {
        let context = |asked: Option<u64>| {
            usize::try_from(asked.unwrap_or(self.context_lines).min(MAX_CONTEXT)).unwrap_or(0)
        };
        let encoding = non_empty(self.encoding.as_deref()).map(|name| {
            Encoding::new(name).map_err(|_| {
                ToolError::invalid_args(format!(
                    "There is no encoding {name:?}. Examples: windows-1252, iso-8859-2, shift_jis, gbk, utf-16le."
                ))
            })
        });
        let largest = if self.multiline {
            MAX_MULTILINE
        } else {
            1 << 30
        };
        Ok(SearchPlan {
            mode: self.output_mode,
            only_matching: self.only_matching,
            before: context(self.before_context),
            after: context(self.after_context),
            max: self.max_results.clamp(1, MAX_RESULTS),
            offset: self.offset.min(MAX_OFFSET),
            order: self.sort,
            multiline: self.multiline,
            max_filesize: self.max_filesize.clamp(1, largest),
            is_filesize_lowered: self.max_filesize > largest,
            encoding: encoding.transpose()?,
            uncut: uncut.clone(),
        })
    }

    /// Explains an empty result by the usual causes, as far as they apply.
    fn find_hints(
        &self,
        search: &ContentSearch<'_>,
        findings: &SearchFindings,
        patterns: SearchPatterns,
    ) -> Vec<String> {
        let coverage = &findings.coverage;
        let mut hints = Vec::new();
        if coverage.timed_out {
            return hints;
        }
        if coverage.other_case > 0 {
            let files = format_count(coverage.other_case, "file");
            hints.push(format!(
                "It matches in {files} in another case: use case_insensitive=true."
            ));
        }
        if !self.literal && self.pattern.contains(r"\|") {
            hints.push(r"`\|` is a bar in the text: for alternatives write `a|b`.".to_owned());
        }
        if coverage.searched == 0 {
            let filters = match (&self.glob, &self.file_type) {
                (Some(_), Some(_)) => Some("`glob` and `type`"),
                (Some(_), None) => Some("`glob`"),
                (None, Some(_)) => Some("`type`"),
                (None, None) => None,
            };
            hints.extend(filters.map(|filters| format!("No file there fits {filters}.")));
        }
        let halt = search.halt.shortened_to(Duration::from_secs(2));
        let plan = SearchPlan {
            mode: OutputMode::FilesWithMatches,
            max: 1_000,
            offset: 0,
            order: Order::Any,
            ..search.plan.clone()
        };
        let second = ContentSearch {
            halt: &halt,
            plan: &plan,
            ..*search
        };
        let patterns = SearchPatterns {
            any_case: None,
            ..patterns
        };
        if !coverage.skipped.is_empty() {
            let also = second.search_files(&patterns, Some(coverage));
            let partly = also.stopped || also.coverage.timed_out || coverage.more_skipped;
            if also.found > 0 {
                hints.push(ignored_matches_hint(
                    also.found,
                    "file",
                    partly,
                    self.hidden,
                ));
            } else if partly {
                hints.push(
                    "The ignored files were not all searched in the time that is given to them."
                        .to_owned(),
                );
            }
        }
        hints
    }
}

fn non_empty(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}
