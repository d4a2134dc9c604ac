//! Grep: files and lines by content. Not here: how a pattern is compiled (line_pattern), how files are searched
//! (sweep), how findings are shown (report).

use std::time::Duration;

use ignore::types::{Types, TypesBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use super::SearchDeps;
use super::file_glob::FileGlob;
use super::halt;
use super::line_pattern::{self, Reading as PatternReading};
use super::report;
use super::scope::Scope;
use super::sweep::{Findings, Plan, Search};
use crate::acp::RawPath;
use crate::output::Budget;
use crate::tool::{Effect, Reply, Tool, ToolCx, ToolError};

/// How many files or lines one answer gives at most.
const MAX_RESULTS: u64 = 2_000;
/// How far into the results a call may look.
const MAX_OFFSET: u64 = 100_000;
/// How many lines around a match one side shows at most.
const MAX_CONTEXT: u64 = 50;

/// Search file contents with a regular expression.
///
/// Linear-time regex syntax as in ripgrep (no look-around, no backreferences); literal=true takes the pattern as it
/// is. `path` is a folder or one file; `glob` (`*.rs`, `src/**/*.ts`, `!*.min.js`) and `type` (`rust`, `py`, `ts`)
/// choose among files. output_mode: `files_with_matches` lists paths, `content` shows lines as `12: text` with
/// context lines as `11- text`, `count` gives matching lines per file. Files excluded by .gitignore are skipped
/// unless include_ignored=true; hidden files are included, `.git` never is. The search stops at max_results, which
/// are then the first found; sort="path" or "mtime" searches everything and gives pages that do not overlap.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own that a model sets by name")]
pub(super) struct Grep {
    /// The regular expression, or the text itself with literal=true.
    pattern: String,
    /// The folder or file to search; all workspaces when absent.
    path: Option<RawPath>,
    /// Only files whose name or path matches, such as `*.rs`; with a leading `!` only those that do not.
    glob: Option<String>,
    /// Only files of this type, such as `rust`, `py`, `ts`, `md`.
    #[serde(rename = "type")]
    file_type: Option<String>,
    /// What to give: paths (`files_with_matches`, if absent), lines (`content`), or lines per file (`count`).
    #[serde(default)]
    output_mode: OutputMode,
    /// `a` matches `A`, too.
    #[serde(default)]
    case_insensitive: bool,
    /// Lines to show before each match, at most 50; for content.
    before_context: Option<u64>,
    /// Lines to show after each match, at most 50; for content.
    after_context: Option<u64>,
    /// Lines to show on both sides of each match, at most 50; for content.
    #[serde(default)]
    context_lines: u64,
    /// A match may go over several lines; `.` matches line ends.
    #[serde(default)]
    multiline: bool,
    /// Take the pattern as plain text.
    #[serde(default)]
    literal: bool,
    /// How many files, or for content how many matching lines, to give in all: 100 if absent, at most 2000.
    #[serde(default = "default_results")]
    max_results: u64,
    /// How many of them to leave out at the beginning, for the next page; they are
    /// then in order of path unless `sort` says otherwise.
    #[serde(default)]
    offset: u64,
    /// `any`, if absent: the first found, which is fastest; `path`: in order of path; `mtime`: newest file first.
    sort: Option<Order>,
    /// Look at files that .gitignore or .ignore exclude, too.
    #[serde(default)]
    include_ignored: bool,
    /// Look at files and folders whose name begins with a dot, too; true if absent.
    #[serde(default = "yes")]
    hidden: bool,
    /// Files with more bytes than this are skipped: 10000000 if absent.
    #[serde(default = "default_filesize")]
    max_filesize: u64,
    /// Milliseconds after which the search ends and gives what it has found.
    #[serde(default = "default_timeout")]
    timeout_ms: u64,
    /// How many characters the answer may have: 1000 to 200000, 30000 if absent.
    max_chars: Option<u64>,
}

/// What an answer consists of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutputMode {
    #[default]
    FilesWithMatches,
    Content,
    Count,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    Any,
    Path,
    Mtime,
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
    const EFFECT: Effect = Effect::Reads;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("regex", "pattern"),
        ("query", "pattern"),
        ("file_path", "path"),
        ("directory", "path"),
        ("folder", "path"),
        ("include", "glob"),
        ("file_type", "type"),
        ("-i", "case_insensitive"),
        ("ignore_case", "case_insensitive"),
        ("-A", "after_context"),
        ("-B", "before_context"),
        ("-C", "context_lines"),
        ("context", "context_lines"),
        ("head_limit", "max_results"),
        ("limit", "max_results"),
        ("fixed_strings", "literal"),
        ("no_ignore", "include_ignored"),
    ];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"pattern":"fn main","type":"rust"}"#,
        r#"{"pattern":"TODO|FIXME","output_mode":"content","context_lines":2,"path":"src"}"#,
    ];
    type Deps = SearchDeps;
    type Output = Reply;

    async fn run(self, cx: &ToolCx, deps: &SearchDeps) -> Result<Reply, ToolError> {
        let pattern = self.pattern_reading();
        let matcher = line_pattern::compile(&self.pattern, pattern)?;
        let glob = self.glob.as_deref().filter(|glob| !glob.is_empty()).map(FileGlob::new).transpose()?;
        let types = self.file_type.as_deref().filter(|name| !name.is_empty()).map(types).transpose()?;
        let roots = Scope::roots(&deps.workspace, self.path.as_ref())?;
        let workspace = deps.workspace.clone();
        let budget = Budget::chars(self.max_chars);
        halt::search(cx, self.timeout_ms, move |halt| {
            let scope = Scope { roots, include_ignored: self.include_ignored, hidden: self.hidden, types };
            let plan = self.plan();
            let search = Search { workspace: &workspace, scope: &scope, glob: glob.as_ref(), halt, plan };
            let findings = search.run(&matcher);
            let hint = if findings.files.is_empty() { self.other_case(&search, &findings) } else { None };
            let text = report::text(
                &report::Report {
                    first: workspace.first(),
                    pattern: &self.pattern,
                    scope: &scope,
                    plan,
                    hint,
                },
                &findings,
            );
            Ok(Reply::text(text).with_budget(budget))
        })
        .await
    }
}

impl Grep {
    fn pattern_reading(&self) -> PatternReading {
        PatternReading {
            literal: self.literal,
            case_insensitive: self.case_insensitive,
            multiline: self.multiline,
        }
    }

    fn plan(&self) -> Plan {
        let context = |asked: Option<u64>| {
            usize::try_from(asked.unwrap_or(self.context_lines).min(MAX_CONTEXT)).unwrap_or(0)
        };
        let offset = self.offset.min(MAX_OFFSET);
        Plan {
            mode: self.output_mode,
            before: context(self.before_context),
            after: context(self.after_context),
            max: self.max_results.clamp(1, MAX_RESULTS),
            offset,
            // The first found are in no set order, so a second page of them would overlap the first.
            order: self.sort.unwrap_or(if offset > 0 { Order::Path } else { Order::Any }),
            multiline: self.multiline,
            max_filesize: self.max_filesize.clamp(1, 1 << 30),
        }
    }

    /// No hit: whether the same text is there in another case. A short second look.
    fn other_case(&self, search: &Search<'_>, findings: &Findings) -> Option<String> {
        if self.case_insensitive
            || findings.coverage.timed_out
            || !self.pattern.chars().any(char::is_alphabetic)
        {
            return None;
        }
        let matcher = line_pattern::compile(
            &self.pattern,
            PatternReading { case_insensitive: true, ..self.pattern_reading() },
        )
        .ok()?;
        let halt = search.halt.within(Duration::from_secs(2));
        let plan =
            Plan { mode: OutputMode::FilesWithMatches, max: 20, offset: 0, order: Order::Any, ..search.plan };
        let also = Search { halt: &halt, plan, ..*search }.run(&matcher);
        let at_least = if also.stopped || also.coverage.timed_out { "at least " } else { "" };
        match also.found {
            0 => None,
            1 => Some(format!("It matches in {at_least}1 file in another case: use case_insensitive=true.")),
            n => {
                Some(format!("It matches in {at_least}{n} files in another case: use case_insensitive=true."))
            }
        }
    }
}

fn types(name: &str) -> Result<Types, ToolError> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.select(name);
    builder.build().map_err(|_| {
        let mut near: Vec<(f64, String)> = builder
            .definitions()
            .into_iter()
            .map(|known| (strsim::jaro_winkler(name, known.name()), known.name().to_owned()))
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        let near: Vec<String> = near.into_iter().take(4).map(|(_, name)| name).collect();
        ToolError::invalid_args(format!(
            "There is no file type {name:?}. Near ones: {}. Or use glob, such as `*.{name}`.",
            near.join(", ")
        ))
    })
}
