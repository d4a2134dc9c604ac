//! Starts desktop applications on this machine, without a shell, and leaves them running. This is not a method of ACP,
//! because editors have none for it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use super::local_terminals::LocalTerminals;
use crate::terminals::ExitStatus;
use punie_tool::{ErrorCode, ToolError};

/// The time for which a new application is watched: one that fails does so at once.
const START_WATCH_TIME: Duration = Duration::from_secs(2);
/// The time that the desktop's opener may take to hand the file over.
const OPENER_TIMEOUT: Duration = Duration::from_secs(10);

/// The application to open.
#[derive(Debug, Clone)]
pub struct AppRequest {
    /// A name that the system looks up, or a path without symlinks.
    pub app: String,
    /// Its arguments, passed on unchanged.
    pub args: Vec<String>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// The file to open if there is no program of that name; the desktop chooses the program.
    pub file: Option<PathBuf>,
}

/// An application that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedApp {
    /// Its process id.
    pub pid: u32,
    /// The program that opens files by the desktop's choice, if it was used.
    pub opener: Option<&'static str>,
    /// Its exit status, if it ended at once.
    pub ended: Option<ExitStatus>,
    /// There is a screen for windows, as far as the runner can see.
    pub display: bool,
}

impl LocalTerminals {
    /// Starts an application and detaches it. It then belongs to the person, and the runner does not end it.
    ///
    /// # Errors
    /// `not_found` if there is neither such a program nor one that opens the file, `permission_denied`, `policy_denied`
    /// on a system where this is not possible, `io`.
    pub async fn open_app(&self, request: AppRequest) -> Result<OpenedApp, ToolError> {
        let env = self.app_environment().await;
        open_on_desktop(&request, &env).await
    }
}

/// Returns whether the environment allows windows. `is_set` tells whether a variable has a value.
pub fn has_display(is_set: impl Fn(&str) -> bool) -> bool {
    !cfg!(target_os = "linux") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

#[cfg(not(any(target_os = "macos", windows)))]
async fn open_on_desktop(
    request: &AppRequest,
    env: &BTreeMap<String, String>,
) -> Result<OpenedApp, ToolError> {
    const OPENER: &str = "xdg-open";
    let display = has_display(|name| env.get(name).is_some_and(|value| !value.is_empty()));
    let AppRequest {
        app,
        args,
        cwd,
        file,
    } = request;
    let cause = match spawn_app(app, args, cwd, env) {
        Ok(child) => return watch_start(child, START_WATCH_TIME, None, display).await,
        Err(cause) => cause,
    };
    let no_program = matches!(
        cause.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
    ) || cause.raw_os_error() == Some(libc::ENOEXEC);
    if !no_program {
        return Err(ToolError::from_io(app, &cause));
    }
    let why = match cause.kind() {
        io::ErrorKind::NotFound => format!("There is no program {app:?} on this machine's PATH"),
        _ => format!("{app} cannot be started ({cause})"),
    };
    let Some(file) = file.as_ref().filter(|_| args.is_empty()) else {
        let hint = if args.is_empty() {
            ", and no such file in the workspace"
        } else {
            ""
        };
        let code = if cause.kind() == io::ErrorKind::PermissionDenied {
            ErrorCode::PermissionDenied
        } else {
            ErrorCode::NotFound
        };
        return Err(ToolError::new(
            code,
            format!("{why}{hint}. Nothing was opened."),
        ));
    };
    if !display {
        let text = format!(
            "{why}, and there is no display to open the file on: neither DISPLAY nor WAYLAND_DISPLAY is set where the \
             runner was started. Nothing was opened."
        );
        return Err(ToolError::not_found(text));
    }
    match spawn_app(OPENER, &[file.display().to_string()], cwd, env) {
        Ok(child) => watch_start(child, OPENER_TIMEOUT, Some(OPENER), display).await,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            let text = format!(
                "{why}, and there is no {OPENER} that would open the file. Nothing was opened."
            );
            Err(ToolError::not_found(text))
        }
        Err(cause) => Err(ToolError::from_io(OPENER, &cause)),
    }
}

#[cfg(target_os = "macos")]
async fn open_on_desktop(
    request: &AppRequest,
    env: &BTreeMap<String, String>,
) -> Result<OpenedApp, ToolError> {
    const OPENER: &str = "open";
    let mut words = match &request.file {
        Some(file) => vec![file.display().to_string()],
        None => vec!["-a".to_owned(), request.app.clone()],
    };
    if !request.args.is_empty() {
        words.push("--args".to_owned());
        words.extend(request.args.iter().cloned());
    }
    let child = spawn_app(OPENER, &words, &request.cwd, env)
        .map_err(|cause| ToolError::from_io(OPENER, &cause))?;
    watch_start(child, OPENER_TIMEOUT, Some(OPENER), true).await
}

#[cfg(windows)]
async fn open_on_desktop(
    request: &AppRequest,
    env: &BTreeMap<String, String>,
) -> Result<OpenedApp, ToolError> {
    // `cmd` parses its arguments again. The tool rejects all characters that are special to it.
    const OPENER: &str = "cmd";
    let mut words = vec![
        "/c".to_owned(),
        "start".to_owned(),
        String::new(),
        request.app.clone(),
    ];
    words.extend(request.args.iter().cloned());
    let child = spawn_app(OPENER, &words, &request.cwd, env)
        .map_err(|cause| ToolError::from_io(OPENER, &cause))?;
    watch_start(child, OPENER_TIMEOUT, Some(OPENER), true).await
}

fn spawn_app(
    program: &str,
    args: &[String],
    cwd: &Path,
    env: &BTreeMap<String, String>,
) -> io::Result<Child> {
    let mut command = Command::new(program);
    command
        .args(args)
        .current_dir(cwd)
        .env_clear()
        .envs(env)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // Signals to the runner's process group must not reach the application.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn()
}

/// Waits briefly for the child to end. A thread goes on waiting, so that the child is reaped when it ends later.
async fn watch_start(
    mut child: Child,
    patience: Duration,
    opener: Option<&'static str>,
    display: bool,
) -> Result<OpenedApp, ToolError> {
    let pid = child.id();
    let (tell, told) = oneshot::channel();
    let waiting = thread::Builder::new()
        .name("app".to_owned())
        .spawn(move || {
            // The receiver is gone once the application has run for a while.
            let _ = tell.send(child.wait());
        });
    if let Err(cause) = waiting {
        tracing::warn!(%cause, pid, "an application is not waited for; it will be left over when it ends");
    }
    let ended = match tokio::time::timeout(patience, told).await {
        Ok(Ok(Ok(status))) => Some(to_exit_status(status)),
        _ => None,
    };
    Ok(OpenedApp {
        pid,
        opener,
        ended,
        display,
    })
}

fn to_exit_status(status: std::process::ExitStatus) -> ExitStatus {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return ExitStatus::from_signal_number(signal);
    }
    match status.code() {
        Some(code) => ExitStatus::Code(code),
        None => ExitStatus::Signal("an unknown signal".to_owned()),
    }
}
