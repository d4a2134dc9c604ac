//! Manual tests: scripted requests to a device that really runs, each shown beside what was expected of it. They are
//! run by name (`cargo test --test manual`) and never unasked. Not here: what is tested (`scenarios/*.json`), and
//! anything of the program's inside: this is a caller like any other.
#![expect(
    clippy::disallowed_methods,
    reason = "a program of its own: it reads its environment and its scenarios"
)]
#![expect(clippy::print_stdout, reason = "what it prints is what it is for")]

mod check;
mod memory;
mod play;
mod scenario;
mod show;
mod wire;

use std::process::ExitCode;

use anyhow::{Context, bail};

use scenario::Scenario;
use wire::Caller;

/// The exit code when nothing could be run. Numbers of failed steps lie below it.
const COULD_NOT_RUN: u8 = 120;
/// More failed steps than this are not told apart.
const MOST_FAILED: u8 = 100;

fn main() -> ExitCode {
    match run() {
        Ok(failed) => ExitCode::from(u8::try_from(failed).unwrap_or(MOST_FAILED).min(MOST_FAILED)),
        Err(error) => {
            println!("{error:#}");
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}

/// Plays what was asked for; returns how many steps failed.
fn run() -> anyhow::Result<usize> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let scenarios = Scenario::load_all()?;
    if names.iter().any(|name| name == "--list") {
        for scenario in &scenarios {
            println!("{:<10} {}", scenario.name, scenario.about);
        }
        return Ok(0);
    }
    let chosen = choose(scenarios, &names)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let caller = caller().await?;
        println!("Device {} at {}", caller.device(), caller.url());
        let (mut steps, mut failed) = (0, 0);
        for scenario in &chosen {
            let played = play::play(&caller, scenario).await;
            steps += scenario.steps.len();
            failed += played;
        }
        println!(
            "\nscenarios: {}, steps: {steps}, failed: {failed}",
            chosen.len()
        );
        Ok(failed)
    })
}

fn choose(scenarios: Vec<Scenario>, names: &[String]) -> anyhow::Result<Vec<Scenario>> {
    if let Some(unknown) = names
        .iter()
        .find(|name| scenarios.iter().all(|known| known.name != **name))
    {
        let known: Vec<&str> = scenarios
            .iter()
            .map(|scenario| scenario.name.as_str())
            .collect();
        bail!(
            "there is no scenario {unknown:?}; there are: {}",
            known.join(", ")
        );
    }
    Ok(scenarios
        .into_iter()
        .filter(|scenario| names.is_empty() || names.contains(&scenario.name))
        .collect())
}

async fn caller() -> anyhow::Result<Caller> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let needed = |name: &str| {
        variable(name).with_context(|| {
            format!("{name} is not set. manual-tests/README.md says how to start a device and what to set")
        })
    };
    let (url, token) = (
        needed("PUNIE_MANUAL_URL")?,
        needed("PUNIE_MANUAL_CALLER_TOKEN")?,
    );
    Caller::connect(&url, token, variable("PUNIE_MANUAL_DEVICE")).await
}
