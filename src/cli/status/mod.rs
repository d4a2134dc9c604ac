//! `status`: shows whether a runner runs and is healthy, what is in force in it, and what needs the owner's attention.
//! Works without a runner too.

pub(super) mod attention;
mod bridge_problems;
pub(super) mod journal_facts;
pub(super) mod protection;
pub(super) mod runner_status;
mod status_details;
pub(super) mod status_facts;
mod status_text;
mod workspace_status;

use std::time::Duration;

use clap::Args;

use super::console;
use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use punie_engine::runner::Clock;
use runner_status::{RunnerStatus, Verdict};
use status_facts::StatusFacts;

/// The interval of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Clears a terminal and puts the cursor at its beginning.
const CLEAR_TERMINAL: &str = "\u{1b}[H\u{1b}[2J";

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Show everything that is known
    #[arg(long, short)]
    verbose: bool,
    /// Show it again every second, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

/// Shows the status. Exits with 0 if the runner is healthy, 1 if something needs attention, 3 if none runs.
pub fn run_status(args: &StatusArgs, context: &CliContext) -> anyhow::Result<Exit> {
    if args.watch && !context.is_json() && !console::is_terminal() {
        return Err(CommandError::with_exit(
            Exit::Usage,
            "--watch needs a terminal, or --json for one line a second",
        ));
    }
    let mut facts = StatusFacts::new(context, args.verbose);
    loop {
        let status = facts.collect()?;
        if context.is_json() {
            console::print_json(&status);
        } else {
            show_status(args, &status);
        }
        if !args.watch {
            return Ok(match status.verdict {
                Verdict::Healthy => Exit::Done,
                Verdict::Attention => Exit::Failed,
                Verdict::NotRunning => Exit::NotRunning,
            });
        }
        command_runtime()?.block_on(async { tokio::time::sleep(WATCH_INTERVAL).await });
    }
}

fn show_status(args: &StatusArgs, status: &RunnerStatus) {
    let width = console::terminal_width();
    let now_ms = Clock::system().now_ms();
    let mut lines = status_text::summary_lines(status, now_ms, width);
    if args.verbose {
        lines.extend(status_details::detail_lines(status, now_ms, width));
    }
    let text = lines.join("\n");
    if args.watch {
        console::print_line(&format!("{CLEAR_TERMINAL}{text}"));
    } else {
        console::print_line(&text);
    }
}
