//! Rounds of crashes: a real runner that is switched between two real backends, and killed and cut off at random while it
//! works on requests whose effects can be counted. The backends stop and start at random, too. Afterwards everything may
//! run, and each request must have one result that tells the truth, at its own backend. The same seed gives the same plan;
//! the machine decides when exactly a kill strikes.
//!
//! `cargo test --release --test chaos -- --seeds 500`
#![expect(
    clippy::disallowed_methods,
    reason = "a program of its own: it starts processes and makes files"
)]
#![expect(clippy::print_stdout, reason = "what it prints is what it is for")]

mod caller;
mod dice;
mod round;
mod site;
mod tally;
mod work;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use clap::Parser;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use tally::Tally;

/// With this set, this program is the runner.
const AS_RUNNER: &str = "PUNIE_CHAOS_RUNNER";

/// Kills a runner at random and counts what became of its requests.
#[derive(Debug, Clone, Parser)]
struct Options {
    /// How many rounds
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Rounds side by side
    #[arg(long, default_value_t = 4)]
    at_once: usize,
    /// Requests in a round
    #[arg(long, default_value_t = 16)]
    requests: usize,
}

fn main() -> ExitCode {
    if std::env::var_os(AS_RUNNER).is_some() {
        return punie_runner::cli::main(std::env::args_os());
    }
    let options = Options::parse();
    match play(&options) {
        Ok(tally) if tally.violations.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn play(options: &Options) -> anyhow::Result<Tally> {
    // Rounds wait for processes and files here and there; the backends must not wait with them.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.at_once + 4)
        .enable_all()
        .build()?;
    let begun = Instant::now();
    let tally = runtime.block_on(async {
        let places = Arc::new(Semaphore::new(options.at_once.max(1)));
        let mut rounds = JoinSet::new();
        for seed in options.first..options.first + options.seeds {
            let (places, requests) = (Arc::clone(&places), options.requests);
            rounds.spawn(async move {
                let _place = places.acquire_owned().await?;
                round::play(seed, requests)
                    .await
                    .with_context(|| format!("seed {seed} could not be played"))
            });
        }
        let mut tally = Tally::default();
        while let Some(round) = rounds.join_next().await {
            tally.add(round??);
            if tally.rounds.is_multiple_of(50) {
                println!(
                    "{} rounds, {} violations",
                    tally.rounds,
                    tally.violations.len()
                );
            }
        }
        anyhow::Ok(tally)
    })?;
    tally.print(begun.elapsed());
    Ok(tally)
}
