//! The start of the runner in the background: away from the client's session, terminal and control group, and with the
//! environment of the login shell.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use semver::Version;

use super::StartReport;
use crate::cli::context::{CliContext, command_runtime};
use crate::config::ProcessEnvironment;
use punie_home::{Home, SuccessorProgram};

/// The variables of the user's session, which the login shell is started with. All others of the client are left out.
const SESSION_VARIABLES: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
];
/// The PATH before the login shell sets its own.
const PLAIN_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Linux's mark of a program whose file was replaced or removed.
const REMOVED_MARK: &str = " (deleted)";

/// Starts the runner, and waits until it serves or has failed.
pub(super) fn start_detached(context: &CliContext) -> anyhow::Result<StartReport> {
    // The runner gets this session, which has no terminal. A process that leads a group has one of its own already.
    #[cfg(unix)]
    let _ = rustix::process::setsid();
    let config = context.config_despite_faults()?;
    let home = CliContext::config_home(&config)?;
    let mut runner = vec![choose_program(&home)?.into_os_string()];
    runner.extend(CliContext::home_arguments(&config));
    runner.extend(["background".into(), "--detached".into()]);
    let environment = runner_environment(context.environment())?;
    if has_user_manager(context.environment()) {
        let scoped: Vec<OsString> = SCOPE_COMMAND.iter().map(OsString::from).collect();
        // Where it does not work after all, the runner goes without a scope.
        if let Some(report) = start_process(&[scoped, runner.clone()].concat(), &environment) {
            return Ok(report);
        }
    }
    start_process(&runner, &environment)
        .ok_or_else(|| anyhow::anyhow!("the runner ended before it was up"))
}

/// Starts a program in a scope of the user's systemd: a control group that does not end with the client's.
const SCOPE_COMMAND: &[&str] = &[
    "systemd-run",
    "--user",
    "--scope",
    "--quiet",
    "--collect",
    "--description=punie-runner in the background",
    // Commands get control groups of their own below this one.
    "--property=Delegate=pids memory",
    "--",
];

/// Returns whether systemd runs for this user.
fn has_user_manager(environment: &ProcessEnvironment) -> bool {
    let folder = environment.get("XDG_RUNTIME_DIR").map(Path::new);
    cfg!(target_os = "linux")
        && folder.is_some_and(|folder| folder.join("systemd/private").exists())
}

/// Starts a command line in the background, and waits for its report. `None` if it ended without one.
fn start_process(words: &[OsString], environment: &[(String, String)]) -> Option<StartReport> {
    let (program, arguments) = words.split_first()?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut line = String::new();
    let read = BufReader::new(child.stdout.take()?).read_line(&mut line);
    read.ok()?;
    serde_json::from_str(&line).ok()
}

/// Returns the program of the runner: a newer one that takes over, else the file of this one.
fn choose_program(home: &Home) -> anyhow::Result<PathBuf> {
    let own = Version::parse(env!("CARGO_PKG_VERSION"))?;
    let newer = SuccessorProgram::find(home).filter(|next| {
        Version::parse(&next.version).is_ok_and(|version| version > own) && next.program.is_file()
    });
    match newer {
        Some(next) => Ok(next.program),
        None => Ok(own_program()?),
    }
}

/// Returns the file of this program, or the one that has replaced it.
fn own_program() -> std::io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let replaced = own
        .to_str()
        .and_then(|path| path.strip_suffix(REMOVED_MARK));
    Ok(replaced.map_or_else(|| own.clone(), PathBuf::from))
}

/// Returns the variables of the login shell. They do not depend on the client, whichever starts the runner.
#[cfg(unix)]
fn runner_environment(environment: &ProcessEnvironment) -> anyhow::Result<Vec<(String, String)>> {
    let session = SESSION_VARIABLES.iter().filter_map(|name| {
        let value = environment.get(name)?.to_str()?;
        Some(((*name).to_owned(), value.to_owned()))
    });
    let base = session
        .chain([("PATH".to_owned(), PLAIN_PATH.to_owned())])
        .collect();
    let found = punie_host::local::login_environment::login_variables(base);
    Ok(command_runtime()?.block_on(found))
}

/// Returns the variables of this process: this system has no login shells.
#[cfg(not(unix))]
fn runner_environment(environment: &ProcessEnvironment) -> anyhow::Result<Vec<(String, String)>> {
    let text = |text: &OsString| text.to_str().map(str::to_owned);
    Ok(environment
        .variables()
        .iter()
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
        .collect())
}
