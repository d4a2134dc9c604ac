//! Opens an application for the person at the machine. This is not a method of ACP, because editors have none for it.

use std::path::PathBuf;

use super::ToolFuture;
use super::terminals::ExitStatus;

/// Opens applications on the desktop.
pub trait AppClient: Send + Sync + 'static {
    /// Starts an application and detaches it. It then belongs to the person, and the runner does not end it.
    ///
    /// # Errors
    /// `not_found` if there is neither such a program nor one that opens the file, `permission_denied`, `policy_denied`
    /// on a system where this is not possible, `io`.
    fn open_app(&self, request: AppRequest) -> ToolFuture<'_, OpenedApp>;
}

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
