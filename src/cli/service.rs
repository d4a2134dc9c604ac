//! `service`: installs the runner of this home as a service of the user, and starts, stops and shows it.

use std::ffi::OsString;
use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::json;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::{console, logs, service_status};
use crate::config::{Config, ProcessEnvironment, ValueOrigin, WorkspaceRule};
use crate::service::{
    self, ServiceAction, ServiceDefinition, ServiceError, ServiceManager, ServiceState,
};
use punie_home::{RunnerLock, command_to_type, shell_word};
use punie_host::local::variable_names::names_authorities;

#[derive(Debug, Args)]
pub struct ServiceArgs {
    #[command(subcommand)]
    command: ServiceCommand,
    /// Only print what would be written and run
    #[arg(long, global = true)]
    dry_run: bool,
}

#[derive(Debug, Subcommand)]
enum ServiceCommand {
    /// Start the runner now, with the machine or at login, and after a crash
    ///
    /// The flags --home, --config, --workspace, --backend-url, --log and --log-format, or their variables, become part of the service.
    Install {
        /// Replace a service of the same name that something else wrote
        #[arg(long)]
        force: bool,
    },
    /// Stop the service and remove it; the home stays
    Uninstall,
    /// Start the installed service
    Start,
    /// Stop the service until the machine starts again, or you start it
    Stop,
    /// Stop the service and start it again
    Restart,
    /// Show whether the service is installed and runs
    Status,
    /// Show the log of the service
    Logs(logs::LogsArgs),
}

/// Runs a subcommand of `service`.
pub fn run_service(args: &ServiceArgs, context: &CliContext) -> anyhow::Result<Exit> {
    if let ServiceCommand::Install { force } = args.command {
        return install_service(force, args.dry_run, context);
    }
    let config = context.config_despite_faults()?;
    let service = define_service(&config, context)?;
    let (action, done) = match &args.command {
        ServiceCommand::Install { .. } | ServiceCommand::Uninstall => {
            return uninstall_service(&service, args.dry_run, context);
        }
        ServiceCommand::Status => return service_status::show_status(&service, context),
        ServiceCommand::Logs(log_args) => return show_logs(&service, log_args, context),
        ServiceCommand::Start => (ServiceAction::Start, "The service runs."),
        ServiceCommand::Stop => (ServiceAction::Stop, "The service is stopped until"),
        ServiceCommand::Restart => (ServiceAction::Restart, "The service was restarted."),
    };
    if args.dry_run {
        print_plan(&service, None, &[action], context);
        return Ok(Exit::Done);
    }
    service.check_manager()?;
    let state = service.read_state()?;
    if !state.is_installed {
        let text = format!(
            "the service {} is not installed. Type: {}",
            service.name,
            command_to_type("service install")
        );
        return Err(CommandError::with_exit(Exit::Failed, text));
    }
    start_or_stop(&service, action)?;
    let text = if action == ServiceAction::Stop {
        let start = command_to_type("service start");
        format!("{done} {}, or: {start}", next_start(&state))
    } else {
        done.to_owned()
    };
    print_result(&service, &text, context);
    Ok(Exit::Done)
}

/// Returns the moment at which the manager starts a stopped service by itself.
fn next_start(state: &ServiceState) -> &'static str {
    match state.lingers {
        Some(true) => "the machine starts again",
        _ => "you log in again",
    }
}

/// Returns whether a service could be installed: its manager can be reached.
pub(super) fn has_manager(config: &Config, context: &CliContext) -> bool {
    define_service(config, context).is_ok_and(|service| service.check_manager().is_ok())
}

/// Installs the service of this home and starts it.
pub(super) fn install_service(
    force: bool,
    dry_run: bool,
    context: &CliContext,
) -> anyhow::Result<Exit> {
    // A service has no current folder to work in.
    let config = context.effective_config(WorkspaceRule::Named)?;
    if config.backend.url.is_none() {
        let text = format!(
            "this device has no backend yet, so a service would have nothing to do. Type: {}",
            command_to_type("--backend-url URL pair CODE")
        );
        return Err(CommandError::with_exit(Exit::Config, text));
    }
    service::text_for_file(context.environment().path_variable().unwrap_or_default())?;
    let service = define_service(&config, context)?;
    let file = service.render_file()?;
    if dry_run {
        print_plan(
            &service,
            file.as_ref().map(|(_, text)| text.as_str()),
            &[ServiceAction::Register, ServiceAction::Restart],
            context,
        );
        return Ok(Exit::Done);
    }
    if !force {
        service.check_author()?;
    }
    service.check_manager()?;
    let home = CliContext::config_home(&config)?;
    let is_running = service.read_state()?.is_running;
    let other_runner = RunnerLock::find_holder(&home)?.filter(|_| !is_running);
    service.write_file()?;
    // launchd starts an agent that it is told of, at once.
    let is_registered = other_runner.is_none() || service.manager != ServiceManager::Launchd;
    if is_registered {
        for told in service.run_action(ServiceAction::Register)? {
            console::print_stderr(&format!("{told}\n"));
        }
    }
    if let Some(other) = other_runner {
        let pid = other
            .pid
            .map_or_else(String::new, |pid| format!(" (pid {pid})"));
        let text = format!(
            "Installed {}. It was not started, because another runner of this home runs{pid}. Stop that one, then type: \
             {}",
            service.name,
            command_to_type(if is_registered {
                "service start"
            } else {
                "service install"
            })
        );
        print_result(&service, &text, context);
        return Ok(Exit::Done);
    }
    start_or_stop(&service, ServiceAction::Restart)?;
    let text = format!(
        "Installed {}. It runs now, and starts when {}. Commands get the PATH of this terminal. To see it: {}",
        service.name,
        next_start(&service.read_state()?),
        command_to_type("service status")
    );
    print_result(&service, &text, context);
    Ok(Exit::Done)
}

fn uninstall_service(
    service: &ServiceDefinition,
    dry_run: bool,
    context: &CliContext,
) -> anyhow::Result<Exit> {
    if dry_run {
        if !context.is_json() {
            console::print_line(&format!("Would remove {}.", service.file_path().display()));
        }
        print_plan(
            service,
            None,
            &[ServiceAction::Unregister, ServiceAction::Reload],
            context,
        );
        return Ok(Exit::Done);
    }
    if !remove_service(service)? {
        print_result(service, "There is no service of this home.", context);
        return Ok(Exit::Done);
    }
    let text = format!(
        "Stopped {} and removed it. The home {} stays. If nothing else of yours must run without a login: loginctl \
         disable-linger",
        service.name,
        service.home.display()
    );
    let text = match service.manager {
        ServiceManager::Systemd => text.as_str(),
        _ => text.split(" If nothing").next().unwrap_or(&text),
    };
    print_result(service, text, context);
    Ok(Exit::Done)
}

/// Stops the service and removes it. Returns whether its manager knew it.
pub(super) fn remove_service(service: &ServiceDefinition) -> anyhow::Result<bool> {
    service.check_author()?;
    service.check_manager()?;
    let is_installed = service.read_state()?.is_installed;
    if is_installed {
        service.run_action(ServiceAction::Unregister)?;
    }
    // A file may be there that the manager does not know yet.
    service.remove_file()?;
    if is_installed {
        service.run_action(ServiceAction::Reload)?;
    }
    Ok(is_installed)
}

/// Returns the service of this home, if its file is there.
pub(super) fn find_installed(
    config: &Config,
    context: &CliContext,
) -> anyhow::Result<Option<ServiceDefinition>> {
    let service = define_service(config, context)?;
    Ok(service.read_file()?.is_some().then_some(service))
}

/// Runs the action, and names the log if the runner does not start.
fn start_or_stop(service: &ServiceDefinition, action: ServiceAction) -> anyhow::Result<()> {
    match service.run_action(action) {
        Ok(_) => Ok(()),
        Err(error @ ServiceError::Refused { .. }) => {
            Err(anyhow::Error::new(error).context(format!(
                "the service manager did not do it; `{}` may show why",
                command_to_type("service logs")
            )))
        }
        Err(error) => Err(error.into()),
    }
}

/// Describes the runner of this home as a service, with the flags and variables of this command.
fn define_service(config: &Config, context: &CliContext) -> anyhow::Result<ServiceDefinition> {
    let environment = context.environment();
    let manager = ServiceManager::for_this_system();
    let user = environment.user_dir().ok_or_else(|| {
        CommandError::with_exit(Exit::Config, "the user's home directory is unknown")
    })?;
    let is_given = |key: &str| {
        let origin = config.value_origin(key);
        matches!(
            origin,
            Some(ValueOrigin::Flag(_) | ValueOrigin::Variable(_))
        )
    };
    let path_text = |path: &Path| service::text_for_file(path.as_os_str());
    let mut arguments = vec!["--home".to_owned(), path_text(&config.home)?];
    let mut add = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
    if is_given("config") {
        add("--config", path_text(&config.file)?);
    }
    if is_given("workspaces.paths") {
        for folder in &config.workspaces {
            add("--workspace", path_text(folder)?);
        }
    }
    if let Some(url) = config
        .backend
        .url
        .as_ref()
        .filter(|_| is_given("backend.url"))
    {
        add("--backend-url", url.as_str().to_owned());
    }
    if is_given("log.level") {
        add("--log", config.log.level.as_str().to_owned());
    }
    if is_given("log.format") {
        add("--log-format", config.log.format.as_str().to_owned());
    }
    arguments.push("run".to_owned());
    let config_home = environment.get("XDG_CONFIG_HOME").map(Path::new);
    Ok(ServiceDefinition {
        manager,
        name: service::service_name(manager, &config.canonical_home(), config.is_default_home()),
        folder: service::files_folder(manager, user, config_home),
        home: config.home.clone(),
        program: std::env::current_exe()?,
        arguments,
        variables: kept_variables(environment),
        // The runner's own grace for calls, and time to deliver and to close the journal.
        stop_timeout: config.limits.drain + std::time::Duration::from_secs(30),
        user_id: current_user_id(),
    })
}

/// Returns the variables of this terminal that the runner keeps as a service: those by which commands find programs and a
/// company's certificate authority.
fn kept_variables(environment: &ProcessEnvironment) -> Vec<(String, String)> {
    let text = |(name, value): &(OsString, OsString)| {
        Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
    };
    let variables = environment.variables().iter().filter_map(text);
    let is_kept = |(name, value): &(String, String)| {
        name == "PATH" && !value.is_empty() || names_authorities(name, value)
    };
    variables.filter(is_kept).collect()
}

#[cfg(unix)]
fn current_user_id() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Returns a number that no manager of this system uses.
#[cfg(not(unix))]
fn current_user_id() -> u32 {
    0
}

fn print_plan(
    service: &ServiceDefinition,
    text: Option<&str>,
    actions: &[ServiceAction],
    context: &CliContext,
) {
    let commands = actions
        .iter()
        .flat_map(|action| service.action_commands(*action));
    let commands: Vec<Vec<String>> = commands.map(|command| command.words).collect();
    if context.is_json() {
        console::print_json(&json!({
            "name": service.name,
            "file": service.file_path().display().to_string(),
            "text": text,
            "commands": commands,
        }));
        return;
    }
    if let Some(text) = text {
        console::print_line(&format!("Would write {}:\n", service.file_path().display()));
        console::print_unwrapped(text);
    }
    console::print_line("Would run:");
    for words in commands {
        let words: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
        console::print_unwrapped(&format!("  {}", words.join(" ")));
    }
}

fn print_result(service: &ServiceDefinition, text: &str, context: &CliContext) {
    if context.is_json() {
        console::print_json(&json!({"name": service.name, "result": text}));
    } else {
        console::print_line(text);
    }
}

/// Shows the manager's log, or the files of `logs` where the manager keeps none.
fn show_logs(
    service: &ServiceDefinition,
    args: &logs::LogsArgs,
    context: &CliContext,
) -> anyhow::Result<Exit> {
    let command = service.log_command(args.lines, args.follow);
    if let Some(words) = command.filter(|_| !context.is_json())
        && matches!(service::run_shown_command(&words), Ok(true))
    {
        return Ok(Exit::Done);
    }
    logs::run_logs(args, context)
}
