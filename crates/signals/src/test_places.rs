//! Folders of a made-up owner, for the tests of sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use punie_core::record_locks;
use rusqlite::Connection;
use tempfile::TempDir;

use super::{Budget, SignalPlaces, SourceReport, System};

/// The schema of a database in one version, by the name of its file in `tests/fixtures/schemas`.
macro_rules! schema {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/schemas/",
            $name,
            ".sql"
        ))
    };
}
pub(crate) use schema;

/// A moment in 2026, so that no test depends on the day.
pub(crate) const NOW_SECONDS: u64 = 1_790_000_000;

/// The user's folder, and a folder for private copies.
pub(crate) struct TestPlaces {
    folder: TempDir,
    pub places: SignalPlaces,
}

impl TestPlaces {
    pub fn new(system: System) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().join("home");
        let scratch = folder.path().join("scratch");
        for made in [&home, &scratch] {
            fs::create_dir(made).expect("a folder");
        }
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW_SECONDS);
        let places = SignalPlaces::below(system, home, scratch, now);
        Self { folder, places }
    }

    /// A path beside the user's folder.
    pub fn beside_home(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Writes a file below the user's folder.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.places.user_home.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, content).expect("a file");
        path
    }

    /// Makes a folder below the user's folder.
    pub fn make_folder(&self, path: &str) -> PathBuf {
        let path = self.places.user_home.join(path);
        fs::create_dir_all(&path).expect("a folder");
        path
    }

    /// Sets the time of the last change of a file or folder to so many days before the moment of the collection.
    pub fn set_age(&self, path: &Path, days: u64) {
        let time = self.places.now - Duration::from_secs(days * 86_400);
        let file = fs::File::open(path).expect("it");
        file.set_modified(time).expect("a time");
    }
}

pub(crate) fn budget() -> Budget {
    Budget::begin(Duration::from_mins(10), 1_000_000, Arc::default())
}

/// The text of all sections with their titles.
pub(crate) fn text(report: &SourceReport) -> String {
    let section =
        |section: &super::Section| format!("## {}\n{}\n", section.title, section.markdown);
    report.sections.iter().map(section).collect()
}

/// Opens a database, a new one if there is none.
pub(crate) fn open_database(path: &Path) -> Connection {
    record_locks::install_lock_calls();
    Connection::open(path).expect("a database")
}
