//! launchd: the agent, its commands and its state. Untested: no Mac was at hand.

use std::fmt::Write as _;

use super::{
    AUTHOR_MARK, FailureEffect, ManagerCommand, ServiceAction, ServiceDefinition, ServiceState,
    required, to_words,
};

/// Renders the agent's property list.
pub(super) fn render_agent(service: &ServiceDefinition) -> String {
    let program = service.program.to_string_lossy();
    let words = [&*program].into_iter();
    let words = words.chain(service.arguments.iter().map(String::as_str));
    let mut arguments = String::new();
    for word in words {
        let _ = write!(arguments, "\n    <string>{}</string>", escape_xml(word));
    }
    let mut variables = String::new();
    for (name, value) in &service.variables {
        let name = escape_xml(name);
        let value = escape_xml(value);
        let _ = write!(variables, "<key>{name}</key><string>{value}</string>");
    }
    // Background shells live through a crash of the runner: AbandonProcessGroup. launchd cannot keep an exit code
    // from a restart, so a runner that is refused tries again once a minute.
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<!-- {AUTHOR_MARK}, which writes it anew. -->
<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">
<plist version=\"1.0\">
<dict>
  <key>Label</key><string>{label}</string>
  <key>ProgramArguments</key>
  <array>{arguments}
  </array>
  <key>EnvironmentVariables</key>
  <dict>{variables}</dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key>
  <dict><key>SuccessfulExit</key><false/></dict>
  <key>ThrottleInterval</key><integer>60</integer>
  <key>ExitTimeOut</key><integer>{stop}</integer>
  <key>AbandonProcessGroup</key><true/>
</dict>
</plist>
",
        label = escape_xml(&service.name),
        stop = service.stop_timeout.as_secs(),
    )
}

fn escape_xml(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

pub(super) fn action_commands(
    service: &ServiceDefinition,
    action: ServiceAction,
) -> Vec<ManagerCommand> {
    let domain = format!("gui/{}", service.user_id);
    let target = format!("{domain}/{}", service.name);
    let file = service.file_path();
    let file = file.to_string_lossy();
    let bootout = ManagerCommand {
        words: to_words(&["launchctl", "bootout", &target]),
        // It fails where no agent is loaded.
        failure: FailureEffect::NothingToDo,
    };
    match action {
        ServiceAction::Register => vec![
            bootout,
            required(&["launchctl", "bootstrap", &domain, &file]),
        ],
        ServiceAction::Unregister => vec![bootout],
        ServiceAction::Start => vec![required(&["launchctl", "kickstart", &target])],
        // After an exit with success, KeepAlive does not start it again.
        ServiceAction::Stop => vec![required(&["launchctl", "kill", "SIGTERM", &target])],
        ServiceAction::Restart => vec![required(&["launchctl", "kickstart", "-k", &target])],
        ServiceAction::Reload => Vec::new(),
    }
}

pub(super) fn state_command(service: &ServiceDefinition) -> Vec<String> {
    let target = format!("gui/{}/{}", service.user_id, service.name);
    to_words(&["launchctl", "print", &target])
}

pub(super) fn parse_state(is_installed: bool, printed: Option<String>) -> ServiceState {
    let printed = printed.unwrap_or_default();
    let value = |name: &str| {
        let mut lines = printed.lines().filter_map(|line| line.split_once(" = "));
        lines
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim())
    };
    ServiceState {
        is_installed,
        is_running: value("state") == Some("running"),
        state: value("state").unwrap_or("not loaded").to_owned(),
        pid: value("pid").and_then(|pid| pid.parse().ok()),
        is_enabled: Some(!printed.is_empty()),
        failed_with: value("last exit code")
            .and_then(|code| code.parse().ok())
            .filter(|code| *code != 0),
        ..ServiceState::default()
    }
}
