//! User signals: the command, the tool, and what is opened for them.

mod agreeing;
mod commands;
mod opened_files;

use std::path::{Path, PathBuf};

use crate::harness::process::Program;
use crate::harness::stage::Stage;

/// Writes a file below a folder.
fn write_below(folder: &Path, path: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(&path, bytes).expect("written");
    path
}

/// Makes a history of Chrome in which a page was visited so often in the last days.
fn make_chrome_history(home: &Path, title: &str, visits: u32) -> PathBuf {
    let path = write_below(home, ".config/google-chrome/Default/History", "");
    let database = rusqlite::Connection::open(&path).expect("a database");
    let since_1601 = 11_644_473_600_i64;
    let now = jiff::Timestamp::now().as_second();
    let day_ago = (since_1601 + now - 86_400) * 1_000_000;
    // The columns that Chrome 156 has and that are read.
    let tables =
        "CREATE TABLE urls (id INTEGER PRIMARY KEY, url TEXT, title TEXT, visit_count INTEGER, \
                  hidden INTEGER);
                  CREATE TABLE visits (id INTEGER PRIMARY KEY, url INTEGER, visit_time INTEGER, transition INTEGER);";
    database.execute_batch(tables).expect("tables");
    database
        .execute(
            "INSERT INTO urls VALUES (1, 'https://rust.example/book?token=x', ?1, ?2, 0)",
            (title, visits),
        )
        .expect("a page");
    for _ in 0..visits {
        let visit = "INSERT INTO visits (url, visit_time, transition) VALUES (1, ?1, 0x30000001)";
        database.execute(visit, [day_ago]).expect("a visit");
    }
    path
}

/// Starts `signals` with these words for a user with this folder and no programs of the system.
fn start_signals(stage: &Stage, user: &Path, words: &[&str]) -> Program {
    let args = [&["signals"], words].concat();
    let variables = [
        ("HOME", user.as_os_str()),
        ("XDG_DATA_DIRS", "/nonexistent".as_ref()),
    ];
    Program::start_with(&stage.setting, &args, &variables)
}
