//! What this machine tells about its owner, read as it is and shown at the terminal. Nothing is sent, and nothing stays on
//! the disk. Not here: consent, aliases and the masking of known secrets, which the program adds before anything leaves.
//!
//! `cargo run -p punie-signals --example signals -- browser-data`
//! `cargo run -p punie-signals --example signals -- collect-all`
#![expect(
    clippy::disallowed_methods,
    reason = "a program of its own: it reads its environment"
)]
#![expect(clippy::print_stdout, reason = "what it prints is what it is for")]

mod show;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use punie_signals::{
    Budget, Category, SignalPlaces, SourceReport, SourceState, System, collect_category,
};

const USAGE: &str = "\
usage: signals browser-data [--home FOLDER]
       signals collect-all [--home FOLDER] [CATEGORY...]";
/// Exit codes: there is nothing to show, and nothing could be run.
const NOTHING_FOUND: u8 = 1;
const COULD_NOT_RUN: u8 = 2;
/// The limits of one source.
const SOURCE_TIME: Duration = Duration::from_secs(10);
const SOURCE_ENTRIES: u64 = 200_000;

/// A source that was read, and the time that it took.
struct TimedReport {
    report: SourceReport,
    time: Duration,
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        println!("{error}");
        ExitCode::from(COULD_NOT_RUN)
    })
}

fn run() -> Result<ExitCode, String> {
    let mut words = env::args_os().skip(1);
    let test = words.next().ok_or(USAGE)?;
    let mut home = None;
    let mut names = Vec::new();
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--home") => home = Some(PathBuf::from(words.next().ok_or(USAGE)?)),
            Some(name) if !name.starts_with('-') => names.push(name.to_owned()),
            _ => return Err(USAGE.to_owned()),
        }
    }
    let scratch = tempfile::tempdir().map_err(|error| format!("no private folder: {error}"))?;
    let places = find_places(home, scratch.path())?;
    match (test.to_str(), names.as_slice()) {
        (Some("browser-data"), []) => Ok(show_browser_data(&places)),
        (Some("collect-all"), _) => show_all(&places, &names),
        _ => Err(USAGE.to_owned()),
    }
}

fn show_browser_data(places: &SignalPlaces) -> ExitCode {
    let reports = collect_timed(Category::BrowsingBookmarks, places);
    show::sources(Category::BrowsingBookmarks, &reports);
    show::parts(&reports);
    show::text(&reports);
    let is_absent = |timed: &TimedReport| timed.report.state == SourceState::Absent;
    if reports.iter().all(is_absent) {
        println!(
            "\nNo browser was found below {}.",
            places.user_home.display()
        );
        return ExitCode::from(NOTHING_FOUND);
    }
    ExitCode::SUCCESS
}

/// Shows the categories of these names, or all.
fn show_all(places: &SignalPlaces, names: &[String]) -> Result<ExitCode, String> {
    let chosen: Result<Vec<Category>, String> = names.iter().map(|name| name.parse()).collect();
    let mut chosen = chosen?;
    if chosen.is_empty() {
        chosen = Category::ALL.to_vec();
    }
    let mut all = Vec::new();
    for category in chosen {
        let reports = collect_timed(category, places);
        show::sources(category, &reports);
        all.extend(reports);
    }
    show::text(&all);
    show::totals(&all);
    Ok(ExitCode::SUCCESS)
}

fn collect_timed(category: Category, places: &SignalPlaces) -> Vec<TimedReport> {
    let mut moments = Vec::new();
    let reports = collect_category(category, places, || {
        moments.push(Instant::now());
        Budget::begin(SOURCE_TIME, SOURCE_ENTRIES, Arc::default())
    });
    moments.push(Instant::now());
    let times = moments.windows(2).map(|pair| pair[1] - pair[0]);
    let pairs = reports.into_iter().zip(times);
    pairs
        .map(|(report, time)| TimedReport { report, time })
        .collect()
}

/// Returns this user's places, or the usual ones below another home.
fn find_places(home: Option<PathBuf>, scratch: &Path) -> Result<SignalPlaces, String> {
    let (scratch, now) = (scratch.to_owned(), SystemTime::now());
    if let Some(home) = home {
        return Ok(SignalPlaces::below(System::current(), home, scratch, now));
    }
    let home = env::home_dir().ok_or("this user has no folder")?;
    Ok(SignalPlaces::of_user(
        home,
        |name| env::var_os(name),
        scratch,
        now,
    ))
}
