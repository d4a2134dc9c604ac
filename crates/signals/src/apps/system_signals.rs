//! Signals of the system: programs in the Dock, the time for which programs were used, and the usual folders.

use super::activity_databases::read_usage;
use super::folder_contents::describe_folders;
use crate::epoch::days_before;
use crate::file_access::read_if_present;
use crate::plain_text::clean_title;
use crate::property_list::parse_property_list;
use crate::report_text::top_counts;
use crate::{Budget, Section, SignalPlaces, SourceReport, System, Tier};

pub(super) const NAME: &str = "system signals";
const RECENT_DAYS: u64 = 7;
const MAX_USED: usize = 30;
const MAX_PINNED: usize = 40;
const MAX_DOCK_BYTES: u64 = 16 << 20;

pub(super) fn read_system_signals(places: &SignalPlaces, budget: &Budget) -> SourceReport {
    let mut problems = Vec::new();
    let mut lines = Vec::new();
    match read_dock(places, budget) {
        Ok(names) if !names.is_empty() => lines.push(format!("Dock: {}", names.join(", "))),
        Ok(_) => {}
        Err(reason) => problems.push(format!("com.apple.dock.plist: {reason}")),
    }
    let since = days_before(places.now, RECENT_DAYS);
    let usage = read_usage(places, since, budget, &mut problems).unwrap_or_default();
    let minutes = usage
        .into_iter()
        .map(|(name, seconds)| (clean_title(&name), seconds / 60));
    let minutes = minutes.filter(|(name, minutes)| *minutes > 0 && !name.is_empty());
    let minutes: Vec<String> = top_counts(minutes, MAX_USED)
        .iter()
        .map(|(name, minutes)| format!("{name} ({minutes} min)"))
        .collect();
    if !minutes.is_empty() {
        let days = format!("Used in the last {RECENT_DAYS} days: ");
        lines.push(days + &minutes.join(", "));
    }
    lines.extend(describe_folders(places, budget, &mut problems));
    if lines.is_empty() && problems.is_empty() {
        return SourceReport::absent(NAME);
    }
    let section = (!lines.is_empty()).then(|| Section {
        title: "System Signals".to_owned(),
        tier: Tier::Background,
        markdown: lines.join("\n\n"),
    });
    let mut report = SourceReport::read(NAME, section.into_iter().collect());
    report.problems = problems;
    report
}

/// Returns the names of the programs that are fixed in the Dock of macOS.
fn read_dock(places: &SignalPlaces, budget: &Budget) -> Result<Vec<String>, String> {
    if places.system != System::MacOs {
        return Ok(Vec::new());
    }
    let file = places
        .user_home
        .join("Library/Preferences/com.apple.dock.plist");
    let Some(bytes) = read_if_present(&file, MAX_DOCK_BYTES)? else {
        return Ok(Vec::new());
    };
    let dock = parse_property_list(&bytes, budget)?;
    let tiles = dock
        .as_dictionary()
        .and_then(|dock| dock.get("persistent-apps")?.as_array());
    let label = |tile: &plist::Value| {
        let data = tile.as_dictionary()?.get("tile-data")?.as_dictionary()?;
        let label = clean_title(data.get("file-label")?.as_string()?);
        (!label.is_empty()).then_some(label)
    };
    let labels = tiles.into_iter().flatten().filter_map(label);
    Ok(labels.take(MAX_PINNED).collect())
}

#[cfg(test)]
mod tests {
    use plist::{Dictionary, Value};

    use super::*;
    use crate::SourceState;
    use crate::test_places::{TestPlaces, budget, open_database, schema, text};

    #[test]
    fn the_dock_is_read_with_its_data_and_dates() {
        let test = TestPlaces::new(System::MacOs);
        let tile = |label: &str| {
            let mut data = Dictionary::new();
            data.insert("book".to_owned(), Value::Data(vec![0, 255, 7]));
            data.insert("file-label".to_owned(), Value::String(label.to_owned()));
            data.insert(
                "file-mod-date".to_owned(),
                Value::Date(test.places.now.into()),
            );
            let mut tile = Dictionary::new();
            tile.insert("GUID".to_owned(), Value::Integer(1.into()));
            tile.insert("tile-data".to_owned(), Value::Dictionary(data));
            Value::Dictionary(tile)
        };
        let mut dock = Dictionary::new();
        let spacer = Value::Dictionary(Dictionary::new());
        let tiles = vec![tile("Mail"), spacer, tile("Visual Studio Code")];
        dock.insert("persistent-apps".to_owned(), Value::Array(tiles));
        let dock = Value::Dictionary(dock);
        let expected = "## System Signals\nDock: Mail, Visual Studio Code\n";
        let mut binary = Vec::new();
        let mut xml = Vec::new();
        dock.to_writer_binary(&mut binary).expect("a list");
        dock.to_writer_xml(&mut xml).expect("a list");
        for bytes in [binary, xml] {
            test.write("Library/Preferences/com.apple.dock.plist", bytes);
            let report = read_system_signals(&test.places, &budget());
            assert_eq!(text(&report), expected);
        }
        test.write("Library/Preferences/com.apple.dock.plist", "no list");
        let report = read_system_signals(&test.places, &budget());
        assert!(
            report.problems[0].starts_with("com.apple.dock.plist: "),
            "{:?}",
            report.problems
        );
    }

    #[test]
    fn the_use_of_programs_is_in_minutes() {
        let test = TestPlaces::new(System::MacOs);
        let path = test.write("Library/Application Support/Knowledge/knowledgeC.db", "");
        let database = open_database(&path);
        let start = crate::epoch::apple_seconds(test.places.now) - 100_000;
        let rows = format!(
            "{}
             INSERT INTO ZOBJECT (ZSTREAMNAME, ZVALUESTRING, ZSTARTDATE, ZENDDATE) VALUES ('/app/usage', 'com.apple.mail', {start}, {start} + 179),
                ('/app/usage', 'com.apple.notes', {start}, {start} + 59);",
            schema!("knowledge_26")
        );
        database.execute_batch(&rows).expect("rows");
        let report = read_system_signals(&test.places, &budget());
        assert_eq!(
            text(&report),
            "## System Signals\nUsed in the last 7 days: Mail (2 min)\n"
        );
    }

    #[test]
    fn folders_are_counted_and_documents_only_with_leave() {
        let mut test = TestPlaces::new(System::Linux);
        let report = read_system_signals(&test.places, &budget());
        assert_eq!(report.state, SourceState::Absent);
        let folders =
            "# comment\nXDG_DOWNLOAD_DIR=\"$HOME/Téléchargements\"\nXDG_DESKTOP_DIR=\"$HOME/\"\n";
        test.write(".config/user-dirs.dirs", folders);
        for name in [
            "a.PDF",
            "b.pdf",
            "c.zip",
            "secret",
            "d.my own ending",
            "e.2024",
            "g.johnsmith",
            "f.pdf/x",
        ] {
            test.write(&format!("Téléchargements/{name}"), "");
        }
        test.write("Desktop/x.odt", "");
        test.write("home.txt", "");
        test.write("Documents/Taxes 2025/x", "");
        test.write("Documents/.hidden/x", "");
        let expected = "## System Signals\nFiles in Downloads: pdf (2), zip (1)\n\nFiles in Desktop: odt (1)\n";
        let report = read_system_signals(&test.places, &budget());
        assert_eq!(text(&report), expected);
        test.places.allows_documents = true;
        let report = read_system_signals(&test.places, &budget());
        let expected = expected.to_owned() + "\nFolders in Documents: Taxes 2025\n";
        assert_eq!(text(&report), expected);
    }
}
