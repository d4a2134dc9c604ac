//! `bridges`: programs that the owner deploys and the runner keeps running. Here: starting, stopping and removing them.

mod bridge_list;
mod deploy;
mod npm_registry;

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use tokio::time::Instant;

use super::console;
use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use crate::bridges::{complete_changes, end_leftover};
use punie_engine::runner::Clock;
use punie_home::{
    BridgeLock, BridgeStore, Home, RunnerLock, WantedState, check_bridge_name, command_to_type,
};

const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The longest wait for the end of a bridge: its own time, that of its kill, and some for a busy machine.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait for the start of a bridge.
const START_TIMEOUT: Duration = Duration::from_secs(2);
/// A bridge that has run for so long is said to run.
const START_TRIAL_MS: i64 = 1_200;

#[derive(Debug, Args)]
pub struct BridgesArgs {
    #[command(subcommand)]
    word: Option<BridgesCommand>,
}

/// What to do with the bridges; `list` without a word.
#[derive(Debug, Subcommand)]
enum BridgesCommand {
    /// List all, and whether they run (the default)
    List,
    /// Put a bridge in place, or a new version of it
    ///
    /// Its dependencies are installed without running anything of them. What it keeps in its data folder stays.
    Deploy(deploy::DeployArgs),
    /// Start one, now and after each start of the runner
    Start {
        /// Its name
        name: String,
    },
    /// Stop one, and wait for its end
    Stop {
        /// Its name
        #[arg(required_unless_present = "all")]
        name: Option<String>,
        /// Stop all
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// Stop one and delete it with its data
    Remove {
        /// Its name
        name: String,
    },
}

/// Lists the bridges, or changes them.
pub fn run_bridges(args: &BridgesArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let home = context.open_home()?;
    let store = BridgeStore::in_home(&home);
    complete_changes(&store)?;
    match &args.word {
        None | Some(BridgesCommand::List) => bridge_list::print_bridges(&home, &store, context),
        Some(BridgesCommand::Deploy(args)) => deploy::deploy_bridge(args, &home, &store, context),
        Some(BridgesCommand::Start { name }) => start_bridge(&home, &store, name, context),
        Some(BridgesCommand::Stop { name, .. }) => {
            let names = match name {
                Some(name) => vec![name.clone()],
                None => store.read_state()?.bridges.into_keys().collect(),
            };
            stop_bridges(&store, &names, context)
        }
        Some(BridgesCommand::Remove { name }) => remove_bridge(&store, name, context),
    }
}

fn no_such_bridge(name: &str) -> anyhow::Error {
    let text = match check_bridge_name(name) {
        Ok(()) => format!(
            "there is no bridge {name}; `{}` shows all",
            command_to_type("bridges list")
        ),
        Err(why) => why,
    };
    CommandError::with_exit(Exit::Failed, text)
}

/// Prints what became of a bridge: as JSON, or as a sentence.
fn print_outcome(name: &str, state: &str, sentence: &str, context: &CliContext) {
    if context.is_json() {
        console::print_json(&json!({ "name": name, "state": state }));
    } else {
        console::print_paragraph("", sentence);
    }
}

fn start_bridge(
    home: &Home,
    store: &BridgeStore,
    name: &str,
    context: &CliContext,
) -> anyhow::Result<Exit> {
    let now_ms = Clock::system().now_ms();
    let before = store.read_state()?.bridges.remove(name);
    let has_runner = RunnerLock::find_holder(home)?.is_some();
    let is_running = has_runner
        && store
            .read_runs()?
            .get(name)
            .is_some_and(|run| run.pid.is_some());
    let was_wanted = before.is_some_and(|before| before.wanted == WantedState::Started);
    // One that waits for its next start need not wait any more.
    let anew = (!(is_running && was_wanted)).then_some(now_ms);
    let record = store.set_wanted(name, WantedState::Started, anew)?;
    let record = record.ok_or_else(|| no_such_bridge(name))?;
    if !has_runner {
        let text = format!(
            "{name} starts with the next `{}`; no runner runs now.",
            command_to_type("run")
        );
        print_outcome(name, "wanted", &text, context);
        return Ok(Exit::Done);
    }
    let waiting = wait_for_start(store, name, record.wanted_at_ms);
    match command_runtime()?.block_on(waiting)? {
        StartOutcome::Runs(pid) => {
            let text = format!("{name} runs, process {pid}.");
            print_outcome(name, "running", &text, context);
            Ok(Exit::Done)
        }
        StartOutcome::Waits => {
            let text = format!(
                "The runner has not started {name} yet; `{}` shows when it has.",
                command_to_type("bridges list")
            );
            print_outcome(name, "wanted", &text, context);
            Ok(Exit::Done)
        }
        StartOutcome::Failed(why) => {
            let log = store.folders(name)?.log_file().display().to_string();
            let text = format!(
                "{name} does not run: {why}. The runner tries again; `{}` ends that. Its output is in {log}",
                command_to_type(&format!("bridges stop {name}"))
            );
            Err(CommandError::with_exit(Exit::Failed, text))
        }
    }
}

/// What became of a start.
enum StartOutcome {
    Runs(u32),
    Waits,
    Failed(String),
}

async fn wait_for_start(
    store: &BridgeStore,
    name: &str,
    wanted_at_ms: i64,
) -> anyhow::Result<StartOutcome> {
    let until = Instant::now() + START_TIMEOUT;
    loop {
        let is_late = Instant::now() >= until;
        let run = store.read_runs()?.remove(name);
        if let Some(run) = run.filter(|run| run.wanted_at_ms == wanted_at_ms) {
            if let Some(problem) = run.problem {
                return Ok(StartOutcome::Failed(problem));
            }
            if let (Some(how), true) = (&run.last_exit, run.ends_in_row > 0) {
                return Ok(StartOutcome::Failed(format!("it ended with {how}")));
            }
            let since = run.since_ms.unwrap_or(i64::MAX);
            let is_tried = since.saturating_add(START_TRIAL_MS) <= Clock::system().now_ms();
            if let Some(pid) = run.pid.filter(|_| is_tried || is_late) {
                return Ok(StartOutcome::Runs(pid));
            }
        }
        if is_late {
            return Ok(StartOutcome::Waits);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn stop_bridges(
    store: &BridgeStore,
    names: &[String],
    context: &CliContext,
) -> anyhow::Result<Exit> {
    for name in names {
        let stopped = store.set_wanted(name, WantedState::Stopped, None)?;
        stopped.ok_or_else(|| no_such_bridge(name))?;
    }
    command_runtime()?.block_on(async {
        for name in names {
            let lock = wait_for_end(store, name).await?;
            let store = store.clone();
            let ended = name.clone();
            tokio::task::spawn_blocking(move || end_leftover(&store, &ended, &lock)).await??;
            print_outcome(name, "stopped", &format!("{name} is stopped."), context);
        }
        anyhow::Ok(())
    })?;
    if names.is_empty() && !context.is_json() {
        console::print_line("There are no bridges.");
    }
    Ok(Exit::Done)
}

fn remove_bridge(store: &BridgeStore, name: &str, context: &CliContext) -> anyhow::Result<Exit> {
    if !store.decide_removal(name)? {
        return Err(no_such_bridge(name));
    }
    command_runtime()?.block_on(finish_change(store, name))?;
    print_outcome(name, "removed", &format!("{name} is removed."), context);
    Ok(Exit::Done)
}

/// Waits until no copy of a bridge runs, and takes the right to start one.
async fn wait_for_end(store: &BridgeStore, name: &str) -> anyhow::Result<BridgeLock> {
    let until = Instant::now() + END_TIMEOUT;
    loop {
        if let Some(lock) = store.try_lock(name)? {
            return Ok(lock);
        }
        check_time(until, name)?;
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Waits until the decided change of a bridge is complete: the runner ends its copy and completes it, or this process does.
async fn finish_change(store: &BridgeStore, name: &str) -> anyhow::Result<()> {
    let until = Instant::now() + END_TIMEOUT;
    while store.read_state()?.pending.contains_key(name) {
        if let Some(lock) = store.try_lock(name)? {
            let store = store.clone();
            let name = name.to_owned();
            let finishing = tokio::task::spawn_blocking(move || {
                end_leftover(&store, &name, &lock)?;
                store.finish_change(&name, &lock)
            });
            return Ok(finishing.await??);
        }
        check_time(until, name)?;
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

fn check_time(until: Instant, name: &str) -> anyhow::Result<()> {
    if Instant::now() < until {
        return Ok(());
    }
    let text = format!(
        "the runner has not ended {name} within {} s. What you asked for happens once it has",
        END_TIMEOUT.as_secs()
    );
    Err(CommandError::with_exit(Exit::TimedOut, text))
}
