//! Glob: files by name, newest first. Not here: files by content (grep).

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use ignore::{DirEntry, WalkState};
use schemars::JsonSchema;
use serde::Deserialize;

use super::SearchDeps;
use super::coverage::Coverage;
use super::file_glob::{FileGlob, split};
use super::halt::{self, Halt};
use super::page::{Page, unlocked};
use super::scope::{Scope, Visit, shown};
use crate::acp::RawPath;
use crate::output::figures::{counted, grouped};
use crate::tool::{Effect, Tool, ToolCx, ToolError};

/// How many paths one answer lists at most.
const MAX_LIMIT: u64 = 2_000;
/// How far into the list a call may look.
const MAX_OFFSET: u64 = 1_000_000;

/// Find files by name pattern, newest first.
///
/// A pattern without a slash matches file names at any depth (`*.rs`, `Cargo.toml`); with a slash it matches the
/// path below `path` (`src/**/*.{ts,tsx}`); an absolute pattern inside the workspace works too. `*` stays within
/// one folder, `**` crosses folders. Files excluded by .gitignore are skipped unless include_ignored=true; hidden
/// files are included, `.git` never is; symbolic links are not followed. The answer lists paths that Read takes as
/// they are, and ends with what was skipped.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Glob {
    /// The pattern, such as `*.rs` or `src/**/*.ts`.
    pattern: String,
    /// The folder to search; all workspaces when absent.
    path: Option<RawPath>,
    /// How many files to list: 200 if absent, at most 2000.
    #[serde(default = "default_limit")]
    limit: u64,
    /// How many files to leave out at the beginning, for the next page.
    #[serde(default)]
    offset: u64,
    /// Look at files that .gitignore or .ignore exclude, too.
    #[serde(default)]
    include_ignored: bool,
    /// Look at files and folders whose name begins with a dot, too; true if absent.
    #[serde(default = "yes")]
    hidden: bool,
    /// `mtime`, if absent: newest first; `name`: in order of path; `any`: stops as soon as `limit` are found.
    #[serde(default)]
    sort: Order,
    /// Milliseconds after which the search ends and gives what it has found.
    #[serde(default = "default_timeout")]
    timeout_ms: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    #[default]
    Mtime,
    Name,
    Any,
}

fn default_limit() -> u64 {
    200
}

fn default_timeout() -> u64 {
    20_000
}

fn yes() -> bool {
    true
}

impl Tool for Glob {
    const NAME: &'static str = "Glob";
    const EFFECT: Effect = Effect::Reads;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("glob", "pattern"),
        ("glob_pattern", "pattern"),
        ("directory", "path"),
        ("dir", "path"),
        ("folder", "path"),
        ("cwd", "path"),
        ("max_results", "limit"),
        ("head_limit", "limit"),
        ("no_ignore", "include_ignored"),
    ];
    const EXAMPLES: &'static [&'static str] =
        &[r#"{"pattern":"*.rs"}"#, r#"{"pattern":"src/**/*.{ts,tsx}","sort":"name","limit":500}"#];
    type Deps = SearchDeps;
    type Output = String;

    async fn run(self, cx: &ToolCx, deps: &SearchDeps) -> Result<String, ToolError> {
        let (roots, glob) = self.place(deps)?;
        let first = deps.workspace.first().to_owned();
        let timeout = self.timeout_ms;
        halt::search(cx, timeout, move |halt| {
            let scope =
                Scope { roots, include_ignored: self.include_ignored, hidden: self.hidden, types: None };
            Ok(self.answer(&scope, &glob, &first, halt))
        })
        .await
    }
}

impl Glob {
    /// The folders to walk and what files below them must match.
    fn place(&self, deps: &SearchDeps) -> Result<(Vec<PathBuf>, FileGlob), ToolError> {
        let pattern = self.pattern.strip_prefix("./").unwrap_or(&self.pattern);
        // Before anything is resolved: a pattern that is refused must not touch the disk.
        let whole = FileGlob::new(pattern)?;
        let (folder, rest) = split(pattern);
        let absolute = Path::new(folder).is_absolute();
        let path = self.path.as_ref().map(RawPath::as_str).filter(|path| !path.is_empty());
        // With several workspaces a relative folder may be in any of them.
        let anywhere = path.is_none() && !absolute && deps.workspace.roots().count() > 1;
        if folder.is_empty() || rest.is_empty() || pattern.starts_with('!') || anywhere {
            return Ok((Self::folders(deps, self.path.as_ref())?, whole));
        }
        let base = match path {
            Some(path) if !absolute => format!("{}/{folder}", path.trim_end_matches('/')),
            _ => folder.to_owned(),
        };
        Ok((Self::folders(deps, Some(&RawPath::from(base.as_str())))?, FileGlob::below(rest)?))
    }

    fn folders(deps: &SearchDeps, path: Option<&RawPath>) -> Result<Vec<PathBuf>, ToolError> {
        let roots = Scope::roots(&deps.workspace, path)?;
        match roots.as_slice() {
            [one] if one.is_file() => Err(ToolError::invalid_args(format!(
                "{} is a file. Glob searches folders; use Read for this file.",
                one.display()
            ))),
            _ => Ok(roots),
        }
    }

    fn answer(&self, scope: &Scope, glob: &FileGlob, first: &Path, halt: &Halt) -> String {
        let limit = self.limit.clamp(1, MAX_LIMIT);
        let offset = self.offset.min(MAX_OFFSET);
        let found = find(scope, glob, self.sort, to_size(offset + limit), halt);
        let base = match scope.roots.as_slice() {
            [one] => format!(" in {}", one.display()),
            many => format!(" in {} workspaces", many.len()),
        };
        if found.count == 0 {
            return self.nothing(scope, glob, &found.coverage, &base, halt);
        }
        let page = found.files.iter().skip(to_size(offset)).take(to_size(limit));
        let last = offset + page.len() as u64;
        let at_least = if found.stopped || found.coverage.timed_out { "at least " } else { "" };
        let mut text = format!("Found {at_least}{}{base}", counted(found.count, "file"));
        if last == offset {
            let _ = write!(text, "; offset={offset} is past the end");
        } else if offset > 0 || last < found.count {
            let _ = write!(text, " (showing {}-{})", grouped(offset + 1), grouped(last));
        }
        for file in page {
            text.push('\n');
            text.push_str(&shown(first, &file.path));
        }
        if last < found.count && last > offset {
            match self.sort {
                Order::Any => {
                    text.push_str("\n[more files match; sort=\"name\" with offset pages through all]");
                }
                Order::Mtime | Order::Name => {
                    let _ = write!(text, "\n[more files match: offset={last} for the next page]");
                }
            }
        }
        text + &found.coverage.footer()
    }

    /// No hit: whether ignored files would have matched, which is the usual cause.
    fn nothing(
        &self,
        scope: &Scope,
        glob: &FileGlob,
        coverage: &Coverage,
        base: &str,
        halt: &Halt,
    ) -> String {
        let mut text = format!("No files match {:?}{base}.", self.pattern);
        if !scope.include_ignored && !coverage.timed_out {
            let wider = Scope { include_ignored: true, hidden: true, ..scope.clone() };
            let within = halt.within(Duration::from_secs(2));
            let also = find(&wider, glob, Order::Any, 1_000, &within);
            if also.count > 0 {
                let at_least = if also.stopped || within.late() { "at least " } else { "" };
                let files = counted(also.count, "ignored or hidden file");
                let verb = if also.count == 1 { "matches" } else { "match" };
                let _ = write!(text, " But {at_least}{files} {verb}: use include_ignored=true.");
            }
        }
        text + &coverage.footer()
    }
}

/// A found file, ordered by what the list is ordered by.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    newest: Reverse<Option<SystemTime>>,
    path: PathBuf,
}

struct Findings {
    files: Vec<Found>,
    count: u64,
    /// The walk ended because enough was found.
    stopped: bool,
    coverage: Coverage,
}

fn find(scope: &Scope, glob: &FileGlob, order: Order, keep: usize, halt: &Halt) -> Findings {
    let pages = Mutex::new(Page::new(keep, |_: &Found| 1));
    let count = AtomicU64::new(0);
    let enough = if order == Order::Any { keep as u64 + 1 } else { u64::MAX };
    let coverage = scope.walk(halt, || Finder {
        glob,
        roots: &scope.roots,
        order,
        enough,
        count: &count,
        own: Some(Page::new(keep, |_| 1)),
        all: &pages,
    });
    let count = count.into_inner();
    let files = pages.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_items();
    Findings { files, count, stopped: count >= enough, coverage }
}

/// One thread's part of the search.
struct Finder<'a> {
    glob: &'a FileGlob,
    roots: &'a [PathBuf],
    order: Order,
    enough: u64,
    count: &'a AtomicU64,
    own: Option<Page<Found>>,
    all: &'a Mutex<Page<Found>>,
}

impl Finder<'_> {
    fn matches(&self, path: &Path) -> bool {
        match self.roots {
            [one] => self.glob.matches(one, path),
            many => many.iter().any(|root| path.starts_with(root) && self.glob.matches(root, path)),
        }
    }
}

impl Visit for Finder<'_> {
    fn file(&mut self, entry: DirEntry) -> WalkState {
        if !self.matches(entry.path()) {
            return WalkState::Continue;
        }
        let newest = match self.order {
            Order::Mtime => entry.metadata().ok().and_then(|meta| meta.modified().ok()),
            Order::Name | Order::Any => None,
        };
        if let Some(own) = &mut self.own {
            own.push(Found { newest: Reverse(newest), path: entry.into_path() });
        }
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 >= self.enough {
            return WalkState::Quit;
        }
        WalkState::Continue
    }

    fn counts_link(&self, path: &Path) -> bool {
        self.matches(path)
    }
}

impl Drop for Finder<'_> {
    fn drop(&mut self) {
        if let Some(own) = self.own.take() {
            unlocked(self.all).absorb(own);
        }
    }
}

fn to_size(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
