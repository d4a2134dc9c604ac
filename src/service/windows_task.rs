//! Windows: a task that starts at logon. Untested: no Windows was at hand. The scheduler does not restart the runner.

use std::fmt::Write as _;

use super::{ManagerCommand, ServiceAction, ServiceDefinition, ServiceState, required, to_words};

pub(super) fn action_commands(
    service: &ServiceDefinition,
    action: ServiceAction,
) -> Vec<ManagerCommand> {
    let name = service.name.as_str();
    let end = required(&["schtasks", "/End", "/TN", name]);
    let run = required(&["schtasks", "/Run", "/TN", name]);
    match action {
        ServiceAction::Register => {
            let mut line = format!("\"{}\"", service.program.display());
            for argument in &service.arguments {
                let _ = write!(line, " \"{argument}\"");
            }
            vec![required(&[
                "schtasks", "/Create", "/F", "/SC", "ONLOGON", "/RL", "LIMITED", "/TN", name,
                "/TR", &line,
            ])]
        }
        ServiceAction::Unregister => {
            vec![end, required(&["schtasks", "/Delete", "/F", "/TN", name])]
        }
        ServiceAction::Start => vec![run],
        ServiceAction::Stop => vec![end],
        ServiceAction::Restart => vec![end, run],
        ServiceAction::Reload => Vec::new(),
    }
}

pub(super) fn state_command(service: &ServiceDefinition) -> Vec<String> {
    to_words(&["schtasks", "/Query", "/FO", "LIST", "/TN", &service.name])
}

pub(super) fn parse_state(printed: Option<String>) -> ServiceState {
    let printed = printed.unwrap_or_default();
    let mut lines = printed.lines().filter_map(|line| line.split_once(':'));
    let state = lines.find(|(key, _)| key.trim() == "Status");
    let state = state.map_or("not installed", |(_, value)| value.trim());
    ServiceState {
        is_installed: !printed.is_empty(),
        is_running: state == "Running",
        state: state.to_owned(),
        ..ServiceState::default()
    }
}
