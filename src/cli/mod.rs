//! The command line, with one file per subcommand. Here: the arguments and their dispatch.

mod ack;
mod acp;
mod agents;
mod answer_watch;
mod approvals;
mod audit;
mod backend;
mod call;
mod caller_client;
mod cancel;
mod completions;
pub mod console;
mod context;
mod demo;
mod dev;
mod display_time;
mod embedded_tokens;
pub mod exit;
mod history;
#[cfg(unix)]
mod ignored_signals;
mod init;
mod keygen;
mod level_question;
mod log_file;
mod logging;
mod logs;
mod operator;
mod pair;
mod pause;
mod policy;
mod prompt_line;
mod run;
mod secrets;
mod send;
mod signals;
mod skills;
mod status;
mod stop;
mod tools;
mod trash;
mod undo;
mod wiring;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config::{ColorChoice, ProcessEnvironment};
use crate::redact::Secret;
use context::CliContext;
use exit::Exit;

const FIRST_STEPS: &str = "\
First steps:
  punie-runner demo             see it work; nothing of yours is touched
  punie-runner dev              a backend and a runner for this folder, until Ctrl-C
  punie-runner tools Bash       what a tool does and takes
  punie-runner --backend-url URL --workspace DIR pair CODE
                                register with a backend; then `punie-runner` runs";

/// Runs a remote AI agent's tool calls on this machine.
///
/// Without a command it polls its backend until it is stopped: the background process.
#[derive(Debug, Parser)]
#[command(
    name = "punie-runner",
    version,
    about,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = FIRST_STEPS
)]
pub struct Cli {
    /// Take what is there, answer and deliver it, and exit: for debugging
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Option<CliCommand>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
struct GlobalArgs {
    /// The home folder [env: PUNIE_HOME] [default: ~/.punie]
    #[arg(long, global = true, value_name = "DIR")]
    home: Option<PathBuf>,
    /// The configuration file [env: PUNIE_CONFIG] [default: config.toml in the home]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A folder that the tools may touch; repeatable, the first is the base of relative paths [env: PUNIE_WORKSPACE]
    #[arg(long = "workspace", global = true, value_name = "DIR")]
    workspaces: Vec<PathBuf>,
    /// The event backend's address [env: PUNIE_BACKEND_URL]
    #[arg(long, global = true, value_name = "URL")]
    backend_url: Option<String>,
    /// What is logged to stderr: off, error, warn, info, debug, trace [env: PUNIE_LOG]
    #[arg(long, global = true, value_name = "LEVEL")]
    log: Option<String>,
    /// Answer in JSON, one object a line
    #[arg(long, global = true)]
    json: bool,
    /// When to use colour: auto, always, never
    #[arg(long, global = true, value_name = "WHEN", value_parser = parse_color)]
    color: Option<ColorChoice>,
    /// The caller's token [env: PUNIE_CALLER_TOKEN] [default: tokens/BACKEND/caller in the home]
    #[arg(long, global = true, value_name = "TOKEN", value_parser = parse_secret, hide = true)]
    caller_token: Option<Secret<String>>,
    /// The device to ask [env: PUNIE_DEVICE] [default: this one]
    #[arg(long, global = true, value_name = "ID")]
    device: Option<String>,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Poll the backend until stopped (the default)
    Run(run::RunArgs),
    /// An embedded backend and a runner in one process, paired with each other
    Dev(dev::DevArgs),
    /// See it work: one request per domain through a backend of its own
    Demo,
    /// The embedded backend alone, on this machine only
    Backend(backend::BackendArgs),
    /// Ask a device for a tool, as the caller, and print its answer
    Send(send::SendArgs),
    /// Take a request back
    Cancel(cancel::CancelArgs),
    /// Run a tool here, without any backend
    Call(call::CallArgs),
    /// The tools of this device; with a name, everything about one
    Tools(tools::ToolsArgs),
    /// The skills of the home, and what is wrong with the rest
    Skills(skills::SkillsArgs),
    /// The agents of the home, and what is wrong with the rest
    Agents(agents::AgentsArgs),
    /// Whether it runs, and what is on its way
    Status,
    /// What was asked of this device and what came of it; with a request, its whole life
    History(history::HistoryArgs),
    /// What the runner in the background has logged
    Logs(logs::LogsArgs),
    /// Put back what a request changed: every file as it was before, or nothing
    Undo(undo::UndoArgs),
    /// What was asked of this device, decided and done: list it, or verify that nothing of it was changed
    Audit(audit::AuditArgs),
    /// List the changes of protected paths that were put back, and acknowledge them
    Ack,
    /// What is kept of what calls changed and commands removed: list, restore, empty
    Trash(trash::TrashArgs),
    /// The secrets that skills' commands are given: list, set, remove; no value is ever shown
    Secrets(secrets::SecretsArgs),
    /// Let nothing new begin; calls that run go on and results are delivered. With --now they end, too
    Pause(pause::PauseArgs),
    /// End one call that runs, or a shell in the background, now
    Stop(stop::StopArgs),
    /// Let calls begin again: after a pause, in safe mode, or of a conversation that was stopped in an editor
    Resume(pause::ResumeArgs),
    /// Show the calls that wait for approval; allow or deny them
    Approvals(approvals::ApprovalsArgs),
    /// The rules for calls: show them, try a call against them, allow or deny something
    Policy(policy::PolicyArgs),
    /// The agent that an editor launches: the Agent Client Protocol over stdin and stdout
    Acp,
    /// What the operator of a backend may do: caller tokens, the pairing code, devices that are withdrawn
    Operator(operator::OperatorArgs),
    /// Register this device with a backend
    Pair(pair::PairArgs),
    /// Make a key to sign requests with, for devices that require it
    Keygen(keygen::KeygenArgs),
    /// Write a first configuration
    Init(init::InitArgs),
    /// The completion script of a shell
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
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout with exit code 0; anything else is an invalid command line.
            let code = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Done
            };
            let _ = error.print();
            return code.into();
        }
    };
    let context = CliContext::new(cli.global, ProcessEnvironment::from_process());
    match dispatch_command(cli.command, cli.once, &context) {
        Ok(exit) => exit.into(),
        Err(error) => {
            console::print_error(&format!("punie-runner: {error:#}"));
            Exit::from_error(&error).into()
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
        CliCommand::Backend(args) => backend::run_backend(&args, context),
        CliCommand::Approvals(args) => approvals::run_approvals(&args, context),
        CliCommand::Send(args) => send::run_send(&args, context),
        CliCommand::Cancel(args) => cancel::run_cancel(&args, context),
        CliCommand::Call(args) => call::run_call_command(&args, context),
        CliCommand::Tools(args) => tools::run_tools(&args, context),
        CliCommand::Skills(args) => skills::run_skills(&args, context),
        CliCommand::Agents(args) => agents::run_agents(&args, context),
        CliCommand::Status => status::run_status(context),
        CliCommand::History(args) => history::run_history(&args, context),
        CliCommand::Logs(args) => logs::run_logs(&args, context),
        CliCommand::Undo(args) => undo::run_undo(&args, context),
        CliCommand::Audit(args) => audit::run_audit(&args, context),
        CliCommand::Ack => ack::run_ack(context),
        CliCommand::Trash(args) => trash::run_trash(&args, context),
        CliCommand::Secrets(args) => secrets::run_secrets(&args, context),
        CliCommand::Pause(args) => pause::run_pause(&args, context),
        CliCommand::Stop(args) => stop::run_stop(&args, context),
        CliCommand::Resume(args) => pause::run_resume(&args, context),
        CliCommand::Policy(args) => policy::run_policy(&args, context),
        CliCommand::Operator(args) => operator::run_operator(&args, context),
        CliCommand::Pair(args) => pair::run_pair(&args, context),
        CliCommand::Keygen(args) => keygen::run_keygen(&args, context),
        CliCommand::Init(args) => init::run_init(&args, context),
        CliCommand::Completions(args) => completions::run_completions(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
