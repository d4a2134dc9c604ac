//! The owner's checkers of edited files: each runs after an edit, confined, and its first lines stand beside the
//! answer. The edit is done by then, whatever a checker says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{BoxFuture, join};
use globset::{GlobBuilder, GlobMatcher};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::{Instant, timeout_at};

use punie_home::shell_word;
use punie_host::Workspace;
use punie_host::local::local_terminals::LocalTerminals;
use punie_host::local::service_launch::{ServiceHosts, ServiceLaunch, WorkspaceAccess};
use punie_tool::{ToolContext, ToolReply};

/// The time for all checkers of one call.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// The files of one call that are checked.
const MAX_FILES: usize = 5;
/// The lines of a checker that are told.
const MAX_LINES: usize = 15;
/// The bytes of a checker's output that are read.
const MAX_BYTES: u64 = 16 << 10;
/// What stands for the path in a command line.
const FILE: &str = "{file}";

/// Says why the owner's rules refuse a command line, if they do.
pub type CommandJudge = Arc<dyn Fn(String) -> BoxFuture<'static, Option<String>> + Send + Sync>;

/// The checkers of a device; by default none.
#[derive(Clone, Default)]
pub struct EditCheckers(Option<Arc<CheckerSet>>);

struct CheckerSet {
    checkers: Vec<Checker>,
    terminals: LocalTerminals,
    judge: OnceLock<CommandJudge>,
}

struct Checker {
    pattern: String,
    matcher: GlobMatcher,
    /// The command line with [`FILE`] in the place of the path.
    command: String,
}

impl EditCheckers {
    /// Creates the checkers of these command lines, by the pattern of the files that they are for.
    ///
    /// # Errors
    /// A pattern that cannot be used, in words.
    pub fn new(
        commands: &BTreeMap<String, String>,
        terminals: LocalTerminals,
    ) -> Result<Self, String> {
        if commands.is_empty() {
            return Ok(Self::default());
        }
        let checker = |(pattern, command): (&String, &String)| {
            let glob = GlobBuilder::new(&format!("**/{pattern}"))
                .literal_separator(true)
                .build()
                .map_err(|error| format!("after_edit.{pattern:?}: {}", error.kind()))?;
            Ok(Checker {
                pattern: pattern.clone(),
                matcher: glob.compile_matcher(),
                command: command.clone(),
            })
        };
        let checkers = commands
            .iter()
            .map(checker)
            .collect::<Result<_, String>>()?;
        Ok(Self(Some(Arc::new(CheckerSet {
            checkers,
            terminals,
            judge: OnceLock::new(),
        }))))
    }

    /// Asks this before each command; without it none runs.
    pub fn judge_by(&self, judge: CommandJudge) {
        if let Some(set) = &self.0 {
            let _ = set.judge.set(judge);
        }
    }

    /// Says in the catalog which checkers run.
    pub(super) fn catalog_note(&self) -> String {
        let Some(set) = &self.0 else {
            return String::new();
        };
        let all = set.checkers.iter();
        let all: Vec<String> = all
            .map(|checker| format!("`{}` for {}", checker.command, checker.pattern))
            .collect();
        format!("After it, checkers of the owner run: {}.", all.join(", "))
    }

    /// Checks the files that a call has changed, and adds what the checkers say.
    pub(super) async fn check_changed(
        &self,
        cx: &ToolContext,
        workspace: &Workspace,
        mut reply: ToolReply,
    ) -> ToolReply {
        let Some(set) = &self.0 else {
            return reply;
        };
        let changed = reply.meta.files.iter().filter(|file| file.after.is_some());
        let files: Vec<PathBuf> = changed
            .map(|file| PathBuf::from(&file.path))
            .filter(|path| path.is_absolute())
            .take(MAX_FILES)
            .collect();
        let reports = tokio::select! {
            reports = set.check_files(cx, workspace, &files) => reports,
            () = cx.wait_for_cancel() => Vec::new(),
        };
        reply.meta.warnings.extend(reports);
        reply
    }
}

impl CheckerSet {
    async fn check_files(
        &self,
        cx: &ToolContext,
        workspace: &Workspace,
        files: &[PathBuf],
    ) -> Vec<String> {
        let until = Instant::now() + TIME_LIMIT;
        let mut reports = Vec::new();
        for file in files {
            let roots = workspace.root_paths().filter(|root| file.starts_with(root));
            let Some(root) = roots.max_by_key(|root| root.components().count()) else {
                continue;
            };
            for checker in self
                .checkers
                .iter()
                .filter(|one| one.matcher.is_match(file))
            {
                let path = file.display().to_string();
                let line = checker.command.replace(FILE, &shell_word(&path));
                let shown = file
                    .strip_prefix(root)
                    .unwrap_or(file)
                    .display()
                    .to_string();
                let shown = checker.command.replace(FILE, &shell_word(&shown));
                let said = self.run(cx, line, root, until).await;
                reports.extend(said.map(|said| format!("`{shown}`: {said}")));
            }
        }
        reports
    }

    /// Runs a command line. Returns how it ended and its first lines; `None` if it ended well and said nothing.
    async fn run(
        &self,
        cx: &ToolContext,
        line: String,
        folder: &Path,
        until: Instant,
    ) -> Option<String> {
        let refused = match self.judge.get() {
            Some(judge) => judge(line.clone()).await,
            None => Some("its rules are not known here".to_owned()),
        };
        if let Some(why) = refused {
            return Some(format!("not run: {why}"));
        }
        let launch = ServiceLaunch {
            name: "after-edit".to_owned(),
            program: "/bin/sh".to_owned(),
            args: vec!["-c".to_owned(), line],
            folder: folder.to_owned(),
            workspaces: WorkspaceAccess::Read,
            own: None,
            network: ServiceHosts::None,
            env: Vec::new(),
            caller: None,
        };
        let running = async {
            let process = self.terminals.start_service(&launch, &cx.request).await?;
            drop(process.input);
            let (output, errors) =
                join(read_start(process.output), read_start(process.errors)).await;
            let ended = process.running.wait_for_end(TIME_LIMIT).await;
            Ok((ended, output + &errors))
        };
        match timeout_at(until, running).await {
            Err(_) => Some("took longer than 2 s and was ended".to_owned()),
            Ok(Err(error)) => {
                let error: punie_tool::ToolError = error;
                Some(format!("not run: {}", error.model_text()))
            }
            Ok(Ok((ended, said))) => describe_end(ended.as_deref(), &said),
        }
    }
}

/// Reads the beginning of an output, and waits for its end.
async fn read_start(mut output: impl AsyncRead + Unpin) -> String {
    let mut bytes = Vec::new();
    let _ = (&mut output).take(MAX_BYTES).read_to_end(&mut bytes).await;
    let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

fn describe_end(ended: Option<&str>, said: &str) -> Option<String> {
    let said = said.trim_end();
    let is_well = ended == Some("exit code 0");
    if is_well && said.is_empty() {
        return None;
    }
    let ended = ended.unwrap_or("still runs");
    let mut lines: Vec<&str> = said.lines().take(MAX_LINES).collect();
    if said.lines().count() > MAX_LINES {
        lines.push("[...]");
    }
    Some(
        format!("{ended}\n{}", lines.join("\n"))
            .trim_end()
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_checker_has_to_say_is_told() {
        assert_eq!(describe_end(Some("exit code 0"), "\n"), None);
        assert_eq!(
            describe_end(Some("exit code 1"), "").as_deref(),
            Some("exit code 1")
        );
        assert_eq!(
            describe_end(Some("exit code 1"), "a:1: bad\n").as_deref(),
            Some("exit code 1\na:1: bad")
        );
        let long = describe_end(Some("exit code 0"), &"line\n".repeat(40)).expect("lines");
        assert_eq!(long.lines().count(), MAX_LINES + 2);
    }
}
