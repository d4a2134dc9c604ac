//! The command line, with one file per subcommand. Here: the arguments and their dispatch.

mod ack;
mod acp;
mod agents;
mod answer_watch;
mod approvals;
mod asked_secret;
mod audit;
mod backend;
mod bridges;
mod call;
mod call_line;
mod caller_client;
mod cancel;
pub mod command_groups;
mod completions;
mod config;
pub mod console;
mod context;
mod demo;
mod dev;
mod diff;
mod display_time;
pub mod doctor;
mod document_import;
mod embedded_runner;
mod embedded_tokens;
mod error_output;
pub mod exit;
mod first_contact;
mod hidden_input;
mod history;
#[cfg(unix)]
mod ignored_signals;
mod init;
mod keygen;
mod level_question;
mod log_file;
mod logging;
mod logs;
mod mcp;
mod metrics;
mod operator;
mod packages;
mod pair;
mod pause;
mod people;
mod plugins;
mod policy;
mod prompt_line;
mod questions;
mod request_ids;
mod run;
mod runner_screen;
mod secrets;
mod send;
mod service;
mod service_status;
mod signals;
mod skills;
mod status;
mod stop;
mod table;
mod terminal_log_line;
mod tool_arguments;
mod tools;
mod traffic_text;
mod trash;
mod undo;
mod uninstall;
mod wiring;
mod wrapped_text;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, FromArgMatches, Parser, Subcommand};

use crate::config::{ColorChoice, ProcessEnvironment};
use crate::redact::Secret;
use context::CliContext;
use exit::Exit;

const FIRST_STEPS: &str = "\
First steps:
  punie-runner demo             see it work; none of your files are touched
  punie-runner dev              run a backend and a runner for this folder
  punie-runner tools Bash       show what a tool does, and its arguments
  punie-runner --backend-url URL --workspace DIR pair CODE
                                register with a backend";

/// Runs a remote AI agent's tool calls on this computer
#[derive(Debug, Parser)]
#[command(
    name = "punie-runner",
    version,
    max_term_width = 100,
    after_help = FIRST_STEPS
)]
pub struct Cli {
    /// Handle all pending requests once, then exit (for debugging)
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Option<CliCommand>,
}

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Options of every command")]
struct GlobalArgs {
    /// The home folder [env: PUNIE_HOME] [default: ~/.punie]
    #[arg(long, global = true, value_name = "DIR")]
    home: Option<PathBuf>,
    /// The configuration file [env: PUNIE_CONFIG] [default: config.toml in the home]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A folder for the tools to work in; repeatable, relative paths start in the first [env: PUNIE_WORKSPACE]
    #[arg(long = "workspace", global = true, value_name = "DIR")]
    workspaces: Vec<PathBuf>,
    /// The backend's address [env: PUNIE_BACKEND_URL]
    #[arg(long, global = true, value_name = "URL")]
    backend_url: Option<String>,
    /// The least severe messages to log: off, error, warn, info, debug, trace [env: PUNIE_LOG]
    #[arg(long, global = true, value_name = "LEVEL")]
    log: Option<String>,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    json: bool,
    /// When to use colour: auto, always, never
    #[arg(long, global = true, value_name = "WHEN", value_parser = parse_color)]
    color: Option<ColorChoice>,
    /// The caller's token [env: PUNIE_CALLER_TOKEN] [default: tokens/BACKEND/caller in the home]
    #[arg(long, global = true, value_name = "TOKEN", value_parser = parse_secret, hide = true)]
    caller_token: Option<Secret<String>>,
    /// The device that runs the request [env: PUNIE_DEVICE] [default: this one]
    #[arg(long, global = true, value_name = "ID")]
    device: Option<String>,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Poll the backend and run requests until stopped (the default)
    Run(run::RunArgs),
    /// Run a backend and a runner in one process, for trying it out
    Dev(dev::DevArgs),
    /// Show the program at work, in a temporary folder
    Demo,
    /// Run the embedded backend alone, for this machine only
    Backend(backend::BackendArgs),
    /// Send a request to a device as its caller, and print the answer
    Send(send::SendArgs),
    /// Cancel a request
    Cancel(cancel::CancelArgs),
    /// Run a tool here, without a backend
    Call(call::CallArgs),
    /// List the tools, or show everything about one
    Tools(tools::ToolsArgs),
    /// List installed skills, and those that failed to load; import some
    Skills(skills::SkillsArgs),
    /// List installed agents, and those that failed to load; import some
    Agents(agents::AgentsArgs),
    /// List, install and update plugins, which add tools
    Plugins(plugins::PluginsArgs),
    /// List what packages installed; remove or restore some
    Packages(packages::PackagesArgs),
    /// Deploy programs of yours, and keep them running
    Bridges(bridges::BridgesArgs),
    /// Show whether the runner is healthy, and what needs your attention
    Status(status::StatusArgs),
    /// Remove the service and, when told, the home; say what is left
    Uninstall(uninstall::UninstallArgs),
    /// Print numbers for a monitoring system, as OpenMetrics text
    Metrics(metrics::MetricsArgs),
    /// Find what is wrong, and say how to mend it
    ///
    /// Exits with 0 if there is no problem, else with 1. Works without a runner and without a network.
    Doctor(doctor::DoctorArgs),
    /// List the requests and their results, or everything about one
    History(history::HistoryArgs),
    /// Show the log of a runner in the background
    Logs(logs::LogsArgs),
    /// Keep the runner running: install, start, stop, show
    Service(service::ServiceArgs),
    /// Put back the files that a request changed
    ///
    /// All of them or none: what file tools changed, and what commands changed in the workspaces. It says what it does
    /// not cover, such as files that git ignores. If it put back only a part, it exits with 1.
    Undo(undo::UndoArgs),

    /// Show what a request changed
    Diff(diff::DiffArgs),
    /// Show the audit log, or check that it was not tampered with
    Audit(audit::AuditArgs),
    /// List protected files that were put back, and confirm reading it
    Ack,
    /// List, restore or delete the backups that `undo` uses
    Trash(trash::TrashArgs),
    /// List, set or remove the secrets of skills' commands
    Secrets(secrets::SecretsArgs),
    /// Contacts whose names agents see only as aliases
    People(people::PeopleArgs),
    /// Stop starting new calls until `resume`
    ///
    /// Calls already running finish, and their results are delivered. New requests wait, even across restarts.
    Pause(pause::PauseArgs),
    /// End one running call or background shell now
    Stop(stop::StopArgs),
    /// Start calls again after `pause`, safe mode or a stop in an editor
    Resume(pause::ResumeArgs),
    /// Show the calls that wait for approval; allow or deny them
    Approvals(approvals::ApprovalsArgs),
    /// Show what the agent asks you; answer or refuse
    Questions(questions::QuestionsArgs),
    /// Show the rules for calls, try one, allow or deny something
    Policy(policy::PolicyArgs),
    /// Serve an editor: the Agent Client Protocol over stdin and stdout
    Acp,
    /// Serve an MCP client: the Model Context Protocol over stdin and stdout
    ///
    /// Where a runner works with this home, its tools are served. Otherwise this command is the runner, with a backend of
    /// its own, until the client closes its end. With --device it serves another device through the backend.
    Mcp(mcp::McpArgs),
    /// Manage a backend's callers, pairing code and devices
    Operator(operator::OperatorArgs),
    /// Register this device with a backend
    Pair(pair::PairArgs),
    /// Make a key that signs requests, for devices that require it
    Keygen(keygen::KeygenArgs),
    /// Write a first configuration, or add this folder to its workspaces
    Init(init::InitArgs),
    /// Show or change the configuration
    Config(config::ConfigArgs),
    /// Print the completion script of a shell
    Completions(completions::CompletionsArgs),
}

fn parse_color(text: &str) -> Result<ColorChoice, String> {
    match text {
        "auto" => Ok(ColorChoice::Auto),
        "always" => Ok(ColorChoice::Always),
        "never" => Ok(ColorChoice::Never),
        other => Err(format!("{other:?} is none of auto, always, never")),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the shape of a clap value parser")]
fn parse_secret(text: &str) -> Result<Secret<String>, String> {
    Ok(Secret::new(text.to_owned()))
}

/// Runs the command line and returns its exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if let [_, argument, job] = args.as_slice()
        && argument == crate::worker::WORKER_ARGUMENT
    {
        let answered = crate::handlers::run_worker(job);
        return if answered.is_ok() {
            Exit::Done
        } else {
            Exit::Failed
        }
        .into();
    }
    #[cfg(target_os = "linux")]
    if let Some(code) = run_helper_program(&args) {
        return code;
    }
    #[cfg(unix)]
    crate::acp::local::memory_dumps::forbid_memory_dumps();
    match completions::answer_shell(&args) {
        Ok(false) => {}
        Ok(true) => return Exit::Done.into(),
        Err(error) => {
            let _ = error.print();
            return Exit::Usage.into();
        }
    }
    let wants_json = args.iter().any(|argument| argument == "--json");
    let mut command = command_groups::grouped_command();
    let parsed = command.try_get_matches_from_mut(args).and_then(|matches| {
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    });
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout with exit code 0; anything else is an invalid command line.
            if !error.use_stderr() {
                let _ = error.print();
                return Exit::Done.into();
            }
            if wants_json {
                let text = error.render().to_string();
                error_output::print_failure(Exit::Usage, text.trim_end(), true);
            } else {
                console::print_stderr(&error.render().to_string());
            }
            return Exit::Usage.into();
        }
    };
    let context = CliContext::new(cli.global, ProcessEnvironment::from_process());
    match dispatch_command(cli.command, cli.once, &context) {
        Ok(exit) => exit.into(),
        Err(error) => {
            let exit = Exit::from_error(&error);
            error_output::print_failure(exit, &exit::describe_error(&error), context.is_json());
            exit.into()
        }
    }
}

/// Runs one of the runner's helper programs if called by its name or argument.
#[cfg(target_os = "linux")]
fn run_helper_program(args: &[OsString]) -> Option<ExitCode> {
    use crate::acp::local::terminal_holder;
    use crate::trash::shim::{ActiveShim, VARIABLE};
    if let [_, argument, socket] = args
        && argument == terminal_holder::HOLDER_ARGUMENT
    {
        let held = terminal_holder::hold_terminal(socket.as_ref());
        return Some(
            if held.is_ok() {
                Exit::Done
            } else {
                Exit::Failed
            }
            .into(),
        );
    }
    let (name, args) = args.split_first()?;
    let shim = ActiveShim::from_program_name(name)?;
    let environment = ProcessEnvironment::from_process();
    let env_text = environment
        .variables()
        .iter()
        .find(|(name, _)| name == VARIABLE);
    let env_text = env_text.map(|(_, value)| value.as_os_str());
    Some(
        shim.run_shim(args, env_text, environment.path_variable())
            .into(),
    )
}

fn dispatch_command(
    command: Option<CliCommand>,
    once: bool,
    context: &CliContext,
) -> anyhow::Result<Exit> {
    let command = command.unwrap_or(CliCommand::Run(run::RunArgs::default()));
    if once && !matches!(command, CliCommand::Run(_)) {
        return Err(exit::CommandError::with_exit(
            Exit::Usage,
            "--once goes with `run` only",
        ));
    }
    match command {
        CliCommand::Run(args) => run::run_runner(&args, once || args.once, context),
        CliCommand::Dev(args) => dev::run_dev(&args, context),
        CliCommand::Demo => demo::run_demo(context),
        CliCommand::Acp => acp::run_acp(context),
        CliCommand::Mcp(args) => mcp::run_mcp(&args, context),
        CliCommand::Backend(args) => backend::run_backend(&args, context),
        CliCommand::Approvals(args) => approvals::run_approvals(&args, context),
        CliCommand::Questions(args) => questions::run_questions(&args, context),
        CliCommand::Send(args) => send::run_send(&args, context),
        CliCommand::Cancel(args) => cancel::run_cancel(&args, context),
        CliCommand::Call(args) => call::run_call_command(&args, context),
        CliCommand::Tools(args) => tools::run_tools(&args, context),
        CliCommand::Skills(args) => skills::run_skills(&args, context),
        CliCommand::Agents(args) => agents::run_agents(&args, context),
        CliCommand::Plugins(args) => plugins::run_plugins(&args, context),
        CliCommand::Packages(args) => packages::run_packages(&args, context),
        CliCommand::Bridges(args) => bridges::run_bridges(&args, context),
        CliCommand::Status(args) => status::run_status(&args, context),
        CliCommand::Uninstall(args) => uninstall::run_uninstall(&args, context),
        CliCommand::Metrics(args) => metrics::run_metrics(&args, context),
        CliCommand::Doctor(args) => Ok(doctor::run_doctor(&args, context)),
        CliCommand::History(args) => history::run_history(&args, context),
        CliCommand::Logs(args) => logs::run_logs(&args, context),
        CliCommand::Service(args) => service::run_service(&args, context),
        CliCommand::Undo(args) => undo::run_undo(&args, context),
        CliCommand::Diff(args) => diff::run_diff(&args, context),
        CliCommand::Audit(args) => audit::run_audit(&args, context),
        CliCommand::Ack => ack::run_ack(context),
        CliCommand::Trash(args) => trash::run_trash(&args, context),
        CliCommand::Secrets(args) => secrets::run_secrets(&args, context),
        CliCommand::People(args) => people::run_people(&args, context),
        CliCommand::Pause(args) => pause::run_pause(&args, context),
        CliCommand::Stop(args) => stop::run_stop(&args, context),
        CliCommand::Resume(args) => pause::run_resume(&args, context),
        CliCommand::Policy(args) => policy::run_policy(&args, context),
        CliCommand::Operator(args) => operator::run_operator(&args, context),
        CliCommand::Pair(args) => pair::run_pair(&args, context),
        CliCommand::Keygen(args) => keygen::run_keygen(&args, context),
        CliCommand::Init(args) => init::run_init(&args, context),
        CliCommand::Config(args) => config::run_config(&args, context),
        CliCommand::Completions(args) => completions::run_completions(&args),
    }
}
