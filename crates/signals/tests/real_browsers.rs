//! Profiles that real browsers make while the test visits pages: the numbers in the report are those of the visits. Needs
//! Debian's packages python3, chromium and firefox-esr, or the like. A test says that it is skipped where one is missing,
//! and fails there if `PUNIE_REQUIRE_BROWSERS=1`. By name only.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "the tests start browsers, and say where they cannot"
)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use punie_signals::{
    Budget, Category, SignalPlaces, SourceReport, SourceState, System, collect_category,
    format_report,
};
use serde::Deserialize;

const NOT_INSTALLED: i32 = 77;

#[derive(Deserialize)]
struct Visit {
    host: Option<String>,
    title: String,
}

/// A browser that has visited pages, and is still open with its profile below a home.
struct OpenBrowser {
    script: Child,
    visits: Vec<Visit>,
}

impl OpenBrowser {
    /// Opens a browser, which one of Debian's packages has. `None` if it is not installed.
    fn visit_pages(browser: &str, package: &str, home: &Path) -> Option<Self> {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/make_browser_profiles.py");
        let started = Command::new("python3")
            .arg(script)
            .arg(browser)
            .arg(home)
            .arg("--hold")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut script) = started else {
            say_skipped("python3");
            return None;
        };
        let mut line = String::new();
        let output = script.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        if line.is_empty() {
            let ended = script.wait().expect("its end");
            assert_eq!(
                ended.code(),
                Some(NOT_INSTALLED),
                "{browser} visited nothing"
            );
            say_skipped(package);
            return None;
        }
        let visits = serde_json::from_str(&line).expect("the visits as JSON");
        Some(Self { script, visits })
    }

    /// Closes the browser, which writes its profile to the end.
    fn close(mut self) -> Vec<Visit> {
        drop(self.script.stdin.take());
        assert!(self.script.wait().expect("its end").success());
        self.visits
    }
}

fn say_skipped(package: &str) {
    let text = format!("{package} is not installed. On Debian: apt-get install {package}");
    let required = std::env::var_os("PUNIE_REQUIRE_BROWSERS");
    let is_required = required.is_some_and(|value| value == "1");
    assert!(!is_required, "{text}");
    eprintln!("skipped: {text}");
}

fn collect(home: &Path, source: &str) -> SourceReport {
    let scratch = tempfile::tempdir().expect("a folder");
    let home = home.to_owned();
    let now = SystemTime::now();
    let places = SignalPlaces::below(System::Linux, home, scratch.path().to_owned(), now);
    let begin = || Budget::begin(Duration::from_mins(10), 1_000_000, Arc::default());
    let mut reports = collect_category(Category::BrowsingBookmarks, &places, begin);
    let found: Vec<&str> = reports
        .iter()
        .filter(|report| report.state != SourceState::Absent)
        .map(|report| report.source)
        .collect();
    assert_eq!(found, [source]);
    let left = std::fs::read_dir(scratch.path())
        .expect("the folder")
        .count();
    assert_eq!(left, 0, "a private copy stayed");
    reports.retain(|report| report.source == source);
    reports.remove(0)
}

/// The lines `- name (count)` below a heading.
fn counts_below(markdown: &str, heading: &str) -> BTreeMap<String, u64> {
    let lines = markdown.lines().skip_while(|line| *line != heading).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('#'));
    let count = |line: &str| {
        let (name, count) = line.strip_prefix("- ")?.rsplit_once(" (")?;
        Some((name.to_owned(), count.strip_suffix(')')?.parse().ok()?))
    };
    lines.filter_map(count).collect()
}

fn assert_counts(report: &SourceReport, visits: &[Visit]) {
    assert_eq!(report.state, SourceState::Read);
    assert_eq!(report.problems, Vec::<String>::new());
    let text = &report.sections[0].markdown;
    let mut hosts: BTreeMap<String, u64> = BTreeMap::new();
    let mut titles: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for visit in visits {
        if let Some(host) = &visit.host {
            *hosts.entry(host.clone()).or_default() += 1;
            let titles = titles.entry(host.clone()).or_default();
            *titles.entry(visit.title.clone()).or_default() += 1;
        }
    }
    assert_eq!(hosts.len(), 4);
    let recent = counts_below(text, "### Most Active (Last 7 Days)");
    assert_eq!(recent, hosts, "{text}");
    assert!(!text.contains("Long-term"), "{text}");
    for host in hosts.keys() {
        let titles = titles.remove(host).expect("its titles");
        assert_eq!(
            counts_below(text, &format!("#### {host}")),
            titles,
            "{text}"
        );
    }
    for hidden in [
        "Anna",
        "login",
        "token",
        "http",
        "old.example",
        "inner.example",
        "8080",
    ] {
        assert!(!text.contains(hidden), "{text}");
    }
    let whole = format_report(std::slice::from_ref(report));
    let hosts = counts_below(&whole, "### Most Active (Last 7 Days)");
    let hosts: Vec<&str> = hosts.keys().map(String::as_str).collect();
    assert_eq!(hosts, ["docs.example", "frames.example", "news.example"]);
}

#[test]
#[ignore = "starts browsers: cargo test -p punie-signals -- --ignored real"]
fn the_visits_of_a_real_chromium_are_counted_while_it_is_open_and_after() {
    let home = tempfile::tempdir().expect("a folder");
    let Some(browser) = OpenBrowser::visit_pages("chromium", "chromium", home.path()) else {
        return;
    };
    assert_counts(&collect(home.path(), "chromium"), &browser.visits);
    let visits = browser.close();
    assert_counts(&collect(home.path(), "chromium"), &visits);
}

#[test]
#[ignore = "starts browsers: cargo test -p punie-signals -- --ignored real"]
fn the_visits_of_a_real_firefox_are_counted_while_it_is_open_and_after() {
    let home = tempfile::tempdir().expect("a folder");
    let Some(browser) = OpenBrowser::visit_pages("firefox", "firefox-esr", home.path()) else {
        return;
    };
    assert_counts(&collect(home.path(), "firefox"), &browser.visits);
    let visits = browser.close();
    let report = collect(home.path(), "firefox");
    assert_counts(&report, &visits);
    let mut sections = report.sections.iter();
    let bookmarks = sections.find(|section| section.title == "Bookmarks (Firefox)");
    let text = bookmarks.map(|section| section.markdown.as_str());
    assert_eq!(text, Some("### Reading\n\n- A kept page (docs.example)"));
}
