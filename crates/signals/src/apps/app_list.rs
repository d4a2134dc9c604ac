//! Programs: those that run, those used lately, and those installed. No path is reported.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::SystemTime;

use super::installed::find_installed_apps;
use super::known_apps::find_recent_apps;
use super::recent_documents::count_documents;
use crate::epoch::days_before;
use crate::file_access::{EntryKind, list_folder, read_bounded, read_if_present};
use crate::plain_text::clean_title;
use crate::report_text::top_counts;
use crate::{Budget, Section, SignalPlaces, SourceReport, System, Tier};

pub(super) const NAME: &str = "apps";
const RECENT_DAYS: u64 = 7;
const MAX_RUNNING: usize = 15;
const MAX_RECENT: usize = 10;
const MAX_INSTALLED: usize = 40;
const MAX_DOCUMENT_LIST_BYTES: u64 = 16 << 20;
/// The kernel keeps this much of a process's name.
const MAX_PROCESS_NAME_BYTES: usize = 15;

/// Reads which programs the owner has and uses.
pub(super) fn read_apps(places: &SignalPlaces, budget: &Budget) -> SourceReport {
    let installed = find_installed_apps(places, budget);
    let mut problems = installed.problems;
    let running = find_running_apps(places, &installed.by_program, budget);
    let since = days_before(places.now, RECENT_DAYS);
    let mut recent: Vec<String> = recent_documents(places, since, budget, &mut problems);
    for name in find_recent_apps(places, &installed.names, since) {
        if !recent.iter().any(|known| known.starts_with(name)) {
            recent.push(name.to_owned());
        }
    }
    recent.truncate(MAX_RECENT);
    let count = installed.names.len();
    let mut lines = Vec::new();
    let lists: [(String, Vec<String>, usize); 3] = [
        (
            "Running".to_owned(),
            running.into_iter().collect(),
            MAX_RUNNING,
        ),
        (
            format!("Used in the last {RECENT_DAYS} days"),
            recent,
            MAX_RECENT,
        ),
        (
            format!("Installed ({count})"),
            installed.names.into_iter().collect(),
            MAX_INSTALLED,
        ),
    ];
    for (title, names, max) in lists {
        let clean = names.iter().map(|name| clean_title(name));
        let shown: Vec<String> = clean.filter(|name| !name.is_empty()).take(max).collect();
        if !shown.is_empty() {
            lines.push(format!("{title}: {}", shown.join(", ")));
        }
    }
    if lines.is_empty() && problems.is_empty() && !installed.has_folder {
        return SourceReport::absent(NAME);
    }
    let section = (!lines.is_empty()).then(|| Section {
        title: "Apps".to_owned(),
        tier: Tier::Background,
        markdown: lines.join("\n\n"),
    });
    let mut report = SourceReport::read(NAME, section.into_iter().collect());
    report.problems = problems;
    report
}

/// Returns the installed programs of which a process runs, by its exact name.
fn find_running_apps(
    places: &SignalPlaces,
    by_program: &BTreeMap<String, String>,
    budget: &Budget,
) -> BTreeSet<String> {
    let mut by_process: HashMap<&[u8], &String> = HashMap::new();
    for (program, name) in by_program {
        let kept = program.len().min(MAX_PROCESS_NAME_BYTES);
        by_process.insert(&program.as_bytes()[..kept], name);
    }
    let processes = places
        .process_folder
        .as_ref()
        .and_then(|folder| list_folder(folder, budget).ok());
    let mut running = BTreeSet::new();
    for process in processes.into_iter().flatten() {
        let name = process.name.as_encoded_bytes();
        if process.kind != EntryKind::Folder || !name.iter().all(u8::is_ascii_digit) {
            continue;
        }
        if !budget.take_entry() {
            break;
        }
        // A process that has ended meanwhile has no name.
        let name = read_bounded(&process.path.join("comm"), 64).unwrap_or_default();
        let name = name.strip_suffix(b"\n").unwrap_or(&name);
        running.extend(by_process.get(name).map(|name| (*name).clone()));
    }
    running
}

/// Returns the programs that opened documents lately on Linux, with the number of documents.
fn recent_documents(
    places: &SignalPlaces,
    since: SystemTime,
    budget: &Budget,
    problems: &mut Vec<String>,
) -> Vec<String> {
    if places.system != System::Linux {
        return Vec::new();
    }
    let mut counts = HashMap::new();
    let file = places.data_home.join("recently-used.xbel");
    let read = read_if_present(&file, MAX_DOCUMENT_LIST_BYTES).and_then(|bytes| {
        let bytes = bytes.unwrap_or_default();
        count_documents(&bytes, since, budget, &mut counts)
    });
    if let Err(reason) = read {
        problems.push(format!("recently-used.xbel: {reason}"));
    }
    let shown = |(name, count): (String, u64)| {
        let files = if count == 1 { "file" } else { "files" };
        format!("{name} ({count} {files})")
    };
    top_counts(counts, MAX_RECENT)
        .into_iter()
        .map(shown)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceState;
    use crate::test_places::{TestPlaces, budget, text};

    fn desktop_file(name: &str, program: &str) -> String {
        format!("[Desktop Entry]\nType=Application\nName={name}\nExec={program} %U\n")
    }

    #[test]
    fn linux_has_its_desktop_files_and_recent_documents() {
        let mut test = TestPlaces::new(System::Linux);
        let data = test.beside_home("home/system");
        test.places.data_dirs = vec![data.clone()];
        test.write(
            "system/applications/editor.desktop",
            desktop_file("Editor", "editor"),
        );
        test.write(
            "system/applications/kde/slack.desktop",
            desktop_file("Slack", "slack"),
        );
        test.write(
            "system/applications/hidden.desktop",
            desktop_file("Hidden", "hidden"),
        );
        let hidden = format!("{}Hidden=true\n", desktop_file("Hidden", "x"));
        test.write(".local/share/applications/hidden.desktop", hidden);
        test.write(
            "system/applications/notes.txt",
            desktop_file("Notes", "notes"),
        );
        let flatpak = ".local/share/flatpak/exports/share/applications/org.x.Y.desktop";
        test.write(flatpak, desktop_file("Y", "/usr/bin/flatpak run org.x.Y"));
        let folder = test
            .write(".config/Slack/x", "")
            .parent()
            .expect("it")
            .to_owned();
        test.set_age(&folder, 1);
        let folder = test
            .write(".config/discord/x", "")
            .parent()
            .expect("it")
            .to_owned();
        test.set_age(&folder, 1);
        let documents =
            "<x><b:application xmlns:b='y' name='Editor' modified='2026-09-20T10:00:00Z'/></x>";
        test.write(".local/share/recently-used.xbel", documents);
        let report = read_apps(&test.places, &budget());
        assert_eq!(report.problems, Vec::<String>::new());
        assert_eq!(
            text(&report),
            "## Apps\n\
             Used in the last 7 days: Editor (1 file), Slack\n\n\
             Installed (3): Editor, Slack, Y\n"
        );
    }

    #[test]
    fn a_process_is_matched_by_its_exact_name() {
        let mut test = TestPlaces::new(System::Linux);
        test.places.process_folder = Some(test.places.user_home.join("proc"));
        let folder = ".local/share/applications";
        test.write(&format!("{folder}/arc.desktop"), desktop_file("Arc", "arc"));
        let long = "a-very-long-program-name";
        test.write(
            &format!("{folder}/long.desktop"),
            desktop_file("Long", long),
        );
        test.write(
            &format!("{folder}/gone.desktop"),
            desktop_file("Gone", "gone"),
        );
        for (id, name) in [("1", "search\n"), ("2", "arch"), ("3", "a-very-long-pro\n")] {
            test.write(&format!("proc/{id}/comm"), name);
        }
        test.write("proc/self/comm", "gone\n");
        test.write("proc/4/status", "");
        let report = read_apps(&test.places, &budget());
        assert!(
            text(&report).starts_with("## Apps\nRunning: Long\n"),
            "{}",
            text(&report)
        );
        test.write("proc/5/comm", "arc\n");
        let report = read_apps(&test.places, &budget());
        assert!(text(&report).starts_with("## Apps\nRunning: Arc, Long\n"));
    }

    #[test]
    fn programs_of_mac_os_and_windows_are_found() {
        let mut test = TestPlaces::new(System::MacOs);
        assert_eq!(
            read_apps(&test.places, &budget()).state,
            SourceState::Absent
        );
        test.places.application_folders = vec![test.places.user_home.join("all")];
        for path in [
            "all/Mail.app/x",
            "all/Utilities/Disk.app/Sub.app/x",
            "Applications/Arc.app/x",
        ] {
            test.write(path, "");
        }
        let data = test.write("Library/Application Support/Arc/x", "");
        test.set_age(data.parent().expect("a folder"), 6);
        let report = read_apps(&test.places, &budget());
        assert_eq!(
            text(&report),
            "## Apps\nUsed in the last 7 days: Arc\n\nInstalled (3): Arc, Disk, Mail\n"
        );
        test.set_age(data.parent().expect("a folder"), 8);
        assert!(!text(&read_apps(&test.places, &budget())).contains("Used"));
        let test = TestPlaces::new(System::Windows);
        let menu = "AppData/Roaming/Microsoft/Windows/Start Menu/Programs";
        for name in [
            "Cursor.lnk",
            "Tools/Uninstall Cursor.lnk",
            "Tools/Terminal.lnk",
        ] {
            test.write(&format!("{menu}/{name}"), "");
        }
        let report = read_apps(&test.places, &budget());
        assert_eq!(text(&report), "## Apps\nInstalled (2): Cursor, Terminal\n");
    }

    #[test]
    fn damaged_files_are_problems() {
        let test = TestPlaces::new(System::Linux);
        test.write(".local/share/recently-used.xbel", "<x></y>");
        test.write(".local/share/applications/a.desktop", [0xff; 1000]);
        let report = read_apps(&test.places, &budget());
        assert_eq!(
            (report.state, report.sections),
            (SourceState::Read, Vec::new())
        );
        assert!(report.problems[0].starts_with("recently-used.xbel: its XML is damaged"));
    }
}
