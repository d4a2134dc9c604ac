//! GitBlame: the commit that last changed each line of a file.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::display_text::{count_control_chars, escape_line};
use super::repository::{GitRepository, RepoPathKind, append_pathspec};
use super::requested_path::read_access;
use super::resolve_revision::short_id;
use punie_host::RawPath;
use punie_text::output::path_text::path_text_from_bytes;
use punie_text::output::{TextBudget, number_format};
use punie_tool::{
    DeclaredAccess, ErrorCode, ResultMeta, Tool, ToolContext, ToolEffect, ToolError, ToolReply,
};

const DEFAULT_LINES: u64 = 200;
const MAX_LINES: u64 = 2_000;

/// Show which commit last changed each line of a file, when, by whom and why.
///
/// Lines that are not committed say so.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GitBlame {
    /// A file that git knows.
    path: RawPath,
    /// First line, from 1.
    #[schemars(range(min = 1))]
    start_line: Option<u64>,
    /// Else 199 lines after the first.
    #[schemars(range(min = 1))]
    end_line: Option<u64>,
    /// As of this commit.
    #[serde(rename = "ref")]
    revision: Option<String>,
}

impl Tool for GitBlame {
    const NAME: &'static str = "GitBlame";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("start", "start_line"), ("end", "end_line")];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"path":"src/main.rs","start_line":40,"end_line":60}"#,
        r#"{"path":"src/main.rs","ref":"v1.2"}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "200 lines a call by default, 2,000 at most",
        "30 s a run of git",
    ];
    type Deps = GitDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        read_access([&self.path])
    }

    async fn run(self, cx: &ToolContext, deps: &GitDeps) -> Result<ToolReply, ToolError> {
        let lines = self.line_range()?;
        let repository = GitRepository::open(cx, deps, &self.path).await?;
        let Some(path) = repository
            .pathspec()
            .filter(|_| repository.requested.kind != RepoPathKind::Folder)
        else {
            return Err(ToolError::new(
                ErrorCode::IsDirectory,
                format!(
                    "{} is a folder; GitBlame takes a file.",
                    repository.requested.shown
                ),
            ));
        };
        let id = match &self.revision {
            Some(revision) => Some(repository.resolve_commit("ref", revision).await?),
            None => None,
        };
        check_ignore_revs_file(&repository).await?;
        // One extra line tells whether the file goes on.
        let range = format!("-L{},{}", lines.start(), lines.end() + 1);
        let mut arguments = vec![
            "blame",
            "--line-porcelain",
            "--no-textconv",
            "--no-progress",
            &range,
        ];
        arguments.extend(id.as_deref());
        let arguments = append_pathspec(&arguments, Some(path));
        let answer = repository.git.run(&arguments).await?;
        if !answer.is_success() {
            let complaint = &answer.stderr_text;
            let failure = explain_blame_failure(&repository, path, id.as_deref(), complaint);
            return Err(failure.await?);
        }
        let mut blamed = parse_blame(&answer.output);
        let is_past = |line: &BlamedLine| line.number > *lines.end();
        let hint = self.continuation_hint(blamed.last().is_some_and(is_past), *lines.end());
        blamed.retain(|line| lines.contains(&line.number));
        if blamed.iter().any(|line| line.text.contains('\0')) {
            return Err(ToolError::new(
                ErrorCode::NotText,
                format!("{} is not text.", repository.requested.shown),
            ));
        }
        let at = id.map_or_else(
            || "as it is now".to_owned(),
            |id| format!("at {}", short_id(&id)),
        );
        let text = format!(
            "{} {at}\n{}",
            path_text_from_bytes(path.as_bytes()),
            render_blame(&blamed, &hint)
        );
        let texts = blamed.iter().map(|line| line.text.as_str());
        let controls = texts.map(count_control_chars).sum();
        let cut = "git's answer was longer than 8 MB and was cut there".to_owned();
        let meta = ResultMeta {
            control_chars: Some(controls).filter(|count| *count > 0),
            warnings: answer.cut.then_some(cut).into_iter().collect(),
            ..ResultMeta::default()
        };
        Ok(ToolReply::from_text(text)
            .with_meta(meta)
            .with_budget(TextBudget::from_requested(Some(200_000))))
    }
}

impl GitBlame {
    fn continuation_hint(&self, has_more: bool, last: u64) -> String {
        match self.end_line {
            _ if !has_more => " There are no more lines.".to_owned(),
            Some(end) if end == last => " The file has more lines.".to_owned(),
            _ => format!(" Continue with start_line={}.", last + 1),
        }
    }

    fn line_range(&self) -> Result<RangeInclusive<u64>, ToolError> {
        let start = self.start_line.unwrap_or(1).max(1);
        let end = self
            .end_line
            .unwrap_or(start.saturating_add(DEFAULT_LINES - 1));
        if end < start {
            let text = format!("GitBlame: `end_line` ({end}) is before `start_line` ({start}).");
            return Err(ToolError::invalid_args(text));
        }
        if start > u64::from(u32::MAX) {
            return Err(ToolError::invalid_args(
                "GitBlame: `start_line` is past any file's end.",
            ));
        }
        Ok(start..=end.min(start + MAX_LINES - 1))
    }
}

/// Explains why git failed: the file is not in its history, or it has fewer lines.
async fn explain_blame_failure(
    repository: &GitRepository,
    path: &str,
    id: Option<&str>,
    complaint: &str,
) -> Result<ToolError, ToolError> {
    let shown = &repository.requested.shown;
    let (list, place) = match id {
        Some(id) => (
            vec!["ls-tree", "--full-tree", id],
            "that commit does not have it",
        ),
        None => (vec!["ls-files"], "git does not track it"),
    };
    let known = repository.run_on_path(&list, Some(path)).await?;
    if known.output.is_empty() {
        return Ok(ToolError::not_found(format!(
            "{shown}: {place}, so there is no history of its lines. GitStatus lists what is untracked."
        )));
    }
    Ok(ToolError::invalid_args(format!(
        "GitBlame: {shown}: {complaint}"
    )))
}

/// Checks that `blame.ignoreRevsFile` lies in the workspace, because git's error message would quote a file from
/// elsewhere.
async fn check_ignore_revs_file(repository: &GitRepository) -> Result<(), ToolError> {
    let question = [
        "config",
        "-z",
        "--type=path",
        "--get-all",
        "blame.ignoreRevsFile",
    ];
    let answer = repository.git.run(&question).await?;
    let inside = |real: PathBuf| repository.git.deps.workspace.contains_real_path(&real);
    for file in answer.nul_records() {
        let file = repository.top.join(&*String::from_utf8_lossy(file));
        if !file.canonicalize().is_ok_and(inside) {
            return Err(ToolError::new(
                ErrorCode::PolicyDenied,
                "The setting blame.ignoreRevsFile names a file that is missing or outside the workspace, so git is not asked. \
                 Ask the user to change that setting.",
            ));
        }
    }
    Ok(())
}

/// A line of a file with the commit that last changed it.
#[derive(Debug, Default, Clone)]
struct BlamedLine {
    id: String,
    number: u64,
    author: String,
    seconds: i64,
    zone: String,
    subject: String,
    text: String,
}

/// Parses the output of `git blame --line-porcelain`.
fn parse_blame(output: &[u8]) -> Vec<BlamedLine> {
    let mut lines = Vec::new();
    let mut line = BlamedLine::default();
    let mut fresh = true;
    for record in output.split(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(record);
        if fresh {
            let mut fields = text.split(' ');
            fields.next().unwrap_or_default().clone_into(&mut line.id);
            line.number = fields
                .nth(1)
                .and_then(|number| number.parse().ok())
                .unwrap_or(0);
            fresh = false;
        } else if let Some(content) = text.strip_prefix('\t') {
            content.clone_into(&mut line.text);
            lines.push(std::mem::take(&mut line));
            fresh = true;
        } else if let Some((key, value)) = text.split_once(' ') {
            match key {
                "author" => line.author = escape_line(value),
                "author-time" => line.seconds = value.parse().unwrap_or(0),
                "author-tz" => line.zone = escape_line(value),
                "summary" => line.subject = escape_line(value),
                _ => {}
            }
        }
    }
    lines
}

fn render_blame(lines: &[BlamedLine], hint: &str) -> String {
    let mut text = String::new();
    let mut last: Option<&BlamedLine> = None;
    for line in lines {
        if last.is_none_or(|last| last.id != line.id) {
            let _ = if line.id.bytes().all(|byte| byte == b'0') {
                writeln!(text, "not committed yet")
            } else {
                writeln!(
                    text,
                    "{} {} {}: {}",
                    short_id(&line.id),
                    author_date(line),
                    line.author,
                    line.subject
                )
            };
        }
        let _ = writeln!(text, "{:>6}\t{}", line.number, line.text);
        last = Some(line);
    }
    match (lines.first(), last) {
        (Some(first), Some(last)) => {
            let _ = write!(text, "Showing {}-{}.{hint}", first.number, last.number);
        }
        _ => text.push_str("The file has no lines."),
    }
    text
}

/// Formats the day in the author's time zone.
fn author_date(line: &BlamedLine) -> String {
    let zone: i64 = line.zone.parse().unwrap_or(0);
    let local = line.seconds + (zone / 100 * 60 + zone % 100) * 60;
    let (year, month, day) = number_format::civil_from_days(local.div_euclid(86_400));
    format!("{year:04}-{month:02}-{day:02}")
}
