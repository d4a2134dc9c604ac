//! Injects each fault of the delivery catalogue (`docs/contributing/faults.md`): `fNN` in a test's name is the fault's
//! number.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what a machine cannot show, and figures, are said"
)]

mod absence;
mod backlog;
mod bytes;
mod cancels;
#[cfg(target_os = "linux")]
mod clock_ahead;
mod clocks;
mod company_proxy;
mod corruption;
#[cfg(target_os = "linux")]
pub(crate) mod disk;
#[cfg(target_os = "linux")]
mod disk_model;
mod events;
mod homes;
mod journal_losses;
mod kill;
mod logs;
#[cfg(target_os = "linux")]
mod power;
#[cfg(target_os = "linux")]
mod preload;
mod processes;
mod quiet;
mod refusals;
mod room;
mod slow_uplink;
mod stops;
mod strangers;
pub(crate) mod tls;
mod upgrade;

use crate::harness::process::RunningProgram;
use crate::harness::wait::wait_until;

/// Returns the waits that a runner announced after failed polls, in milliseconds.
fn announced_waits(runner: &RunningProgram) -> Vec<u64> {
    let log = runner.log();
    let numbers = log
        .split("retry_ms=")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    numbers
        .map(|number| {
            number
                .and_then(|digits| digits.parse().ok())
                .expect("a number")
        })
        .collect()
}

/// Waits until this many more polls have failed.
async fn polls_fail(runner: &RunningProgram, more: usize) {
    let failed = || runner.log().matches("could not be polled").count();
    let before = failed();
    wait_until("failed polls", || failed() >= before + more).await;
}
