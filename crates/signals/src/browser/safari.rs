//! `History.db` and `Bookmarks.plist` of Safari.

use std::path::PathBuf;

use plist::{Dictionary, Value};
use rusqlite::Connection;

use super::bookmarks::Bookmarks;
use super::chromium_profiles::MAX_PROFILES;
use super::{RECENT_DAYS, VisitedPages};
use crate::epoch::{apple_seconds, days_before};
use crate::file_access::{list_folder, may_exist, read_if_present};
use crate::foreign_rows::{for_each_row, read_count, read_text, require_columns};
use crate::property_list::parse_property_list;
use crate::{Budget, SignalPlaces, System};

const MAX_BOOKMARKS_BYTES: u64 = 32 << 20;
/// The list of pages to read later. Its title is this name in every language.
const READING_LIST: &str = "com.apple.ReadingList";

/// Returns the histories: that of the first profile, and since macOS 14 those of others.
pub(super) fn find_databases(places: &SignalPlaces, budget: &Budget) -> Vec<PathBuf> {
    if places.system != System::MacOs {
        return Vec::new();
    }
    let library = places.user_home.join("Library");
    let container = library.join("Containers/com.apple.Safari/Data/Library/Safari");
    let mut folders = vec![library.join("Safari")];
    let profiles = list_folder(&container.join("Profiles"), budget).unwrap_or_default();
    folders.extend(profiles.into_iter().map(|profile| profile.path));
    let databases = folders.into_iter().map(|folder| folder.join("History.db"));
    databases
        .filter(|path| may_exist(path))
        .take(MAX_PROFILES)
        .collect()
}

/// Adds the visits of a history. A page that only redirects is no visit.
pub(super) fn read_history(
    database: &Connection,
    places: &SignalPlaces,
    budget: &Budget,
    pages: &mut VisitedPages,
) -> Result<(), String> {
    require_columns(database, "history_items", &["id", "url", "visit_count"])?;
    let columns = [
        "history_item",
        "visit_time",
        "title",
        "redirect_destination",
    ];
    require_columns(database, "history_visits", &columns)?;
    let since = apple_seconds(days_before(places.now, RECENT_DAYS));
    let recent = "SELECT substr(i.url, 1, 20000)
        FROM history_visits v JOIN history_items i ON i.id = v.history_item
        WHERE v.visit_time >= ?1 AND v.redirect_destination IS NULL ORDER BY v.visit_time DESC";
    for_each_row(database, budget, recent, [since], |row| {
        pages.add_recent_visit(&read_text(row, 0));
    })?;
    // With MAX, SQLite takes the other columns from the row that has it: the title of the last visit.
    let all_time = "SELECT substr(i.url, 1, 20000), substr(v.title, 1, 2000), i.visit_count, MAX(v.visit_time)
        FROM history_items i JOIN history_visits v ON v.history_item = i.id GROUP BY i.id ORDER BY i.id DESC";
    for_each_row(database, budget, all_time, [], |row| {
        pages.add(&read_text(row, 0), &read_text(row, 1), read_count(row, 2));
    })
}

/// Returns the file of bookmarks, if it is there.
pub(super) fn find_bookmarks(places: &SignalPlaces) -> Option<PathBuf> {
    let path = places.user_home.join("Library/Safari/Bookmarks.plist");
    (places.system == System::MacOs && may_exist(&path)).then_some(path)
}

/// Adds the bookmarks.
///
/// # Errors
/// A text for people: the file is damaged or too large.
pub(super) fn read_bookmarks(
    places: &SignalPlaces,
    budget: &Budget,
    bookmarks: &mut Bookmarks,
) -> Result<(), String> {
    let path = places.user_home.join("Library/Safari/Bookmarks.plist");
    let Some(bytes) = read_if_present(&path, MAX_BOOKMARKS_BYTES)? else {
        return Ok(());
    };
    let list = parse_property_list(&bytes, budget)?;
    let root = list.as_dictionary().ok_or("it has no list of bookmarks")?;
    for child in children(root) {
        let name = match text(child, "Title") {
            // The bar and the menu are Safari's own folders.
            "BookmarksBar" | "BookmarksMenu" => "",
            READING_LIST => "Reading List",
            title => title,
        };
        add_node(child, name, budget, bookmarks);
    }
    Ok(())
}

/// Adds a bookmark, or those below a folder. The depth is bounded by the reader of the list.
fn add_node(node: &Dictionary, folder: &str, budget: &Budget, bookmarks: &mut Bookmarks) {
    if !bookmarks.has_room() || !budget.take_entry() {
        return;
    }
    match text(node, "WebBookmarkType") {
        "WebBookmarkTypeLeaf" => {
            let titles = node.get("URIDictionary").and_then(Value::as_dictionary);
            let title = titles.map_or("", |titles| text(titles, "title"));
            bookmarks.add(folder, title, text(node, "URLString"));
        }
        "WebBookmarkTypeList" => {
            for child in children(node) {
                let is_folder = text(child, "WebBookmarkType") == "WebBookmarkTypeList";
                let own = if is_folder {
                    text(child, "Title").trim()
                } else {
                    ""
                };
                add_node(
                    child,
                    if own.is_empty() { folder } else { own },
                    budget,
                    bookmarks,
                );
            }
        }
        // Proxies stand for the history and the like.
        _ => {}
    }
}

fn children(node: &Dictionary) -> impl Iterator<Item = &Dictionary> {
    let values = node.get("Children").and_then(Value::as_array);
    values
        .into_iter()
        .flatten()
        .filter_map(Value::as_dictionary)
}

fn text<'a>(node: &'a Dictionary, key: &str) -> &'a str {
    node.get(key).and_then(Value::as_string).unwrap_or_default()
}
