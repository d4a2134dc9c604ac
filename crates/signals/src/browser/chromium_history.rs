//! `History` and `Bookmarks` of a profile of the Chromium family.

use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;

use super::bookmarks::Bookmarks;
use super::{RECENT_DAYS, VisitedPages};
use crate::epoch::{chromium_micros, days_before};
use crate::file_access::read_if_present;
use crate::foreign_rows::{for_each_row, has_columns, read_count, read_text, require_columns};
use crate::{Budget, SignalPlaces};

const MAX_BOOKMARKS_BYTES: u64 = 32 << 20;
/// Tells visits from frames (3, 4), reloads (8) and the pages of a chain of redirects before its last.
const IS_VISIT: &str =
    "(visits.transition & 0xFF) NOT IN (3, 4, 8) AND (visits.transition & 0x20000000) != 0";

/// Adds the visits of a history. Frames and reloads are no visits, and of a chain of redirects only the last page is one.
pub(super) fn read_history(
    database: &Connection,
    places: &SignalPlaces,
    budget: &Budget,
    pages: &mut VisitedPages,
) -> Result<(), String> {
    require_columns(
        database,
        "urls",
        &["id", "url", "title", "visit_count", "hidden"],
    )?;
    require_columns(database, "visits", &["url", "visit_time", "transition"])?;
    let since = chromium_micros(days_before(places.now, RECENT_DAYS));
    // The newest first, for the case that the budget ends. The browser has an index of these times.
    let recent = format!(
        "SELECT substr(urls.url, 1, 20000) FROM visits JOIN urls ON urls.id = visits.url
        WHERE visits.visit_time >= ?1 AND urls.hidden = 0 AND {IS_VISIT} ORDER BY visits.visit_time DESC"
    );
    for_each_row(database, budget, &recent, [since], |row| {
        pages.add_recent_visit(&read_text(row, 0));
    })?;
    // The newest pages first again. The browser counts a redirect as a visit of its page too,
    // and forgets single visits before pages.
    let all_time = format!(
        "SELECT substr(url, 1, 20000), substr(title, 1, 2000), visit_count FROM urls
        WHERE hidden = 0 AND (EXISTS (SELECT 1 FROM visits WHERE visits.url = urls.id AND {IS_VISIT})
            OR NOT EXISTS (SELECT 1 FROM visits WHERE visits.url = urls.id))
        ORDER BY id DESC"
    );
    for_each_row(database, budget, &all_time, [], |row| {
        pages.add(&read_text(row, 0), &read_text(row, 1), read_count(row, 2));
    })?;
    // Browsers of the family that have no such groups of visits have no such table.
    if has_columns(database, "clusters", &["label"]) {
        let topics = "SELECT substr(label, 1, 2000), COUNT(*) FROM clusters WHERE label != ''
            GROUP BY label ORDER BY COUNT(*) DESC LIMIT 40";
        for_each_row(database, budget, topics, [], |row| {
            pages.add_topic(&read_text(row, 0), read_count(row, 1));
        })?;
    }
    Ok(())
}

/// Adds the bookmarks of a profile: its own, and those of the account that is signed in.
///
/// # Errors
/// A text for people: a file is damaged or too large.
pub(super) fn read_bookmarks(
    profile: &Path,
    budget: &Budget,
    bookmarks: &mut Bookmarks,
) -> Result<(), String> {
    for name in ["Bookmarks", "AccountBookmarks"] {
        let Some(bytes) = read_if_present(&profile.join(name), MAX_BOOKMARKS_BYTES)? else {
            continue;
        };
        let file: Value = serde_json::from_slice(&bytes).map_err(|_| "it is no valid JSON")?;
        let roots = file.get("roots").and_then(Value::as_object);
        for root in roots.into_iter().flat_map(|roots| roots.values()) {
            // The browser's own folders (the bar and the like) are no folders of the owner's.
            add_children(root, "", budget, bookmarks);
        }
    }
    Ok(())
}

/// Adds the bookmarks below a folder. The depth is bounded by the JSON parser.
fn add_children(folder: &Value, name: &str, budget: &Budget, bookmarks: &mut Bookmarks) {
    let children = folder.get("children").and_then(Value::as_array);
    for child in children.into_iter().flatten() {
        if !bookmarks.has_room() || !budget.take_entry() {
            return;
        }
        let text = |key: &str| child.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "folder" if text("name").trim().is_empty() => {
                add_children(child, name, budget, bookmarks);
            }
            "folder" => add_children(child, text("name"), budget, bookmarks),
            "url" => bookmarks.add(name, text("name"), text("url")),
            _ => {}
        }
    }
}
