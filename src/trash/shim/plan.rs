//! How each of several paths is to go: into the trash in one step, for good because the trash does not take it, or one
//! by one as the program itself would go about it. Not here: removing (removal).
#![expect(clippy::disallowed_methods, reason = "this file looks at what is to be removed")]

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::bin::removed;
use super::complain;
use super::options::Ask;
use super::quoting::quoted;
use super::removal::Removal;
use super::terms::{Share, Taken};
use super::walk::{Tree, is_behind_a_link, look, true_path};
use crate::output::figures;

/// Where the trash takes no more than this, trees are no longer divided to fill it.
const REST: u64 = 64 << 10;

/// How something goes.
pub(super) enum Way {
    /// To the trash in one step, as what is written down already.
    Whole(Announced),
    /// In one step, and not to the trash.
    ForGood(PathBuf, Tree),
    /// What is in it first.
    OneByOne,
}

/// Something that is written down as about to go to the trash.
pub(super) struct Announced {
    pub item: String,
    pub tree: Tree,
    /// What it counts against.
    pub share: Share,
}

/// What the trash makes of a path that could go in one step.
enum Place {
    Fits(PathBuf, Tree, Share),
    Over(PathBuf, Tree),
    /// Parts of it may fit.
    Divided,
}

impl Removal<'_> {
    /// How these go. Those that go to the trash in one step are all written down, at once: one wait for the disk, however
    /// many there are.
    pub fn plan(&mut self, paths: &[PathBuf]) -> Vec<Way> {
        if self.asked.ask == Ask::Always || (self.asked.ask != Ask::Never && self.attended) {
            return paths.iter().map(|_| Way::OneByOne).collect();
        }
        let (mut planned, mut lines) = (Vec::new(), Vec::new());
        let mut taken = self.bin.taken();
        for path in paths {
            planned.push(match self.place(path, taken) {
                Some(Place::Fits(real, tree, share)) => {
                    let item = self.bin.name();
                    taken.add(share, tree.on_disk);
                    lines.push(removed(&real, &item, tree.files, tree.bytes));
                    Way::Whole(Announced { item, tree, share })
                }
                Some(Place::Over(real, tree)) => Way::ForGood(real, tree),
                Some(Place::Divided) | None => Way::OneByOne,
            });
        }
        if !lines.is_empty() && !self.bin.announce(&lines) {
            let not_kept = |way| if let Way::Whole(..) = way { Way::OneByOne } else { way };
            return planned.into_iter().map(not_kept).collect();
        }
        // From now on: what is divided between them must not fill their room.
        for way in &planned {
            if let Way::Whole(Announced { tree, share, .. }) = way {
                self.bin.takes(*share, tree.on_disk);
            }
        }
        planned
    }

    /// None for what cannot go in one step, or is none of the trash's.
    fn place(&mut self, path: &Path, taken: Taken) -> Option<Place> {
        let metadata = fs::symlink_metadata(path).ok()?;
        if metadata.is_dir() && !self.asked.recursive {
            return None;
        }
        let real = true_path(path)?;
        let workspace = self.terms.workspace(&real)?;
        if self.terms.into.starts_with(&real)
            || self.terms.is_above(&real)
            || is_behind_a_link(path, &metadata)
        {
            return None;
        }
        let share = self.terms.share(&real, workspace);
        // Over a border of file systems only files go, one by one: what was copied must be what is removed.
        let is_divided = metadata.is_dir() && self.is_elsewhere(&metadata);
        if is_divided && share == Share::Usual {
            return None;
        }
        let tree = look(path, &metadata, self.asked.verbose);
        if !tree.goes_whole {
            return None;
        }
        let room = self.terms.room(share, taken);
        if tree.on_disk <= room {
            return (!is_divided).then_some(Place::Fits(real, tree, share));
        }
        if metadata.is_dir() && room > REST && share == Share::Usual {
            return Some(Place::Divided);
        }
        self.tell_what_is_over(path, share);
        Some(Place::Over(real, tree))
    }

    /// Whether this is on another file system than the trash.
    fn is_elsewhere(&self, metadata: &Metadata) -> bool {
        fs::metadata(&self.terms.into).is_ok_and(|trash| trash.dev() != metadata.dev())
    }

    /// Once.
    pub fn tell_what_is_over(&mut self, path: &Path, share: Share) {
        if !self.warned {
            self.warned = true;
            let (shown, most) = (quoted(path.as_os_str()), figures::size(self.terms.most(share)));
            let text = format!(
                "{shown} and what follows is over the {most} that the trash takes of this; what does not fit is removed \
                 for good"
            );
            complain(self.name, &text);
        }
    }
}
