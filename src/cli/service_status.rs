//! `service status`: the state of the service of this home, and its command line.

use serde_json::json;

use super::console;
use super::context::CliContext;
use super::exit::Exit;
use crate::service::ServiceDefinition;
use punie_home::{command_to_type, shell_word};

/// Shows the state. Exits with 0 if the service runs, else with 3.
pub(super) fn show_status(
    service: &ServiceDefinition,
    context: &CliContext,
) -> anyhow::Result<Exit> {
    service.check_manager()?;
    let state = service.read_state()?;
    let exit = if state.is_running {
        Exit::Done
    } else {
        Exit::NotRunning
    };
    let command = find_command_line(service)?;
    if context.is_json() {
        console::print_json(&json!({
            "name": service.name,
            "file": service.file_path().display().to_string(),
            "command": command,
            "service": state,
        }));
        return Ok(exit);
    }
    let yes_no = |is_so: bool| if is_so { "yes" } else { "no" };
    console::print_row("Service", &service.name);
    console::print_row("Installed", yes_no(state.is_installed));
    if state.is_installed {
        let pid = state
            .pid
            .map_or_else(String::new, |pid| format!(", pid {pid}"));
        console::print_row("State", &format!("{}{pid}", state.state));
    }
    if let Some(since) = &state.since {
        console::print_row("Since", since);
    }
    if let Some(is_enabled) = state.is_enabled {
        console::print_row("At login", yes_no(is_enabled));
    }
    if let Some(lingers) = state.lingers {
        let text = if lingers {
            "yes"
        } else {
            "no: it ends with your last session. To change that: loginctl enable-linger"
        };
        console::print_row("Lingers", text);
    }
    if let Some(restarts) = state.restarts.filter(|count| *count > 0) {
        console::print_row("Restarts", &restarts.to_string());
    }
    if let Some(code) = state.failed_with {
        console::print_row("Failed with", &code.to_string());
    }
    console::print_row("Command", &command);
    console::print_line(&match (state.is_installed, state.is_running) {
        (false, _) => format!("To install it: {}", command_to_type("service install")),
        (true, false) => format!(
            "To see why: {}. To start it: {}",
            command_to_type("service logs"),
            command_to_type("service start")
        ),
        (true, true) => format!("To see what it does: {}", command_to_type("status")),
    });
    Ok(exit)
}

/// Returns the command line of the installed file, else the one that would be installed.
fn find_command_line(service: &ServiceDefinition) -> anyhow::Result<String> {
    let text = service.read_file()?.unwrap_or_default();
    let installed = text
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    Ok(installed.map_or_else(
        || {
            let program = service.program.to_string_lossy();
            let words = service.arguments.iter().map(|word| shell_word(word));
            let words: Vec<_> = [shell_word(&program)].into_iter().chain(words).collect();
            words.join(" ")
        },
        str::to_owned,
    ))
}
