//! Histories and bookmarks of each browser, in the schemas of its versions, made by SQLite.

mod firefox_safari;
mod hostile_files;

use std::path::Path;

use super::*;
use crate::personal::test_places::{NOW, make_database, only_text, places};
use crate::test_places::{budget, schema};
use crate::{SourceState, System};

const DAY: i64 = 86_400;

const CHROMIUM_SCHEMA: &str = schema!("chromium_history_v70");

fn now() -> i64 {
    i64::try_from(NOW).expect("a time")
}

fn collect(source: &str, home: &Path, system: System) -> SourceReport {
    let (_, collect) = SOURCES
        .iter()
        .find(|(name, _)| *name == source)
        .expect("a source");
    collect(&places(home, system), &budget())
}

fn write(home: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = home.join(path);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, content).expect("a file");
}

fn chromium_script(recent_host: &str) -> String {
    format!("{CHROMIUM_SCHEMA}{}", chromium_rows(recent_host))
}

/// A page that was visited two days ago, one of thirty days ago, and pages that do not count.
fn chromium_rows(recent_host: &str) -> String {
    let micros = |seconds: i64| (seconds + 11_644_473_600) * 1_000_000;
    let recent = micros(now() - 2 * DAY);
    let old = micros(now() - 30 * DAY);
    format!(
        "INSERT INTO urls (id, url, title, visit_count, last_visit_time, hidden) VALUES
            (1, 'https://{recent_host}/a', 'Page A', 12, {recent}, 0), (2, 'https://old.example/', 'Old', 5, {old}, 0),
            (3, 'https://hidden.example/', 'Frame', 9, {recent}, 1), (4, 'chrome://settings/', 'Settings', 9, {recent}, 0),
            (5, 'http://localhost:3000/', 'App', 9, {recent}, 0);
        INSERT INTO visits (url, visit_time, transition) VALUES (1, {recent}, 0x30000001), (1, {recent}, 0x30000000),
            (1, {recent}, 0x30000008), (1, {old}, 0x30000000), (2, {old}, 0x30000000), (3, {recent}, 0x30000003),
            (5, {recent}, 0x30000000);
        INSERT INTO visits (url, visit_time, transition) SELECT url, visit_time, transition FROM visits, (VALUES (1), (2));"
    )
}

const CHROMIUM_TEXT: &str = "### Most Active (Last 7 Days)\n\n- a.example (6)\n\n\
    ### Long-term Interests (All-time, excluding recent)\n\n- old.example (5)\n\n\
    ### Content Details\n\n#### a.example\n\n- Page A (12)\n\n#### old.example\n\n- Old (5)";

#[test]
fn a_history_of_chromium_is_read_in_each_schema() {
    let labels = "'\"rust book\"', 'rust book'), (2, 1, '', ''), (3, 0, '\"rust book\"', 'x'";
    let clusters = format!("INSERT INTO clusters VALUES (1, 1, {labels});");
    let synced_clusters = clusters.replace(')', ", 1, '', 0)");
    let topics = "### Topics\n\n- rust book (2)\n\n";
    for (schema, clusters, topics) in [
        (schema!("chromium_history_v22"), "", ""),
        (schema!("chromium_history_v32"), "", ""),
        (schema!("chromium_history_v49"), "", ""),
        (schema!("chromium_history_v57"), clusters.as_str(), topics),
        (schema!("chromium_history_v64"), &synced_clusters, topics),
        (schema!("chromium_history_v70"), &synced_clusters, topics),
    ] {
        let home = tempfile::tempdir().expect("a folder");
        let path = ".config/google-chrome/Default/History";
        let rows = chromium_rows("www.a.example");
        make_database(home.path(), path, &format!("{schema}{rows}{clusters}"));
        let report = collect("chrome", home.path(), System::Linux);
        assert_eq!(report.sections[0].title, "Browser Data (Chrome)");
        let expected = format!("{topics}{CHROMIUM_TEXT}");
        assert_eq!(only_text(&report), expected, "{schema}");
    }
}

/// Browsers, and where a profile of each can be.
const PROFILES: [(System, &[&str]); 3] = [
    (
        System::Linux,
        &[
            "chrome .config/google-chrome/Default",
            "chrome .var/app/com.google.Chrome/config/google-chrome/Default",
            "chromium .config/chromium/Profile 3",
            "chromium .var/app/org.chromium.Chromium/config/chromium/Default",
            "chromium snap/chromium/common/chromium/Default",
            "edge .config/microsoft-edge/Default",
            "edge .var/app/com.microsoft.Edge/config/microsoft-edge/Default",
            "brave .config/BraveSoftware/Brave-Browser/Default",
            "brave .var/app/com.brave.Browser/config/BraveSoftware/Brave-Browser/Default",
            "brave snap/brave/current/.config/BraveSoftware/Brave-Browser/Default",
            "opera .config/opera",
            "opera .var/app/com.opera.Opera/config/opera",
            "opera snap/opera/current/.config/opera",
            "vivaldi .config/vivaldi/Default",
            "vivaldi .var/app/com.vivaldi.Vivaldi/config/vivaldi/Default",
            "vivaldi snap/vivaldi/current/.config/vivaldi/Default",
        ],
    ),
    (
        System::MacOs,
        &[
            "chrome Library/Application Support/Google/Chrome/Default",
            "arc Library/Application Support/Arc/User Data/Default",
            "chromium Library/Application Support/Chromium/Default",
            "edge Library/Application Support/Microsoft Edge/Profile 1",
            "brave Library/Application Support/BraveSoftware/Brave-Browser/Default",
            "vivaldi Library/Application Support/Vivaldi/Default",
            "opera Library/Application Support/com.operasoftware.Opera/Default",
        ],
    ),
    (
        System::Windows,
        &[
            "chrome AppData/Local/Google/Chrome/User Data/Default",
            "edge AppData/Local/Microsoft/Edge/User Data/Default",
            "brave AppData/Local/BraveSoftware/Brave-Browser/User Data/Default",
            "arc AppData/Local/Packages/TheBrowserCompany.Arc_ttt1ap7aakyb4/LocalCache/Local/Arc/User Data/Default",
            "vivaldi AppData/Local/Vivaldi/User Data/Default",
            "opera AppData/Roaming/Opera Software/Opera Stable",
            "opera AppData/Roaming/Opera Software/Opera GX Stable/Default",
        ],
    ),
];

#[test]
fn every_browser_is_found_where_its_system_keeps_it() {
    let bookmarks = r#"{"roots":{"bookmark_bar":{"type":"folder","name":"Bar","children":[
        {"type":"url","name":"Kept","url":"https://kept.example/?token=1"},
        {"type":"folder","name":"Rust","children":[{"type":"folder","name":" ","children":[
            {"type":"url","name":"Docs","url":"https://docs.example/"}]}]}]},"other":{"children":[]},"sync_transaction_version":"1"}}"#;
    let profiles = PROFILES
        .into_iter()
        .flat_map(|(system, lines)| lines.iter().map(move |line| (system, line)));
    for (system, line) in profiles {
        let (source, profile) = line.split_once(' ').expect("a browser and a path");
        let home = tempfile::tempdir().expect("a folder");
        make_database(
            home.path(),
            &format!("{profile}/History"),
            &chromium_script("a.example"),
        );
        write(home.path(), &format!("{profile}/Bookmarks"), bookmarks);
        for (name, _) in SOURCES {
            let report = collect(name, home.path(), system);
            if *name != source {
                assert_eq!(report.state, SourceState::Absent, "{name} in {profile}");
                continue;
            }
            assert_eq!(only_text(&report), CHROMIUM_TEXT, "{profile}");
            let expected =
                "### Rust\n\n- Docs (docs.example)\n\n### In no folder\n\n- Kept (kept.example)";
            assert_eq!(report.sections[1].markdown, expected, "{profile}");
        }
    }
}

#[test]
fn all_profiles_of_a_browser_are_summed_up() {
    let home = tempfile::tempdir().expect("a folder");
    let root = ".config/google-chrome";
    write(
        home.path(),
        &format!("{root}/Local State"),
        r#"{"profile":{"info_cache":{"Anna's":{"name":"Anna"},"../x":{}}}}"#,
    );
    for profile in ["Default", "Profile 2", "Anna's"] {
        make_database(
            home.path(),
            &format!("{root}/{profile}/History"),
            &chromium_script("a.example"),
        );
    }
    make_database(
        home.path(),
        ".config/x/History",
        &chromium_script("elsewhere.example"),
    );
    let text = only_text(&collect("chrome", home.path(), System::Linux)).to_owned();
    assert!(
        text.contains("- a.example (18)\n") && text.contains("- old.example (15)\n"),
        "{text}"
    );
    assert!(
        !text.contains("Anna") && !text.contains("elsewhere"),
        "{text}"
    );
}
