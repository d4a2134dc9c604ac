//! History and bookmarks of browsers. Each browser is a source of its own, so that one that is locked or damaged takes
//! nothing from the others. All profiles of a browser are summed up. No address leaves this module, only hosts and titles.
//!
//! - `browser_table`: the browsers of the Chromium family, and where they keep profiles; the folders of Firefox.
//! - `chromium_profiles`, `chromium_history`, `firefox`, `safari`: the formats.
//! - `page_address`: hosts, and the pages that are never counted; `page_title`: the titles that say something.
//! - `visited_pages`, `bookmarks`: what is counted, and the Markdown.

mod bookmarks;
mod browser_table;
mod chromium_history;
mod chromium_profiles;
mod firefox;
mod page_address;
mod page_title;
mod safari;
#[cfg(test)]
mod tests;
mod visited_pages;

use std::path::Path;

use bookmarks::Bookmarks;
use browser_table::{
    ARC, BRAVE, CHROME, CHROMIUM, ChromiumBrowser, EDGE, OPERA, VIVALDI, firefox_roots,
};
use visited_pages::VisitedPages;

use super::file_access::{exists, listing_problem};
use super::foreign_rows::with_database;
use super::report::Source;
use super::{Budget, Section, SignalPlaces, SourceReport, Tier};

/// The days of "recent" visits.
const RECENT_DAYS: u64 = 7;

pub(crate) const SOURCES: &[Source] = &[
    ("chrome", |places, budget| {
        collect_chromium("chrome", &CHROME, places, budget)
    }),
    ("chromium", |places, budget| {
        collect_chromium("chromium", &CHROMIUM, places, budget)
    }),
    ("edge", |places, budget| {
        collect_chromium("edge", &EDGE, places, budget)
    }),
    ("brave", |places, budget| {
        collect_chromium("brave", &BRAVE, places, budget)
    }),
    ("arc", |places, budget| {
        collect_chromium("arc", &ARC, places, budget)
    }),
    ("opera", |places, budget| {
        collect_chromium("opera", &OPERA, places, budget)
    }),
    ("vivaldi", |places, budget| {
        collect_chromium("vivaldi", &VIVALDI, places, budget)
    }),
    ("firefox", collect_firefox),
    ("safari", collect_safari),
];

/// What was read of one browser.
#[derive(Default)]
struct Reading {
    pages: VisitedPages,
    bookmarks: Bookmarks,
    problems: Vec<String>,
    is_found: bool,
    is_read: bool,
}

impl Reading {
    /// Records how the reading of one file ended.
    fn record(&mut self, file: &str, result: Result<Option<String>, String>) {
        self.is_found = true;
        self.is_read |= result.is_ok();
        match result {
            Ok(lacking) => self
                .problems
                .extend(lacking.map(|problem| format!("{file}: {problem}"))),
            Err(problem) => self
                .problems
                .push(format!("{file} could not be read: {problem}")),
        }
    }

    /// Records a folder of profiles that is there and cannot be listed.
    fn record_listing(&mut self, root: &Path) {
        if let Some(problem) = listing_problem(root) {
            self.record("the folder of profiles", Err(problem));
        }
    }

    fn record_profiles(&mut self, has_more: bool) {
        if has_more {
            let max = chromium_profiles::MAX_PROFILES;
            self.problems.push(format!(
                "it has more than {max} profiles; the others were left out"
            ));
        }
    }

    fn into_report(self, source: &'static str, name: &str) -> SourceReport {
        if !self.is_found {
            return SourceReport::absent(source);
        }
        if !self.is_read {
            return SourceReport::failed(source, self.problems.join("; "));
        }
        let history = self.pages.into_markdown().map(|markdown| Section {
            title: format!("Browser Data ({name})"),
            tier: Tier::Work,
            markdown,
        });
        let bookmarks = self.bookmarks.to_markdown().map(|markdown| Section {
            title: format!("Bookmarks ({name})"),
            tier: Tier::Interest,
            markdown,
        });
        SourceReport {
            problems: self.problems,
            ..SourceReport::read(source, history.into_iter().chain(bookmarks).collect())
        }
    }
}

fn collect_chromium(
    source: &'static str,
    browser: &ChromiumBrowser,
    places: &SignalPlaces,
    budget: &Budget,
) -> SourceReport {
    let mut reading = Reading::default();
    for root in browser.roots(places) {
        reading.record_listing(&root);
        let (profiles, has_more) = chromium_profiles::find_profiles(&root);
        reading.record_profiles(has_more);
        for profile in profiles {
            let history = profile.join("History");
            if exists(&history) {
                let read = with_database(&history, places, budget, |database| {
                    chromium_history::read_history(database, places, budget, &mut reading.pages)
                });
                reading.record("a history", read);
            }
            if exists(&profile.join("Bookmarks")) || exists(&profile.join("AccountBookmarks")) {
                let read =
                    chromium_history::read_bookmarks(&profile, budget, &mut reading.bookmarks);
                reading.record("a file of bookmarks", read.map(|()| None));
            }
        }
    }
    reading.into_report(source, browser.name)
}

fn collect_firefox(places: &SignalPlaces, budget: &Budget) -> SourceReport {
    let mut reading = Reading::default();
    for root in firefox_roots(places) {
        reading.record_listing(&root);
        let (databases, has_more) = firefox::find_databases(&root, budget);
        reading.record_profiles(has_more);
        for path in databases {
            let read = with_database(&path, places, budget, |database| {
                firefox::read_history(database, places, budget, &mut reading.pages)?;
                firefox::read_bookmarks(database, budget, &mut reading.bookmarks)
            });
            reading.record("a history", read);
        }
    }
    reading.into_report("firefox", "Firefox")
}

fn collect_safari(places: &SignalPlaces, budget: &Budget) -> SourceReport {
    let mut reading = Reading::default();
    for path in safari::find_databases(places, budget) {
        let read = with_database(&path, places, budget, |database| {
            safari::read_history(database, places, budget, &mut reading.pages)
        });
        reading.record("a history", read);
    }
    if safari::find_bookmarks(places).is_some() {
        let read = safari::read_bookmarks(places, budget, &mut reading.bookmarks);
        reading.record("the file of bookmarks", read.map(|()| None));
    }
    reading.into_report("safari", "Safari")
}
