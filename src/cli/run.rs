//! `run`, the default command, and `--once`.

use std::sync::Arc;

use clap::Args;

use super::acp::EditorHost;
use super::context::{Context, lone_runtime, to_the_end};
use super::exit::Exit;
use super::wiring::{self, Assembled, BackendSource};
use super::{acp, print, stop};
use crate::acp::editor::Editors;
use crate::config::{Config, WorkspaceRule};
use crate::home::{Home, RunnerLock};
use crate::runner::{OnePassSummary, RunnerError, Stop, ToolThreads};

#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// The backend's pairing code, needed once
    #[arg(long, value_name = "CODE")]
    pairing_code: Option<String>,
    /// Take what is there, answer and deliver it, and exit: for debugging
    #[arg(long)]
    pub once: bool,
}

/// Polls until stopped, or handles pending requests once.
pub fn run(args: &RunArgs, once: bool, context: &Context) -> anyhow::Result<Exit> {
    let config = context.config_of_runner(if Context::is_interactive() {
        WorkspaceRule::OrCurrentDir
    } else {
        WorkspaceRule::Named
    })?;
    let home = Context::home(&config)?;
    let _lock = RunnerLock::acquire(&home)?;
    let runtime = lone_runtime()?;
    // Outlives the runtime until the tools' work has ended.
    let bench = ToolThreads::beside();
    let stop = Stop::new();
    let ended = to_the_end(runtime, async {
        let _signals = stop::on_signals(&stop)?;
        let work = Work { context, config: &config, home: &home, bench: &bench, args, once };
        loop {
            match Box::pin(work.run(&stop.for_next())).await {
                Err(error) if is_other_backend(&error) && !stop.is_requested() => {
                    tracing::warn!(
                        "starting anew for the backend that answers now; what waits for the other one is kept"
                    );
                }
                ended => return ended,
            }
        }
    })?;
    Ok(ended.map_or(Exit::Done, |pass| report(&pass, context.json())))
}

fn is_other_backend(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(RunnerError::OtherBackend))
}

/// The parameters for assembling a runner, which may happen several times.
struct Work<'a> {
    context: &'a Context,
    config: &'a Config,
    home: &'a Home,
    bench: &'a ToolThreads,
    args: &'a RunArgs,
    once: bool,
}

impl Work<'_> {
    /// Runs until stopped or until another backend answers, or handles pending requests once.
    async fn run(&self, stop: &Stop) -> anyhow::Result<Option<OnePassSummary>> {
        let (config, home, editors) = (self.config, self.home, Editors::default());
        let (code, source) = (self.args.pairing_code.clone(), BackendSource::Configured);
        let assembled =
            wiring::runner(config, home, self.context.environment(), source, code, &editors, self.bench)?;
        let Assembled { runner, processes, registry, journal } = assembled;
        let running = async {
            if self.once {
                return runner.once(stop).await.map(Some);
            }
            tracing::info!(home = %config.home.display(), "the runner is up");
            let host = Arc::new(EditorHost::running(home, &editors, registry, journal));
            let _door = acp::open_door(config, home, host, editors, stop);
            let _warming = processes.warm_up();
            runner.run(stop).await.map(|()| None)
        };
        Ok(Box::pin(processes.serve(stop, running)).await?)
    }
}

fn report(pass: &OnePassSummary, json: bool) -> Exit {
    if json {
        print::json(pass);
    } else {
        print::line(&format!(
            "{} polled, {} executed, {} delivered, {} pending, {} failed, in {} ms",
            pass.polled, pass.executed, pass.delivered, pass.pending, pass.failed, pass.elapsed_ms
        ));
    }
    if pass.pending == 0 { Exit::Done } else { Exit::Failed }
}
