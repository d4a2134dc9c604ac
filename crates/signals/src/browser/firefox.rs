//! Profiles of Firefox, and the history and bookmarks in their `places.sqlite`.

use std::path::{Component, Path, PathBuf};

use rusqlite::Connection;

use super::bookmarks::Bookmarks;
use super::chromium_profiles::MAX_PROFILES;
use super::{RECENT_DAYS, VisitedPages};
use crate::epoch::{days_before, unix_micros};
use crate::file_access::{EntryKind, exists, list_folder, read_if_present};
use crate::foreign_rows::{for_each_row, read_count, read_text, require_columns};
use crate::{Budget, SignalPlaces};

const MAX_PROFILES_INI_BYTES: u64 = 1 << 20;

/// Returns the databases of the profiles below a root, and whether there are more than [`MAX_PROFILES`]. Those that
/// `profiles.ini` lists are the first. Since version 138, profiles of one group are in no list but a database of the
/// browser's, so the folders are looked at too.
pub(super) fn find_databases(root: &Path, budget: &Budget) -> (Vec<PathBuf>, bool) {
    let bytes = read_if_present(&root.join("profiles.ini"), MAX_PROFILES_INI_BYTES);
    let text = String::from_utf8_lossy(&bytes.ok().flatten().unwrap_or_default()).into_owned();
    let listed = listed_folders(&text)
        .into_iter()
        .map(|path| root.join(path));
    let found = [root.to_owned(), root.join("Profiles")];
    let found = found
        .iter()
        .flat_map(|parent| list_folder(parent, budget).unwrap_or_default());
    let found = found.filter(|entry| entry.kind == EntryKind::Folder);
    let mut databases = Vec::new();
    for folder in listed.chain(found.map(|entry| entry.path)) {
        let database = folder.join("places.sqlite");
        if exists(&database) && !databases.contains(&database) {
            databases.push(database);
        }
    }
    let has_more = databases.len() > MAX_PROFILES;
    databases.truncate(MAX_PROFILES);
    (databases, has_more)
}

/// Reads the folders of profiles, relative to that of the file unless it says otherwise.
fn listed_folders(profiles_ini: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for section in profiles_ini.split("\n[").filter(|section| {
        section
            .trim_start_matches(['[', '\u{feff}'])
            .starts_with("Profile")
    }) {
        let value = |key: &str| {
            let lines = section.lines().filter_map(|line| line.split_once('='));
            let mut values = lines.filter(|(name, _)| name.trim() == key);
            values.next().map(|(_, value)| value.trim())
        };
        let Some(path) = value("Path").filter(|path| !path.is_empty()) else {
            continue;
        };
        let path = PathBuf::from(path);
        let is_below = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let is_elsewhere = value("IsRelative") == Some("0") && path.is_absolute();
        if is_below || is_elsewhere {
            folders.push(path);
        }
    }
    folders
}

/// Adds the visits of a history. Frames, downloads and reloads are no visits, nor is a page that only redirects: Firefox
/// hides it.
pub(super) fn read_history(
    database: &Connection,
    places: &SignalPlaces,
    budget: &Budget,
    pages: &mut VisitedPages,
) -> Result<(), String> {
    require_columns(
        database,
        "moz_places",
        &["id", "url", "title", "visit_count", "hidden"],
    )?;
    require_columns(
        database,
        "moz_historyvisits",
        &["place_id", "visit_date", "visit_type"],
    )?;
    let since = unix_micros(days_before(places.now, RECENT_DAYS));
    let recent = "SELECT substr(p.url, 1, 20000)
        FROM moz_historyvisits v JOIN moz_places p ON p.id = v.place_id
        WHERE v.visit_date >= ?1 AND p.hidden = 0 AND v.visit_type NOT IN (4, 7, 8, 9)
        ORDER BY v.visit_date DESC";
    for_each_row(database, budget, recent, [since], |row| {
        pages.add_recent_visit(&read_text(row, 0));
    })?;
    let all_time =
        "SELECT substr(url, 1, 20000), substr(title, 1, 2000), visit_count FROM moz_places
        WHERE hidden = 0 AND visit_count > 0 ORDER BY id DESC";
    for_each_row(database, budget, all_time, [], |row| {
        pages.add(&read_text(row, 0), &read_text(row, 1), read_count(row, 2));
    })
}

/// Adds the bookmarks, the newest first. A tag is a folder too, whose bookmarks stand elsewhere already. The folder with
/// the program's name comes with a new profile.
pub(super) fn read_bookmarks(
    database: &Connection,
    budget: &Budget,
    bookmarks: &mut Bookmarks,
) -> Result<(), String> {
    require_columns(
        database,
        "moz_bookmarks",
        &["type", "fk", "parent", "title", "guid", "dateAdded"],
    )?;
    let sql = "SELECT CASE WHEN f.guid IN ('root________', 'menu________', 'toolbar_____', 'unfiled_____', 'mobile______')
            THEN '' ELSE substr(f.title, 1, 2000) END, substr(b.title, 1, 2000), substr(p.url, 1, 20000)
        FROM moz_bookmarks b JOIN moz_places p ON p.id = b.fk JOIN moz_bookmarks f ON f.id = b.parent
            LEFT JOIN moz_bookmarks g ON g.id = f.parent
        WHERE b.type = 1 AND f.title IS NOT 'Mozilla Firefox' AND f.guid IS NOT 'tags________' AND g.guid IS NOT 'tags________'
        ORDER BY b.dateAdded DESC";
    for_each_row(database, budget, sql, [], |row| {
        bookmarks.add(&read_text(row, 0), &read_text(row, 1), &read_text(row, 2));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profiles_of_a_list_are_found_by_their_paths() {
        let text = "[Install4F96D1932A9F858E]\nDefault=abc.default-release\nLocked=1\n\n\
            [Profile1]\r\nName=default\r\nIsRelative=1\r\nPath=xyz.default\r\nDefault=1\r\n\n\
            [Profile0]\nName=default-release\nIsRelative=1\nPath=Profiles/abc.default-release\n\n\
            [Profile2]\nName=out\nIsRelative=1\nPath=../../etc\n\n[Profile3]\nIsRelative=0\nPath=/data/fox\n\n\
            [General]\nStartWithLastProfile=1\nVersion=2\n";
        let expected = ["xyz.default", "Profiles/abc.default-release", "/data/fox"];
        assert_eq!(listed_folders(text), expected.map(PathBuf::from));
        assert_eq!(
            listed_folders("[Profile0]\nPath=only"),
            [PathBuf::from("only")]
        );
        assert_eq!(listed_folders(""), Vec::<PathBuf>::new());
    }
}
