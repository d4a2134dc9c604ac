//! The one way git is started: found by absolute path, with an environment made from nothing, and with every
//! setting overridden by which a repository could have a program run. Not here: which repository (repository), and
//! what is done while it runs (process).
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

/// How much output is held; then git is stopped.
pub(super) const MAX_OUTPUT: usize = 8 << 20;
/// How long one run may take.
const LIMIT: Duration = Duration::from_secs(30);

/// git, ready to be started in a folder of the workspace.
#[derive(Debug, Clone)]
pub(super) struct Git {
    program: PathBuf,
    folder: PathBuf,
    environment: Vec<(OsString, OsString)>,
    settings: Vec<(String, String)>,
    /// Those for runs without hooks.
    without_hooks: Vec<(String, String)>,
    confinement: Confinement,
}

/// What a run gave.
#[derive(Debug)]
pub(super) struct Answer {
    /// None where git was stopped because its output was enough, and where a signal ended it.
    pub(super) exit_code: Option<i32>,
    pub(super) output: Vec<u8>,
    pub(super) complaint: String,
    /// The output was longer than what is kept.
    pub(super) cut: bool,
    /// Something that git started holds its output open.
    pub(super) left_open: bool,
}

impl Answer {
    /// The output as text; names that are no text have their bytes replaced.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// The first line, for answers that have one.
    pub(super) fn line(&self) -> String {
        self.text().lines().next().unwrap_or_default().to_owned()
    }

    /// Whether git did what it was asked to, as far as it was let.
    pub(super) fn worked(&self) -> bool {
        self.cut || self.exit_code == Some(0)
    }
}

/// Takes output as it comes, on a thread of its own, in memory that does not grow with it.
pub(super) trait Sink: Send + 'static {
    /// Takes a piece; false when it is enough.
    fn take(&mut self, piece: &[u8]) -> bool;
}

/// How a run differs from a quick look.
#[derive(Debug, Default)]
pub(super) struct Manner {
    /// What git reads.
    pub(super) input: Option<Vec<u8>>,
    /// It changes the repository: it is asked to end before it is made to, so that it leaves no lock.
    pub(super) writes: bool,
    /// The repository's hooks run, and see git as their user does: only what runs other programs is overridden.
    pub(super) hooks: bool,
    /// For a subcommand that refuses to take paths literally; its paths must begin so that they mean nothing else.
    pub(super) with_patterns: bool,
    /// Longer than a look may take.
    pub(super) limit: Option<Duration>,
}

impl Manner {
    /// A look that is told by its input what at.
    pub(super) fn fed(input: Vec<u8>) -> Self {
        Self { input: Some(input), ..Self::default() }
    }
}

impl Git {
    /// Finds git and prepares it.
    pub(super) fn new(deps: &GitDeps, folder: &Path, ceiling: &Path) -> Result<Self, ToolError> {
        let program = program::find(deps).ok_or_else(|| {
            ToolError::not_found("git is not installed on this machine, or not on the runner's PATH.")
        })?;
        let set = |name: &str, value: &Path| (OsString::from(name), value.as_os_str().to_owned());
        let mut environment = vec![
            set("HOME", &deps.home),
            // Not the workspace's programs, should a workspace be on the PATH.
            (OsString::from("PATH"), program::search_path(deps)),
            // Looking for a repository ends at the workspace.
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

    /// The same git in another folder.
    pub(super) fn move_to(&mut self, folder: &Path) {
        folder.clone_into(&mut self.folder);
    }

    /// Overrides one more setting. The key may hold any character: it does not pass through a command line, where
    /// `=` would end it.
    pub(super) fn set(&mut self, key: String, value: &str) {
        self.settings.push((key, value.to_owned()));
    }

    /// The same, but where hooks run.
    pub(super) fn set_but_for_hooks(&mut self, key: String, value: &str) {
        self.without_hooks.push((key, value.to_owned()));
    }

    /// Whether settings name hooks.
    pub(super) fn knows_more_hooks(&self) -> bool {
        !self.without_hooks.is_empty()
    }

    /// Runs git to its end, until enough is printed, or until the call is over.
    pub(super) async fn run<S: AsRef<OsStr>>(
        &self,
        cx: &ToolCx,
        arguments: &[S],
    ) -> Result<Answer, ToolError> {
        self.run_as(cx, arguments, Manner::default()).await
    }

    /// The same in a manner of its own.
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

    /// Runs git into a sink.
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

    /// Started by the words before it, where there are any.
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
        // A hook's own git would find no file by a pattern either.
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
        // Before it is confined: then it can neither lower the limit nor tell the system who goes first.
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
    // Masked before it is cut.
    let complaint = said(&cx.uncut.masked(&heard[..end]));
    Answer { exit_code: ending.exit_code, output, complaint, cut: ending.cut, left_open: ending.left_open }
}

/// What git or a hook says, without colours and progress.
fn said(bytes: &[u8]) -> String {
    let (mut cleaner, mut clean) = (CommandText::default(), String::new());
    cleaner.push(&String::from_utf8_lossy(bytes), &mut clean);
    cleaner.finish(&mut clean);
    names::block(clean.trim())
}
