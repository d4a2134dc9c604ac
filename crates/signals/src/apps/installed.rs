//! The programs that are installed and have an entry in a menu.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::desktop_entries::{DesktopEntry, parse_desktop_entry};
use crate::file_access::{EntryKind, FolderEntry, is_absent, list_folder, read_bounded};
use crate::report_text::show_path;
use crate::{Budget, SignalPlaces, System};

const MAX_DESKTOP_FILE_BYTES: u64 = 256 << 10;
/// The depth of the folders of a menu.
const MAX_DEPTH: u32 = 3;

/// The programs found, and what could not be read.
#[derive(Debug, Default)]
pub(super) struct InstalledApps {
    pub names: BTreeSet<String>,
    /// The names by the file name of the program that runs, where a menu has both.
    pub by_program: BTreeMap<String, String>,
    pub problems: Vec<String>,
    /// Whether there is a folder of programs at all.
    pub has_folder: bool,
}

/// Finds the programs of the system's menus.
pub(super) fn find_installed_apps(places: &SignalPlaces, budget: &Budget) -> InstalledApps {
    let mut apps = InstalledApps::default();
    match places.system {
        System::Linux => apps.add_desktop_files(places, budget),
        System::MacOs => {
            let mut folders = places.application_folders.clone();
            folders.push(places.user_home.join("Applications"));
            apps.add_named_files(&folders, "app", places, budget);
        }
        System::Windows => {
            let menu = |roaming: &PathBuf| roaming.join("Microsoft/Windows/Start Menu/Programs");
            let mut folders = places.application_folders.clone();
            folders.extend(places.roaming_app_data.iter().map(menu));
            apps.add_named_files(&folders, "lnk", places, budget);
            apps.names
                .retain(|name| !name.to_lowercase().starts_with("uninstall"));
        }
    }
    apps
}

impl InstalledApps {
    /// Adds the files below folders that have an extension, by their names without it.
    fn add_named_files(
        &mut self,
        folders: &[PathBuf],
        extension: &str,
        places: &SignalPlaces,
        budget: &Budget,
    ) {
        let extension = OsStr::new(extension);
        for folder in folders {
            for entry in self.list_below(folder, Some(extension), places, budget) {
                if entry.path.extension() == Some(extension)
                    && let Some(name) = entry.path.file_stem()
                {
                    self.names.insert(name.to_string_lossy().into_owned());
                }
            }
        }
    }

    /// Adds the programs of desktop files. A file of the user's replaces the system's of the same name.
    fn add_desktop_files(&mut self, places: &SignalPlaces, budget: &Budget) {
        let mut seen = HashSet::new();
        let mut bases = vec![
            places.data_home.clone(),
            places.data_home.join("flatpak/exports/share"),
        ];
        bases.extend(places.data_dirs.iter().cloned());
        for base in bases {
            let folder = base.join("applications");
            for file in self.list_below(&folder, None, places, budget) {
                let is_entry = file.path.extension() == Some(OsStr::new("desktop"));
                if !is_entry || !seen.insert(file.name.clone()) {
                    continue;
                }
                if !budget.has_time() {
                    return;
                }
                // Flatpak and Snap have links here.
                let Ok(bytes) = read_bounded(&file.path, MAX_DESKTOP_FILE_BYTES) else {
                    continue;
                };
                if let Some(entry) = parse_desktop_entry(&String::from_utf8_lossy(&bytes)) {
                    self.add_entry(entry);
                }
            }
        }
    }

    fn add_entry(&mut self, entry: DesktopEntry) {
        if entry.is_hidden {
            return;
        }
        if let Some(program) = entry.program {
            self.by_program.insert(program, entry.name.clone());
        }
        self.names.insert(entry.name);
    }

    /// Lists the entries of a folder and its folders. One with the extension is not opened: on macOS a program is a folder.
    fn list_below(
        &mut self,
        folder: &Path,
        extension: Option<&OsStr>,
        places: &SignalPlaces,
        budget: &Budget,
    ) -> Vec<FolderEntry> {
        let mut found = Vec::new();
        let mut folders = vec![(folder.to_owned(), 0)];
        while let Some((path, depth)) = folders.pop() {
            let entries = match list_folder(&path, budget) {
                Ok(entries) => entries,
                Err(error) => {
                    if depth == 0 && !is_absent(&error) {
                        let shown = show_path(&path, &places.user_home);
                        self.problems.push(format!("{shown}: {error}"));
                    }
                    continue;
                }
            };
            self.has_folder = true;
            for entry in entries {
                let is_program = extension.is_some() && entry.path.extension() == extension;
                if entry.kind == EntryKind::Folder && !is_program {
                    if depth < MAX_DEPTH {
                        folders.push((entry.path, depth + 1));
                    }
                } else {
                    found.push(entry);
                }
            }
        }
        found
    }
}
