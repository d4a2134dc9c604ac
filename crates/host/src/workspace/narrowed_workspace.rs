//! The workspace of a session: its folders alone, while the owner's rules hold as everywhere. Not here: the decision
//! whether a session may work in a folder (permission).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;

use super::Workspace;
use super::workspace_folder::WorkspaceFolder;
use punie_core::request_session::RequestSession;
use punie_tool::{ErrorCode, ToolError};

impl Workspace {
    /// Narrows the workspace to the folders of a session, which may also lie outside of it: relative paths begin in the
    /// first. Rules still read paths from the owner's folders, so that narrowing lifts none.
    ///
    /// # Errors
    /// `outside_workspace` if a folder is gone, or reached by a link.
    pub fn narrowed_to(&self, folders: &[PathBuf]) -> Result<Self, ToolError> {
        let open = |folder: &PathBuf| open_folder(folder).map_err(|why| unusable(folder, &why));
        let roots: Vec<_> = folders.iter().map(open).collect::<Result<_, _>>()?;
        let mut rule_roots: Vec<PathBuf> = self.root_paths().map(Path::to_owned).collect();
        let outside = folders.iter().filter(|one| !self.contains_real_path(one));
        rule_roots.extend(outside.cloned());
        Ok(Self {
            roots: roots.into(),
            home: self.home.clone(),
            rule_roots: Some(rule_roots.into()),
        })
    }

    /// Returns the workspace with more folders. One that cannot be opened is left out.
    #[must_use]
    pub fn with_folders<'f>(&self, folders: impl IntoIterator<Item = &'f PathBuf>) -> Self {
        let mut with = self.clone();
        for folder in folders {
            if !with.contains_real_path(folder)
                && let Ok(root) = open_folder(folder)
            {
                with.roots = with.roots.iter().cloned().chain([root]).collect();
            }
        }
        with
    }

    /// Returns the workspace of a call: narrowed to the folders of its session, if it belongs to one.
    ///
    /// # Errors
    /// As [`Self::narrowed_to`].
    pub fn for_session(&self, session: Option<&Arc<RequestSession>>) -> Result<Self, ToolError> {
        match session {
            Some(session) => self.narrowed_to(&session.folders),
            None => Ok(self.clone()),
        }
    }

    /// Returns whether a real path lies in one of the owner's folders, or in the session's.
    pub fn is_in_rules(&self, real: &Path) -> bool {
        self.contains_real_path(real) || !self.paths_in_rules(real).is_empty()
    }

    /// Returns a path as the owner's rules write it: from each of the owner's folders that holds it, the deepest first.
    pub fn paths_in_rules<'p>(&self, path: &'p Path) -> Vec<&'p Path> {
        let below = |root: &Path| path.strip_prefix(root).ok();
        let mut found: Vec<&Path> = match &self.rule_roots {
            Some(roots) => roots.iter().filter_map(|root| below(root)).collect(),
            None => self.root_paths().filter_map(below).collect(),
        };
        found.sort_by_key(|rest| rest.components().count());
        found
    }
}

/// The folders in which any call may work: the owner's workspaces, and the folders that the owner's rules allow sessions.
/// Clones share it.
#[derive(Debug, Clone)]
pub struct ReachableFolders(Arc<RwLock<Workspace>>);

impl ReachableFolders {
    /// Begins with these workspaces.
    pub fn new(workspace: Workspace) -> Self {
        Self(Arc::new(RwLock::new(workspace)))
    }

    /// Returns the folders as they are now.
    pub fn current(&self) -> Workspace {
        self.0.read().clone()
    }

    /// Adds folders. One that cannot be opened is left out: no call works there either.
    pub fn add_folders<'f>(&self, folders: impl IntoIterator<Item = &'f PathBuf>) {
        let mut workspace = self.0.write();
        *workspace = workspace.with_folders(folders);
    }
}

/// Opens a folder that no link leads to: one that was put there since would lead elsewhere.
fn open_folder(folder: &Path) -> Result<Arc<WorkspaceFolder>, String> {
    let opened = WorkspaceFolder::open_given(folder).map_err(|cause| cause.to_string())?;
    if opened.canonical == folder {
        Ok(Arc::new(opened))
    } else {
        Err("it is reached by a link".to_owned())
    }
}

fn unusable(folder: &Path, why: &str) -> ToolError {
    let shown = folder.display();
    let text = format!("The session's folder {shown} cannot be used: {why}.");
    ToolError::new(ErrorCode::OutsideWorkspace, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RawPath;

    #[test]
    fn a_narrowed_workspace_reaches_its_folders_alone_and_rules_keep_their_paths() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().canonicalize().expect("real");
        for made in ["owner/one/src", "owner/two", "other"] {
            std::fs::create_dir_all(top.join(made)).expect("made");
        }
        std::fs::write(top.join("owner/two/secret"), "x").expect("written");
        std::os::unix::fs::symlink("../two", top.join("owner/one/link")).expect("linked");
        let owners = Workspace::open_roots(&[top.join("owner")]).expect("opened");
        let folders = [top.join("owner/one"), top.join("other")];
        let narrowed = owners.narrowed_to(&folders).expect("narrowed");
        let resolve = |path: &str| {
            let found = narrowed.resolve_inside(&RawPath::from(path));
            found.map(|found| found.absolute_path().to_owned())
        };
        assert_eq!(resolve("src").expect("inside"), top.join("owner/one/src"));
        for outside in ["..", "../two/secret", "link/secret"] {
            assert!(resolve(outside).is_err(), "{outside}");
        }
        let in_rules = |path: &str| {
            narrowed
                .paths_in_rules(&top.join(path))
                .first()
                .copied()
                .map(Path::to_owned)
        };
        assert_eq!(in_rules("owner/one/src"), Some("one/src".into()));
        assert_eq!(in_rules("other/x"), Some("x".into()));
        let linked = owners.narrowed_to(&[top.join("owner/one/link")]);
        assert!(linked.is_err(), "reached by a link");
        assert!(owners.narrowed_to(&[top.join("gone")]).is_err());
    }

    #[test]
    fn without_a_folder_no_path_is_inside() {
        let none = Workspace::open_roots(&[]).expect("opened");
        for path in ["x", "/", "/etc/passwd"] {
            let error = none
                .resolve_inside(&RawPath::from(path))
                .expect_err("outside");
            assert!(
                error.model_text().contains("[workspaces]"),
                "{path}: {}",
                error.model_text()
            );
        }
        assert!(none.resolve_folder(None).is_err());
    }
}
