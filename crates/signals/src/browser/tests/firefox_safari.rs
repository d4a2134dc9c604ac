//! Histories and bookmarks of Firefox and Safari.

use super::*;

/// The folders that each profile has, one of the owner's, and a tag.
const FIREFOX_FOLDERS: &str = "
    INSERT INTO moz_bookmarks (id, type, parent, title, guid) VALUES (1, 2, 0, '', 'root________'),
        (2, 2, 1, 'menu', 'menu________'), (4, 2, 1, 'tags', 'tags________'), (7, 2, 2, 'Rust', 'abcdefghijkl'),
        (8, 2, 4, 'a tag', 'mnopqrstuvwx');";
const FIREFOX_BOOKMARKS: &str =
    "### Rust\n\n- Kept (kept.example)\n\n### In no folder\n\n- Loose (a.example)";

fn firefox_script() -> String {
    format!("{}{}", schema!("firefox_places_v86"), firefox_rows())
}

fn firefox_rows() -> String {
    let recent = (now() - 2 * DAY) * 1_000_000;
    let old = (now() - 30 * DAY) * 1_000_000;
    format!(
        "{FIREFOX_FOLDERS}
        INSERT INTO moz_places (id, url, title, visit_count, hidden) VALUES (1, 'https://www.a.example/a', 'Page A', 12, 0),
            (2, 'https://old.example/', 'Old', 5, 0), (3, 'https://moved.example/', NULL, 9, 1),
            (4, 'https://kept.example/?token=1', 'Kept', 0, 0);
        INSERT INTO moz_historyvisits (place_id, visit_date, visit_type) VALUES (1, {recent}, 1), (1, {recent}, 6),
            (1, {recent}, 9), (1, {recent}, 8), (1, {old}, 1), (2, {old}, 2), (3, {recent}, 1);
        INSERT INTO moz_historyvisits (place_id, visit_date, visit_type)
            SELECT place_id, visit_date, visit_type FROM moz_historyvisits, (VALUES (1), (2));
        INSERT INTO moz_bookmarks (type, fk, parent, title, dateAdded, guid) VALUES (1, 4, 7, 'Kept', 5, 'g1'),
            (1, 1, 2, 'Loose', 4, 'g2'), (1, 4, 8, NULL, 3, 'g3');"
    )
}

#[test]
fn firefox_is_found_where_its_system_keeps_it() {
    let cases = [
        (System::Linux, ".mozilla/firefox", "abc.default"),
        (System::Linux, ".config/mozilla/firefox", "abc.default"),
        (
            System::Linux,
            ".var/app/org.mozilla.firefox/.mozilla/firefox",
            "abc.default",
        ),
        (
            System::Linux,
            ".var/app/org.mozilla.firefox/config/mozilla/firefox",
            "abc.default",
        ),
        (
            System::Linux,
            "snap/firefox/common/.mozilla/firefox",
            "abc.default",
        ),
        (
            System::MacOs,
            "Library/Application Support/Firefox",
            "Profiles/abc.default",
        ),
        (
            System::Windows,
            "AppData/Roaming/Mozilla/Firefox",
            "Profiles/abc.default",
        ),
    ];
    for (system, root, profile) in cases {
        let home = tempfile::tempdir().expect("a folder");
        make_database(
            home.path(),
            &format!("{root}/{profile}/places.sqlite"),
            &firefox_script(),
        );
        write(
            home.path(),
            &format!("{root}/profiles.ini"),
            format!("[Profile0]\nName=x\nIsRelative=1\nPath={profile}\n"),
        );
        let report = collect("firefox", home.path(), system);
        assert_eq!(only_text(&report), CHROMIUM_TEXT, "{root}");
        assert_eq!(report.sections[1].markdown, FIREFOX_BOOKMARKS, "{root}");
    }
}

#[test]
fn the_places_of_firefox_are_read_in_each_schema() {
    for schema in [
        schema!("firefox_places_v25"),
        schema!("firefox_places_v52"),
        schema!("firefox_places_v86"),
    ] {
        let home = tempfile::tempdir().expect("a folder");
        let path = ".mozilla/firefox/abc.default/places.sqlite";
        make_database(home.path(), path, &format!("{schema}{}", firefox_rows()));
        let report = collect("firefox", home.path(), System::Linux);
        assert_eq!(only_text(&report), CHROMIUM_TEXT, "{schema}");
        assert_eq!(report.sections[1].markdown, FIREFOX_BOOKMARKS, "{schema}");
    }
}

#[test]
fn profiles_of_firefox_that_no_list_names_are_read_once() {
    let home = tempfile::tempdir().expect("a folder");
    let root = ".config/mozilla/firefox";
    for profile in ["abc.default", "xyz.work", "Profiles/old"] {
        let path = format!("{root}/{profile}/places.sqlite");
        make_database(home.path(), &path, &firefox_script());
    }
    let list = "[Profile0]\nIsRelative=1\nPath=abc.default\nStoreID=682f999a\n";
    write(home.path(), &format!("{root}/profiles.ini"), list);
    let report = collect("firefox", home.path(), System::Linux);
    let text = only_text(&report);
    assert!(text.contains("- a.example (18)\n"), "{text}");
}

#[test]
fn safari_is_read_by_its_addresses_and_its_epoch_in_each_schema() {
    for (schema, has_score) in [
        (schema!("safari_history_9"), false),
        (schema!("safari_history_13"), true),
        (schema!("safari_history_26"), true),
    ] {
        let home = tempfile::tempdir().expect("a folder");
        let script = schema.to_owned() + &safari_rows(has_score);
        make_database(home.path(), "Library/Safari/History.db", &script);
        let report = collect("safari", home.path(), System::MacOs);
        assert_eq!(only_text(&report), CHROMIUM_TEXT, "{schema}");
        let elsewhere = collect("safari", home.path(), System::Linux);
        assert_eq!(elsewhere.state, SourceState::Absent);
        // A second profile, as macOS 14 and later keep it.
        let other =
            "Library/Containers/com.apple.Safari/Data/Library/Safari/Profiles/1F2E-33/History.db";
        make_database(home.path(), other, &script);
        let report = collect("safari", home.path(), System::MacOs);
        assert!(
            only_text(&report).contains("- a.example (12)\n"),
            "{report:?}"
        );
    }
}

fn safari_rows(has_score: bool) -> String {
    let recent = now() - 978_307_200 - 2 * DAY;
    let old = now() - 978_307_200 - 30 * DAY;
    let (score, zero) = if has_score {
        (", visit_count_score", ", 0")
    } else {
        ("", "")
    };
    format!(
        "INSERT INTO history_items (id, url, domain_expansion, visit_count, daily_visit_counts,
            should_recompute_derived_visit_counts{score}) VALUES
            (1, 'https://www.a.example/a', 'a', 12, x'', 0{zero}), (2, 'https://old.example/', NULL, 5, x'', 0{zero}),
            (3, 'https://moved.example/', 'moved', 0, x'', 0{zero});
        INSERT INTO history_visits (id, history_item, visit_time, title, redirect_destination) VALUES
            (1, 1, {recent}.5, 'Page A', NULL), (2, 1, {recent}, 'Before', NULL), (3, 1, {old}, 'Before', NULL),
            (4, 2, {old}, 'Old', NULL), (5, 3, {recent}, NULL, 1);
        INSERT INTO history_visits (history_item, visit_time, title) SELECT history_item, visit_time, title
            FROM history_visits, (VALUES (1), (2)) WHERE redirect_destination IS NULL;"
    )
}

#[test]
fn the_bookmarks_of_safari_are_read_from_its_binary_list() {
    let leaf = |title: &str, url: &str| {
        let mut leaf = plist::Dictionary::new();
        let titles = plist::Dictionary::from_iter([("title", plist::Value::from(title))]);
        leaf.insert("WebBookmarkType".to_owned(), "WebBookmarkTypeLeaf".into());
        leaf.insert("URLString".to_owned(), url.into());
        leaf.insert("URIDictionary".to_owned(), titles.into());
        // Data and dates are what a conversion to JSON fails on.
        leaf.insert("Sync".to_owned(), plist::Value::Data(vec![1, 2, 3]));
        leaf.insert(
            "DateAdded".to_owned(),
            plist::Value::Date(std::time::SystemTime::UNIX_EPOCH.into()),
        );
        plist::Value::from(leaf)
    };
    let list = |title: &str, children: Vec<plist::Value>| {
        let mut list = plist::Dictionary::new();
        list.insert("WebBookmarkType".to_owned(), "WebBookmarkTypeList".into());
        list.insert("Title".to_owned(), title.into());
        list.insert("Children".to_owned(), children.into());
        plist::Value::from(list)
    };
    let rust = list("Rust", vec![leaf("Book", "https://doc.example/book")]);
    let root = list(
        "",
        vec![
            list(
                "BookmarksBar",
                vec![leaf("Loose", "https://loose.example/"), rust],
            ),
            list(
                "com.apple.ReadingList",
                vec![leaf("Later", "https://later.example/?token=1")],
            ),
            list("Travel", vec![leaf("Trains", "https://trains.example/")]),
        ],
    );
    let mut bytes = Vec::new();
    root.to_writer_binary(&mut bytes).expect("a binary list");
    let home = tempfile::tempdir().expect("a folder");
    write(home.path(), "Library/Safari/Bookmarks.plist", bytes);
    let report = collect("safari", home.path(), System::MacOs);
    let expected = "### Rust\n\n- Book (doc.example)\n\n### Reading List\n\n- Later (later.example)\n\n\
        ### Travel\n\n- Trains (trains.example)\n\n### In no folder\n\n- Loose (loose.example)";
    assert_eq!(only_text(&report), expected);
    write(
        home.path(),
        "Library/Safari/Bookmarks.plist",
        "bplist00 is all",
    );
    let report = collect("safari", home.path(), System::MacOs);
    assert!(matches!(report.state, SourceState::Failed(_)), "{report:?}");
}
