//! Checks of programs: this one, those that commands need, and the service.
#![expect(clippy::unnecessary_wraps, reason = "all checks have one type")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use super::doctor_facts::DoctorFacts;
use super::finding::{CheckResult, Finding, join_first};
use crate::cli::context::command_runtime;
use crate::config::ProcessEnvironment;
use crate::service::{ServiceManager, service_name};
use punie_core::file_metadata::permission_bits;
use punie_home::{command_to_type, shell_word};

/// The name of this program.
const PROGRAM: &str = "punie-runner";
/// The time limit for a program's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The age from which a newer version is worth looking for.
const OLD_AGE: Duration = Duration::from_hours(24 * 180);
/// The folder with a file for each user whose services go on after the logout.
const LINGER_FOLDER: &str = "/var/lib/systemd/linger";

/// Lists the folders of PATH.
fn path_folders(environment: &ProcessEnvironment) -> Vec<PathBuf> {
    let path = environment.path_variable();
    path.map(std::env::split_paths)
        .into_iter()
        .flatten()
        .collect()
}

fn find_program(environment: &ProcessEnvironment, name: &str) -> Option<PathBuf> {
    let folders = path_folders(environment).into_iter();
    folders
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| is_executable(path))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file() || path.with_extension("exe").is_file()
}

/// Runs a program, and returns the first line of its output.
fn ask_program(
    facts: &DoctorFacts,
    program: &Path,
    args: &[&OsStr],
) -> anyhow::Result<(bool, String)> {
    let mut command = tokio::process::Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(facts.environment.variables().iter().cloned())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = command_runtime()?
        .block_on(async { tokio::time::timeout(ANSWER_TIMEOUT, command.output()).await });
    let output = output
        .map_err(|_| anyhow::anyhow!("{} did not answer in time", program.display()))?
        .map_err(|error| anyhow::anyhow!("{} cannot be run: {error}", program.display()))?;
    let said = if output.stdout.is_empty() {
        output.stderr
    } else {
        output.stdout
    };
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().next().unwrap_or_default().trim();
    Ok((output.status.success(), line.to_owned()))
}

pub(super) fn check_program(facts: &DoctorFacts) -> CheckResult {
    let own = std::env::current_exe()?;
    let shown = own.display();
    let same = |other: &Path| other.canonicalize().ok() == own.canonicalize().ok();
    Ok(match find_program(&facts.environment, PROGRAM) {
        None => Finding::note(format!(
            "{PROGRAM} is not on your PATH; this one is {shown}"
        ))
        .with_mend(format!(
            "ln -s {} ~/.local/bin/{PROGRAM}",
            shell_word(&shown.to_string())
        )),
        Some(other) if !same(&other) => Finding::note(format!(
            "{PROGRAM} on your PATH is {}, and this one is {shown}",
            other.display()
        ))
        .with_mend("Remove the one that you do not use"),
        Some(_) => {
            let modified = fs::metadata(&own).and_then(|file| file.modified())?;
            describe_age(&own, modified, SystemTime::now())
        }
    })
}

fn describe_age(program: &Path, modified: SystemTime, now: SystemTime) -> Finding {
    let age = now.duration_since(modified).unwrap_or_default();
    let shown = format!(
        "{} is {} days old",
        program.display(),
        age.as_secs() / 86_400
    );
    if age < OLD_AGE {
        return Finding::ok(shown);
    }
    Finding::note(shown).with_mend("Install a newer version, if there is one")
}

pub(super) fn check_command_path(facts: &DoctorFacts) -> CheckResult {
    let folders = path_folders(&facts.environment);
    if !folders.iter().any(|folder| folder.is_dir()) {
        return Ok(Finding::problem(
            "PATH names no folder that exists, so commands find no programs",
        )
        .with_mend("export PATH=/usr/local/bin:/usr/bin:/bin"));
    }
    let doubtful: Vec<String> = folders
        .iter()
        .filter(|folder| !folder.is_absolute() || is_open_to_others(folder))
        .map(|folder| format!("{:?}", folder.display().to_string()))
        .collect();
    if doubtful.is_empty() {
        return Ok(Finding::ok(format!("PATH has {} folders", folders.len())));
    }
    Ok(Finding::note(format!(
        "PATH names folders in which others can put programs, or that depend on where a command runs: {}",
        join_first(&doubtful)
    ))
    .with_mend("Remove them from PATH, or run: chmod o-w FOLDER"))
}

fn is_open_to_others(folder: &Path) -> bool {
    let bits = folder.metadata().ok().as_ref().and_then(permission_bits);
    bits.is_some_and(|bits| bits & 0o002 != 0)
}

pub(super) fn check_git(facts: &DoctorFacts) -> CheckResult {
    let Some(git) = find_program(&facts.environment, "git") else {
        return Ok(
            Finding::problem("There is no git on your PATH, which the git tools need")
                .with_mend("sudo apt install git, or as your system installs programs"),
        );
    };
    let (is_well, said) = ask_program(facts, &git, &["--version".as_ref()])?;
    Ok(if is_well {
        Finding::ok(format!("{said} ({})", git.display()))
    } else {
        Finding::problem(format!("{} does not work: {said}", git.display()))
            .with_mend("Install git again")
    })
}

pub(super) fn check_shell(facts: &DoctorFacts) -> CheckResult {
    #[cfg(unix)]
    let bash = punie_host::local::bash_path();
    #[cfg(not(unix))]
    let bash = find_program(&facts.environment, "bash");
    let Some(bash) = bash else {
        return Ok(
            Finding::problem("There is no bash, which runs command lines")
                .with_mend("sudo apt install bash, or as your system installs programs"),
        );
    };
    let login = facts.environment.get("SHELL").map(Path::new);
    Ok(match login.filter(|shell| !is_executable(shell)) {
        Some(shell) => Finding::note(format!(
            "Your login shell {} cannot be run, so commands do not get its PATH",
            shell.display()
        ))
        .with_mend("chsh -s /bin/bash, or correct the variable SHELL"),
        None => Finding::ok(format!("Command lines are run by {}", bash.display())),
    })
}

/// Finds the units of this home's service, in the order in which systemd prefers them.
fn find_service_units(facts: &DoctorFacts) -> Vec<PathBuf> {
    let environment = &facts.environment;
    let config = &facts.config;
    let name = service_name(
        ServiceManager::Systemd,
        &config.canonical_home(),
        config.is_default_home(),
    );
    let below_home = |folder: &str| environment.user_dir().map(|home| home.join(folder));
    let configured = environment
        .get("XDG_CONFIG_HOME")
        .map(|folder| Path::new(folder).to_owned())
        .filter(|folder| folder.is_absolute())
        .or_else(|| below_home(".config"));
    let folders = [
        configured.map(|folder| folder.join("systemd/user")),
        below_home(".local/share/systemd/user"),
        Some(PathBuf::from("/etc/systemd/user")),
        Some(PathBuf::from("/usr/lib/systemd/user")),
    ];
    let file = format!("{name}.service");
    let units = folders.into_iter().flatten();
    units
        .map(|folder| folder.join(&file))
        .filter(|unit| unit.is_file())
        .collect()
}

pub(super) fn check_service(facts: &DoctorFacts) -> CheckResult {
    let environment = &facts.environment;
    if ServiceManager::for_this_system() != ServiceManager::Systemd {
        let command = command_to_type("service status");
        return Ok(Finding::ok(format!(
            "Not checked on this system: {command}"
        )));
    }
    let Some(unit) = find_service_units(facts).into_iter().next() else {
        return Ok(Finding::ok(
            "No service is installed; the runner lasts as long as its terminal",
        ));
    };
    let name = unit.file_name().unwrap_or_default();
    let shown = name.to_string_lossy();
    let Some(systemctl) = find_program(environment, "systemctl") else {
        return Ok(
            Finding::note(format!("{} is there, and systemctl is not", unit.display()))
                .with_mend("Start the runner in a terminal, or install systemd"),
        );
    };
    let probe = ["--user", "show", "--property=Version"].map(OsStr::new);
    let (is_reached, said) = ask_program(facts, &systemctl, &probe)?;
    if !is_reached {
        return Ok(Finding::note(format!(
            "systemd could not be asked whether the service {shown} runs ({said})"
        ))
        .with_mend(command_to_type("service status")));
    }
    let args = ["--user".as_ref(), "is-active".as_ref(), name];
    let (is_active, said) = ask_program(facts, &systemctl, &args)?;
    Ok(if is_active {
        Finding::ok(format!("The service {shown} runs"))
    } else {
        Finding::problem(format!("The service {shown} does not run ({said})"))
            .with_mend(command_to_type("service start"))
    })
}

pub(super) fn check_linger(facts: &DoctorFacts) -> CheckResult {
    let environment = &facts.environment;
    if ServiceManager::for_this_system() != ServiceManager::Systemd {
        return Ok(Finding::ok("This system has no lingering"));
    }
    if find_service_units(facts).is_empty() {
        return Ok(Finding::ok("No service is installed"));
    }
    let user = environment
        .get("USER")
        .or_else(|| environment.get("LOGNAME"));
    let Some(user) = user else {
        return Ok(Finding::ok("Your user's name is not known here"));
    };
    if Path::new(LINGER_FOLDER).join(user).exists() {
        return Ok(Finding::ok("The service goes on after you log out"));
    }
    Ok(
        Finding::note("The service ends when you log out, and starts when you log in")
            .with_mend("loginctl enable-linger"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_half_a_year_is_old() {
        let program = Path::new("/bin/one");
        let now = SystemTime::now();
        let aged = |days: u64| describe_age(program, now - Duration::from_hours(24 * days), now);
        assert_eq!(aged(179).mend, None);
        let old = aged(180);
        assert_eq!(old.found, "/bin/one is 180 days old");
        assert!(old.mend.is_some());
    }
}
