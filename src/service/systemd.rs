//! systemd: the user's unit, its commands and its state.

use std::fmt::Write as _;

use super::{
    AUTHOR_MARK, FailureEffect, ManagerCommand, ServiceAction, ServiceDefinition, ServiceError,
    ServiceState, required, run_command, to_words,
};

/// The longest silence of the runner's tasks before systemd restarts it. The runner sends a message at half of it, and
/// only while its tasks make progress.
const WATCHDOG_SECONDS: u64 = 180;

pub(super) fn render_unit(service: &ServiceDefinition) -> String {
    let mut command = quote_path(&service.program.to_string_lossy());
    for argument in &service.arguments {
        let _ = write!(command, " {}", quote_argument(argument));
    }
    let mut environment = String::new();
    for (name, value) in &service.variables {
        let entry = quote_path(&format!("{name}={value}"));
        let _ = writeln!(environment, "Environment={entry}");
    }
    format!(
        "# {AUTHOR_MARK}, which writes it anew.
[Unit]
Description=punie-runner of {description}
# Restarts go on for ever: their growing distance is the limit.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
{environment}WatchdogSec={WATCHDOG_SECONDS}
# A large journal may need its time to be opened.
TimeoutStartSec=300
TimeoutStopSec={stop}
# The runner ends its commands itself. Background shells live through its crash, and through a stop with keep_shells.
KillMode=process
Restart=on-failure
RestartSec=2
RestartSteps=8
RestartMaxDelaySec=300
# Wrong arguments, not paired or refused, wrong configuration: a restart changes nothing.
RestartPreventExitStatus=2 77 78
# Commands get control groups of their own below this one.
Delegate=pids memory
# The runner gets one as well: systemd starts nothing in a group whose processes are limited in groups below it.
DelegateSubgroup=punie-runner

[Install]
WantedBy=default.target
",
        description = service
            .home
            .to_string_lossy()
            .replace('\\', r"\\")
            .replace('%', "%%"),
        stop = service.stop_timeout.as_secs(),
    )
}

/// Quotes the program or an assignment, in which systemd replaces `%` only.
fn quote_path(text: &str) -> String {
    let escaped = text.replace('\\', r"\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('%', "%%"))
}

/// Quotes an argument of a command line, in which systemd also replaces variables.
fn quote_argument(text: &str) -> String {
    quote_path(text).replace('$', "$$")
}

fn unit_name(service: &ServiceDefinition) -> String {
    format!("{}.service", service.name)
}

pub(super) fn action_commands(
    service: &ServiceDefinition,
    action: ServiceAction,
) -> Vec<ManagerCommand> {
    let unit = unit_name(service);
    let systemctl = |words: &[&str]| required(&[&["systemctl", "--user"], words].concat());
    match action {
        ServiceAction::Register => vec![
            systemctl(&["daemon-reload"]),
            systemctl(&["enable", &unit]),
            ManagerCommand {
                words: to_words(&["loginctl", "enable-linger", &service.user_id.to_string()]),
                failure: FailureEffect::GoesOn(
                    "The service then runs only while you are logged in. An administrator can change that with the \
                     same command",
                ),
            },
        ],
        ServiceAction::Unregister => vec![systemctl(&["disable", "--now", &unit])],
        ServiceAction::Start => vec![systemctl(&["start", &unit])],
        ServiceAction::Stop => vec![systemctl(&["stop", &unit])],
        ServiceAction::Restart => vec![systemctl(&["restart", &unit])],
        ServiceAction::Reload => vec![systemctl(&["daemon-reload"])],
    }
}

pub(super) fn log_command(service: &ServiceDefinition, lines: usize, follow: bool) -> Vec<String> {
    let unit = unit_name(service);
    let lines = lines.to_string();
    let mut words = to_words(&["journalctl", "--user", "--unit", &unit, "--lines", &lines]);
    words.extend(to_words(if follow {
        &["--follow"]
    } else {
        &["--no-pager"]
    }));
    words
}

/// Returns a command that fails where no manager of this user can be reached.
pub(super) fn probe_command() -> Vec<String> {
    to_words(&["systemctl", "--user", "show", "--property=Version"])
}

/// Returns the remedy where no manager of this user can be reached.
pub(super) fn no_session_help(user_id: u32) -> String {
    format!(
        "No systemd of your user runs here, or it cannot be reached. It runs while you are logged in by a console, a \
         desktop or ssh, and not after `su` or `sudo`. To have it without a login, an administrator types: loginctl \
         enable-linger {user_id}\nThen: export XDG_RUNTIME_DIR=/run/user/{user_id}\nWhere there is no systemd, such as \
         in most containers, start `punie-runner` from the program that keeps your other services running"
    )
}

pub(super) fn read_state(service: &ServiceDefinition) -> Result<ServiceState, ServiceError> {
    let unit = unit_name(service);
    let shown = run_command(&to_words(&[
        "systemctl",
        "--user",
        "show",
        &unit,
        "--property=LoadState,ActiveState,SubState,ActiveEnterTimestamp,UnitFileState,MainPID,NRestarts,Result,ExecMainStatus",
    ]))?;
    let user = service.user_id.to_string();
    let lingers = run_command(&to_words(&[
        "loginctl",
        "show-user",
        &user,
        "--property=Linger",
    ]));
    Ok(parse_state(&shown, lingers.ok().as_deref()))
}

fn parse_state(shown: &str, lingers: Option<&str>) -> ServiceState {
    let value = |name: &str| {
        let mut lines = shown.lines().filter_map(|line| line.split_once('='));
        let found = lines.find(|(key, _)| *key == name);
        found
            .map(|(_, value)| value)
            .filter(|value| !value.is_empty())
    };
    let active = value("ActiveState").unwrap_or("unknown");
    let is_running = active == "active";
    ServiceState {
        is_installed: value("LoadState") == Some("loaded"),
        is_running,
        state: format!("{active} ({})", value("SubState").unwrap_or("unknown")),
        since: value("ActiveEnterTimestamp")
            .filter(|_| is_running)
            .map(str::to_owned),
        pid: value("MainPID")
            .and_then(|pid| pid.parse().ok())
            .filter(|pid| *pid > 0),
        is_enabled: Some(value("UnitFileState") == Some("enabled")),
        lingers: lingers.map(|line| line.trim() == "Linger=yes"),
        restarts: value("NRestarts").and_then(|count| count.parse().ok()),
        failed_with: value("ExecMainStatus")
            .filter(|_| value("Result").is_some_and(|result| result != "success"))
            .and_then(|code| code.parse().ok()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::service::ServiceManager;

    #[test]
    fn words_are_quoted_as_systemd_reads_them() {
        assert_eq!(
            quote_argument(r#"a b"c\d%h$HOME"#),
            r#""a b\"c\\d%%h$$HOME""#
        );
        assert_eq!(quote_path("/opt/$x/100%"), "\"/opt/$x/100%%\"");
    }

    #[test]
    fn a_unit_holds_what_systemd_reads_and_refuses_the_rest() {
        let mut service = ServiceDefinition {
            manager: ServiceManager::Systemd,
            name: "punie-runner".to_owned(),
            folder: PathBuf::from("/units"),
            home: PathBuf::from("/a\\"),
            program: PathBuf::from("/bin/punie-runner"),
            arguments: vec!["run".to_owned()],
            variables: vec![("PIP_CERT".to_owned(), "/a 100%.pem".to_owned())],
            stop_timeout: Duration::from_secs(40),
            user_id: 1000,
        };
        let unit = service.render_file().expect("plain").expect("a file").1;
        let entry = "\nEnvironment=\"PIP_CERT=/a 100%%.pem\"\nWatchdogSec";
        assert!(unit.contains(entry), "{unit}");
        assert!(
            unit.contains("Description=punie-runner of /a\\\\\n"),
            "{unit}"
        );
        for program in ["/bin/a\"b", "/bin/a'b", "/bin/a\\b"] {
            service.program = PathBuf::from(program);
            let refused = service.render_file().expect_err(program).to_string();
            assert!(refused.contains("Move it"), "{refused}");
        }
    }

    #[test]
    fn a_state_is_read_from_the_managers_properties() {
        let shown = "LoadState=loaded\nActiveState=failed\nSubState=failed\nActiveEnterTimestamp=\nMainPID=0\n\
                     UnitFileState=enabled\nNRestarts=2\nResult=exit-code\nExecMainStatus=78\n";
        let state = parse_state(shown, Some("Linger=no\n"));
        assert_eq!(
            state,
            ServiceState {
                is_installed: true,
                is_running: false,
                state: "failed (failed)".to_owned(),
                since: None,
                pid: None,
                is_enabled: Some(true),
                lingers: Some(false),
                restarts: Some(2),
                failed_with: Some(78),
            }
        );
        let none = parse_state(
            "LoadState=not-found\nActiveState=inactive\nSubState=dead\n",
            None,
        );
        assert!(!none.is_installed && none.lingers.is_none());
    }
}
