//! The one way git is started: found by absolute path, with an environment made from nothing, and with every
//! setting overridden by which a repository could have a program run. Not here: which repository (repository).
#![expect(clippy::disallowed_methods, reason = "this file is the one that starts git")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use super::GitDeps;
use crate::tool::{ErrorCode, ToolCx, ToolError};

/// How much output is kept; then git is stopped.
const MAX_OUTPUT: usize = 8 << 20;
/// How much of git's own complaints is kept.
const MAX_COMPLAINT: usize = 16 << 10;
/// How long one run may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Settings that decide which programs run. They come from the command's own environment, which git takes over
/// every file.
const SETTINGS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.sshCommand", "false"),
    ("core.editor", "false"),
    ("core.askPass", ""),
    ("core.pager", "cat"),
    ("core.alternateRefsCommand", "false"),
    ("core.gitProxy", ""),
    // Names as they are; control characters are still escaped.
    ("core.quotePath", "false"),
    ("credential.helper", ""),
    ("log.showSignature", "false"),
    ("commit.gpgSign", "false"),
    ("gpg.program", "false"),
    ("protocol.ext.allow", "never"),
    ("safe.bareRepository", "explicit"),
    ("diff.ignoreSubmodules", "all"),
    ("diff.submodule", "short"),
    ("diff.noPrefix", "false"),
    ("diff.mnemonicPrefix", "false"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
];

/// git, ready to be started in a folder of the workspace.
#[derive(Debug, Clone)]
pub(super) struct Git {
    program: PathBuf,
    folder: PathBuf,
    environment: Vec<(OsString, OsString)>,
    settings: Vec<(String, String)>,
}

/// What a run gave.
#[derive(Debug)]
pub(super) struct Answer {
    /// None where git was stopped because its output was enough.
    pub(super) exit_code: Option<i32>,
    pub(super) output: Vec<u8>,
    pub(super) complaint: String,
    /// The output was longer than what is kept.
    pub(super) cut: bool,
}

impl Answer {
    /// The output as text; names that are no text have their bytes replaced.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }
}

impl Git {
    /// Finds git and prepares it.
    pub(super) fn new(deps: &GitDeps, folder: &Path, ceiling: &Path) -> Result<Self, ToolError> {
        let program = find(deps).ok_or_else(|| {
            ToolError::not_found("git is not installed on this machine, or not on the runner's PATH.")
        })?;
        let set = |name: &str, value: &Path| (OsString::from(name), value.as_os_str().to_owned());
        let mut environment = vec![
            set("HOME", &deps.home),
            // Not the workspace's programs, should a workspace be on the PATH.
            (OsString::from("PATH"), outside(deps)),
            // Looking for a repository ends at the workspace.
            set("GIT_CEILING_DIRECTORIES", ceiling),
        ];
        for (name, value) in [
            ("LANG", "C.UTF-8"),
            ("LC_ALL", "C.UTF-8"),
            ("TZ", "UTC"),
            ("TERM", "dumb"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_PAGER", "cat"),
            ("GIT_EDITOR", "false"),
            ("GIT_ASKPASS", "false"),
            ("SSH_ASKPASS", "false"),
            // An object that a partial clone lacks is not fetched.
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_ALLOW_PROTOCOL", "none"),
        ] {
            environment.push((name.into(), value.into()));
        }
        if cfg!(windows)
            && let Some(root) = windows_root(&program)
        {
            environment.push(("SystemRoot".into(), root));
        }
        let settings = SETTINGS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Ok(Self { program, folder: folder.to_owned(), environment, settings })
    }

    /// Overrides one more setting. The key may hold any character: it does not pass through a command line, where
    /// `=` would end it.
    pub(super) fn set(&mut self, key: String, value: &str) {
        self.settings.push((key, value.to_owned()));
    }

    /// Runs git to its end, until enough is printed, or until the call is over.
    pub(super) async fn run(&self, cx: &ToolCx, arguments: &[&str]) -> Result<Answer, ToolError> {
        let mut child = self.command(arguments).spawn().map_err(|cause| ToolError::io("git", &cause))?;
        let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(ToolError::internal("git was started without its pipes."));
        };
        let limit = cx.time_left(LIMIT);
        let talk = async {
            let (output, complaint) =
                tokio::join!(keep(out, MAX_OUTPUT, true), keep(err, MAX_COMPLAINT, false));
            let ((output, cut), (complaint, _)) =
                (output.map_err(|cause| ToolError::io("git", &cause))?, complaint.unwrap_or_default());
            if cut {
                stop(&mut child).await;
                return Ok(Answer { exit_code: None, output, complaint: lossy(&complaint), cut });
            }
            let status = child.wait().await.map_err(|cause| ToolError::io("git", &cause))?;
            Ok(Answer { exit_code: status.code(), output, complaint: lossy(&complaint), cut })
        };
        let ended = tokio::select! {
            biased;
            () = cx.cancelled() => Err(ToolError::cancelled("The git call was cancelled; it changes nothing.")),
            answer = tokio::time::timeout(limit, talk) => answer.unwrap_or_else(|_| {
                Err(ToolError::new(
                    ErrorCode::Timeout,
                    format!("git took longer than {} s and was stopped. Name a smaller folder in `path`.", limit.as_secs()),
                ))
            }),
        };
        if ended.is_err() {
            stop(&mut child).await;
        }
        ended
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["--no-pager", "--no-optional-locks", "--literal-pathspecs"])
            .args(arguments)
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("GIT_CONFIG_COUNT", self.settings.len().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for (i, (key, value)) in self.settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{i}"), key).env(format!("GIT_CONFIG_VALUE_{i}"), value);
        }
        // A group of its own: what git starts is stopped with it.
        #[cfg(unix)]
        command.process_group(0);
        command
    }
}

/// Reads up to `max` bytes. Past that, the rest is either left in the pipe or read and dropped.
async fn keep(mut pipe: impl AsyncRead + Unpin, max: usize, stop: bool) -> std::io::Result<(Vec<u8>, bool)> {
    let mut kept = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    let mut cut = false;
    loop {
        let n = pipe.read(&mut chunk).await?;
        if n == 0 {
            return Ok((kept, cut));
        }
        let room = max - kept.len();
        kept.extend_from_slice(&chunk[..n.min(room)]);
        cut |= n > room;
        if cut && stop {
            return Ok((kept, true));
        }
    }
}

/// Kills git and what it started, and waits until it is gone.
async fn stop(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) =
        child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
        && let Err(cause) = rustix::process::kill_process_group(group, rustix::process::Signal::KILL)
    {
        tracing::debug!(%cause, "git was gone before it was stopped");
    }
    if let Err(cause) = child.kill().await {
        tracing::debug!(%cause, "git was gone before it was stopped");
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// The folders of the PATH that are absolute and in no workspace.
fn trusted(deps: &GitDeps) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(&deps.search_path).filter(|folder| {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        folder.is_absolute()
            && !deps.workspace.roots().any(|root| real.starts_with(root) || folder.starts_with(root))
    })
}

fn outside(deps: &GitDeps) -> OsString {
    std::env::join_paths(trusted(deps)).unwrap_or_default()
}

/// git by absolute path; a workspace's own `git` is never it.
fn find(deps: &GitDeps) -> Option<PathBuf> {
    let name = if cfg!(windows) { "git.exe" } else { "git" };
    trusted(deps).map(|folder| folder.join(name)).find(|file| is_program(file, deps))
}

fn is_program(file: &Path, deps: &GitDeps) -> bool {
    let Ok(real) = file.canonicalize() else { return false };
    if deps.workspace.roots().any(|root| real.starts_with(root)) {
        return false;
    }
    let Ok(meta) = real.metadata() else { return false };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        meta.is_file() && meta.permissions().mode() & 0o111 != 0
    }
    #[cfg(not(unix))]
    {
        meta.is_file()
    }
}

/// Windows programs need to know where the system is; it is on the drive that git is on, by default.
fn windows_root(program: &Path) -> Option<OsString> {
    let mut root: OsString = program.components().next()?.as_os_str().to_owned();
    root.push("\\Windows");
    Some(root)
}
