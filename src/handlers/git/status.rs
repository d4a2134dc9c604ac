//! GitStatus: the state of the branch and the changed files. Not here: the changes in them (GitDiff), and git's own
//! plain list (git_status).

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::porcelain::{Branch, Change, Place, Status};
use super::progress::{Progress, in_progress, rebase_step};
use super::repository::Repository;
use super::{names, revision};
use crate::acp::RawPath;
use crate::output::figures::{counted, grouped};
use crate::tool::{Access, DefaultLocation, Effect, Meta, Reply, Tool, ToolCx, ToolError};

/// The arguments of the status query that the parser reads.
pub(super) const QUESTION: [&str; 9] = [
    "status",
    "--porcelain=v2",
    "-z",
    "--branch",
    "--show-stash",
    "--ahead-behind",
    "--untracked-files=normal",
    "--ignore-submodules=dirty",
    "--find-renames",
];

const LISTED: u64 = 200;
const MOST_LISTED: u64 = 2_000;

/// Show a git repository's branch, what it is ahead and behind, a merge or rebase in progress, then conflicts,
/// staged, changed and new paths.
///
/// Of submodules the commit is compared, not their files.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GitStatus {
    /// Folder or file; else the first workspace.
    #[serde(default = "here")]
    path: RawPath,
    /// List files of new folders.
    #[serde(default)]
    all_untracked: bool,
    /// Paths; 200 if absent.
    limit: Option<u64>,
    /// Results to skip.
    #[serde(default)]
    offset: u64,
}

/// Returns the first workspace folder.
pub(super) fn here() -> RawPath {
    RawPath::from(".")
}

impl Tool for GitStatus {
    const NAME: &'static str = "GitStatus";
    const EFFECT: Effect = Effect::Reads;
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("repo_path", "path"), ("directory", "path"), ("cwd", "path"), ("file_path", "path")];
    const EXAMPLES: &'static [&'static str] = &["{}", r#"{"path":"backend","all_untracked":true}"#];
    const LIMITS: &'static [&'static str] =
        &["200 paths a call by default, 2,000 at most", "8 MB of git's list are read", "30 s a run of git"];
    type Deps = GitDeps;
    type Output = Reply;

    fn access(&self) -> Access {
        Access::reads([self.path.as_str()]).or_default(DefaultLocation::FirstWorkspace)
    }

    async fn run(self, cx: &ToolCx, deps: &GitDeps) -> Result<Reply, ToolError> {
        let repository = Repository::open(cx, deps, &self.path).await?;
        let mut question = QUESTION.to_vec();
        if self.all_untracked {
            question.push("--untracked-files=all");
        }
        let answer = repository.ask(cx, &question, repository.pathspec()).await?;
        let status = Status::read(&answer.output);
        if status.changes.is_empty() {
            repository.prove_known(cx).await?;
        }
        let mut text = head(deps, &repository, &status);
        if answer.cut {
            text.push_str("[the list is longer than 8 MB; counts and paths are those of its beginning]\n");
        }
        self.list(&status, &mut text);
        Ok(Reply::text(text).with_meta(Meta { warnings: repository.notes, ..Meta::default() }))
    }
}

impl GitStatus {
    fn list(&self, status: &Status, text: &mut String) {
        let limit =
            usize::try_from(self.limit.unwrap_or(LISTED).clamp(1, MOST_LISTED)).expect("at most 2000");
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let total = status.changes.len();
        let mut place = None;
        for change in status.changes.iter().skip(offset).take(limit) {
            if place.replace(change.place) != Some(change.place) {
                let _ = writeln!(text, "\n{}:", heading(change.place));
            }
            text.push_str(&line(change));
        }
        let end = offset.saturating_add(limit).min(total);
        if offset >= total && total > 0 {
            let _ = write!(
                text,
                "\nThere are {}; offset={offset} is past them.",
                counted(total as u64, "change")
            );
        } else if offset > 0 || end < total {
            let _ = write!(
                text,
                "\nShowing {}-{} of {}.",
                grouped(offset as u64 + 1),
                grouped(end as u64),
                grouped(total as u64)
            );
            if end < total {
                let _ = write!(text, " Continue with offset={end}.");
            }
        }
        text.truncate(text.trim_end().len());
    }
}

fn heading(place: Place) -> &'static str {
    match place {
        Place::Conflicted => "In conflict",
        Place::Staged => "Staged for the next commit",
        Place::Unstaged => "Changed, not staged",
        Place::Untracked => "Untracked",
    }
}

fn line(change: &Change) -> String {
    match change.place {
        Place::Untracked => format!("  {}\n", change.shown()),
        _ => format!("  {}: {}\n", change.word(), change.shown()),
    }
}

/// Describes the branch, the operations in progress and the counts.
pub(super) fn head(deps: &GitDeps, repository: &Repository, status: &Status) -> String {
    let mut text = branch_words(&status.branch);
    text.push('\n');
    for progress in in_progress(repository) {
        let step = match progress {
            Progress::Rebase | Progress::Mailbox => rebase_step(deps, repository),
            _ => None,
        };
        let step = step.map_or_else(String::new, |step| format!(" (Step {step}.)"));
        let _ = writeln!(text, "{}{step}", progress.words());
    }
    let _ = writeln!(text, "{}", counts(status, repository.pathspec()));
    text
}

/// Formats `2 staged, 1 untracked`, or says that nothing changed.
pub(super) fn counts(status: &Status, path: Option<&str>) -> String {
    let named = [
        (Place::Conflicted, "in conflict"),
        (Place::Staged, "staged"),
        (Place::Unstaged, "changed but not staged"),
        (Place::Untracked, "untracked"),
    ];
    let count = |(place, word): (Place, &str)| match status.count(place) {
        0 => None,
        n => Some(format!("{} {word}", grouped(n as u64))),
    };
    let counts: Vec<String> = named.into_iter().filter_map(count).collect();
    let within = path.map_or_else(String::new, |path| format!(" in {}", names::path(path.as_bytes())));
    let stashes = match status.branch.stashes {
        0 => String::new(),
        n => format!(" ({} in the stash.)", counted(n, "entry").replace("entrys", "entries")),
    };
    if counts.is_empty() {
        format!("Nothing to commit, working tree clean{within}.{stashes}")
    } else {
        format!("{}{within}.{stashes}", counts.join(", "))
    }
}

fn branch_words(branch: &Branch) -> String {
    let at = branch.commit.as_deref().map(revision::short);
    let Some(name) = &branch.name else {
        return format!("No branch is checked out (detached HEAD at {}).", at.unwrap_or("nothing"));
    };
    let name = names::line(name);
    let Some(at) = at else { return format!("On branch {name}, which has no commits yet.") };
    let Some(upstream) = branch.upstream.as_deref().map(names::line) else {
        return format!("On branch {name} at {at}, without an upstream.");
    };
    match branch.ahead_behind {
        None => format!("On branch {name} at {at}; its upstream {upstream} is gone."),
        Some((0, 0)) => format!("On branch {name} at {at}, level with {upstream} as last fetched."),
        Some((ahead, behind)) => {
            let ahead = (ahead > 0).then(|| format!("{} ahead of", counted(ahead, "commit")));
            let behind = (behind > 0).then(|| format!("{} behind", counted(behind, "commit")));
            let both: Vec<String> = ahead.into_iter().chain(behind).collect();
            format!("On branch {name} at {at}, {} {upstream} as last fetched.", both.join(" and "))
        }
    }
}
