//! A signature of everything that a view was made from: while it is the same, the view that is held is used again. Some
//! forty system calls instead of some hundred.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustix::fs::lstat;

use super::closed_files::{looked_at_folders, system_folders};
use super::home_table::{PRIVATE, PrivateFolder};
use super::sandbox_rules::{KnownFolders, SandboxRules};
use super::settings_files::settings_sources;
use super::shown_parts::ShownParts;
use super::unix_sockets::bound_sockets;

/// Device, inode, and for a folder whose entries count the ctime in seconds and nanoseconds.
type PathState = Option<(u64, u64, i64, u64)>;

/// The state of the paths that decide what a view shows.
#[derive(Debug)]
pub struct ViewSignature {
    paths: Vec<PathState>,
    sockets: Vec<PathBuf>,
    known_folders: Vec<PathBuf>,
}

impl ViewSignature {
    /// Returns whether a view that was made at this signature is right at a later one. Of sockets those count that
    /// commands would see: programs of the user's come and go with others all the time.
    pub(super) fn still_holds(&self, later: &Self, is_seen: impl Fn(&Path) -> bool) -> bool {
        let seen = |signature: &Self| -> Vec<PathBuf> {
            let sockets = signature.sockets.iter();
            sockets.filter(|socket| is_seen(socket)).cloned().collect()
        };
        self.paths == later.paths
            && self.known_folders == later.known_folders
            && (self.sockets == later.sockets || seen(self) == seen(later))
    }
}

/// The paths to look at, chosen when a view is made.
#[derive(Debug)]
pub(super) struct SignedPaths {
    /// Folders in which something may appear, and files that may change.
    listed: BTreeSet<PathBuf>,
    /// Paths that may be replaced.
    replaced: BTreeSet<PathBuf>,
    known_folders: KnownFolders,
}

impl SignedPaths {
    pub fn from_rules(rules: &SandboxRules) -> Self {
        let below_home = |private: &PrivateFolder| {
            let path = rules.user_home.as_ref()?.join(private.path);
            path.parent().map(Path::to_owned)
        };
        let mut listed: BTreeSet<PathBuf> = PRIVATE.iter().filter_map(below_home).collect();
        if let Some(home) = &rules.user_home {
            listed.extend(ShownParts::in_home(home).listed);
            listed.extend(settings_sources(home));
        }
        listed.extend(looked_at_folders(rules).into_iter().chain(system_folders()));
        listed.extend(rules.certificates.iter().cloned());
        let owners = [
            &rules.workspaces,
            &rules.repositories,
            &rules.write,
            &rules.read,
            &rules.shown,
            &rules.hide,
            &rules.search_path,
        ];
        Self {
            listed,
            replaced: owners.into_iter().flatten().cloned().collect(),
            known_folders: rules.known_folders.clone(),
        }
    }

    /// Takes the signature of this moment, for a conversation with this folder for temporary files.
    pub fn take_signature(&self, temp: &Path) -> ViewSignature {
        let state = |path: &PathBuf, is_listed: bool| {
            let stat = lstat(path).ok()?;
            let (seconds, nanos) = if is_listed {
                (stat.st_ctime, stat.st_ctime_nsec)
            } else {
                (0, 0)
            };
            Some((stat.st_dev, stat.st_ino, seconds, nanos))
        };
        let listed = self.listed.iter().map(|path| state(path, true));
        let replaced = self.replaced.iter().map(|path| state(path, false));
        ViewSignature {
            paths: listed
                .chain(replaced)
                .chain([state(&temp.join("tmp"), false)])
                .collect(),
            sockets: bound_sockets(),
            known_folders: self.known_folders.list_folders(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_that_commands_would_see_makes_a_view_anew() {
        let at = |sockets: &[&str]| ViewSignature {
            paths: Vec::new(),
            sockets: sockets.iter().map(PathBuf::from).collect(),
            known_folders: Vec::new(),
        };
        let is_seen = |socket: &Path| socket.starts_with("/srv");
        let before = at(&["/srv/one"]);
        assert!(before.still_holds(&at(&["/srv/one", "/tmp/two"]), is_seen));
        for later in [&["/srv/one", "/srv/two"][..], &["/srv/two"], &[]] {
            assert!(!before.still_holds(&at(later), is_seen), "{later:?}");
        }
    }
}
