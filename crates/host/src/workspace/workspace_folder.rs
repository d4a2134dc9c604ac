//! A workspace's folder by its path, which may be missing for a while, as one on an unplugged disk is.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;

use super::held::RootHandle;
use super::workspace_root::WorkspaceRoot;
use punie_core::runner_home::find_enclosing_home;

/// A folder, open while it is there.
#[derive(Debug)]
pub(super) struct WorkspaceFolder {
    /// The path without links.
    pub canonical: PathBuf,
    /// The path by which the owner names it.
    pub given: PathBuf,
    opened: RwLock<Option<Arc<WorkspaceRoot>>>,
}

impl WorkspaceFolder {
    /// Opens a folder by the path that the owner gave.
    pub fn open_given(given: &Path) -> io::Result<Self> {
        let (handle, canonical) = RootHandle::open_root(given)?;
        let root = WorkspaceRoot {
            handle,
            canonical: canonical.clone(),
        };
        Ok(Self {
            canonical,
            given: given.to_owned(),
            opened: RwLock::new(Some(Arc::new(root))),
        })
    }

    /// Takes a path without links, and opens the folder if it is there.
    pub fn open_if_there(path: &Path) -> Self {
        let folder = Self {
            canonical: path.to_owned(),
            given: path.to_owned(),
            opened: RwLock::default(),
        };
        folder.open_again();
        folder
    }

    /// Returns the open folder; `None` while it is missing.
    pub fn opened(&self) -> Option<Arc<WorkspaceRoot>> {
        self.opened.read().clone()
    }

    /// Opens what is at the path now. What was opened before is kept if it is the same folder, and closed if it is not.
    /// Returns whether that changed something.
    pub fn open_again(&self) -> bool {
        let found = open_plain_folder(&self.canonical).ok();
        let mut opened = self.opened.write();
        match (&*opened, &found) {
            (None, None) => return false,
            (Some(root), Some(found)) if root.handle.is_same_folder(found) => return false,
            _ => {}
        }
        *opened = found.map(|handle| {
            Arc::new(WorkspaceRoot {
                handle,
                canonical: self.canonical.clone(),
            })
        });
        true
    }
}

/// Returns why the folder of a workspace cannot be used now, as the end of a sentence that begins with it; `None` if it
/// can. `path` has no links: one that is there now may lead anywhere.
pub fn find_workspace_fault(path: &Path) -> Option<String> {
    open_plain_folder(path).err()
}

/// Opens a folder that no link leads to, and that lies in no home of this program.
fn open_plain_folder(path: &Path) -> Result<RootHandle, String> {
    let handle = RootHandle::open_without_links(path).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => "is missing".to_owned(),
        io::ErrorKind::NotADirectory => "is missing: a file is in its place".to_owned(),
        _ if path.canonicalize().is_ok_and(|real| real != path) => {
            "is missing: a link is in its place, which is followed only after a restart".to_owned()
        }
        _ => format!("cannot be opened: {cause}"),
    })?;
    match find_enclosing_home(path) {
        None => Ok(handle),
        Some(home) => Err(format!(
            "lies in a home of punie-runner ({}), which holds keys and tokens",
            home.display()
        )),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::{RawPath, Workspace};
    use super::*;

    /// Two workspaces, the second of which is missing.
    struct TwoFolders {
        _dir: tempfile::TempDir,
        top: PathBuf,
        workspace: Workspace,
    }

    impl TwoFolders {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a folder");
            let top = dir.path().canonicalize().expect("real");
            fs::create_dir(top.join("here")).expect("made");
            let roots = [top.join("here"), top.join("disk/project")];
            Self {
                _dir: dir,
                workspace: Workspace::open_existing(&roots, None),
                top,
            }
        }

        fn resolve(&self, path: &str) -> Result<PathBuf, String> {
            let raw = RawPath::from(self.top.join(path).to_str().expect("plain"));
            let found = self.workspace.resolve_inside(&raw);
            found
                .map(|found| found.absolute_path().to_owned())
                .map_err(|error| error.model_text().to_owned())
        }

        #[track_caller]
        fn expect_missing(&self, why: &str) {
            self.workspace.open_returned();
            let refused = self.resolve("disk/project/file").expect_err("missing");
            assert!(
                refused.contains("disk/project is missing") && refused.contains(why),
                "{refused}"
            );
            assert_eq!(self.workspace.missing_paths().count(), 1);
            self.resolve("here/file").expect("the other is used");
        }
    }

    #[test]
    fn a_missing_folder_is_used_once_it_is_back_and_not_when_it_is_gone_again() {
        let two = TwoFolders::new();
        assert!(!two.workspace.open_returned(), "nothing has changed");
        two.expect_missing("used again as soon as it is back");
        for content in ["one", "two"] {
            fs::create_dir_all(two.top.join("disk/project")).expect("made");
            fs::write(two.top.join("disk/project/file"), content).expect("written");
            assert!(two.workspace.open_returned());
            assert!(!two.workspace.open_returned(), "it is the same folder");
            let file = two.resolve("disk/project/file").expect("it is back");
            let found = two.workspace.open_found_file(&file).expect("opened");
            assert_eq!(std::io::read_to_string(found).expect("read"), content);
            fs::remove_dir_all(two.top.join("disk")).expect("removed");
            two.expect_missing("");
        }
        let first = two.workspace.resolve_folder(None).expect("it is there");
        assert_eq!(first, two.top.join("here"));
    }

    #[test]
    fn what_is_in_the_place_of_a_missing_folder_is_not_taken_for_it() {
        let two = TwoFolders::new();
        let secret = two.top.join("secret");
        fs::create_dir_all(secret.join("project")).expect("made");
        symlink(&secret, two.top.join("disk")).expect("linked");
        two.expect_missing("a link is in its place");
        fs::remove_file(two.top.join("disk")).expect("removed");
        fs::create_dir(two.top.join("disk")).expect("made");
        symlink(&secret, two.top.join("disk/project")).expect("linked");
        two.expect_missing("a link is in its place");
        fs::remove_file(two.top.join("disk/project")).expect("removed");
        fs::write(two.top.join("disk/project"), "").expect("written");
        two.expect_missing("a file is in its place");
        fs::remove_file(two.top.join("disk/project")).expect("removed");
        for name in ["tokens", "secrets", "keys", "state/switches"] {
            fs::create_dir_all(two.top.join("disk/project").join(name)).expect("made");
        }
        two.workspace.open_returned();
        let refused = two.resolve("disk/project/keys").expect_err("a home");
        assert!(refused.contains("home of punie-runner"), "{refused}");
    }

    #[test]
    fn a_missing_folder_in_another_workspace_is_served_by_that() {
        let dir = tempfile::tempdir().expect("a folder");
        let top = dir.path().canonicalize().expect("real");
        let workspace = Workspace::open_existing(&[top.clone(), top.join("inner")], None);
        let raw = RawPath::from(top.join("inner/file").to_str().expect("plain"));
        let found = workspace.resolve_inside(&raw).expect("in the outer");
        assert_eq!(found.root_path(), top);
        let file = top.join("inner/file");
        fs::create_dir(top.join("inner")).expect("made");
        fs::write(&file, "").expect("written");
        let found = workspace.path_if_inside(&file).expect("in the outer");
        assert_eq!(found.root_path(), top);
        workspace.open_found_file(&file).expect("opened");
    }
}
