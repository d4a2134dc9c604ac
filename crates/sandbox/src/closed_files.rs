//! Files of the owner's that other users may not read, in folders that commands see: commands run as the owner, so the
//! kernel would not refuse them.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::home_table::{PRIVATE, PrivateFolder, SHOWN};
use super::sandbox_rules::SandboxRules;

/// Bits of a mode.
const OTHERS_READ: u32 = 0o004;
const OTHERS_ENTER: u32 = 0o001;
const EXECUTE: u32 = 0o111;

/// The folders of the system in which people keep files of their own, and how deep they are looked through.
const SYSTEM_TOPS: &[(&str, usize)] = &[
    ("/etc", 3),
    ("/opt", 3),
    ("/usr/local", 3),
    ("/usr/src", 1),
    ("/home/linuxbrew/.linuxbrew/etc", 3),
];

/// Folders of programs and libraries: with a strict umask everything in them is closed to others.
const OF_PROGRAMS: &[&str] = &[
    "bin",
    "include",
    "lib",
    "lib32",
    "lib64",
    "libexec",
    "node_modules",
    "sbin",
    "share",
    "site-packages",
    "src",
];

/// The most folders that are looked through in the system.
const MAX_FOLDERS: usize = 10_000;

/// Returns the folders whose files are looked at, beside those of the system.
pub(super) fn looked_at_folders(rules: &SandboxRules) -> Vec<PathBuf> {
    let caches = rules.user_home.iter().flat_map(|home| cache_folders(home));
    caches.chain(program_folders(rules)).collect()
}

/// Returns the folders of the system that are looked through.
pub(super) fn system_folders() -> impl Iterator<Item = PathBuf> {
    SYSTEM_TOPS.iter().map(|(top, _)| PathBuf::from(top))
}

/// Returns the files, and folders of the system, of which commands should see nothing.
pub(super) fn closed_files(rules: &SandboxRules) -> Vec<PathBuf> {
    let programs = program_folders(rules)
        .into_iter()
        .flat_map(|folder| list_closed(&folder, |_, metadata| metadata.mode() & EXECUTE == 0));
    let caches = rules.user_home.iter().flat_map(|home| cache_folders(home));
    let caches = caches.flat_map(|folder| list_closed(&folder, |name, _| names_credentials(name)));
    let system = SYSTEM_FILES.find(SYSTEM_TOPS, rustix::process::geteuid().as_raw());
    programs.chain(caches).chain(system).collect()
}

/// Returns the folders of programs in the home.
fn program_folders(rules: &SandboxRules) -> Vec<PathBuf> {
    let Some(home) = &rules.user_home else {
        return Vec::new();
    };
    let listed = SHOWN.iter().filter(|path| path.ends_with("bin"));
    let named = rules
        .search_path
        .iter()
        .filter(|path| path.starts_with(home));
    let mut folders: Vec<PathBuf> = listed
        .map(|path| home.join(path))
        .chain(named.cloned())
        .collect();
    folders.sort();
    folders.dedup();
    folders
}

fn cache_folders(home: &Path) -> impl Iterator<Item = PathBuf> {
    let shared = PRIVATE.iter().flat_map(PrivateFolder::shared_paths);
    shared.map(|path| home.join(path))
}

/// Returns the files in a folder that others may not read, and for which this holds.
fn list_closed(folder: &Path, is_meant: impl Fn(&str, &Metadata) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let closed = entries.filter(|entry| {
        let Ok(metadata) = entry.metadata() else {
            return false;
        };
        let name = entry.file_name();
        metadata.is_file()
            && metadata.mode() & OTHERS_READ == 0
            && is_meant(&name.to_string_lossy(), &metadata)
    });
    closed.map(|entry| entry.path()).collect()
}

/// Returns whether a file's name says that it holds credentials.
fn names_credentials(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let begins = |name: &str| name.starts_with("credentials") || name.starts_with("auth.");
    let ends = [".pfx", ".p12", ".key", ".pem", ".netrc"];
    begins(name.trim_start_matches('.'))
        || name.contains("token")
        || ends.iter().any(|end| name.ends_with(end))
}

/// The files that the last search found. While the folders have the same times, it is not done again.
struct SystemFiles(Mutex<Option<Search>>);

static SYSTEM_FILES: SystemFiles = SystemFiles(Mutex::new(None));

/// Device, inode, and the time of the last change.
pub(super) type FolderState = Option<(u64, u64, i64, i64)>;

#[derive(Default)]
struct Search {
    user: u32,
    folders: Vec<(PathBuf, FolderState)>,
    found: Vec<PathBuf>,
}

impl SystemFiles {
    /// Returns the closed files of this user below these folders.
    fn find(&self, tops: &[(&str, usize)], user: u32) -> Vec<PathBuf> {
        let mut last = self.0.lock();
        let is_current = |search: &&mut Search| {
            search.user == user
                && search
                    .folders
                    .iter()
                    .all(|(path, state)| folder_state(path) == *state)
        };
        if let Some(search) = last.as_mut().filter(is_current) {
            return search.found.clone();
        }
        let mut search = Search {
            user,
            ..Search::default()
        };
        for (top, depth) in tops {
            search.look_through(Path::new(top), *depth, false);
        }
        let found = search.found.clone();
        *last = Some(search);
        found
    }
}

/// Returns what changes with the entries of a folder; `None` if it is not there.
pub(super) fn folder_state(path: &Path) -> FolderState {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((
        metadata.dev(),
        metadata.ino(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ))
}

impl Search {
    /// Looks through a folder. It may be closed to others by a folder around it.
    fn look_through(&mut self, folder: &Path, depth: usize, is_closed: bool) {
        // The state is older than what is read: a change in between is found the next time.
        let Some(state) = folder_state(folder).filter(|_| self.folders.len() < MAX_FOLDERS) else {
            return;
        };
        self.folders.push((folder.to_owned(), Some(state)));
        for entry in fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
        {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let path = entry.path();
            let mode = metadata.mode();
            let is_own = metadata.uid() == self.user;
            if metadata.is_file() {
                let is_unreadable = is_closed || mode & OTHERS_READ == 0;
                if is_own && is_unreadable && mode & EXECUTE == 0 {
                    self.found.push(path);
                }
            } else if metadata.is_dir() && !is_of_programs(&path) && metadata.dev() == state.0 {
                let is_closed = is_closed || mode & OTHERS_ENTER == 0;
                if depth > 1 {
                    self.look_through(&path, depth - 1, is_closed);
                } else if is_own && is_closed {
                    self.found.push(path);
                }
            }
        }
    }
}

fn is_of_programs(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| OF_PROGRAMS.contains(&name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn plant(top: &Path, files: &[(&str, u32)]) {
        for (name, mode) in files {
            let path = top.join(name);
            fs::create_dir_all(path.parent().expect("one")).expect("made");
            fs::write(&path, "x").expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).expect("set");
        }
    }

    fn names(top: &Path, found: &[PathBuf]) -> Vec<String> {
        let below = |path: &PathBuf| path.strip_prefix(top).expect("below").display().to_string();
        let mut names: Vec<String> = found.iter().map(below).collect();
        names.sort();
        names
    }

    #[test]
    fn own_files_of_the_system_that_others_may_not_read_are_found_and_programs_are_not() {
        let place = tempfile::tempdir().expect("a folder");
        let top = place.path().canonicalize().expect("real");
        plant(
            &top,
            &[
                ("open", 0o644),
                ("closed", 0o600),
                ("of-group", 0o640),
                ("app/deep/closed", 0o600),
                ("app/deep/deeper/closed", 0o600),
                ("app/bin/program", 0o700),
                ("app/lib/data", 0o600),
                ("run", 0o700),
                ("shut/open", 0o644),
                ("a/b/shut/file", 0o644),
            ],
        );
        for folder in ["shut", "a/b/shut"] {
            fs::set_permissions(top.join(folder), fs::Permissions::from_mode(0o700)).expect("set");
        }
        let files = SystemFiles(Mutex::new(None));
        let user = rustix::process::geteuid().as_raw();
        let tops = [(top.to_str().expect("text"), 3)];
        let found = || names(&top, &files.find(&tops, user));
        let expected = [
            "a/b/shut",
            "app/deep/closed",
            "closed",
            "of-group",
            "shut/open",
        ];
        assert_eq!(found(), expected);
        assert_eq!(found(), expected, "and again, by the times of the folders");
        plant(&top, &[("app/deep/new", 0o600)]);
        assert!(
            found().contains(&"app/deep/new".to_owned()),
            "a later one, too"
        );
        assert!(files.find(&tops, user + 1).is_empty(), "others' are theirs");
    }

    #[test]
    fn beside_programs_and_caches_closed_files_are_found() {
        let place = tempfile::tempdir().expect("a folder");
        let home = place.path().canonicalize().expect("real");
        plant(
            &home,
            &[
                ("bin/program", 0o700),
                ("bin/module.py", 0o644),
                ("bin/notes", 0o600),
                ("tools/x/bin/key", 0o600),
                (".ivy2/local/.credentials", 0o600),
                (".ivy2/local/open.token", 0o644),
                (".ivy2/local/module", 0o600),
            ],
        );
        let rules = SandboxRules {
            user_home: Some(home.clone()),
            search_path: vec![home.join("tools/x/bin")],
            ..SandboxRules::minimal(home.join(".punie"), home.join(".punie/tmp"))
        };
        let mut found = closed_files(&rules);
        found.retain(|path| path.starts_with(&home));
        let expected = [".ivy2/local/.credentials", "bin/notes", "tools/x/bin/key"];
        assert_eq!(names(&home, &found), expected);
    }
}
