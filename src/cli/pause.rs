//! `pause` and `resume`: the owner's switch. It is a file of the home, so that it holds over restarts and can be
//! moved whether or not a runner runs; one that runs heeds it at once. Not here: what the runner then does (runner).

use clap::Args;
use serde::Serialize;

use super::context::Context;
use super::exit::Exit;
use super::{audit, print};
use crate::audit::Event;
use crate::config::WorkspaceRule;
use crate::home::{Home, RunnerLock, Switch, SwitchedOn, Switches};
use crate::journal::Reader;
use crate::runner::Clock;

#[derive(Debug, Args)]
pub struct PauseArgs {
    /// Why, for `status`
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// What `--json` says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    paused: bool,
    /// Whether this changed anything.
    changed: bool,
    running: bool,
    waiting: u32,
    in_flight: u32,
}

/// Lets nothing new begin.
pub fn pause(args: &PauseArgs, context: &Context) -> anyhow::Result<Exit> {
    let home = home(context)?;
    let on = SwitchedOn { since_ms: Clock::system().now_ms(), reason: args.reason.clone() };
    let changed = Switches::of(&home).switch_on(Switch::Paused, &on)?;
    if changed {
        audit::note(&home, audit::by_owner(Event::Pause));
    }
    let answer = answer(&home, true, changed)?;
    if context.json() {
        print::json(&answer);
        return Ok(Exit::Done);
    }
    print::line(if changed { "Paused: nothing new begins." } else { "It was paused already." });
    match (answer.running, answer.in_flight) {
        (false, _) => print::line("No runner runs now; the next one will be paused from its start."),
        (true, 0) => print::line("New requests are accepted and wait until `punie-runner resume`."),
        (true, calls) => print::line(&format!(
            "{calls} running {} on to the end, and results are delivered. New requests wait until \
             `punie-runner resume`.",
            if calls == 1 { "call goes" } else { "calls go" }
        )),
    }
    Ok(Exit::Done)
}

/// Lets calls begin again.
pub fn resume(context: &Context) -> anyhow::Result<Exit> {
    let home = home(context)?;
    let switches = Switches::of(&home);
    // What waits is counted before it begins.
    let before = answer(&home, false, false)?;
    // Both, whichever was on.
    let paused = switches.switch_off(Switch::Paused)?;
    let safe = switches.switch_off(Switch::SafeMode)?;
    if paused || safe {
        audit::note(&home, audit::by_owner(Event::Resume));
    }
    let answer = Answer { changed: paused || safe, ..before };
    if context.json() {
        print::json(&answer);
        return Ok(Exit::Done);
    }
    print::line(match (paused, safe) {
        (_, true) => "Safe mode is over: calls begin again.",
        (true, false) => "Resumed: calls begin again.",
        (false, false) => "It was not paused.",
    });
    if answer.waiting > 0 {
        let when = if answer.running { "begin now" } else { "wait for a runner" };
        print::line(&format!("{} requests {when}.", answer.waiting));
    }
    Ok(Exit::Done)
}

fn home(context: &Context) -> anyhow::Result<Home> {
    Context::home(&context.config(WorkspaceRule::NotNeeded)?)
}

fn answer(home: &Home, paused: bool, changed: bool) -> anyhow::Result<Answer> {
    let reader = Reader::find(&home.journal_file())?;
    // What a runner works on, or worked on last.
    let counts = reader.map(|reader| reader.of_last_backend()?.counts()).transpose()?.unwrap_or_default();
    let running = RunnerLock::peek(home)?.is_some();
    Ok(Answer { paused, changed, running, waiting: counts.accepted, in_flight: counts.started })
}
