//! The command line, with one file per subcommand. Here: the options of all of them.

mod ack;
mod acp;
mod agents;
mod answer_watch;
mod approvals;
mod asked_secret;
mod audit;
mod backend;
mod background;
#[cfg(feature = "bridges")]
mod bridges;
mod call;
mod call_line;
mod caller_client;
mod cancel;
mod cli_command;
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
mod installation;
mod keygen;
mod level_question;
mod log_file;
mod logging;
mod logs;
mod mcp;
mod metrics;
mod operator;
#[cfg(feature = "packages")]
mod packages;
mod pair;
mod pause;
#[cfg(feature = "people")]
mod people;
mod plugins;
mod policy;
mod process_signals;
mod prompt_line;
mod questions;
mod repository_question;
mod request_ids;
mod run;
mod runner_screen;
mod secrets;
mod send;
mod service;
mod service_status;
#[cfg(feature = "signals")]
mod signals;
mod skills;
mod status;
mod stop;
mod table;
mod terminal_log_line;
mod time_period;
mod tool_arguments;
mod tools;
mod traffic_text;
mod trash;
mod undo;
mod uninstall;
#[cfg(feature = "updates")]
mod update;
mod wiring;
mod wrapped_text;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{FromArgMatches, Parser};

use crate::config::{GlobalFlags, ProcessEnvironment, optional_parts};
use cli_command::{CliCommand, dispatch_command};
pub use completions::completion_script;
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
    version = optional_parts::version(),
    max_term_width = 100,
    after_help = FIRST_STEPS
)]
pub struct Cli {
    /// Handle all pending requests once, then exit (for debugging)
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    global: GlobalFlags,
    #[command(subcommand)]
    command: Option<CliCommand>,
}

/// Runs the command line and returns its exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if let [_, argument, job] = args.as_slice()
        && argument == punie_host::worker::WORKER_ARGUMENT
    {
        let answered = punie_handlers::run_worker(job);
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
    punie_host::local::memory_dumps::forbid_memory_dumps();
    match completions::answer_shell(&args) {
        Ok(false) => {}
        Ok(true) => return Exit::Done.into(),
        Err(error) => {
            let _ = error.print();
            return Exit::Usage.into();
        }
    }
    let wants_json = args.iter().any(|argument| argument == "--json");
    let cli = match parse_command_line(args) {
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

/// Parses the command line. The description of all commands, a megabyte, is gone when it returns: a runner lives long.
fn parse_command_line(args: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = command_groups::grouped_command();
    let matches = command.try_get_matches_from_mut(args)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Runs the runner's helper program if called by its argument.
#[cfg(target_os = "linux")]
fn run_helper_program(args: &[OsString]) -> Option<ExitCode> {
    use punie_host::local::terminal_holder;
    let [_, argument, socket] = args else {
        return None;
    };
    if argument != terminal_holder::HOLDER_ARGUMENT {
        return None;
    }
    let held = terminal_holder::hold_terminal(socket.as_ref());
    let exit = if held.is_ok() {
        Exit::Done
    } else {
        Exit::Failed
    };
    Some(exit.into())
}
