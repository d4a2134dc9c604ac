//! The only place that starts git: by absolute path, with a fresh environment, and with every setting overridden that
//! could run a program.
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
use super::display_text::escape_block;
use super::git_binary;
use super::git_process::{GitExit, GitOutputTarget, GitRunPlan, MAX_STDERR_BYTES, run_to_exit};
use super::safe_settings::{
    GIT_VARIABLES, HOOKS_PATH, NO_HOOKS_SETTING, PLAIN_OUTPUT_SETTINGS, SAFE_SETTINGS,
};
use punie_host::local::child_log::CALL_MARK;
use punie_host::local::hook_environment::HookEnvironment;
use punie_text::output::terminal_text::TerminalTextCleaner;
use punie_tool::{ErrorCode, ToolContext, ToolError};

/// The largest output held in memory. git is stopped beyond it.
pub(super) const MAX_OUTPUT_BYTES: usize = 8 << 20;
const MISSING_OBJECT_STEP: &str = "\nThe object is not here. In a partial clone git would fetch it, which the git tools \
                                   do not: the same command in Bash does, where the owner allows the host.";
/// The time limit of one run.
const RUN_TIMEOUT: Duration = Duration::from_secs(30);

/// git, ready to run for a call in a folder of the workspace.
#[derive(Debug, Clone)]
pub(super) struct GitCommand {
    pub(super) cx: ToolContext,
    pub(super) deps: GitDeps,
    /// The folder in which git runs.
    pub(super) folder: PathBuf,
    /// Further overridden settings. A key may contain any character, because it does not pass through a command line
    /// where `=` would end it.
    pub(super) overrides: Vec<(String, &'static str)>,
    /// Overrides for runs without hooks, one at least for each hook that the settings name.
    pub(super) hook_overrides: Vec<(String, &'static str)>,
    program: PathBuf,
    search_path: OsString,
    /// The search for a repository stops here.
    ceiling: PathBuf,
}

/// The result of a run.
#[derive(Debug, Default)]
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

    pub(super) fn first_output_line(&self) -> String {
        self.stdout_text()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    /// Returns the records of an output that separates them by NUL bytes.
    pub(super) fn nul_records(&self) -> impl Iterator<Item = &[u8]> {
        let records = self.output.split(|byte| *byte == 0);
        records.filter(|record| !record.is_empty())
    }

    /// Returns whether git succeeded, or was stopped only because its output was long enough.
    pub(super) fn is_success(&self) -> bool {
        self.cut || self.exit_code == Some(0)
    }

    /// Returns the messages of git or its hooks, or this text if there are none.
    pub(super) fn stderr_or<'a>(&'a self, silent: &'a str) -> &'a str {
        if self.stderr_text.is_empty() {
            silent
        } else {
            &self.stderr_text
        }
    }

    /// Builds the error for a run that git itself ended with a failure.
    pub(super) fn git_error(&self) -> ToolError {
        let code = self.exit_code.map_or_else(
            || "without an exit code".to_owned(),
            |code| format!("with exit code {code}"),
        );
        let why = self.stderr_or("It gave no reason.");
        let next = if self.is_missing_object() {
            MISSING_OBJECT_STEP
        } else {
            ""
        };
        ToolError::new(ErrorCode::Io, format!("git ended {code}: {why}{next}"))
    }

    /// Returns whether git missed an object, which a partial clone fetches only when it is asked for it.
    fn is_missing_object(&self) -> bool {
        const MESSAGES: [&str; 4] = [
            "lazy fetching disabled",
            "promisor",
            "bad file",
            "unable to read",
        ];
        MESSAGES
            .iter()
            .any(|message| self.stderr_text.contains(message))
    }

    fn require_success(self) -> Result<Self, ToolError> {
        if self.is_success() {
            Ok(self)
        } else {
            Err(self.git_error())
        }
    }
}

/// A consumer of git's output, called on its own thread, whose memory use does not grow with the output.
pub(super) trait GitOutputSink: Send + 'static {
    /// Accepts a chunk. Returns false when no more is wanted.
    fn accept_chunk(&mut self, piece: &[u8]) -> bool;
}

/// Options of a run that is more than a quick read.
#[derive(Default)]
pub(super) struct GitRunOptions {
    /// Standard input for git.
    pub(super) input: Option<Vec<u8>>,
    /// The run changes the repository. On a stop it gets SIGTERM before SIGKILL, so that it can remove its lock.
    pub(super) writes: bool,
    /// The repository's hooks run and see git as the user has it. Only settings that run other programs are
    /// overridden.
    pub(super) hooks: bool,
    /// The environment that the hooks find.
    pub(super) hook_environment: Option<HookEnvironment>,
    /// For a subcommand that does not accept literal pathspecs. The caller's paths then need a prefix that makes them
    /// literal.
    pub(super) with_patterns: bool,
    /// A time limit longer than that of a quick read.
    pub(super) limit: Option<Duration>,
}

impl GitRunOptions {
    /// Returns options for a quick read that takes paths from standard input, each with a NUL byte after it.
    pub(super) fn with_paths<'a>(paths: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let nul_ended = |path: &'a [u8]| path.iter().copied().chain([0]);
        Self {
            input: Some(paths.into_iter().flat_map(nul_ended).collect()),
            ..Self::default()
        }
    }
}

impl GitCommand {
    /// Finds git and prepares it for a call.
    pub(super) fn new(
        cx: &ToolContext,
        deps: &GitDeps,
        folder: &Path,
        ceiling: &Path,
    ) -> Result<Self, ToolError> {
        let program = git_binary::find_git(deps).ok_or_else(|| {
            ToolError::not_found(
                "git is not installed on this machine, or not on the runner's PATH.",
            )
        })?;
        Ok(Self {
            cx: cx.clone(),
            deps: deps.clone(),
            folder: folder.to_owned(),
            overrides: Vec::new(),
            hook_overrides: Vec::new(),
            program,
            search_path: git_binary::trusted_search_path(deps),
            ceiling: ceiling.to_owned(),
        })
    }

    /// Runs git until it ends, prints enough, or the call ends.
    pub(super) async fn run<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
    ) -> Result<GitOutput, ToolError> {
        self.run_with_options(arguments, GitRunOptions::default())
            .await
    }

    /// Runs git. Fails if git fails.
    pub(super) async fn run_checked<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
    ) -> Result<GitOutput, ToolError> {
        self.run(arguments).await?.require_success()
    }

    pub(super) async fn run_with_options<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
        options: GitRunOptions,
    ) -> Result<GitOutput, ToolError> {
        let mut output = Vec::new();
        let target = GitOutputTarget::Hold(&mut output, MAX_OUTPUT_BYTES);
        let ending = self.run_confined(arguments, options, target).await?;
        Ok(to_git_output(&self.cx, &ending, output))
    }

    /// Runs git and passes its output to a sink. Fails if git fails.
    pub(super) async fn run_into_sink<A: AsRef<OsStr>, S: GitOutputSink>(
        &self,
        arguments: &[A],
        mut sink: S,
    ) -> Result<S, ToolError> {
        let (pieces, mut arriving) = mpsc::channel::<Vec<u8>>(4);
        let taking = tokio::task::spawn_blocking(move || {
            while let Some(piece) = arriving.blocking_recv() {
                if !sink.accept_chunk(&piece) {
                    break;
                }
            }
            sink
        });
        let target = GitOutputTarget::Pour(pieces);
        let ending = self
            .run_confined(arguments, GitRunOptions::default(), target)
            .await;
        let sink = taking
            .await
            .map_err(|fault| ToolError::internal(format!("git's output: {fault}")))?;
        to_git_output(&self.cx, &ending?, Vec::new()).require_success()?;
        Ok(sink)
    }

    async fn run_confined<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
        options: GitRunOptions,
        target: GitOutputTarget<'_>,
    ) -> Result<GitExit, ToolError> {
        let confinement = &self.deps.confinement;
        let wrapper = confinement.wrapper_arguments(&self.folder).await?;
        let mut command = self.build_command(arguments, &options, &wrapper);
        let hooks = options.hook_environment.as_ref();
        let temp = hooks.and_then(|hooks| hooks.temp.as_deref());
        confinement
            .apply_confinement(&mut command, options.writes, temp)
            .await?;
        let plan = GitRunPlan {
            input: options.input,
            limit: self
                .cx
                .time_until_deadline(options.limit.unwrap_or(RUN_TIMEOUT)),
            gently: options.writes,
        };
        run_to_exit(&self.cx, command, plan, target).await
    }

    /// Builds the command, started through the wrapper command line if it is not empty.
    fn build_command<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
        options: &GitRunOptions,
        wrapper: &[String],
    ) -> Command {
        let mut command = match wrapper.split_first() {
            Some((first, more)) => {
                let mut command = Command::new(first);
                command.args(more).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        command.args(["--no-pager", "--no-optional-locks"]);
        // With literal pathspecs, git commands in a hook could not use patterns.
        if !(options.hooks || options.with_patterns) {
            command.arg("--literal-pathspecs");
        }
        command
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(if options.input.is_some() {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        self.set_environment(&mut command, options);
        // Set up before the confinement, because a confined process can neither lower its limit nor raise its OOM
        // score.
        #[cfg(unix)]
        punie_host::local::process_attachment::attach_to_request(&mut command, &self.cx.request);
        command
    }

    fn set_environment(&self, command: &mut Command, options: &GitRunOptions) {
        command
            .env_clear()
            .env("HOME", &self.deps.home)
            // Leaves out programs of a workspace, in case one is on the PATH.
            .env("PATH", &self.search_path)
            .env("GIT_CEILING_DIRECTORIES", &self.ceiling)
            .envs(GIT_VARIABLES.iter().copied())
            .env(CALL_MARK, format!("{}.git", self.cx.request));
        if let Some(temp) = self.deps.confinement.temp_folder() {
            command.env("TMPDIR", temp);
        }
        if cfg!(windows)
            && let Some(root) = git_binary::windows_system_root(&self.program)
        {
            command.env("SystemRoot", root);
        }
        let mut settings = SAFE_SETTINGS.to_vec();
        if !options.hooks {
            settings.push(NO_HOOKS_SETTING);
            settings.extend(PLAIN_OUTPUT_SETTINGS);
        }
        let wrappers = options.hook_environment.as_ref().map(|hooks| {
            command.env(hooks.variable.0, &hooks.variable.1);
            hooks.wrappers.to_string_lossy()
        });
        settings.extend(wrappers.as_deref().map(|folder| (HOOKS_PATH, folder)));
        let hook_overrides = self.hook_overrides.iter().filter(|_| !options.hooks);
        let further = hook_overrides.chain(&self.overrides);
        settings.extend(further.map(|(key, value)| (key.as_str(), *value)));
        command.env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (i, (key, value)) in settings.into_iter().enumerate() {
            command
                .env(format!("GIT_CONFIG_KEY_{i}"), key)
                .env(format!("GIT_CONFIG_VALUE_{i}"), value);
        }
    }
}

fn to_git_output(cx: &ToolContext, ending: &GitExit, output: Vec<u8>) -> GitOutput {
    let stderr = &ending.stderr;
    let end = if stderr.len() < MAX_STDERR_BYTES {
        stderr.len()
    } else {
        cx.secret_boundaries
            .cut_end_before(stderr, stderr.len(), false)
    };
    // Masked before it is cut, so that no part of a secret stays.
    let masked = cx.secret_boundaries.mask_bytes(&stderr[..end]);
    GitOutput {
        exit_code: ending.exit_code,
        output,
        stderr_text: clean_messages(&masked),
        cut: ending.cut,
        left_open: ending.left_open,
    }
}

/// Returns the messages of git or of a hook without colours and progress lines.
fn clean_messages(bytes: &[u8]) -> String {
    let mut cleaner = TerminalTextCleaner::default();
    let mut clean = String::new();
    cleaner.push(&String::from_utf8_lossy(bytes), &mut clean);
    cleaner.finish(&mut clean);
    escape_block(clean.trim())
}
