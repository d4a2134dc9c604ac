//! The paths that make up a view of the files: the folders whose content is replaced, and what commands see in them.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::certificates::certificate_files;
use super::closed_files::closed_files;
use super::covered_folders::{
    Covered, TEMP_FOLDERS, covered_paths, is_inside, named_paths, real_path, toolchain_folders,
};
use super::hidden_paths::hidden_paths;
use super::home_table::SHOWN_IN_RUN;
use super::path_grants::SYSTEM_FOLDERS;
use super::private_folders::make_private_folders;
use super::sandbox_rules::{SandboxRules, WorkspaceAccess};
use super::settings_files::{SettingsFile, settings_files};
use super::settings_table::SHUT_FOLDERS;
use super::shown_parts::{ShownParts, expand};
use super::toolchain_table::{EMPTIED, HIDDEN};
use super::untrusted_links::WritableFolders;

/// A path that commands see within what is covered, or that they may write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub path: PathBuf,
    pub writable: bool,
}

/// The paths of a view.
#[derive(Debug)]
pub(super) struct ViewContents {
    trusted: WritableFolders,
    /// Outer paths first.
    pub covered: Vec<Covered>,
    /// What commands see within what is covered or may write, outer paths first.
    pub entries: Vec<Entry>,
    /// Links of the user's on the way to an entry.
    pub links: Vec<PathBuf>,
    /// The folders of commands in the folder that they see as the home.
    pub private: Vec<PathBuf>,
    /// The covered folders that are writable as a whole.
    pub temps: Vec<PathBuf>,
    /// Shown paths outside of what is covered.
    pub readable: Vec<PathBuf>,
    /// Settings files without credentials.
    pub settings: Vec<SettingsFile>,
    /// Files that are there and empty.
    pub emptied: Vec<PathBuf>,
    /// Folders that are there and empty.
    pub shut: Vec<PathBuf>,
    /// Files and folders in what is shown of which commands see nothing.
    pub hidden: Vec<PathBuf>,
    own_home: PathBuf,
}

impl ViewContents {
    /// Collects everything that the rules and the tables show, and `shown`. Makes the folders of commands.
    pub fn collect(
        rules: &SandboxRules,
        temp: &Path,
        shown: Option<&Path>,
        stage: &Path,
    ) -> io::Result<Self> {
        let trusted = WritableFolders::from_rules(rules);
        let parts = rules.user_home.as_deref().map(ShownParts::in_home);
        let parts = parts.unwrap_or_default();
        let toolchains = toolchain_folders(rules, &parts, &trusted);
        let covered = covered_paths(rules, temp, stage, toolchains);
        let mut contents = Self::empty(trusted, covered, rules.own_home.clone());
        contents.add_entries(rules, temp, shown, &parts);
        contents.drop_needless_entries();
        contents.add_settings(rules)?;
        contents.hide_closed_files(rules);
        Ok(contents)
    }

    fn empty(trusted: WritableFolders, covered: Vec<Covered>, own_home: PathBuf) -> Self {
        Self {
            trusted,
            covered,
            entries: Vec::new(),
            links: Vec::new(),
            private: Vec::new(),
            temps: TEMP_FOLDERS
                .map(|(path, _)| real_path(Path::new(path)))
                .to_vec(),
            readable: Vec::new(),
            settings: Vec::new(),
            emptied: Vec::new(),
            shut: Vec::new(),
            hidden: Vec::new(),
            own_home,
        }
    }

    /// Leaves one entry for each path, and none that another one shows already.
    fn drop_needless_entries(&mut self) {
        // Of several for one path, the writable one stays.
        self.entries.sort_by(|a, b| b.cmp(a));
        self.entries.dedup_by(|next, kept| next.path == kept.path);
        self.entries.reverse();
        let shown: Vec<PathBuf> = self
            .entries
            .iter()
            .map(|entry| entry.path.clone())
            .collect();
        let needed = self
            .entries
            .iter()
            .filter(|entry| self.is_needed(entry))
            .cloned()
            .collect();
        self.entries = needed;
        self.readable = shown
            .into_iter()
            .filter(|path| self.around(path).is_none())
            .collect();
    }

    /// Adds everything that the rules and the tables show.
    fn add_entries(
        &mut self,
        rules: &SandboxRules,
        temp: &Path,
        shown: Option<&Path>,
        parts: &ShownParts,
    ) {
        if rules.workspace_access != WorkspaceAccess::Hidden {
            let writes = rules.workspace_access == WorkspaceAccess::Write;
            for path in rules.writable_paths() {
                self.add_path(path, writes);
            }
        }
        // Not the folder around it: a command could exchange what the next view is made from.
        self.add_path(&temp.join(TEMP_FOLDERS[0].1), true);
        for path in rules
            .read
            .iter()
            .chain(&rules.shown)
            .map(PathBuf::as_path)
            .chain(shown)
        {
            self.add_path(path, false);
        }
        for path in SHOWN_IN_RUN {
            self.add_path(Path::new(path), false);
        }
        if rules.own_folder.is_none() {
            for path in &parts.paths {
                self.add_path(path, false);
            }
        }
        if !rules.certificates.is_empty() {
            let is_of_system =
                |path: &Path| SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder));
            let hidden = hidden_paths(rules).paths;
            for path in certificate_files(rules, &hidden, is_of_system) {
                self.add_path(&path, false);
            }
        }
        if let Some(path) = &rules.own_folder {
            self.add_path(path, true);
        }
        self.add_search_path(rules);
    }

    /// Adds the folders of the PATH, with what the toolchains around them need.
    fn add_search_path(&mut self, rules: &SandboxRules) {
        let others: Vec<PathBuf> = rules.other_folders().collect();
        for folder in &rules.search_path {
            let Some(path) = self.trusted.resolve_trusted(folder) else {
                continue;
            };
            // The programs of another workspace would bring its files into view.
            if others.iter().any(|other| path.starts_with(other)) {
                continue;
            }
            let is_around_home = |home: &PathBuf| home.starts_with(&path);
            if rules.user_home.as_ref().is_some_and(is_around_home) {
                continue;
            }
            self.add_path(folder, false);
            if let Some(around) = installation_in_home(&path, rules.user_home.as_deref()) {
                for part in ShownParts::of_unknown(around) {
                    self.add_path(&part, false);
                }
            }
        }
    }

    /// Adds the settings files of the user's, and makes the folders of commands. A service gets none of them.
    fn add_settings(&mut self, rules: &SandboxRules) -> io::Result<()> {
        let Some(home) = rules
            .user_home
            .as_ref()
            .filter(|_| rules.own_folder.is_none())
        else {
            return Ok(());
        };
        self.private = make_private_folders(&rules.command_home)?;
        let mut listed = BTreeSet::new();
        self.settings = settings_files(home, &rules.search_path, &self.trusted);
        let is_named = |path: &Path| named_paths(rules).any(|named| path.starts_with(named));
        self.settings.retain(|file| !is_named(&file.path));
        let emptied = EMPTIED
            .iter()
            .flat_map(|path| expand(home, path, &mut listed));
        let places = emptied.filter_map(|path| self.trusted.resolve_place(&path));
        self.emptied = places.collect();
        let shut = SHUT_FOLDERS.iter().map(|path| home.join(path));
        self.shut = shut.filter(|path| !is_named(path)).collect();
        Ok(())
    }

    /// Hides what lies in shown folders and is the owner's alone.
    fn hide_closed_files(&mut self, rules: &SandboxRules) {
        let mut listed = BTreeSet::new();
        let in_home = rules
            .user_home
            .iter()
            .flat_map(|home| HIDDEN.iter().map(move |path| (home, path)));
        let in_home: Vec<PathBuf> = in_home
            .flat_map(|(home, path)| expand(home, path, &mut listed))
            .collect();
        let found = closed_files(rules).into_iter().chain(in_home);
        let real = found.filter_map(|path| self.trusted.resolve_trusted(&path));
        // What the owner shows by name stays, and so do the folders around it and around the home.
        let is_named = |path: &PathBuf| {
            let mut around = named_paths(rules)
                .chain(&rules.user_home)
                .chain([&rules.own_home]);
            around.any(|inner| inner.starts_with(path))
                || named_paths(rules).any(|named| path.starts_with(named))
                || rules.certificates.contains(path)
        };
        self.hidden = real.filter(|path| !is_named(path)).collect();
    }

    /// Adds a path that is there, unless a command may have chosen where it leads.
    fn add_path(&mut self, path: &Path, writable: bool) {
        let resolved = self.trusted.resolve_path(path);
        if resolved.via_untrusted_symlink || resolved.path.symlink_metadata().is_err() {
            return;
        }
        // A covered folder itself stays covered, and the home of the runner with the workspaces is never shown.
        if self
            .covered
            .iter()
            .any(|covered| covered.path.starts_with(&resolved.path))
            && !writable
        {
            return;
        }
        self.links.extend(resolved.links);
        self.entries.push(Entry {
            path: resolved.path,
            writable,
        });
    }

    /// Returns the innermost covered folder around a path.
    pub fn around(&self, path: &Path) -> Option<&Covered> {
        let around = self
            .covered
            .iter()
            .filter(|covered| is_inside(path, &covered.path));
        around.max_by_key(|covered| covered.path.as_os_str().len())
    }

    /// Returns where a path of the view is built.
    pub fn staged(&self, path: &Path) -> PathBuf {
        self.around(path).map_or_else(
            || path.to_owned(),
            |covered| {
                covered
                    .staged
                    .join(path.strip_prefix(&covered.path).unwrap_or(path))
            },
        )
    }

    /// Returns the innermost entry around a path. The entries must be sorted.
    pub fn outer_entry(&self, path: &Path) -> Option<&Entry> {
        self.entry_of(path.parent()?)
    }

    /// Returns the innermost entry in which a path lies, or that it is. The entries must be sorted.
    fn entry_of(&self, path: &Path) -> Option<&Entry> {
        path.ancestors().find_map(|folder| {
            let found = self
                .entries
                .binary_search_by(|entry| entry.path.as_path().cmp(folder));
            found.ok().map(|at| &self.entries[at])
        })
    }

    /// Returns whether an entry shows more than the one around it does.
    fn is_needed(&self, entry: &Entry) -> bool {
        let Some(outer) = self.outer_entry(&entry.path) else {
            // Outside of what is covered, everything may be looked at.
            return entry.writable || self.around(&entry.path).is_some();
        };
        let is_covered_between = self.covered.iter().any(|covered| {
            covered.path.starts_with(&outer.path) && is_inside(&entry.path, &covered.path)
        });
        (entry.writable && !outer.writable) || is_covered_between
    }

    /// Returns whether commands would see a socket that is not among what they may write. The runner's own ones that they
    /// see are meant for them.
    pub fn is_foreign_socket(&self, socket: &Path) -> bool {
        if socket.starts_with(&self.own_home) {
            return false;
        }
        match (self.entry_of(socket), self.around(socket)) {
            (Some(entry), Some(covered)) if entry.path.starts_with(&covered.path) => {
                !entry.writable
            }
            (Some(entry), None) => !entry.writable,
            (_, around) => around.is_none(),
        }
    }
}

/// Returns the folder of a toolchain around a folder of programs in the home, if it is not one of the home's own folders,
/// which hold other things too.
fn installation_in_home<'a>(path: &'a Path, home: Option<&Path>) -> Option<&'a Path> {
    let is_programs = path
        .file_name()
        .is_some_and(|name| name == "bin" || name == "shims");
    let around = path.parent().filter(|_| is_programs)?;
    let depth = around.strip_prefix(home?).ok()?.components().count();
    (depth >= 2).then_some(around)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_commands_see_and_may_not_write_are_foreign() {
        let covered = |path: &str| Covered {
            path: path.into(),
            base: None,
            staged: PathBuf::new(),
        };
        let trusted = WritableFolders::none();
        let mut contents = ViewContents::empty(
            trusted,
            vec![
                covered("/home/a"),
                covered("/home/a/cache"),
                covered("/run"),
            ],
            "/home/a/punie".into(),
        );
        let entry = |path: &str, writable| Entry {
            path: path.into(),
            writable,
        };
        contents.entries = vec![
            entry("/home/a/tools", false),
            entry("/home/a/tools/work", true),
            entry("/srv/work", true),
            entry("/home/a/work", true),
        ];
        contents.entries.sort();
        for (socket, is_foreign) in [
            ("/home/a/socket", false),
            ("/home/a/work/socket", false),
            ("/home/a/tools/socket", true),
            ("/home/a/tools/work/socket", false),
            ("/home/a/punie/socket", false),
            ("/run/socket", false),
            ("/srv/work/socket", false),
            ("/srv/socket", true),
        ] {
            let found = contents.is_foreign_socket(Path::new(socket));
            assert_eq!(found, is_foreign, "{socket}");
        }
    }

    #[test]
    fn the_programs_of_another_workspace_bring_none_of_its_files_into_view() {
        let place = tempfile::tempdir().expect("a folder");
        let top = place.path().canonicalize().expect("there");
        for folder in ["work/one", "work/two/bin", "tools/bin"] {
            let made = std::fs::DirBuilder::new()
                .recursive(true)
                .create(top.join(folder));
            made.expect("made");
        }
        let rules = SandboxRules {
            workspaces: vec![top.join("work")],
            user_home: Some(top.clone()),
            search_path: vec![top.join("work/two/bin"), top.join("tools/bin")],
            ..SandboxRules::minimal(top.join("punie"), top.join("temp"))
        };
        let narrowed = rules.narrowed_to(&[top.join("work/one")], &[]);
        let contents = ViewContents::collect(&narrowed, &narrowed.temp, None, &top.join("view"))
            .expect("collected");
        let shows = |path: &str| {
            contents
                .entries
                .iter()
                .any(|entry| entry.path.starts_with(top.join(path)))
        };
        assert_eq!(
            [shows("work/one"), shows("work/two"), shows("tools")],
            [true, false, true]
        );
    }
}
