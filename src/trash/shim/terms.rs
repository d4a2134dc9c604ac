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
    /// What shows that a manifest is its own.
    pub proof: String,
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

    /// Which share of the trash this path, in this workspace, counts against.
    pub fn share(&self, path: &Path, workspace: &Path) -> Share {
        let below = path.strip_prefix(workspace).unwrap_or(path);
        let made_again = below.iter().any(|part| MADE_AGAIN.iter().any(|name| part == *name));
        let in_git = below.parent().is_some_and(|above| above.iter().any(|part| part == ".git"));
        if made_again || in_git { Share::MadeAgain } else { Share::Usual }
    }

    /// How many bytes of a share the trash takes.
    pub fn most(&self, share: Share) -> u64 {
        match share {
            Share::Usual => self.max_bytes,
            Share::MadeAgain => self.max_bytes / 4,
        }
    }

    /// How many more bytes of a share it takes, beside what it has taken.
    pub fn room(&self, share: Share, taken: Taken) -> u64 {
        let of_share = match share {
            Share::Usual => self.max_bytes,
            Share::MadeAgain => self.most(share).saturating_sub(taken.made_again),
        };
        of_share.min(self.max_bytes.saturating_sub(taken.all))
    }
}

/// Of which part of the trash something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// All of it.
    Usual,
    /// A quarter: what can be made again for the most part, or lies in a repository's own folder.
    MadeAgain,
}

/// What was taken already, in bytes on the disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct Taken {
    all: u64,
    made_again: u64,
}

impl Taken {
    /// So many more.
    pub fn add(&mut self, share: Share, bytes: u64) {
        self.all += bytes;
        if share == Share::MadeAgain {
            self.made_again += bytes;
        }
    }

    /// So many less, which did not come after all.
    pub fn give_back(&mut self, share: Share, bytes: u64) {
        self.all = self.all.saturating_sub(bytes);
        if share == Share::MadeAgain {
            self.made_again = self.made_again.saturating_sub(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_again_gets_a_share_and_a_repository_does_not_count_as_that() {
        let terms = Terms {
            request: RequestId::new(),
            proof: String::new(),
            into: PathBuf::from("/h"),
            max_bytes: 800,
            workspaces: vec![PathBuf::from("/w/target")],
            programs: PathBuf::from("/p"),
        };
        let most = |path: &str| terms.most(terms.share(Path::new(path), Path::new("/w/target")));
        assert_eq!([most("/w/target/src"), most("/w/target/.git"), most("/w/target/a/target.rs")], [800; 3]);
        assert_eq!(
            [most("/w/target/a/target"), most("/w/target/node_modules/x"), most("/w/target/.git/objects")],
            [200; 3]
        );
    }

    #[test]
    fn what_was_made_again_takes_room_from_all_and_not_the_other_way_round() {
        let terms = Terms {
            request: RequestId::new(),
            proof: String::new(),
            into: PathBuf::from("/h"),
            max_bytes: 800,
            workspaces: Vec::new(),
            programs: PathBuf::from("/p"),
        };
        let mut taken = Taken::default();
        taken.add(Share::Usual, 500);
        assert_eq!((terms.room(Share::Usual, taken), terms.room(Share::MadeAgain, taken)), (300, 200));
        taken.add(Share::MadeAgain, 150);
        assert_eq!((terms.room(Share::Usual, taken), terms.room(Share::MadeAgain, taken)), (150, 50));
    }
}
