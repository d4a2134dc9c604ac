//! The answer about a commit that was made.

use std::fmt::Write as _;
use std::sync::Arc;

use super::diff_output::DiffQuery;
use super::display_text::escape_line;
use super::git_command::GitOutput;
use super::pending_operation::find_pending_operations;
use super::repository::GitRepository;
use super::resolve_revision::short_id;
use super::status::{format_state_counts, read_status};
use super::submodule_changes::add_submodule_changes;
use punie_host::network_proxy::CallNetwork;
use punie_text::output::TextBudget;
use punie_text::output::text_budget::clip_to_budget;
use punie_tool::{ResultMeta, ToolContext, ToolError, ToolReply};

/// The characters of hook output in an answer.
const MAX_HOOK_OUTPUT: u64 = 10_000;
/// The characters of the file list in an answer.
const FILE_LIST_CHARS: usize = 4_000;

const RECOVERED_WARNING: &str =
    "the commit was made before the device's runner ended; it was not made twice";

const UNSIGNED_NOTE: &str = "Not signed, although commit.gpgSign is set: signing needs the user's key. The user can \
                             sign it with `git commit --amend --no-edit -S`.\n";

/// A finished commit to report.
#[derive(Default)]
pub(super) struct CommitReport {
    pub(super) id: String,
    pub(super) answer: GitOutput,
    pub(super) hooks: Vec<&'static str>,
    pub(super) amended: bool,
    pub(super) warnings: Vec<String>,
    /// The network of the hooks.
    pub(super) network: Option<Arc<CallNetwork>>,
}

impl CommitReport {
    /// Describes the commit, the rest of the changes, and the messages of git and the hooks.
    pub(super) async fn into_reply(
        mut self,
        repository: &GitRepository,
    ) -> Result<ToolReply, ToolError> {
        let stat = DiffQuery::for_commit(&self.id)
            .read_stat(repository)
            .await?;
        let subject = repository
            .git
            .run(&["log", "-1", "--format=%s", &self.id, "--"])
            .await?
            .first_output_line();
        let mut status = read_status(repository, &["--no-renames"], None).await?;
        add_submodule_changes(repository, &mut status, None).await?;
        let place = status.branch.name.as_deref().map_or_else(
            || "on no branch (detached HEAD)".to_owned(),
            |name| format!("on {}", escape_line(name)),
        );
        let verb = if self.amended {
            "Replaced the last commit by"
        } else {
            "Committed"
        };
        let mut text = format!(
            "{verb} {} {place}: {}\n{}\n{}Left: {}\n",
            short_id(&self.id),
            escape_line(&subject),
            stat.format_summary(),
            stat.format_list(FILE_LIST_CHARS),
            format_state_counts(&status, None)
        );
        if asks_for_signatures(repository).await? {
            text.push_str(UNSIGNED_NOTE);
        }
        for operation in find_pending_operations(repository) {
            let _ = writeln!(text, "{}", operation.describe_next_step());
        }
        text.push_str(&self.format_messages());
        text.truncate(text.trim_end().len());
        let network = self.network.take();
        if let Some(failed) = network.as_ref().and_then(|network| network.failure_text()) {
            let _ = write!(text, "\n{failed}");
        }
        self.warn_about_ending(&repository.git.cx).await;
        let meta = ResultMeta {
            exit_code: self.answer.exit_code,
            warnings: self.warnings,
            network: network.map_or_else(Vec::new, |network| network.traffic()),
            ..ResultMeta::default()
        };
        Ok(ToolReply::from_text(text).with_meta(meta))
    }

    fn format_messages(&self) -> String {
        let is_silent = self.answer.stderr_text.is_empty();
        match (is_silent, self.hooks.is_empty()) {
            (false, true) => format!("git printed:\n{}", clip_hook_output(&self.answer)),
            (false, false) => format!("The hooks printed:\n{}", clip_hook_output(&self.answer)),
            (true, true) => String::new(),
            (true, false) => format!("The hooks ({}) printed nothing.", self.hooks.join(", ")),
        }
    }

    /// Warns about a failed git and about programs that still run.
    async fn warn_about_ending(&mut self, cx: &ToolContext) {
        if self.answer.exit_code != Some(0) {
            self.warnings
                .push("git made the commit and ended with an error all the same".to_owned());
        }
        let left = if self.hooks.is_empty() {
            Vec::new()
        } else {
            find_leftover_processes(cx).await
        };
        if !left.is_empty() {
            self.warnings.push(format!(
                "a hook left running: {}; what it prints from now on is not shown, and nothing ends it but a signal",
                left.join(", ")
            ));
        } else if self.answer.left_open {
            self.warnings.push(
                "a hook left a program running; what it prints from now on is not shown".to_owned(),
            );
        }
    }
}

/// Returns whether the user's settings ask for signed commits.
async fn asks_for_signatures(repository: &GitRepository) -> Result<bool, ToolError> {
    let signing = ["config", "--type=bool", "--get-all", "commit.gpgSign"];
    let values = repository.git.run(&signing).await?.stdout_text();
    // The last value is our own override.
    Ok(values.lines().rev().nth(1) == Some("true"))
}

/// Cuts the messages of git and its hooks to the part for an answer.
pub(super) fn clip_hook_output(answer: &GitOutput) -> String {
    let budget = TextBudget::from_requested(Some(MAX_HOOK_OUTPUT));
    clip_to_budget(&answer.stderr_text, budget, None).text
}

/// Reports a commit that an earlier process of the runner made.
pub(super) async fn report_earlier_commit(
    repository: &GitRepository,
    id: String,
) -> Result<ToolReply, ToolError> {
    let report = CommitReport {
        id,
        answer: GitOutput {
            exit_code: Some(0),
            ..GitOutput::default()
        },
        warnings: repository.comparison_warnings(),
        ..CommitReport::default()
    };
    let mut reply = report.into_reply(repository).await?;
    reply.meta.recovered = true;
    reply.meta.warnings.push(RECOVERED_WARNING.to_owned());
    Ok(reply)
}

/// Returns the names of the processes that the call started and that still run.
async fn find_leftover_processes(cx: &ToolContext) -> Vec<String> {
    #[cfg(unix)]
    {
        let request = cx.request.clone();
        let left = tokio::task::spawn_blocking(move || {
            punie_host::local::process_kill::find_request_processes(&request)
        })
        .await;
        left.unwrap_or_default()
            .iter()
            .map(ToString::to_string)
            .collect()
    }
    #[cfg(not(unix))]
    {
        let _ = cx;
        Vec::new()
    }
}
