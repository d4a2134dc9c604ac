//! The only place that starts git: by absolute path, with a fresh environment, and with every setting overridden that
//! could run a program. Not here: choosing the repository, and reading the output while git runs.
#![expect(clippy::disallowed_methods, reason = "this file is the one that starts git")]

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::mpsc;

use super::GitDeps;
use super::process::{Ending, MAX_COMPLAINT, Out, Plan, drive};
use super::settings::{NO_HOOKS, PLAIN, SAFE, VARIABLES};
use super::{names, program};
use crate::acp::local::children::CALL_MARK;
use crate::acp::local::confinement::Confinement;
use crate::output::hygiene::CommandText;
use crate::tool::{ToolCx, ToolError};

/// The largest output held in memory. git is stopped beyond it.
pub(super) const MAX_OUTPUT: usize = 8 << 20;
/// The time limit of one run.
const LIMIT: Duration = Duration::from_secs(30);

/// git, ready to run in a folder of the workspace.
#[derive(Debug, Clone)]
pub(super) struct Git {
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
pub(super) struct Answer {
    /// `None` if git was stopped because its output was enough, or if a signal ended it.
    pub(super) exit_code: Option<i32>,
    pub(super) output: Vec<u8>,
    pub(super) complaint: String,
    /// The output was longer than the limit.
    pub(super) cut: bool,
    /// A process that git started still holds its output open.
    pub(super) left_open: bool,
}

impl Answer {
    /// Returns the output as text, with invalid UTF-8 replaced.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// Returns the first line of the output.
    pub(super) fn line(&self) -> String {
        self.text().lines().next().unwrap_or_default().to_owned()
    }

    /// Returns whether git succeeded, or was stopped only because its output was long enough.
    pub(super) fn worked(&self) -> bool {
        self.cut || self.exit_code == Some(0)
    }
}

/// A consumer of git's output, called on its own thread, whose memory use does not grow with the output.
pub(super) trait Sink: Send + 'static {
    /// Accepts a chunk. Returns false when no more is wanted.
    fn take(&mut self, piece: &[u8]) -> bool;
}

/// Options of a run that is more than a quick read.
#[derive(Debug, Default)]
pub(super) struct Manner {
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

impl Manner {
    /// Options for a quick read that takes its arguments from standard input.
    pub(super) fn fed(input: Vec<u8>) -> Self {
        Self { input: Some(input), ..Self::default() }
    }
}

impl Git {
    /// Finds git and prepares its environment.
    pub(super) fn new(deps: &GitDeps, folder: &Path, ceiling: &Path) -> Result<Self, ToolError> {
        let program = program::find(deps).ok_or_else(|| {
            ToolError::not_found("git is not installed on this machine, or not on the runner's PATH.")
        })?;
        let set = |name: &str, value: &Path| (OsString::from(name), value.as_os_str().to_owned());
        let mut environment = vec![
            set("HOME", &deps.home),
            // Leaves out programs of a workspace, in case one is on the PATH.
            (OsString::from("PATH"), program::search_path(deps)),
            // The search for a repository stops at the workspace.
            set("GIT_CEILING_DIRECTORIES", ceiling),
        ];
        environment.extend(VARIABLES.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        environment.extend(deps.confinement.temp().map(|temp| set("TMPDIR", temp)));
        if cfg!(windows)
            && let Some(root) = program::windows_root(&program)
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
    pub(super) fn move_to(&mut self, folder: &Path) {
        folder.clone_into(&mut self.folder);
    }

    /// Overrides one more setting. The key may contain any character, because it does not pass through a command line
    /// where `=` would end it.
    pub(super) fn set(&mut self, key: String, value: &str) {
        self.settings.push((key, value.to_owned()));
    }

    /// Overrides a setting for runs without hooks.
    pub(super) fn set_but_for_hooks(&mut self, key: String, value: &str) {
        self.without_hooks.push((key, value.to_owned()));
    }

    /// Returns whether settings name hooks.
    pub(super) fn knows_more_hooks(&self) -> bool {
        !self.without_hooks.is_empty()
    }

    /// Runs git until it ends, prints enough, or the call ends.
    pub(super) async fn run<S: AsRef<OsStr>>(
        &self,
        cx: &ToolCx,
        arguments: &[S],
    ) -> Result<Answer, ToolError> {
        self.run_as(cx, arguments, Manner::default()).await
    }

    /// Runs git with options.
    pub(super) async fn run_as<S: AsRef<OsStr>>(
        &self,
        cx: &ToolCx,
        arguments: &[S],
        manner: Manner,
    ) -> Result<Answer, ToolError> {
        let mut output = Vec::new();
        let ending = self.start(cx, arguments, manner, Out::Hold(&mut output, MAX_OUTPUT)).await?;
        Ok(answer(cx, &ending, output))
    }

    /// Runs git and passes its output to a sink.
    pub(super) async fn pour<A: AsRef<OsStr>, S: Sink>(
        &self,
        cx: &ToolCx,
        arguments: &[A],
        mut sink: S,
    ) -> Result<(Answer, S), ToolError> {
        let (pieces, mut arriving) = mpsc::channel::<Vec<u8>>(4);
        let taking = tokio::task::spawn_blocking(move || {
            while let Some(piece) = arriving.blocking_recv() {
                if !sink.take(&piece) {
                    break;
                }
            }
            sink
        });
        let ending = self.start(cx, arguments, Manner::default(), Out::Pour(pieces)).await;
        let sink = taking.await.map_err(|fault| ToolError::internal(format!("git's output: {fault}")))?;
        Ok((answer(cx, &ending?, Vec::new()), sink))
    }

    async fn start<S: AsRef<OsStr>>(
        &self,
        cx: &ToolCx,
        arguments: &[S],
        manner: Manner,
        out: Out<'_>,
    ) -> Result<Ending, ToolError> {
        let words = self.confinement.words_before(&self.folder).await?;
        let mut command = self.command(cx, arguments, &manner, &words);
        self.confinement.confine(&mut command, manner.writes).await?;
        let plan = Plan {
            input: manner.input,
            limit: cx.time_left(manner.limit.unwrap_or(LIMIT)),
            gently: manner.writes,
        };
        drive(cx, command, plan, out).await
    }

    /// Builds the command, started through the wrapper command line `before` if it is not empty.
    fn command<S: AsRef<OsStr>>(
        &self,
        cx: &ToolCx,
        arguments: &[S],
        manner: &Manner,
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
        let mut settings: Vec<(&str, &str)> = SAFE.to_vec();
        if !manner.hooks {
            settings.push(NO_HOOKS);
            settings.extend(PLAIN);
            settings.extend(self.without_hooks.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        }
        settings.extend(self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env(CALL_MARK, format!("{}.git", cx.request))
            .env("GIT_CONFIG_COUNT", settings.len().to_string())
            .stdin(if manner.input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for (i, (key, value)) in settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{i}"), key).env(format!("GIT_CONFIG_VALUE_{i}"), value);
        }
        // Set up before the confinement, because a confined process can neither lower its limit nor raise its OOM
        // score.
        #[cfg(unix)]
        crate::acp::local::tying::tie(&mut command, &cx.request);
        command
    }
}

fn answer(cx: &ToolCx, ending: &Ending, output: Vec<u8>) -> Answer {
    let heard = &ending.complaint;
    let end = if heard.len() < MAX_COMPLAINT {
        heard.len()
    } else {
        cx.uncut.end_before(heard, heard.len(), false)
    };
    // Masked before it is cut, so that no part of a secret stays.
    let complaint = said(&cx.uncut.masked(&heard[..end]));
    Answer { exit_code: ending.exit_code, output, complaint, cut: ending.cut, left_open: ending.left_open }
}

/// Returns the messages of git or of a hook without colours and progress lines.
fn said(bytes: &[u8]) -> String {
    let (mut cleaner, mut clean) = (CommandText::default(), String::new());
    cleaner.push(&String::from_utf8_lossy(bytes), &mut clean);
    cleaner.finish(&mut clean);
    names::block(clean.trim())
}
