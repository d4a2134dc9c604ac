//! GitStatus: the state of the branch and the changed files.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;

use super::GitDeps;
use super::display_text::escape_line;
use super::pending_operation::{PendingOperation, find_pending_operations, rebase_step};
use super::porcelain::{BranchStatus, ChangeState, GitFileChange, RepoStatus};
use super::repository::{GitRepository, reply_with_warnings};
use super::requested_path::{here, read_access};
use super::resolve_revision;
use super::submodule_changes::add_submodule_changes;
use punie_host::RawPath;
use punie_text::output::number_format::{format_count, group_digits};
use punie_text::output::path_text::path_text_from_bytes;
use punie_tool::{DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

/// The arguments of the status query that the parser reads.
const STATUS_ARGUMENTS: [&str; 9] = [
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

const DEFAULT_LISTED: u64 = 200;
const MAX_LISTED: u64 = 2_000;

/// Show a git repository's branch, what it is ahead and behind, a merge or rebase in progress, then conflicts,
/// staged, changed and new paths.
///
/// Changes inside submodules are listed as one of the submodule.
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

impl Tool for GitStatus {
    const NAME: &'static str = "GitStatus";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const EXAMPLES: &'static [&'static str] = &["{}", r#"{"path":"backend","all_untracked":true}"#];
    const LIMITS: &'static [&'static str] = &[
        "200 paths a call by default, 2,000 at most",
        "8 MB of git's list are read",
        "30 s a run of git",
    ];
    type Deps = GitDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        read_access([&self.path])
    }

    async fn run(self, cx: &ToolContext, deps: &GitDeps) -> Result<ToolReply, ToolError> {
        let repository = GitRepository::open(cx, deps, &self.path).await?;
        let more: &[&str] = if self.all_untracked {
            &["--untracked-files=all"]
        } else {
            &[]
        };
        let path = repository.pathspec();
        let mut status = read_status(&repository, more, path).await?;
        let uncompared = add_submodule_changes(&repository, &mut status, path).await?;
        if status.changes.is_empty() {
            repository.require_known_path().await?;
        }
        let mut text = status_header(&repository, &status);
        if status.cut {
            text.push_str(
                "[the list is longer than 8 MB; counts and paths are those of its beginning]\n",
            );
        }
        self.append_changes(&status, &mut text);
        let warnings = repository.filter_warning().into_iter().chain(uncompared);
        Ok(reply_with_warnings(text, warnings))
    }
}

/// Reads the status with further arguments, of a path or of the whole repository.
pub(super) async fn read_status(
    repository: &GitRepository,
    more: &[&str],
    path: Option<&str>,
) -> Result<RepoStatus, ToolError> {
    let arguments = [&STATUS_ARGUMENTS, more].concat();
    let answer = repository.run_on_path(&arguments, path).await?;
    Ok(RepoStatus {
        cut: answer.cut,
        ..RepoStatus::parse_porcelain(&answer.output)
    })
}

impl GitStatus {
    fn append_changes(&self, status: &RepoStatus, text: &mut String) {
        let limit = usize::try_from(self.limit.unwrap_or(DEFAULT_LISTED).clamp(1, MAX_LISTED))
            .expect("at most 2000");
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let total = status.changes.len();
        let mut place = None;
        for change in status.changes.iter().skip(offset).take(limit) {
            if place.replace(change.place) != Some(change.place) {
                let _ = writeln!(text, "\n{}:", state_heading(change.place));
            }
            text.push_str(&format_change(change));
        }
        let end = offset.saturating_add(limit).min(total);
        if offset >= total && total > 0 {
            let _ = write!(
                text,
                "\nThere are {}; offset={offset} is past them.",
                format_count(total as u64, "change")
            );
        } else if offset > 0 || end < total {
            let _ = write!(
                text,
                "\nShowing {}-{} of {}.",
                group_digits(offset as u64 + 1),
                group_digits(end as u64),
                group_digits(total as u64)
            );
            if end < total {
                let _ = write!(text, " Continue with offset={end}.");
            }
        }
        text.truncate(text.trim_end().len());
    }
}

fn state_heading(place: ChangeState) -> &'static str {
    match place {
        ChangeState::Conflicted => "In conflict",
        ChangeState::Staged => "Staged for the next commit",
        ChangeState::Unstaged => "Changed, not staged",
        ChangeState::Untracked => "Untracked",
    }
}

fn format_change(change: &GitFileChange) -> String {
    match change.place {
        ChangeState::Untracked => format!("  {}\n", change.display_path()),
        _ => format!("  {}: {}\n", change.kind(), change.display_path()),
    }
}

/// Describes the branch, the operations in progress and the counts.
pub(super) fn status_header(repository: &GitRepository, status: &RepoStatus) -> String {
    let mut text = describe_branch(&status.branch);
    text.push('\n');
    for progress in find_pending_operations(repository) {
        text.push_str(progress.describe_next_step());
        if matches!(
            progress,
            PendingOperation::Rebase | PendingOperation::Mailbox
        ) && let Some(step) = rebase_step(repository)
        {
            let _ = write!(text, " (Step {step}.)");
        }
        text.push('\n');
    }
    text + &format_state_counts(status, repository.pathspec()) + "\n"
}

/// Formats `2 staged, 1 untracked`, or says that nothing changed.
pub(super) fn format_state_counts(status: &RepoStatus, path: Option<&str>) -> String {
    let named = [
        (ChangeState::Conflicted, "in conflict"),
        (ChangeState::Staged, "staged"),
        (ChangeState::Unstaged, "changed but not staged"),
        (ChangeState::Untracked, "untracked"),
    ];
    let count = |(place, word): (ChangeState, &str)| match status.count_in_state(place) {
        0 => None,
        n => Some(format!("{} {word}", group_digits(n))),
    };
    let counts: Vec<String> = named.into_iter().filter_map(count).collect();
    let within = path.map_or_else(String::new, |path| {
        format!(" in {}", path_text_from_bytes(path.as_bytes()))
    });
    let stashes = match status.branch.stashes {
        0 => String::new(),
        1 => " (1 entry in the stash.)".to_owned(),
        n => format!(" ({} entries in the stash.)", group_digits(n)),
    };
    if counts.is_empty() {
        format!("Nothing to commit, working tree clean{within}.{stashes}")
    } else {
        format!("{}{within}.{stashes}", counts.join(", "))
    }
}

fn describe_branch(branch: &BranchStatus) -> String {
    let at = branch.commit.as_deref().map(resolve_revision::short_id);
    let Some(name) = &branch.name else {
        return format!(
            "No branch is checked out (detached HEAD at {}).",
            at.unwrap_or("nothing")
        );
    };
    let name = escape_line(name);
    let Some(at) = at else {
        return format!("On branch {name}, which has no commits yet.");
    };
    let Some(upstream) = branch.upstream.as_deref().map(escape_line) else {
        return format!("On branch {name} at {at}, without an upstream.");
    };
    match branch.ahead_behind {
        None => format!("On branch {name} at {at}; its upstream {upstream} is gone."),
        Some((0, 0)) => format!("On branch {name} at {at}, level with {upstream} as last fetched."),
        Some((ahead, behind)) => {
            let ahead = (ahead > 0).then(|| format!("{} ahead of", format_count(ahead, "commit")));
            let behind = (behind > 0).then(|| format!("{} behind", format_count(behind, "commit")));
            let both: Vec<String> = ahead.into_iter().chain(behind).collect();
            format!(
                "On branch {name} at {at}, {} {upstream} as last fetched.",
                both.join(" and ")
            )
        }
    }
}
