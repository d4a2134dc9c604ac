//! Glob: files by name, newest first.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::SearchDeps;
use super::coverage::SearchCoverage;
use super::file_finder::{FileNameSearch, FoundPaths, SortOrder};
use super::file_glob::{FileGlob, join_glob_list, split_literal_folder};
use super::folder_entries::WalkEntryKind;
use super::result_text::{
    at_least, ignored_matches_hint, page_range_text, saturating_usize, take_zero_as_all,
};
use super::search_scope::{SearchScope, select_file_types};
use super::search_stop;
use punie_host::{FileView, RawPath};
use punie_text::output::TextBudget;
use punie_text::output::number_format::format_count;
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, DefaultLocation, Tool, ToolContext, ToolEffect,
    ToolError, ToolReply,
};

/// The largest number of paths in an answer.
const MAX_LIMIT: u64 = 2_000;
/// The largest offset into the list.
const MAX_OFFSET: u64 = 1_000_000;

/// Find files by name, newest first. For contents use Grep.
///
/// Without a slash the pattern matches names at any depth, with one the path below `path`. Skips ignored files and
/// `.git`; marks links to files, and follows none to folders.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Glob {
    /// Such as `*.rs` or `src/**/*.{ts,tsx}`.
    pattern: String,
    /// Folder; else all workspaces.
    path: Option<RawPath>,
    /// Files, at most 2000.
    #[serde(default = "default_limit")]
    limit: u64,
    /// Results to skip.
    #[serde(default)]
    offset: u64,
    /// `file` (default), `dir`, `link`, or `rust`, `py`, ...
    #[serde(rename = "type")]
    file_type: Option<String>,
    /// Include ignored files.
    #[serde(default)]
    include_ignored: bool,
    /// Include dot files.
    #[serde(default = "yes")]
    hidden: bool,
    /// `mtime` (default), or `any`: fastest.
    #[serde(default)]
    sort: SortOrder,
    /// Milliseconds until it stops.
    #[serde(default = "default_timeout")]
    timeout_ms: u64,
    /// Characters; 30000 if absent.
    max_chars: Option<u64>,
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
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const KNOWN_AS: &'static [&'static str] =
        &["LS", "file_search", "glob_file_search", "find_files"];
    const LIMITS: &'static [&'static str] = &[
        "200 paths an answer, 2,000 at most; offset up to 1,000,000",
        "20 seconds a search, then what was found so far",
        "patterns up to 4,096 bytes, 8 levels of braces, 512 alternatives",
    ];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"pattern":"*.rs"}"#,
        r#"{"pattern":"src/**/*.{ts,tsx}","sort":"name","limit":500}"#,
    ];
    type Deps = SearchDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        let path = self.given_path();
        match (pattern_base(&self.pattern), path) {
            (Some(base), _) if base.starts_with('/') => DeclaredAccess::reading_paths([base]),
            (Some(base), Some(path)) => {
                DeclaredAccess::reading_paths([format!("{}/{base}", path.trim_end_matches('/'))])
            }
            (base, None) => DeclaredAccess::none()
                .with_default_location(DefaultLocation::AllWorkspaces(base.map(str::to_owned))),
            (None, Some(path)) => DeclaredAccess::reading_paths([path]),
        }
    }

    fn normalize(arguments: &mut Map<String, Value>) {
        if let Some(pattern) = arguments.get("pattern").and_then(join_glob_list) {
            arguments.insert("pattern".to_owned(), Value::from(pattern));
        }
        take_zero_as_all(arguments, "limit", MAX_LIMIT);
    }

    fn describe(&self) -> CallDescription {
        CallDescription::with_title(CallTitle::from_sentence(format!(
            "Find files that match `{}`",
            self.pattern
        )))
    }

    async fn run(self, cx: &ToolContext, deps: &SearchDeps) -> Result<ToolReply, ToolError> {
        let (kind, types) = match self.file_type.as_deref().unwrap_or("") {
            "" | "file" | "f" => (WalkEntryKind::File, None),
            "dir" | "directory" | "folder" | "d" => (WalkEntryKind::Folder, None),
            "link" | "symlink" | "l" => (WalkEntryKind::Link, None),
            language => (WalkEntryKind::File, Some(select_file_types(language)?)),
        };
        let view = deps.view_for_call(cx).await?;
        let (roots, glob) = self.resolve_pattern(deps, view.as_deref())?;
        let scope = SearchScope {
            roots,
            include_ignored: self.include_ignored,
            hidden: self.hidden,
            types,
            view,
            deps: deps.clone(),
        };
        search_stop::run_search(cx, self.timeout_ms, move |halt| {
            let text = self.build_answer(&FileNameSearch {
                scope: &scope,
                glob: &glob,
                kind,
                halt,
            });
            Ok(ToolReply::from_text(text).with_budget(TextBudget::from_requested(self.max_chars)))
        })
        .await
    }
}

impl Glob {
    fn given_path(&self) -> Option<&str> {
        let path = self.path.as_ref().map(RawPath::as_str);
        path.filter(|path| !path.is_empty())
    }

    /// Returns the folders to walk and the pattern for files below them.
    fn resolve_pattern(
        &self,
        deps: &SearchDeps,
        view: Option<&FileView>,
    ) -> Result<(Vec<PathBuf>, FileGlob), ToolError> {
        let pattern = self.pattern.strip_prefix("./").unwrap_or(&self.pattern);
        // Checked before any path is resolved, because a rejected pattern must not touch the disk.
        let whole = FileGlob::new(pattern)?;
        let (folder, rest) = split_literal_folder(pattern);
        let absolute = Path::new(folder).is_absolute();
        let path = self.given_path();
        // With several workspaces, a relative folder may be in any of them.
        let anywhere = path.is_none() && !absolute && deps.workspace.root_paths().count() > 1;
        if folder.is_empty() || rest.is_empty() || pattern.starts_with('!') || anywhere {
            return Ok((
                Self::resolve_folders(deps, self.path.as_ref(), view)?,
                whole,
            ));
        }
        let base = match path {
            Some(path) if !absolute => format!("{}/{folder}", path.trim_end_matches('/')),
            _ => folder.to_owned(),
        };
        Ok((
            Self::resolve_folders(deps, Some(&RawPath::from(base.as_str())), view)?,
            FileGlob::relative_to_folder(rest)?,
        ))
    }

    fn resolve_folders(
        deps: &SearchDeps,
        path: Option<&RawPath>,
        view: Option<&FileView>,
    ) -> Result<Vec<PathBuf>, ToolError> {
        let roots = SearchScope::resolve_roots(&deps.workspace, path, view)?;
        match roots.as_slice() {
            [one] if one.is_file() => Err(ToolError::invalid_args(format!(
                "{} is a file. Glob searches folders; use Read for this file.",
                one.display()
            ))),
            _ => Ok(roots),
        }
    }

    fn build_answer(&self, search: &FileNameSearch<'_>) -> String {
        let limit = self.limit.clamp(1, MAX_LIMIT);
        let offset = self.offset.min(MAX_OFFSET);
        let keep = saturating_usize(offset + limit);
        let mut found = search.find_paths(self.sort, keep, None);
        let folders = search.scope.describe_roots();
        let mut reading = "";
        if found.count == 0
            && let Some(glob) = search.glob.with_literal_brackets()
        {
            let literal = FileNameSearch {
                glob: &glob,
                ..*search
            };
            found = literal.find_paths(self.sort, keep, None);
            reading = "\n[the brackets were taken as letters of names]";
        }
        if found.count == 0 {
            return self.explain_no_match(search, &found.coverage, &folders);
        }
        let page = found
            .files
            .iter()
            .skip(saturating_usize(offset))
            .take(saturating_usize(limit));
        let shown = page.len() as u64;
        let last = offset + shown;
        let mut text = format!(
            "Found {}{}{}",
            at_least(found.stopped || found.coverage.timed_out),
            format_count(found.count, search.kind_noun()),
            page_range_text(offset, shown, found.count, &folders)
        );
        for file in page {
            text.push('\n');
            text.push_str(&search.scope.path_text(&file.path));
            text.push_str(if file.is_link { " (link)" } else { "" });
        }
        if last < found.count && shown > 0 {
            match self.sort {
                SortOrder::Any => {
                    text.push_str(
                        "\n[more files match; sort=\"name\" with offset pages through all]",
                    );
                }
                SortOrder::Mtime | SortOrder::Name => {
                    let _ = write!(
                        text,
                        "\n[more files match: offset={last} for the next page]"
                    );
                }
            }
        }
        text + reading + &found.coverage.format_footer()
    }

    /// Explains an empty result. The usual cause is that ignored files would have matched.
    fn explain_no_match(
        &self,
        search: &FileNameSearch<'_>,
        coverage: &SearchCoverage,
        folders: &str,
    ) -> String {
        let mut text = format!(
            "No {} match {:?} {folders}.",
            &format_count(0, search.kind_noun())[2..],
            self.pattern
        );
        if !coverage.skipped.is_empty() && !coverage.timed_out {
            let halt = search.halt.shortened_to(Duration::from_secs(2));
            let also = FileNameSearch {
                halt: &halt,
                ..*search
            }
            .find_paths(SortOrder::Any, 100_000, Some(coverage));
            if also.count > 0 {
                let partly = also.stopped || also.coverage.timed_out || coverage.more_skipped;
                let noun = search.kind_noun();
                let hint = ignored_matches_hint(also.count, noun, partly, self.hidden);
                text.extend([" ", &hint]);
            }
        }
        if !coverage.timed_out {
            text.push_str(&self.find_near_misses(search));
        }
        text + &coverage.format_footer()
    }

    /// Finds folders that match, and names that differ only in case.
    fn find_near_misses(&self, search: &FileNameSearch<'_>) -> String {
        const NAMED: usize = 3;
        let halt = search.halt.shortened_to(Duration::from_secs(2));
        let names = |found: &FoundPaths| {
            let files = found.files.iter();
            files
                .map(|file| search.scope.path_text(&file.path))
                .collect::<Vec<_>>()
        };
        let mut text = String::new();
        if search.kind == WalkEntryKind::File && search.scope.types.is_none() {
            let folders = FileNameSearch {
                kind: WalkEntryKind::Folder,
                halt: &halt,
                ..*search
            };
            if let Some(first) = names(&folders.find_paths(SortOrder::Name, 1, None)).first() {
                let inside = match &self.path {
                    None => format!("pattern `{first}/**`"),
                    Some(_) => format!("path `{first}` and pattern `**`"),
                };
                let _ = write!(
                    text,
                    " But `{first}` is a folder: use {inside} for the files in it."
                );
            }
        }
        if let Some(any_case) = search.glob.ignoring_case() {
            let found = FileNameSearch {
                glob: &any_case,
                halt: &halt,
                ..*search
            }
            .find_paths(SortOrder::Name, NAMED, None);
            let verb = if found.count == 1 {
                "differs"
            } else {
                "differ"
            };
            let more = if found.count > NAMED as u64 {
                ", ..."
            } else {
                ""
            };
            if found.count > 0 {
                let _ = write!(
                    text,
                    " But `{}`{more} {verb} in case.",
                    names(&found).join("`, `")
                );
            }
        }
        text
    }
}

/// Returns the literal folder at the start of a pattern, if it has one.
fn pattern_base(pattern: &str) -> Option<&str> {
    let (base, rest) = split_literal_folder(pattern.strip_prefix("./").unwrap_or(pattern));
    (!base.is_empty() && !rest.is_empty() && !pattern.starts_with('!')).then_some(base)
}
