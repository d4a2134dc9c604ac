//! `run`, the default command, and `--once`.

use std::sync::Arc;

use clap::Args;

use super::acp::EditorHost;
use super::context::{CliContext, block_on_and_shutdown, runner_runtime};
use super::exit::Exit;
use super::first_contact::{self, FirstStep};
use super::runner_screen::{self, RunnerScreen};
use super::wiring::{self, AssembledRunner, BackendSource};
use super::{acp, approvals, call_line, console, process_signals};
use crate::config::{BackendUrl, Config, WorkspaceRule};
use punie_core::clock::ExpiryClock;
use punie_core::heap_memory;
use punie_editor::AttachedEditors;
use punie_engine::runner::{OnePassSummary, RunnerError, ShutdownSignal, ToolThreads};
use punie_home::{ApprovalQuestions, Home, RunnerLock};

#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// The backend's pairing code, needed the first time
    #[arg(long, value_name = "CODE")]
    pairing_code: Option<String>,
    /// Handle all pending requests once, then exit (for debugging)
    #[arg(long)]
    pub once: bool,
}

/// Polls until stopped, or handles pending requests once.
pub fn run_runner(args: &RunArgs, once: bool, context: &CliContext) -> anyhow::Result<Exit> {
    if !once && let Some(FirstStep::Done(exit)) = first_contact::ask_first_step(context)? {
        return Ok(exit);
    }
    heap_memory::share_one_heap();
    let config = context.runner_config(if CliContext::is_interactive() {
        WorkspaceRule::OrCurrentDir
    } else {
        WorkspaceRule::Named
    })?;
    let home = CliContext::config_home(&config)?;
    let _lock = RunnerLock::try_acquire(&home)?;
    // Before anybody is asked at the terminal.
    ApprovalQuestions::in_home(&home).close_earlier(&ExpiryClock::default());
    let runtime = runner_runtime()?;
    // Outlives the runtime until the tools' work has ended.
    let bench = ToolThreads::with_own_threads();
    let stop = ShutdownSignal::new();
    let ended = block_on_and_shutdown(runtime, async {
        let _signals = process_signals::listen_for_signals(&stop, config.limits.drain)?;
        if !once {
            approvals::ask_people(context, &config, &home, &stop);
        }
        let work = RunnerLaunch {
            context,
            config: &config,
            home: &home,
            bench: &bench,
            args,
            once,
        };
        loop {
            match Box::pin(work.launch(&stop.for_next_runner())).await {
                Err(error) if is_other_backend(&error) && !stop.is_requested() => {
                    tracing::warn!(
                        "starting anew for the backend that answers now; what waits for the other one is kept"
                    );
                }
                ended => return ended,
            }
        }
    })
    .map_err(|error| {
        let url = config.backend.url.as_ref().map(BackendUrl::as_str);
        first_contact::explain_pairing(error, url, args.pairing_code.is_some())
    })?;
    let Some(pass) = ended else {
        runner_screen::print_stopped(context.is_json());
        return Ok(Exit::Done);
    };
    Ok(report_pass(&pass, context.is_json()))
}

fn is_other_backend(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(RunnerError::OtherBackend))
}

/// The parameters for assembling a runner, which may happen several times.
struct RunnerLaunch<'a> {
    context: &'a CliContext,
    config: &'a Config,
    home: &'a Home,
    bench: &'a ToolThreads,
    args: &'a RunArgs,
    once: bool,
}

impl RunnerLaunch<'_> {
    /// Runs until stopped or until another backend answers, or handles pending requests once.
    async fn launch(&self, stop: &ShutdownSignal) -> anyhow::Result<Option<OnePassSummary>> {
        let config = self.config;
        let home = self.home;
        let editors = AttachedEditors::default();
        let code = self.args.pairing_code.clone();
        let source = BackendSource::Configured;
        let assembled = wiring::assemble_runner(
            config,
            home,
            self.context.environment(),
            source,
            code,
            &editors,
            self.bench,
        )?;
        let AssembledRunner {
            runner,
            processes,
            registry,
            journal,
        } = assembled;
        let runner = runner.with_call_listener(call_line::finished_call_lines(config.log.level));
        let running = async {
            if self.once {
                return runner.run_once(stop).await.map(Some);
            }
            tracing::info!(home = %config.home.display(), "the runner is up");
            let host = Arc::new(EditorHost::already_running(
                home,
                &editors,
                registry,
                journal.clone(),
            ));
            let _door = acp::admit_editors(config, home, host, editors, stop);
            let _warming = processes.start_background_work();
            let screen = RunnerScreen {
                processes: &processes,
                journal: journal.clone(),
                connected: runner.connected_token(),
                stop,
            };
            let running = Box::pin(runner.run_until_stopped(stop));
            let ended = if self.context.is_json() || !console::is_terminal() {
                running.await
            } else {
                runner_screen::print_connecting(config, home, self.context.environment());
                screen.show_beside(running).await
            };
            ended.map(|()| None)
        };
        Ok(Box::pin(processes.serve(stop, running)).await?)
    }
}

fn report_pass(pass: &OnePassSummary, json: bool) -> Exit {
    if json {
        console::print_json(pass);
    } else {
        console::print_line(&format!(
            "{} polled, {} executed, {} delivered, {} pending, {} failed, in {} ms",
            pass.polled, pass.executed, pass.delivered, pass.pending, pass.failed, pass.elapsed_ms
        ));
    }
    if pass.pending == 0 {
        Exit::Done
    } else {
        Exit::Failed
    }
}
