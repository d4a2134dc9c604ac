//! The only place that starts git: by absolute path, with a fresh environment, and with every setting overridden that
//! could run a program. Not here: choosing the repository, and reading the output while git runs.
#![expect(
    clippy::disallowed_methods,
    reason = "this file is the one that starts git"
)]

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::mpsc;

use super::GitDeps;
use super::git_process::{GitExit, GitOutputTarget, GitRunPlan, MAX_STDERR_BYTES, run_to_exit};
use super::safe_settings::{GIT_VARIABLES, NO_HOOKS_SETTING, PLAIN_OUTPUT_SETTINGS, SAFE_SETTINGS};
use super::{display_text, git_binary};
use crate::acp::local::child_log::CALL_MARK;
use crate::acp::local::confinement::Confinement;
use crate::output::terminal_text::TerminalTextCleaner;
use crate::tool::{ToolContext, ToolError};

/// The largest output held in memory. git is stopped beyond it.
pub(super) const MAX_OUTPUT_BYTES: usize = 8 << 20;
/// The time limit of one run.
const RUN_TIMEOUT: Duration = Duration::from_secs(30);

/// git, ready to run in a folder of the workspace.
#[derive(Debug, Clone)]
pub(super) struct GitCommand {
    program: PathBuf,
    folder: PathBuf,
    environment: Vec<(OsString, OsString)>,
    settings: Vec<(String, String)>,
    /// Overrides for runs without hooks.
    without_hooks: Vec<(String, String)>,
    confinement: Confinement,
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct GitOutput {
    /// `None` if git was stopped because its output was enough, or if a signal ended it.
    pub(super) exit_code: Option<i32>,
    pub(super) output: Vec<u8>,
    pub(super) stderr_text: String,
    /// The output was longer than the limit.
    pub(super) cut: bool,
    /// A process that git started still holds its output open.
    pub(super) left_open: bool,
}

impl GitOutput {
    /// Returns the output as text, with invalid UTF-8 replaced.
    pub(super) fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// Returns the first line of the output.
    pub(super) fn first_output_line(&self) -> String {
        self.stdout_text()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    /// Returns whether git succeeded, or was stopped only because its output was long enough.
    pub(super) fn is_success(&self) -> bool {
        self.cut || self.exit_code == Some(0)
    }
}

/// A consumer of git's output, called on its own thread, whose memory use does not grow with the output.
pub(super) trait GitOutputSink: Send + 'static {
    /// Accepts a chunk. Returns false when no more is wanted.
    fn accept_chunk(&mut self, piece: &[u8]) -> bool;
}

/// Options of a run that is more than a quick read.
#[derive(Debug, Default)]
pub(super) struct GitRunOptions {
    /// Standard input for git.
    pub(super) input: Option<Vec<u8>>,
    /// The run changes the repository. On a stop it gets SIGTERM before SIGKILL, so that it can remove its lock.
    pub(super) writes: bool,
    /// The repository's hooks run and see git as the user has it. Only settings that run other programs are
    /// overridden.
    pub(super) hooks: bool,
    /// For a subcommand that does not accept literal pathspecs. The caller's paths then need a prefix that makes them
    /// literal.
    pub(super) with_patterns: bool,
    /// A time limit longer than that of a quick read.
    pub(super) limit: Option<Duration>,
}

impl GitRunOptions {
    /// Options for a quick read that takes its arguments from standard input.
    pub(super) fn with_input(input: Vec<u8>) -> Self {
        Self {
            input: Some(input),
            ..Self::default()
        }
    }
}

impl GitCommand {
    /// Finds git and prepares its environment.
    pub(super) fn new(deps: &GitDeps, folder: &Path, ceiling: &Path) -> Result<Self, ToolError> {
        let program = git_binary::find_git(deps).ok_or_else(|| {
            ToolError::not_found(
                "git is not installed on this machine, or not on the runner's PATH.",
            )
        })?;
        let set = |name: &str, value: &Path| (OsString::from(name), value.as_os_str().to_owned());
        let mut environment = vec![
            set("HOME", &deps.home),
            // Leaves out programs of a workspace, in case one is on the PATH.
            (
                OsString::from("PATH"),
                git_binary::trusted_search_path(deps),
            ),
            // The search for a repository stops at the workspace.
            set("GIT_CEILING_DIRECTORIES", ceiling),
        ];
        environment.extend(
            GIT_VARIABLES
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into())),
        );
        environment.extend(
            deps.confinement
                .temp_folder()
                .map(|temp| set("TMPDIR", temp)),
        );
        if cfg!(windows)
            && let Some(root) = git_binary::windows_system_root(&program)
        {
            environment.push(("SystemRoot".into(), root));
        }
        Ok(Self {
            program,
            folder: folder.to_owned(),
            environment,
            settings: Vec::new(),
            without_hooks: Vec::new(),
            confinement: deps.confinement.clone(),
        })
    }

    /// Sets the folder in which git runs.
    pub(super) fn set_folder(&mut self, folder: &Path) {
        folder.clone_into(&mut self.folder);
    }

    /// Overrides one more setting. The key may contain any character, because it does not pass through a command line
    /// where `=` would end it.
    pub(super) fn override_setting(&mut self, key: String, value: &str) {
        self.settings.push((key, value.to_owned()));
    }

    /// Overrides a setting for runs without hooks.
    pub(super) fn override_without_hooks(&mut self, key: String, value: &str) {
        self.without_hooks.push((key, value.to_owned()));
    }

    /// Returns whether settings name hooks.
    pub(super) fn has_configured_hooks(&self) -> bool {
        !self.without_hooks.is_empty()
    }

    /// Runs git until it ends, prints enough, or the call ends.
    pub(super) async fn run<S: AsRef<OsStr>>(
        &self,
        cx: &ToolContext,
        arguments: &[S],
    ) -> Result<GitOutput, ToolError> {
        self.run_with_options(cx, arguments, GitRunOptions::default())
            .await
    }

    /// Runs git with options.
    pub(super) async fn run_with_options<S: AsRef<OsStr>>(
        &self,
        cx: &ToolContext,
        arguments: &[S],
        manner: GitRunOptions,
    ) -> Result<GitOutput, ToolError> {
        let mut output = Vec::new();
        let ending = self
            .run_confined(
                cx,
                arguments,
                manner,
                GitOutputTarget::Hold(&mut output, MAX_OUTPUT_BYTES),
            )
            .await?;
        Ok(to_git_output(cx, &ending, output))
    }

    /// Runs git and passes its output to a sink.
    pub(super) async fn run_into_sink<A: AsRef<OsStr>, S: GitOutputSink>(
        &self,
        cx: &ToolContext,
        arguments: &[A],
        mut sink: S,
    ) -> Result<(GitOutput, S), ToolError> {
        let (pieces, mut arriving) = mpsc::channel::<Vec<u8>>(4);
        let taking = tokio::task::spawn_blocking(move || {
            while let Some(piece) = arriving.blocking_recv() {
                if !sink.accept_chunk(&piece) {
                    break;
                }
            }
            sink
        });
        let ending = self
            .run_confined(
                cx,
                arguments,
                GitRunOptions::default(),
                GitOutputTarget::Pour(pieces),
            )
            .await;
        let sink = taking
            .await
            .map_err(|fault| ToolError::internal_error(format!("git's output: {fault}")))?;
        Ok((to_git_output(cx, &ending?, Vec::new()), sink))
    }

    async fn run_confined<S: AsRef<OsStr>>(
        &self,
        cx: &ToolContext,
        arguments: &[S],
        manner: GitRunOptions,
        out: GitOutputTarget<'_>,
    ) -> Result<GitExit, ToolError> {
        let words = self.confinement.wrapper_arguments(&self.folder).await?;
        let mut command = self.build_command(cx, arguments, &manner, &words);
        self.confinement
            .apply_confinement(&mut command, manner.writes)
            .await?;
        let plan = GitRunPlan {
            input: manner.input,
            limit: cx.time_until_deadline(manner.limit.unwrap_or(RUN_TIMEOUT)),
            gently: manner.writes,
        };
        run_to_exit(cx, command, plan, out).await
    }

    /// Builds the command, started through the wrapper command line `before` if it is not empty.
    fn build_command<S: AsRef<OsStr>>(
        &self,
        cx: &ToolContext,
        arguments: &[S],
        manner: &GitRunOptions,
        before: &[String],
    ) -> Command {
        let mut command = match before.split_first() {
            Some((first, more)) => {
                let mut command = Command::new(first);
                command.args(more).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        command.args(["--no-pager", "--no-optional-locks"]);
        // With literal pathspecs, git commands in a hook could not use patterns.
        if !(manner.hooks || manner.with_patterns) {
            command.arg("--literal-pathspecs");
        }
        let mut settings: Vec<(&str, &str)> = SAFE_SETTINGS.to_vec();
        if !manner.hooks {
            settings.push(NO_HOOKS_SETTING);
            settings.extend(PLAIN_OUTPUT_SETTINGS);
            settings.extend(
                self.without_hooks
                    .iter()
                    .map(|(key, value)| (key.as_str(), value.as_str())),
            );
        }
        settings.extend(
            self.settings
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str())),
        );
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env(CALL_MARK, format!("{}.git", cx.request))
            .env("GIT_CONFIG_COUNT", settings.len().to_string())
            .stdin(if manner.input.is_some() {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for (i, (key, value)) in settings.iter().enumerate() {
            command
                .env(format!("GIT_CONFIG_KEY_{i}"), key)
                .env(format!("GIT_CONFIG_VALUE_{i}"), value);
        }
        // Set up before the confinement, because a confined process can neither lower its limit nor raise its OOM
        // score.
        #[cfg(unix)]
        crate::acp::local::process_attachment::attach_to_request(&mut command, &cx.request);
        command
    }
}

fn to_git_output(cx: &ToolContext, ending: &GitExit, output: Vec<u8>) -> GitOutput {
    let heard = &ending.stderr;
    let end = if heard.len() < MAX_STDERR_BYTES {
        heard.len()
    } else {
        cx.secret_boundaries
            .cut_end_before(heard, heard.len(), false)
    };
    // Masked before it is cut, so that no part of a secret stays.
    let complaint = clean_messages(&cx.secret_boundaries.mask_bytes(&heard[..end]));
    GitOutput {
        exit_code: ending.exit_code,
        output,
        stderr_text: complaint,
        cut: ending.cut,
        left_open: ending.left_open,
    }
}

/// Returns the messages of git or of a hook without colours and progress lines.
fn clean_messages(bytes: &[u8]) -> String {
    let (mut cleaner, mut clean) = (TerminalTextCleaner::default(), String::new());
    cleaner.push(&String::from_utf8_lossy(bytes), &mut clean);
    cleaner.finish(&mut clean);
    display_text::escape_block(clean.trim())
}
