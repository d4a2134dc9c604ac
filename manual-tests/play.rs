//! Plays a scenario: asks, waits, compares, shows. Not here: how it is shown and compared.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::check::{Finding, check};
use crate::memory::Memory;
use crate::scenario::{Cancel, Scenario, Step};
use crate::show;
use crate::wire::{Answer, Caller};

/// How long a request that nobody at a terminal can take back runs first.
const INSTEAD_OF_A_HAND: u64 = 1_500;

/// What came of one step.
pub struct Played {
    /// The answer, if there was one.
    pub answer: Option<Answer>,
    /// It beside what was expected.
    pub findings: Vec<Finding>,
    /// From asking to knowing.
    pub took: Duration,
}

impl Played {
    /// Whether everything is as expected.
    pub fn fits(&self) -> bool {
        self.findings.iter().all(|finding| finding.fits)
    }
}

/// Plays all steps; returns how many failed. A failed step does not end the scenario: the last ones tidy up.
pub async fn play(caller: &Caller, scenario: &Scenario) -> usize {
    show::title(scenario);
    let conversation = format!("manual-{}-{}", scenario.name, uuid::Uuid::new_v4());
    let mut memory = Memory::default();
    let mut failed = 0;
    for (number, step) in (1..).zip(&scenario.steps) {
        let from = (conversation.as_str(), scenario.agent_type.as_deref());
        let played = play_step(caller, from, step, &mut memory).await;
        show::step(number, step, &played);
        failed += usize::from(!played.fits());
    }
    failed
}

async fn play_step(
    caller: &Caller,
    from: (&str, Option<&str>),
    step: &Step,
    memory: &mut Memory,
) -> Played {
    let begun = Instant::now();
    let mut left = step.again.as_ref().map_or(0, |again| again.times);
    loop {
        let played = match ask(caller, from, step, memory).await {
            Ok(answer) => judge(step, memory, answer, begun),
            Err(error) => broken("the request", &error, None, begun),
        };
        let Some(again) = step.again.as_ref().filter(|_| left > 0 && !played.fits()) else {
            return played;
        };
        left -= 1;
        tokio::time::sleep(Duration::from_millis(again.every_ms)).await;
    }
}

async fn ask(
    caller: &Caller,
    from: (&str, Option<&str>),
    step: &Step,
    memory: &Memory,
) -> anyhow::Result<Answer> {
    let request = uuid::Uuid::now_v7().to_string();
    let args = if step.args.is_null() {
        serde_json::json!({})
    } else {
        memory.fill(&step.args)?
    };
    caller.append(&request, from, &step.tool, &args).await?;
    match &step.cancel {
        None => {}
        Some(Cancel::ByHand) if std::io::stdin().is_terminal() => {
            show::please_cancel(&request, step.wait_secs);
        }
        Some(Cancel::ByHand) => cancel(caller, &request, INSTEAD_OF_A_HAND).await?,
        Some(Cancel::AfterMs(ms)) => cancel(caller, &request, *ms).await?,
    }
    caller
        .wait(&request, Duration::from_secs(step.wait_secs))
        .await
}

async fn cancel(caller: &Caller, request: &str, after_ms: u64) -> anyhow::Result<()> {
    tokio::time::sleep(Duration::from_millis(after_ms)).await;
    caller.cancel(request).await
}

fn judge(step: &Step, memory: &mut Memory, answer: Answer, begun: Instant) -> Played {
    if let Err(error) = memory.save(&step.save, &answer) {
        return broken("to be saved", &error, Some(answer), begun);
    }
    Played {
        findings: check(&step.expect, &answer),
        took: begun.elapsed(),
        answer: Some(answer),
    }
}

fn broken(part: &str, error: &anyhow::Error, answer: Option<Answer>, begun: Instant) -> Played {
    let finding = Finding {
        part: part.to_owned(),
        expected: "an answer".to_owned(),
        came: format!("{error:#}"),
        fits: false,
    };
    Played {
        answer,
        findings: vec![finding],
        took: begun.elapsed(),
    }
}
