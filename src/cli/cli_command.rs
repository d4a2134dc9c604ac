//! The commands, and their dispatch.

use clap::Subcommand;

#[cfg(feature = "bridges")]
use super::bridges;
use super::context::CliContext;
use super::exit::{self, Exit};
#[cfg(feature = "packages")]
use super::packages;
#[cfg(feature = "people")]
use super::people;
#[cfg(feature = "signals")]
use super::signals;
#[cfg(feature = "updates")]
use super::update;
use super::{
    ack, acp, agents, approvals, audit, backend, background, call, cancel, completions, config,
    demo, dev, diff, doctor, history, init, keygen, logs, mcp, metrics, operator, pair, pause,
    plugins, policy, questions, run, secrets, send, service, skills, status, stop, tools, trash,
    undo, uninstall,
};

#[derive(Debug, Subcommand)]
pub(super) enum CliCommand {
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
    #[cfg(feature = "packages")]
    /// List what packages installed; remove or restore some
    Packages(packages::PackagesArgs),
    #[cfg(feature = "bridges")]
    /// Deploy programs of yours, and keep them running
    Bridges(bridges::BridgesArgs),
    /// Show whether the runner is healthy, and what needs your attention
    Status(status::StatusArgs),
    #[cfg(feature = "updates")]
    /// Take the newest release of this program, or go back
    ///
    /// The program is checked and started once before it replaces this one, which is kept for --rollback. The service is
    /// restarted when no call runs.
    Update(update::UpdateArgs),
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
    /// List files put back and losses of the journal, and confirm it
    Ack,
    /// List, restore or delete the backups that `undo` uses
    Trash(trash::TrashArgs),
    /// List, set or remove the secrets of skills' commands
    Secrets(secrets::SecretsArgs),
    #[cfg(feature = "people")]
    /// Contacts whose names agents see only as aliases
    People(people::PeopleArgs),
    #[cfg(feature = "signals")]
    /// Show what this device can tell agents about you
    Signals(signals::SignalsArgs),
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
    /// Serve an MCP client: the Model Context Protocol over pipes
    ///
    /// All clients share one runner of this home. If none runs, the first client starts it: the service, if it is installed,
    /// else a runner in the background with a backend of its own. With --device another device is served through the
    /// backend.
    Mcp(mcp::McpArgs),
    /// The runner that MCP clients share
    #[command(hide = true)]
    Background(background::BackgroundArgs),
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

/// Runs a command; without one, the runner.
pub(super) fn dispatch_command(
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
        CliCommand::Background(args) => background::run_background(&args, context),
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
        #[cfg(feature = "packages")]
        CliCommand::Packages(args) => packages::run_packages(&args, context),
        #[cfg(feature = "bridges")]
        CliCommand::Bridges(args) => bridges::run_bridges(&args, context),
        CliCommand::Status(args) => status::run_status(&args, context),
        #[cfg(feature = "updates")]
        CliCommand::Update(args) => update::run_update(&args, context),
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
        #[cfg(feature = "people")]
        CliCommand::People(args) => people::run_people(&args, context),
        #[cfg(feature = "signals")]
        CliCommand::Signals(args) => signals::run_signals(&args, context),
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
