//! The runner as a service that the system starts by itself and restarts after a crash: the files and commands for
//! systemd, launchd and the Windows task scheduler.

mod launchd;
mod service_error;
mod service_state;
mod systemd;
mod windows_task;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sha2::{Digest, Sha256};

use punie_core::durable::{self, Readers};
use punie_core::ids::to_hex;
pub use service_error::ServiceError;
pub use service_state::ServiceState;

/// The first words of a file that `service install` wrote.
const AUTHOR_MARK: &str = "Written by `punie-runner service install`";

/// The service manager of a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceManager {
    /// systemd's user units, on Linux.
    Systemd,
    /// launchd's agents, on macOS.
    Launchd,
    /// The task scheduler of Windows.
    WindowsTask,
}

impl ServiceManager {
    /// Returns the manager of this system.
    pub fn for_this_system() -> Self {
        if cfg!(windows) {
            Self::WindowsTask
        } else if cfg!(target_os = "macos") {
            Self::Launchd
        } else {
            Self::Systemd
        }
    }
}

/// The runner of one home as a service.
#[derive(Debug, Clone)]
pub struct ServiceDefinition {
    /// The service manager.
    pub manager: ServiceManager,
    /// The name of the unit, the agent or the task: [`service_name`].
    pub name: String,
    /// The folder of the manager's files, of this user: [`files_folder`].
    pub folder: PathBuf,
    /// The home, for the description.
    pub home: PathBuf,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The variables of the terminal at the installation that the runner needs and a service manager does not have.
    pub variables: Vec<(String, String)>,
    /// The time that a stop may take.
    pub stop_timeout: Duration,
    /// The user's number, for managers that address users by it.
    pub user_id: u32,
}

/// A step that a person takes with a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceAction {
    /// Registers the file that was written, and enables it at login.
    Register,
    /// Stops the service, and disables it at login.
    Unregister,
    /// Starts it.
    Start,
    /// Stops it. It stays enabled.
    Stop,
    /// Stops and starts it.
    Restart,
    /// Makes the manager forget a file that was removed.
    Reload,
}

/// One command of the service manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagerCommand {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The effect of its failure on the action.
    pub failure: FailureEffect,
}

/// The effect that the failure of a command has on the action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureEffect {
    /// The action fails.
    Fails,
    /// The action goes on. The text is the consequence, for a person.
    GoesOn(&'static str),
    /// The action goes on, because there was nothing to do.
    NothingToDo,
}

/// Returns the name of the service of a home, whose path must have no links in it. The default home has the plain name,
/// every other one a name of its own.
pub fn service_name(manager: ServiceManager, home: &Path, is_default_home: bool) -> String {
    let plain = match manager {
        ServiceManager::Launchd => "dev.punie.runner",
        ServiceManager::Systemd | ServiceManager::WindowsTask => "punie-runner",
    };
    if is_default_home {
        return plain.to_owned();
    }
    let last = home.file_name().unwrap_or_default().to_string_lossy();
    let mut words: String = last
        .trim_start_matches('.')
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    words.truncate(32);
    // Two homes may have the same last name.
    let hash = to_hex(&Sha256::digest(home.as_os_str().as_encoded_bytes())[..4]);
    format!("{plain}-{words}-{hash}")
}

/// Returns a path or a variable as text for the service's file.
///
/// # Errors
/// [`ServiceError::Unwritable`].
pub fn text_for_file(text: &OsStr) -> Result<String, ServiceError> {
    let plain = text.to_str().filter(|text| !text.contains(['\n', '\r']));
    plain
        .map(str::to_owned)
        .ok_or_else(|| ServiceError::Unwritable(text.to_owned()))
}

/// Returns the folder of a manager's files in the user's own folder. `config_home` is `XDG_CONFIG_HOME`, which has no
/// effect if it is relative.
pub fn files_folder(manager: ServiceManager, user: &Path, config_home: Option<&Path>) -> PathBuf {
    match (manager, config_home.filter(|folder| folder.is_absolute())) {
        (ServiceManager::Systemd, Some(config_home)) => config_home.join("systemd/user"),
        (ServiceManager::Launchd, _) => user.join("Library/LaunchAgents"),
        _ => user.join(".config/systemd/user"),
    }
}

impl ServiceDefinition {
    /// Returns the service's file and its text; `None` for a manager without files.
    ///
    /// # Errors
    /// [`ServiceError::Unwritable`], [`ServiceError::ProgramPath`].
    pub fn render_file(&self) -> Result<Option<(PathBuf, String)>, ServiceError> {
        let program = text_for_file(self.program.as_os_str())?;
        let values = self.variables.iter().map(|(_, value)| value);
        let words = self.arguments.iter().chain(values);
        for word in words {
            text_for_file(word.as_ref())?;
        }
        let is_refused = |c: char| matches!(c, '"' | '\'' | '\\') || c.is_control();
        if self.manager == ServiceManager::Systemd && program.contains(is_refused) {
            return Err(ServiceError::ProgramPath(self.program.clone()));
        }
        Ok(match self.manager {
            ServiceManager::Systemd => Some((self.file_path(), systemd::render_unit(self))),
            ServiceManager::Launchd => Some((self.file_path(), launchd::render_agent(self))),
            ServiceManager::WindowsTask => None,
        })
    }

    /// Returns the path of the service's file.
    pub fn file_path(&self) -> PathBuf {
        let ending = match self.manager {
            ServiceManager::Launchd => "plist",
            ServiceManager::Systemd | ServiceManager::WindowsTask => "service",
        };
        self.folder.join(format!("{}.{ending}", self.name))
    }

    /// Returns the commands of an action.
    pub fn action_commands(&self, action: ServiceAction) -> Vec<ManagerCommand> {
        match self.manager {
            ServiceManager::Systemd => systemd::action_commands(self, action),
            ServiceManager::Launchd => launchd::action_commands(self, action),
            ServiceManager::WindowsTask => windows_task::action_commands(self, action),
        }
    }

    /// Returns the command that shows the service's log, if the manager keeps one.
    pub fn log_command(&self, lines: usize, follow: bool) -> Option<Vec<String>> {
        (self.manager == ServiceManager::Systemd).then(|| systemd::log_command(self, lines, follow))
    }

    /// Reads the service's file; `None` if there is none.
    ///
    /// # Errors
    /// [`ServiceError::File`].
    pub fn read_file(&self) -> Result<Option<String>, ServiceError> {
        let path = self.file_path();
        durable::allow_missing(std::fs::read_to_string(&path))
            .map_err(|source| ServiceError::File { path, source })
    }

    /// Fails if a file of this name was written by something else, which is not ours to replace or remove.
    ///
    /// # Errors
    /// [`ServiceError::OtherAuthor`], or the file cannot be read.
    pub fn check_author(&self) -> Result<(), ServiceError> {
        match self.read_file()? {
            Some(text) if !text.contains(AUTHOR_MARK) => {
                Err(ServiceError::OtherAuthor(self.file_path()))
            }
            _ => Ok(()),
        }
    }

    /// Writes the service's file, if the manager has files.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub fn write_file(&self) -> Result<(), ServiceError> {
        let Some((path, text)) = self.render_file()? else {
            return Ok(());
        };
        let written = std::fs::create_dir_all(&self.folder)
            .and_then(|()| durable::replace_file(&path, text.as_bytes(), Readers::AsBefore));
        written.map_err(|source| ServiceError::File { path, source })
    }

    /// Removes the service's file, if there is one.
    ///
    /// # Errors
    /// [`ServiceError::File`].
    pub fn remove_file(&self) -> Result<(), ServiceError> {
        let path = self.file_path();
        durable::allow_missing(std::fs::remove_file(&path))
            .map(drop)
            .map_err(|source| ServiceError::File { path, source })
    }

    /// Runs the commands of an action. Returns the consequences of failures that stop nothing.
    ///
    /// # Errors
    /// [`ServiceError`], at the first command that fails and must not.
    pub fn run_action(&self, action: ServiceAction) -> Result<Vec<String>, ServiceError> {
        let mut told = Vec::new();
        for command in self.action_commands(action) {
            match (run_command(&command.words), command.failure) {
                (Ok(_), _) | (Err(ServiceError::Refused { .. }), FailureEffect::NothingToDo) => {}
                (Err(error), FailureEffect::GoesOn(consequence)) => {
                    told.push(format!("{error}. {consequence}"));
                }
                (Err(error), _) => return Err(error),
            }
        }
        Ok(told)
    }

    /// Fails if the user's service manager cannot be reached.
    ///
    /// # Errors
    /// [`ServiceError`], with the remedy.
    pub fn check_manager(&self) -> Result<(), ServiceError> {
        if self.manager != ServiceManager::Systemd {
            return Ok(());
        }
        run_command(&systemd::probe_command())
            .map(drop)
            .map_err(|error| match error {
                ServiceError::Refused { command, answer } => ServiceError::Refused {
                    command,
                    answer: format!("{answer}\n{}", systemd::no_session_help(self.user_id)),
                },
                other => other,
            })
    }

    /// Asks the manager for the service's state.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub fn read_state(&self) -> Result<ServiceState, ServiceError> {
        match self.manager {
            ServiceManager::Systemd => systemd::read_state(self),
            ServiceManager::Launchd => {
                let answer = run_command(&launchd::state_command(self));
                Ok(launchd::parse_state(
                    self.read_file()?.is_some(),
                    answer.ok(),
                ))
            }
            ServiceManager::WindowsTask => {
                let answer = run_command(&windows_task::state_command(self));
                Ok(windows_task::parse_state(answer.ok()))
            }
        }
    }
}

/// Runs a command, and returns its output.
fn run_command(words: &[String]) -> Result<String, ServiceError> {
    let [program, arguments @ ..] = words else {
        return Ok(String::new());
    };
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| ServiceError::NoManager {
            program: program.clone(),
            source,
        })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut answer = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if answer.is_empty() {
        let _ = write!(answer, "{}", output.status);
    }
    Err(ServiceError::Refused {
        command: words.join(" "),
        answer,
    })
}

/// Runs a command whose output goes where this program's goes. Returns whether it succeeded.
///
/// # Errors
/// [`ServiceError::NoManager`].
pub fn run_shown_command(words: &[String]) -> Result<bool, ServiceError> {
    let [program, arguments @ ..] = words else {
        return Ok(true);
    };
    let status = Command::new(program).args(arguments).status();
    let status = status.map_err(|source| ServiceError::NoManager {
        program: program.clone(),
        source,
    })?;
    Ok(status.success())
}

fn to_words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A command whose failure is the action's.
fn required(words: &[&str]) -> ManagerCommand {
    ManagerCommand {
        words: to_words(words),
        failure: FailureEffect::Fails,
    }
}
