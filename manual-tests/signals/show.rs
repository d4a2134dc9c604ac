//! The tables and texts of a collection. People are counted and never shown.

use std::time::Duration;

use punie_signals::{Category, SourceReport, SourceState, format_report};

use crate::TimedReport;

/// Prints how the reading of each source of a category ended, with reasons and problems below.
pub fn sources(category: Category, reports: &[TimedReport]) {
    println!("\n=== {category}\n");
    println!(
        "{:<18} {:<7} {:>8} {:>9} {:>7} {:>9}",
        "source", "state", "sections", "problems", "people", "time"
    );
    for TimedReport { report, time } in reports {
        let state = match &report.state {
            SourceState::Read => "read",
            SourceState::Absent => "absent",
            SourceState::Failed(_) => "failed",
        };
        println!(
            "{:<18} {:<7} {:>8} {:>9} {:>7} {:>6} ms",
            report.source,
            state,
            report.sections.len(),
            report.problems.len(),
            report.people.len(),
            time.as_millis()
        );
    }
    for TimedReport { report, .. } in reports {
        if let SourceState::Failed(reason) = &report.state {
            println!("\n{}: failed: {reason}", report.source);
        }
        for problem in &report.problems {
            println!("\n{}: {problem}", report.source);
        }
    }
}

/// Prints the number of entries below each heading of each section, before any is left out as seldom.
pub fn parts(reports: &[TimedReport]) {
    println!("\n{:<30} {:<50} {:>7}", "section", "part", "entries");
    let sections = reports.iter().flat_map(|timed| &timed.report.sections);
    for section in sections {
        let mut parts: Vec<(&str, usize)> = Vec::new();
        for line in section.markdown.lines() {
            if let Some(part) = line.strip_prefix("### ") {
                parts.push((part, 0));
            } else if let Some((_, entries)) = parts.last_mut()
                && line.starts_with("- ")
            {
                *entries += 1;
            }
        }
        for (part, entries) in parts {
            println!("{:<30} {part:<50} {entries:>7}", section.title);
        }
    }
}

/// Prints the text of all sources, its size, and the time that the sources took.
pub fn text(reports: &[TimedReport]) {
    let text = format_report(&owned_reports(reports));
    println!("\n=== Text\n\n{text}");
    let time: Duration = reports.iter().map(|timed| timed.time).sum();
    println!("=== Size and time\n");
    println!("{} characters, {} bytes", text.chars().count(), text.len());
    println!("about {} tokens", estimate_tokens(&text));
    println!("{} ms", time.as_millis());
}

/// Prints the numbers of sources by their states, and of sections, problems and people.
pub fn totals(reports: &[TimedReport]) {
    let count = |is_counted: fn(&SourceState) -> bool| {
        let states = reports.iter().map(|timed| &timed.report.state);
        states.filter(|state| is_counted(state)).count()
    };
    let sum = |number: fn(&SourceReport) -> usize| -> usize {
        reports.iter().map(|timed| number(&timed.report)).sum()
    };
    println!(
        "{} sources read, {} absent, {} failed",
        count(|state| *state == SourceState::Read),
        count(|state| *state == SourceState::Absent),
        count(|state| matches!(state, SourceState::Failed(_)))
    );
    println!(
        "{} sections, {} problems, {} people",
        sum(|report| report.sections.len()),
        sum(|report| report.problems.len()),
        sum(|report| report.people.len())
    );
}

fn owned_reports(reports: &[TimedReport]) -> Vec<SourceReport> {
    reports.iter().map(|timed| timed.report.clone()).collect()
}

/// Estimates the tokens of a text for a model: the mean of three rules of thumb, of which that by 3.5 characters counts
/// twice. In tenths of a token, so that no float is needed.
fn estimate_tokens(text: &str) -> usize {
    let characters = text.chars().count();
    let words = text.split_whitespace().count();
    let by_four = characters * 10 / 4;
    let by_words = words * 13;
    let by_three_and_a_half = characters * 100 / 35;
    (by_four + by_words + 2 * by_three_and_a_half) / 4 / 10
}
