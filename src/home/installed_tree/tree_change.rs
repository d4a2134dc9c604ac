//! The renames that put a staged file or folder in the place of an installed one. What a killed process has renamed
//! stays, and the next one makes the rest.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use punie_core::durable::{allow_missing, rename_without_replacing, sync_folder};
use punie_core::failpoint;

/// Exchanges two paths in one step. Returns false if the file system cannot do that.
type ExchangePaths = fn(&Path, &Path) -> io::Result<bool>;

/// A change of one installed file or folder. All its paths are on one file system.
#[derive(Debug)]
pub(crate) struct TreeChange {
    /// The path of the new tree; `None` if the installed one is only taken away.
    pub(crate) staged: Option<PathBuf>,
    /// The path where it is installed.
    pub(crate) target: PathBuf,
    /// The free path that gets the tree that was installed; `None` if none may be there.
    pub(crate) aside: Option<PathBuf>,
}

impl TreeChange {
    /// Returns the staged path, while something is there.
    pub(crate) fn staged_tree(&self) -> Option<&Path> {
        self.staged.as_deref().filter(|path| is_there(path))
    }

    /// Moves the trees. Those that an earlier process has moved stay where they are. `is_new` tells whether the staged
    /// path still has the new tree: after an exchange it has the old one.
    pub(crate) fn make(&self, is_new: bool) -> io::Result<()> {
        self.make_steps(is_new, exchange_paths, &|point| {
            failpoint::reach(point);
            Ok(())
        })
    }

    fn make_steps(
        &self,
        is_new: bool,
        exchange: ExchangePaths,
        reach: &dyn Fn(&'static str) -> io::Result<()>,
    ) -> io::Result<()> {
        if let (Some(staged), Some(aside)) = (self.staged_tree(), &self.aside)
            && is_new
            && is_there(&self.target)
        {
            if !exchange(staged, &self.target)? {
                rename_without_replacing(&self.target, aside)?;
                reach("tree.aside")?;
                rename_without_replacing(staged, &self.target).inspect_err(|_| {
                    // The error of the staged tree says more.
                    let _ = self.put_back();
                })?;
            }
        } else if let Some(staged) = self.staged_tree()
            && (is_new || self.aside.is_none())
        {
            rename_without_replacing(staged, &self.target)?;
        }
        reach("tree.placed")?;
        match (&self.staged, &self.aside) {
            // The old tree, after an exchange.
            (Some(staged), Some(aside)) if is_there(staged) => {
                rename_without_replacing(staged, aside)?;
            }
            (None, Some(aside)) if is_there(&self.target) && !is_there(aside) => {
                rename_without_replacing(&self.target, aside)?;
            }
            _ => {}
        }
        reach("tree.moved")?;
        let paths = [
            Some(&self.target),
            self.staged.as_ref(),
            self.aside.as_ref(),
        ];
        let folders = paths.into_iter().flatten().filter_map(|path| path.parent());
        folders
            .filter(|folder| is_there(folder))
            .try_for_each(sync_folder)
    }

    /// Puts the old tree back, if it was moved aside and nothing took its place.
    pub(crate) fn put_back(&self) -> io::Result<()> {
        match &self.aside {
            Some(aside) if is_there(aside) && !is_there(&self.target) => {
                rename_without_replacing(aside, &self.target)
            }
            _ => Ok(()),
        }
    }

    /// Returns whether nothing has been moved yet.
    pub(crate) fn is_untouched(&self, is_new: bool) -> bool {
        let has_source = match &self.staged {
            Some(staged) => is_new && is_there(staged),
            None => is_there(&self.target),
        };
        has_source && !self.aside.as_deref().is_some_and(is_there)
    }
}

/// Returns whether there is something at a path, also a link that leads nowhere.
pub(crate) fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Removes a file or a folder, if it is there.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    allow_missing(removed).map(drop)
}

/// Makes the copies in a staging folder durable: all at once on Linux. Elsewhere each was synced as it was written.
pub(crate) fn sync_staged(folder: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(fs::File::open(folder)?)?;
    sync_folder(folder)
}

fn exchange_paths(one: &Path, other: &Path) -> io::Result<bool> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
            exchanged => {
                exchanged?;
                Ok(true)
            }
        }
    }
    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    {
        let _ = (one, other);
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a change of folders with one file each: the staged one has the text `new`, the installed one `old`.
    fn prepare_change(
        is_staged: bool,
        is_installed: bool,
        keeps_old: bool,
    ) -> (tempfile::TempDir, TreeChange) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let change = TreeChange {
            staged: is_staged.then(|| path("staged")),
            target: path("target"),
            aside: keeps_old.then(|| path("aside")),
        };
        for (is_made, tree, text) in [
            (is_staged, path("staged"), "new"),
            (is_installed, path("target"), "old"),
        ] {
            if is_made {
                fs::create_dir(&tree).expect("made");
                fs::write(tree.join("file"), text).expect("written");
            }
        }
        (folder, change)
    }

    /// Returns the texts at the staged path, at the target, and aside.
    fn read_texts(change: &TreeChange) -> [Option<String>; 3] {
        let paths = [&change.staged, &Some(change.target.clone()), &change.aside];
        paths.map(|path| fs::read_to_string(path.as_ref()?.join("file")).ok())
    }

    fn has_new(change: &TreeChange) -> bool {
        read_texts(change)[0].as_deref() == Some("new")
    }

    /// Ends a process at this point.
    fn kill_at(killed_at: &str) -> impl Fn(&'static str) -> io::Result<()> {
        move |point| {
            if point == killed_at {
                return Err(io::Error::other(point));
            }
            Ok(())
        }
    }

    /// Kills the process of a change and the next one, and checks what the third one completes.
    fn check_kills(
        (is_staged, is_installed, keeps_old): (bool, bool, bool),
        exchange: ExchangePaths,
        kills: [&str; 2],
    ) {
        let case = format!("{is_staged} {is_installed} {keeps_old}, {kills:?}");
        let (_folder, change) = prepare_change(is_staged, is_installed, keeps_old);
        for point in kills {
            // A change that does not come to this point is complete.
            let _ = change.make_steps(has_new(&change), exchange, &kill_at(point));
            let found = read_texts(&change);
            let has = |text: &str| found.iter().flatten().any(|one| one == text);
            assert!(!is_staged || has("new"), "{case}: {found:?}");
            assert!(!is_installed || has("old"), "{case}: {found:?}");
        }
        let completed = change.make_steps(has_new(&change), exchange, &kill_at(""));
        completed.expect(&case);
        let [new, old] = [(is_staged, "new"), (is_installed, "old")]
            .map(|(is_there, text)| is_there.then(|| text.to_owned()));
        assert_eq!(read_texts(&change), [None, new, old], "{case}");
    }

    #[test]
    fn a_kill_at_any_step_and_at_any_step_of_the_next_process_loses_nothing() {
        let exchanges: [ExchangePaths; 2] = [exchange_paths, |_, _| Ok(false)];
        let points = ["tree.aside", "tree.placed", "tree.moved"];
        // An installation with and without a path for an old tree, an update, and a removal.
        let changes = [
            (true, false, true),
            (true, false, false),
            (true, true, true),
            (false, true, true),
        ];
        for exchange in exchanges {
            for change in changes {
                for first in points {
                    for second in points {
                        check_kills(change, exchange, [first, second]);
                    }
                }
            }
        }
    }

    #[test]
    fn an_old_tree_is_put_back_unless_the_new_one_took_its_place() {
        for (is_staged, point, installed) in [
            (true, "tree.aside", "old"),
            (true, "tree.placed", "new"),
            (false, "tree.moved", "old"),
        ] {
            let (_folder, change) = prepare_change(is_staged, true, true);
            assert!(change.is_untouched(true), "{point}");
            let killed = change.make_steps(true, |_, _| Ok(false), &kill_at(point));
            killed.expect_err(point);
            assert!(!change.is_untouched(has_new(&change)), "{point}");
            change.put_back().expect(point);
            assert_eq!(read_texts(&change)[1].as_deref(), Some(installed));
        }
        // A staged tree that is lost after the old one was moved aside.
        let (_folder, change) = prepare_change(true, true, true);
        let remove: ExchangePaths = |staged, _| fs::remove_dir_all(staged).map(|()| false);
        let lost = change.make_steps(true, remove, &kill_at(""));
        lost.expect_err("nothing to place");
        assert_eq!(read_texts(&change), [None, Some("old".to_owned()), None]);
    }

    #[test]
    fn a_place_that_is_taken_stays() {
        let (_folder, change) = prepare_change(true, true, false);
        let error = change.make(true).expect_err("it is taken");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(change.is_untouched(true));
        let both = [Some("new".to_owned()), Some("old".to_owned()), None];
        assert_eq!(read_texts(&change), both);
    }
}
