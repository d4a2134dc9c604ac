//! Opening an application for the person at the machine. Not one of ACP's methods: an editor has no such thing. Not
//! here: which names a tool takes, and the words of its answer.

use std::path::PathBuf;

use super::Answer;
use super::terminals::ExitStatus;

/// Opens applications on the desktop.
pub trait AppClient: Send + Sync + 'static {
    /// Starts an application and lets it go: it belongs to the person from then on, and nothing here ends it.
    ///
    /// # Errors
    /// `not_found` where there is no such program and nothing that opens the file, `permission_denied`,
    /// `policy_denied` on a system where this cannot be done, `io`.
    fn open_app(&self, request: AppRequest) -> Answer<'_, OpenedApp>;
}

/// What to open.
#[derive(Debug, Clone)]
pub struct AppRequest {
    /// A name that the system looks up, or a path without links.
    pub app: String,
    /// Its arguments, passed on as they are.
    pub args: Vec<String>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// The file that is meant where there is no program of that name; the desktop chooses what opens it.
    pub file: Option<PathBuf>,
}

/// An application that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedApp {
    /// Its process id.
    pub pid: u32,
    /// The program that opens things by the desktop's choice, where it was needed.
    pub opener: Option<&'static str>,
    /// How it ended, if it did so at once.
    pub ended: Option<ExitStatus>,
    /// Whether there is a screen to show windows on, as far as the runner can see.
    pub display: bool,
}
