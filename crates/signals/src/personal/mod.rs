//! Messages, notes, reminders and calendars: numbers and the names of folders and calendars, never their text. The owner's
//! contacts are numbered; who they are is in `SourceReport::people` only, for the owner's identity map.
//!
//! - `messages`: conversations of Messages on macOS.
//! - `notes`, `reminders`, `calendars`: of macOS, each over the schemas that are known.
//! - `sticky_notes`: of Windows.

mod calendars;
mod messages;
mod notes;
mod reminders;
mod sticky_notes;

use std::path::PathBuf;

use rusqlite::Connection;

use super::file_access::may_exist;
use super::foreign_rows::with_database;
use super::report::Source;
use super::{Budget, Section, SignalPlaces, SourceReport, Tier};

pub(crate) const SOURCES: &[Source] = &[
    ("messages", messages::collect),
    ("notes", notes::collect),
    ("reminders", reminders::collect),
    ("calendars", calendars::collect),
    ("sticky_notes", sticky_notes::collect),
];

/// Reads databases of one program into the lines of one section. A database that is not there is passed over.
fn collect_lines(
    source: &'static str,
    title: &str,
    databases: &[PathBuf],
    (places, budget): (&SignalPlaces, &Budget),
    mut read: impl FnMut(&Connection, &mut Vec<String>) -> Result<(), String>,
) -> SourceReport {
    let mut lines = Vec::new();
    let mut problems = Vec::new();
    let mut found = 0;
    let mut failed = 0;
    for path in databases.iter().filter(|path| may_exist(path)) {
        found += 1;
        match with_database(path, places, budget, |database| read(database, &mut lines)) {
            Ok(lacking) => problems.extend(lacking),
            Err(problem) => {
                failed += 1;
                problems.push(problem);
            }
        }
    }
    if found == 0 {
        return SourceReport::absent(source);
    }
    if failed == found {
        return SourceReport::failed(source, problems.join("; "));
    }
    let section = (!lines.is_empty()).then(|| Section {
        title: title.to_owned(),
        tier: Tier::Interest,
        markdown: lines.join("\n"),
    });
    SourceReport {
        problems,
        ..SourceReport::read(source, section.into_iter().collect())
    }
}

/// Formats a count with its noun: `1 note`, `1204 notes`.
fn format_count(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
pub(super) mod test_places {
    use std::path::Path;
    use std::time::{Duration, UNIX_EPOCH};

    use crate::test_places::open_database;
    use crate::{SignalPlaces, SourceReport, SourceState, System};

    /// The seconds since 1970 of the moment of collection: 14 November 2023.
    pub const NOW: u64 = 1_700_000_000;

    pub fn places(home: &Path, system: System) -> SignalPlaces {
        let now = UNIX_EPOCH + Duration::from_secs(NOW);
        SignalPlaces::below(system, home.to_owned(), home.to_owned(), now)
    }

    /// Makes a database below the home by a script.
    pub fn make_database(home: &Path, path: &str, script: &str) {
        let path = home.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let database = open_database(&path);
        database.execute_batch(script).expect("a valid script");
    }

    pub fn only_text(report: &SourceReport) -> &str {
        assert_eq!(report.state, SourceState::Read, "{report:?}");
        assert_eq!(report.problems, Vec::<String>::new());
        &report.sections[0].markdown
    }
}
