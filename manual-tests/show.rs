//! What the person in front of it sees. Not here: what is right.

use crate::play::Played;
use crate::scenario::{Scenario, Step};

/// How many lines of an answer that was not as expected are shown.
const LINES: usize = 12;
/// How many characters of one value are shown.
const WIDTH: usize = 60;

/// The head of a scenario.
pub fn title(scenario: &Scenario) {
    println!("\n{}: {}", scenario.name, scenario.about);
    println!(
        "      {:<14}{:<width$}| came",
        "",
        "expected",
        width = WIDTH / 2
    );
}

/// A step with its findings: what was expected on the left, what came on the right.
pub fn step(number: usize, step: &Step, played: &Played) {
    let verdict = if played.fits() { "ok" } else { "NO" };
    println!(
        "{verdict} {number:>2}  {}: {} ({} ms)",
        step.tool,
        step.what,
        played.took.as_millis()
    );
    for finding in &played.findings {
        let mark = if finding.fits { ' ' } else { '!' };
        let (expected, came) = (cut(&finding.expected), cut(&finding.came));
        println!(
            "    {mark} {:<14}{expected:<width$}| {came}",
            finding.part,
            width = WIDTH / 2
        );
    }
    if let Some(answer) = played.answer.as_ref().filter(|_| !played.fits()) {
        println!("      the answer:");
        answer
            .text()
            .lines()
            .take(LINES)
            .for_each(|line| println!("      > {}", visible(line)));
    }
}

/// Asks the person to take a request back.
pub fn please_cancel(request: &str, seconds: u64) {
    println!(
        "\nWithin {seconds} s, in another terminal, with the options of that device or backend:"
    );
    println!("  punie-runner cancel {request}\n");
}

fn cut(text: &str) -> String {
    let text = visible(text);
    if text.chars().count() <= WIDTH {
        return text;
    }
    text.chars().take(WIDTH - 1).chain(['…']).collect()
}

/// Control characters must not reach the terminal.
fn visible(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{FFFD}' } else { c })
        .collect()
}
