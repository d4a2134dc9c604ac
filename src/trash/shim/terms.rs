//! What a command tells its shims: for whom they remove and where it goes. Not here: who writes it (commands).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ids::RequestId;

/// The variable in which a command carries it.
pub const VARIABLE: &str = "PUNIE_TRASH";

/// Paths that hold what can be made again, for the most part: they may take a quarter of what commands may, an
/// eighth of the trash.
const MADE_AGAIN: &[&str] = &["target", "node_modules"];

/// For whom is removed, and where it goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The request.
    pub request: RequestId,
    /// The folder that takes it.
    pub into: PathBuf,
    /// The most that it takes, in bytes.
    pub max_bytes: u64,
    /// The workspaces, without links.
    pub workspaces: Vec<PathBuf>,
    /// The folder of the shims.
    pub programs: PathBuf,
}

impl Terms {
    /// What stands in the variable.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// What is written into the variable; none where a path is not text.
    pub fn written(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// The workspace that holds this path, which has no links.
    pub fn workspace(&self, path: &Path) -> Option<&Path> {
        self.workspaces.iter().map(PathBuf::as_path).find(|workspace| path.starts_with(workspace))
    }

    /// Whether a workspace lies below this path.
    pub fn is_above(&self, path: &Path) -> bool {
        self.workspaces.iter().any(|workspace| workspace.starts_with(path) && workspace != path)
    }

    /// How many bytes of this path, in this workspace, the trash takes.
    pub fn most(&self, path: &Path, workspace: &Path) -> u64 {
        let in_git =
            below(path, workspace).parent().is_some_and(|above| above.iter().any(|part| part == ".git"));
        if in_git || self.is_made_again(path, workspace) { self.max_bytes / 4 } else { self.max_bytes }
    }

    /// Whether it can be made again, for the most part.
    pub fn is_made_again(&self, path: &Path, workspace: &Path) -> bool {
        below(path, workspace).iter().any(|part| MADE_AGAIN.iter().any(|name| part == *name))
    }
}

fn below<'a>(path: &'a Path, workspace: &Path) -> &'a Path {
    path.strip_prefix(workspace).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_again_gets_a_share_and_a_repository_does_not_count_as_that() {
        let terms = Terms {
            request: RequestId::new(),
            into: PathBuf::from("/h"),
            max_bytes: 800,
            workspaces: vec![PathBuf::from("/w/target")],
            programs: PathBuf::from("/p"),
        };
        let most = |path: &str| terms.most(Path::new(path), Path::new("/w/target"));
        assert_eq!([most("/w/target/src"), most("/w/target/.git"), most("/w/target/a/target.rs")], [800; 3]);
        assert_eq!(
            [most("/w/target/a/target"), most("/w/target/node_modules/x"), most("/w/target/.git/objects")],
            [200; 3]
        );
    }
}
