//! User signals: the command, the tool, and the files that they open.

mod agreeing;
mod commands;
mod opened_files;

use std::path::{Path, PathBuf};

use crate::harness::process::RunningProgram;
use crate::harness::stage::RunnerFixture;

const CHROME_SCHEMA: &str =
    include_str!("../../../crates/signals/tests/fixtures/schemas/chromium_history_v70.sql");

/// Writes a file below a folder.
fn write_below(folder: &Path, path: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(&path, bytes).expect("written");
    path
}

/// Creates a Chrome history in which a page was visited this many times a day ago.
fn make_chrome_history(home: &Path, title: &str, visits: u32) -> PathBuf {
    let path = write_below(home, ".config/google-chrome/Default/History", "");
    let database = rusqlite::Connection::open(&path).expect("a database");
    let since_1601 = 11_644_473_600_i64;
    let now = jiff::Timestamp::now().as_second();
    let day_ago = (since_1601 + now - 86_400) * 1_000_000;
    database.execute_batch(CHROME_SCHEMA).expect("tables");
    database
        .execute(
            "INSERT INTO urls (id, url, title, visit_count, last_visit_time)
             VALUES (1, 'https://rust.example/book?token=x', ?1, ?2, ?3)",
            (title, visits, day_ago),
        )
        .expect("a page");
    for _ in 0..visits {
        let visit = "INSERT INTO visits (url, visit_time, transition) VALUES (1, ?1, 0x30000001)";
        database.execute(visit, [day_ago]).expect("a visit");
    }
    path
}

/// Starts `signals` with these arguments for a user with this home folder and no system applications.
fn start_signals(setup: &RunnerFixture, user: &Path, words: &[&str]) -> RunningProgram {
    let args = [&["signals"], words].concat();
    let variables = [
        ("HOME", user.as_os_str()),
        ("XDG_DATA_DIRS", "/nonexistent".as_ref()),
    ];
    RunningProgram::start_with(&setup.setting, &args, &variables)
}
