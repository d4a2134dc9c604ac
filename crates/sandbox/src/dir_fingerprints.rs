//! Fingerprints of the folders that a ruleset was built from. A ruleset is rebuilt only once one has changed, so that
//! a few folders are checked instead of every path with something to hide. Not here: the choice of the paths.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, lstat, stat};

use super::path_grants::PathGrants;
use super::sandbox_rules::SandboxRules;

/// A path as it was when the ruleset was built.
#[derive(Debug)]
pub(super) struct DirFingerprint {
    path: PathBuf,
    state: Option<PathState>,
    /// The children matter too, not only the identity.
    listed: bool,
}

/// Device and inode; for listed folders also the ctime in seconds and nanoseconds, which commands cannot set.
type PathState = (u64, u64, Option<(i64, u64)>);

/// The granularity of file times: a change this shortly before a check may have come after it.
const TIME_GRANULARITY: Duration = Duration::from_millis(50);

impl DirFingerprint {
    fn from_path(path: PathBuf, listed: bool) -> Self {
        Self {
            state: Self::path_state(&path, listed),
            path,
            listed,
        }
    }

    fn path_state(path: &Path, listed: bool) -> Option<PathState> {
        let stat = stat(path).ok()?;
        Some((
            stat.st_dev,
            stat.st_ino,
            listed.then_some((stat.st_ctime, stat.st_ctime_nsec)),
        ))
    }

    /// Returns whether the path is unchanged.
    pub(super) fn is_unchanged(&self) -> bool {
        Self::path_state(&self.path, self.listed) == self.state
    }

    /// Returns whether the last change is before this moment.
    pub(super) fn is_older_than(&self, moment: SystemTime) -> bool {
        let Some((.., Some((seconds, nanos)))) = self.state else {
            return true;
        };
        let changed =
            Duration::from_secs(seconds.max(0).cast_unsigned()) + Duration::from_nanos(nanos);
        moment
            .duration_since(UNIX_EPOCH)
            .is_ok_and(|moment| changed + TIME_GRANULARITY < moment)
    }
}

/// Takes the fingerprints that invalidate a ruleset: granted folders, folders that were granted child by child, and
/// folders in which a hidden path may appear.
pub(super) fn take_fingerprints(rules: &SandboxRules, places: &PathGrants) -> Vec<DirFingerprint> {
    let SandboxRules {
        workspaces,
        write,
        shown,
        temp,
        ..
    } = rules;
    let granted = workspaces.iter().chain(write).chain(shown).chain([temp]);
    // Of granted folders only the identity: their contents change all the time.
    let mut identities: BTreeSet<PathBuf> = granted.cloned().collect();
    let mut folders: BTreeSet<PathBuf> = places.listed.iter().cloned().collect();
    for hole in places.hidden.iter().cloned() {
        match hole.canonicalize() {
            // Its parent is listed, or not granted at all.
            Ok(real) if real == hole => {}
            Ok(_) => drop(identities.insert(hole)),
            Err(_) => {
                let Some(there) = hole.ancestors().find(|path| lstat(*path).is_ok()) else {
                    continue;
                };
                let is_folder =
                    stat(there).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
                let stamped = if is_folder {
                    &mut folders
                } else {
                    &mut identities
                };
                stamped.insert(there.to_owned());
            }
        }
    }
    let identities = identities
        .into_iter()
        .map(|path| DirFingerprint::from_path(path, false));
    identities
        .chain(
            folders
                .into_iter()
                .map(|path| DirFingerprint::from_path(path, true)),
        )
        .collect()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a home is laid out and changed")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::path_grants;

    fn rules(home: &Path) -> SandboxRules {
        let least = SandboxRules::minimal_rules(home.join(".punie"), home.join(".punie/tmp"));
        SandboxRules {
            workspaces: vec![home.join("work")],
            user_home: Some(home.to_owned()),
            ..least
        }
    }

    /// Returns whether the fingerprints detect a change.
    fn tells(home: &Path, change: impl FnOnce()) -> bool {
        let found = path_grants::compute_grants(&rules(home)).expect("known");
        let before = take_fingerprints(&rules(home), &found);
        assert!(before.iter().all(DirFingerprint::is_unchanged));
        change();
        !before.iter().all(DirFingerprint::is_unchanged)
    }

    #[test]
    fn whatever_changes_what_is_granted_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().canonicalize().expect("real");
        for inside in [
            "work",
            ".punie",
            ".config/app",
            ".cargo",
            "dotfiles/aws",
            "dotfiles/other",
        ] {
            fs::create_dir_all(home.join(inside)).expect("made");
        }
        symlink("dotfiles/aws", home.join(".aws")).expect("a link");
        symlink("dotfiles/later", home.join(".kube")).expect("a link to nothing");
        let at = |name: &str| home.join(name);
        assert!(
            !tells(&home, || fs::write(at("work/file"), "x").expect("written")),
            "what is in a workspace"
        );
        assert!(
            tells(&home, || fs::create_dir(at(".config/gh")).expect("made")),
            "something to hide, new"
        );
        assert!(tells(&home, || fs::write(at(".netrc"), "x").expect("written")));
        assert!(
            tells(&home, || fs::write(at("new"), "x").expect("written")),
            "a child that no grant has yet"
        );
        assert!(
            tells(&home, || fs::write(at("dotfiles/later"), "x")
                .expect("written")),
            "where a link leads"
        );
        assert!(tells(&home, || {
            fs::remove_file(at(".aws")).expect("removed");
            symlink("dotfiles/other", at(".aws")).expect("a link");
        }));
        assert!(tells(&home, || {
            fs::rename(at("work"), at("old")).expect("moved");
            fs::create_dir(at("work")).expect("made");
        }));
    }

    #[test]
    fn a_change_of_this_moment_is_not_older_than_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let stamp = DirFingerprint::from_path(folder.path().to_owned(), true);
        assert!(!stamp.is_older_than(SystemTime::now()));
        assert!(stamp.is_older_than(SystemTime::now() + Duration::from_hours(1)));
        let gone = DirFingerprint::from_path(folder.path().join("gone"), true);
        assert!(gone.is_older_than(SystemTime::now()) && gone.is_unchanged());
    }
}
