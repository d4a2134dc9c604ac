//! GitBlame: the commit that last changed each line of a file. Not here: all commits of a file (GitLog).

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::names;
use super::repository::{Kind, Repository, with_path};
use super::revision::short;
use crate::acp::RawPath;
use crate::output::{Budget, figures};
use crate::tool::{Access, DefaultLocation, Effect, ErrorCode, Meta, Reply, Tool, ToolCx, ToolError};

const LINES: u64 = 200;
const MOST: u64 = 2_000;

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
    const EFFECT: Effect = Effect::Reads;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("file_path", "path"),
        ("file", "path"),
        ("start", "start_line"),
        ("end", "end_line"),
        ("commit", "ref"),
        ("revision", "ref"),
    ];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"path":"src/main.rs","start_line":40,"end_line":60}"#,
        r#"{"path":"src/main.rs","ref":"v1.2"}"#,
    ];
    const LIMITS: &'static [&'static str] =
        &["200 lines a call by default, 2,000 at most", "30 s a run of git"];
    type Deps = GitDeps;
    type Output = Reply;

    fn access(&self) -> Access {
        Access::reads([self.path.as_str()]).or_default(DefaultLocation::FirstWorkspace)
    }

    async fn run(self, cx: &ToolCx, deps: &GitDeps) -> Result<Reply, ToolError> {
        let lines = self.lines()?;
        let repository = Repository::open(cx, deps, &self.path).await?;
        let Some(path) = repository.pathspec().filter(|_| repository.part.kind != Kind::Folder) else {
            return Err(ToolError::new(
                ErrorCode::IsDirectory,
                format!("{} is a folder; GitBlame takes a file.", repository.part.shown),
            ));
        };
        let id = match &self.revision {
            Some(revision) => Some(repository.commit(cx, "ref", revision).await?),
            None => None,
        };
        prove_ignored_inside(cx, deps, &repository).await?;
        // One extra line tells whether the file goes on.
        let range = format!("-L{},{}", lines.start(), lines.end() + 1);
        let mut arguments = vec!["blame", "--line-porcelain", "--no-textconv", "--no-progress", &range];
        arguments.extend(id.as_deref());
        let answer = repository.git.run(cx, &with_path(&arguments, Some(path))).await?;
        if !answer.worked() {
            return Err(self.refusal(cx, &repository, path, &answer.complaint).await?);
        }
        let mut blamed = read(&answer.output);
        let goes_on = match (blamed.last().is_some_and(|line| line.number > *lines.end()), self.end_line) {
            (false, _) => " There are no more lines.".to_owned(),
            (true, Some(end)) if end == *lines.end() => " The file has more lines.".to_owned(),
            (true, _) => format!(" Continue with start_line={}.", lines.end() + 1),
        };
        blamed.retain(|line| lines.contains(&line.number));
        if blamed.iter().any(|line| line.text.contains('\0')) {
            return Err(ToolError::new(
                ErrorCode::NotText,
                format!("{} is not text.", repository.part.shown),
            ));
        }
        let at = id.map_or_else(|| "as it is now".to_owned(), |id| format!("at {}", short(&id)));
        let text = format!("{} {at}\n{}", names::path(path.as_bytes()), render(&blamed, &goes_on));
        let controls: u64 = blamed.iter().map(Blamed::controls).sum();
        let mut meta = Meta { control_chars: Some(controls).filter(|n| *n > 0), ..Meta::default() };
        if answer.cut {
            meta.warnings.push("git's answer was longer than 8 MB and was cut there".to_owned());
        }
        Ok(Reply::text(text).with_meta(meta).with_budget(Budget::chars(Some(200_000))))
    }
}

impl GitBlame {
    fn lines(&self) -> Result<RangeInclusive<u64>, ToolError> {
        let start = self.start_line.unwrap_or(1).max(1);
        let end = self.end_line.unwrap_or(start.saturating_add(LINES - 1));
        if end < start {
            let text = format!("GitBlame: `end_line` ({end}) is before `start_line` ({start}).");
            return Err(ToolError::invalid_args(text));
        }
        if start > u64::from(u32::MAX) {
            return Err(ToolError::invalid_args("GitBlame: `start_line` is past any file's end."));
        }
        Ok(start..=end.min(start + MOST - 1))
    }

    /// Explains why git failed: the file is not in its history, or it has fewer lines.
    async fn refusal(
        &self,
        cx: &ToolCx,
        repository: &Repository,
        path: &str,
        complaint: &str,
    ) -> Result<ToolError, ToolError> {
        let shown = &repository.part.shown;
        let known = match &self.revision {
            Some(revision) => {
                let id = repository.commit(cx, "ref", revision).await?;
                repository.ask(cx, &["ls-tree", "-z", "--full-tree", &id], Some(path)).await?
            }
            None => repository.ask(cx, &["ls-files", "-z"], Some(path)).await?,
        };
        if known.output.is_empty() {
            let place =
                self.revision.as_ref().map_or("git does not track it", |_| "that commit does not have it");
            return Ok(ToolError::not_found(format!(
                "{shown}: {place}, so there is no history of its lines. GitStatus lists what is untracked."
            )));
        }
        Ok(ToolError::invalid_args(format!("GitBlame: {shown}: {complaint}")))
    }
}

/// Checks that `blame.ignoreRevsFile` lies in the workspace, because git's error message would quote a file from
/// elsewhere.
async fn prove_ignored_inside(cx: &ToolCx, deps: &GitDeps, repository: &Repository) -> Result<(), ToolError> {
    let question = ["config", "-z", "--type=path", "--get-all", "blame.ignoreRevsFile"];
    let answer = repository.git.run(cx, &question).await?;
    for file in answer.output.split(|byte| *byte == 0).filter(|file| !file.is_empty()) {
        let file = repository.top.join(String::from_utf8_lossy(file).into_owned());
        let inside = |real: &Path| deps.workspace.roots().any(|root| real.starts_with(root));
        if !file.canonicalize().is_ok_and(|real| inside(&real)) {
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
struct Blamed {
    id: String,
    number: u64,
    author: String,
    seconds: i64,
    zone: String,
    subject: String,
    text: String,
}

impl Blamed {
    fn controls(&self) -> u64 {
        self.text.chars().filter(|c| c.is_control() && !matches!(c, '\t' | '\r')).count() as u64
    }
}

/// Parses the output of `git blame --line-porcelain`.
fn read(output: &[u8]) -> Vec<Blamed> {
    let mut lines = Vec::new();
    let mut line = Blamed::default();
    let mut fresh = true;
    for record in output.split(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(record);
        if fresh {
            let mut fields = text.split(' ');
            fields.next().unwrap_or_default().clone_into(&mut line.id);
            line.number = fields.nth(1).and_then(|number| number.parse().ok()).unwrap_or(0);
            fresh = false;
        } else if let Some(content) = text.strip_prefix('\t') {
            content.clone_into(&mut line.text);
            lines.push(std::mem::take(&mut line));
            fresh = true;
        } else if let Some((key, value)) = text.split_once(' ') {
            match key {
                "author" => line.author = names::line(value),
                "author-time" => line.seconds = value.parse().unwrap_or(0),
                "author-tz" => line.zone = names::line(value),
                "summary" => line.subject = names::line(value),
                _ => {}
            }
        }
    }
    lines
}

fn render(lines: &[Blamed], goes_on: &str) -> String {
    let mut text = String::new();
    let mut last: Option<&Blamed> = None;
    for line in lines {
        if last.is_none_or(|last| last.id != line.id) {
            let _ = if line.id.bytes().all(|byte| byte == b'0') {
                writeln!(text, "not committed yet")
            } else {
                writeln!(text, "{} {} {}: {}", short(&line.id), date(line), line.author, line.subject)
            };
        }
        let _ = writeln!(text, "{:>6}\t{}", line.number, line.text);
        last = Some(line);
    }
    match (lines.first(), last) {
        (Some(first), Some(last)) => {
            let _ = write!(text, "Showing {}-{}.{goes_on}", first.number, last.number);
        }
        _ => text.push_str("The file has no lines."),
    }
    text
}

/// Formats the day in the author's time zone.
fn date(line: &Blamed) -> String {
    let zone: i64 = line.zone.parse().unwrap_or(0);
    let local = line.seconds + (zone / 100 * 60 + zone % 100) * 60;
    let (year, month, day) = figures::date(local.div_euclid(86_400));
    format!("{year:04}-{month:02}-{day:02}")
}
