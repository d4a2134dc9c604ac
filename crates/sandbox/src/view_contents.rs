//! The paths that make up a view of the files: the folders whose content is replaced, and what commands see in them. Not
//! here: the mounts that follow from them (view), and the lists of the home (home_table).

use std::io;
use std::path::{Path, PathBuf};

use super::certificates::certificate_files;
use super::git_settings::{SETTINGS, copy_git_settings};
use super::hidden_paths::hidden_paths;
use super::home_table::{SHOWN, SHOWN_IN_RUN};
use super::path_grants::SYSTEM_FOLDERS;
use super::private_folders::make_private_folders;
use super::sandbox_rules::{SandboxRules, WorkspaceAccess};
use super::untrusted_links::WritableFolders;

/// The folder of a conversation for temporary files: what its commands see as `/tmp`, `/var/tmp` and `/dev/shm`.
pub(super) const TEMP_FOLDERS: [(&str, &str); 3] = [
    ("/tmp", "tmp"),
    ("/var/tmp", "var-tmp"),
    ("/dev/shm", "shm"),
];

/// A folder or file whose content is replaced.
#[derive(Debug)]
pub(super) struct Covered {
    pub path: PathBuf,
    /// The folder that takes its place, or an empty one.
    pub base: Option<PathBuf>,
    /// Where it is built.
    pub staged: PathBuf,
}

/// A path that commands see within what is covered, or that they may write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub path: PathBuf,
    pub writable: bool,
}

fn real_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Returns what is covered, outer paths first.
fn covered_paths(rules: &SandboxRules, temp: &Path, stage: &Path) -> Vec<Covered> {
    let temps =
        TEMP_FOLDERS.map(|(path, name)| (real_path(Path::new(path)), Some(temp.join(name))));
    let own = ["/run", "/dev/pts"].map(|path| real_path(Path::new(path)));
    let home = rules
        .user_home
        .iter()
        .map(|home| (real_path(home), Some(rules.command_home.clone())));
    let hidden = rules
        .hide
        .iter()
        .chain([&rules.own_home])
        .map(|path| real_path(path))
        .chain(rules.other_folders());
    let hides_workspaces = rules.workspace_access == WorkspaceAccess::Hidden;
    let empty = hidden.chain(own).map(|path| (path, None));
    let mut all: Vec<(PathBuf, Option<PathBuf>)> =
        temps.into_iter().chain(home).chain(empty).collect();
    // The owner shows all of it; never the home, though.
    all.retain(|(path, base)| {
        let is_home = *path == rules.own_home || base.as_ref() == Some(&rules.command_home);
        is_home || hides_workspaces || !rules.write.contains(path)
    });
    all.sort();
    all.dedup_by(|next, previous| next.0 == previous.0);
    let staged = |number: usize| stage.join(number.to_string());
    let numbered = all.into_iter().enumerate();
    numbered
        .map(|(number, (path, base))| Covered {
            path,
            base,
            staged: staged(number),
        })
        .collect()
}

/// The paths of a view.
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
        let mut contents = Self {
            trusted: WritableFolders::from_rules(rules),
            covered: covered_paths(rules, temp, stage),
            entries: Vec::new(),
            links: Vec::new(),
            private: Vec::new(),
            temps: TEMP_FOLDERS
                .map(|(path, _)| real_path(Path::new(path)))
                .to_vec(),
            readable: Vec::new(),
            own_home: rules.own_home.clone(),
        };
        contents.add_entries(rules, temp, shown)?;
        contents.drop_needless_entries();
        Ok(contents)
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
    ) -> io::Result<()> {
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
        if let Some(home) = &rules.user_home {
            for name in SHOWN {
                self.add_path(&home.join(name), false);
            }
            if rules.own_folder.is_none() {
                for name in SETTINGS {
                    copy_git_settings(&home.join(name), &rules.command_home.join(name))?;
                }
                self.private = make_private_folders(&rules.command_home)?;
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
            if !rules.user_home.as_ref().is_some_and(is_around_home) {
                let shown = installation_in_home(&path, rules.user_home.as_deref());
                self.add_path(folder, false);
                self.add_path(shown, false);
            }
        }
        Ok(())
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

    /// Returns whether an entry shows more than the one around it does.
    fn is_needed(&self, entry: &Entry) -> bool {
        let outer = self
            .entries
            .iter()
            .filter(|outer| is_inside(&entry.path, &outer.path));
        let Some(outer) = outer.max_by_key(|outer| outer.path.as_os_str().len()) else {
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
        let entries = self
            .entries
            .iter()
            .filter(|entry| socket.starts_with(&entry.path));
        let nearest = entries.max_by_key(|entry| entry.path.as_os_str().len());
        match (nearest, self.around(socket)) {
            (Some(entry), Some(covered)) if entry.path.starts_with(&covered.path) => {
                !entry.writable
            }
            (Some(entry), None) => !entry.writable,
            (_, around) => around.is_none(),
        }
    }
}

/// Returns whether a path lies in a folder, and is not the folder itself.
pub(super) fn is_inside(path: &Path, folder: &Path) -> bool {
    path != folder && path.starts_with(folder)
}

/// Returns the folder of a toolchain with its libraries around a folder of programs in the home, if it is not one of the
/// home's own folders, which hold other things too.
fn installation_in_home<'a>(path: &'a Path, home: Option<&Path>) -> &'a Path {
    let is_programs = path
        .file_name()
        .is_some_and(|name| name == "bin" || name == "shims");
    let Some(around) = path.parent().filter(|_| is_programs) else {
        return path;
    };
    let depth = home.and_then(|home| Some(around.strip_prefix(home).ok()?.components().count()));
    if depth.is_some_and(|depth| depth >= 2) {
        around
    } else {
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folders_of_other_sessions_are_covered_wherever_they_are() {
        let folder = |path: &str| PathBuf::from(path);
        let rules = SandboxRules {
            workspaces: vec![folder("/srv/work")],
            ..SandboxRules::minimal_rules(folder("/srv/home"), folder("/srv/temp"))
        };
        let narrowed = rules.clone().narrowed_to(&[folder("/srv/work/one")], &[]);
        let other = rules.clone().narrowed_to(&[folder("/opt/other")], &[]);
        let covers = |rules: &SandboxRules| {
            let covered = covered_paths(rules, Path::new("/srv/temp"), Path::new("/srv/view"));
            ["/srv/work", "/srv/work/one", "/opt/other"]
                .map(|path| covered.iter().any(|one| one.path == Path::new(path)))
        };
        assert_eq!(covers(&narrowed), [true, false, true]);
        assert_eq!(covers(&other), [true, true, false]);
        assert_eq!(covers(&rules), [false, false, true]);
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
            ..SandboxRules::minimal_rules(top.join("punie"), top.join("temp"))
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
