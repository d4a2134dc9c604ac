//! `run`, which is also what happens without a command; and `--once`.

use std::sync::Arc;

use clap::Args;

use super::acp::EditorHost;
use super::context::{Context, lone_runtime, to_the_end};
use super::exit::Exit;
use super::wiring::{self, Assembled};
use super::{acp, print, stop};
use crate::acp::editor::Editors;
use crate::config::WorkspaceRule;
use crate::home::RunnerLock;
use crate::runner::{Bench, Pass, Stop};

#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// The backend's pairing code, needed once
    #[arg(long, value_name = "CODE")]
    pairing_code: Option<String>,
    /// Take what is there, answer and deliver it, and exit: for debugging
    #[arg(long)]
    pub once: bool,
}

/// Polls until stopped, or makes one pass.
pub fn run(args: &RunArgs, once: bool, context: &Context) -> anyhow::Result<Exit> {
    let config = context.config_of_runner(if Context::is_interactive() {
        WorkspaceRule::OrCurrentDir
    } else {
        WorkspaceRule::Named
    })?;
    let home = Context::home(&config)?;
    let _lock = RunnerLock::acquire(&home)?;
    let runtime = lone_runtime()?;
    // Lives on until what the tools began is ended.
    let bench = Bench::beside();
    let stop = Stop::new();
    let ended = to_the_end(runtime, async {
        let _signals = stop::on_signals(&stop)?;
        let editors = Editors::default();
        let code = args.pairing_code.clone();
        let assembled = wiring::runner(&config, &home, context.environment(), code, &editors, &bench)?;
        let Assembled { runner, processes, registry, journal } = assembled;
        let running = async {
            if once {
                return runner.once(&stop).await.map(Some);
            }
            tracing::info!(home = %config.home.display(), "the runner is up");
            let host = Arc::new(EditorHost::running(&home, &editors, registry, journal));
            let _door = acp::open_door(&config, &home, host, editors, &stop);
            let _warming = processes.warm_up();
            runner.run(&stop).await.map(|()| None)
        };
        anyhow::Ok(Box::pin(processes.serve(&stop, running)).await?)
    })?;
    Ok(ended.map_or(Exit::Done, |pass| report(&pass, context.json())))
}

fn report(pass: &Pass, json: bool) -> Exit {
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
