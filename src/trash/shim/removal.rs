//! `rm` and `unlink`: each operand as those programs would take it, but what lies in a workspace goes to the trash, a
//! tree in one step where nothing in it would have stopped a removal one by one. Not here: the options.
#![expect(clippy::disallowed_methods, reason = "this file removes files, which is what was asked for")]

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::bin::{Bin, empty_folder, removed};
use super::options::{Ask, PreserveRoot, Rm};
use super::plan::{Announced, Way};
use super::quoting::quoted;
use super::terms::Terms;
use super::walk::{Tree, is_behind_a_link, kind, last_part, may, trimmed, true_path};
use super::{complain, complain_plainly, in_words, say};
use crate::output::figures;
use crate::trash::tree::{self, Unmoved};

/// A removal at work.
pub(super) struct Removal<'a> {
    pub name: &'static str,
    pub terms: &'a Terms,
    pub asked: &'a Rm,
    pub bin: Bin<'a>,
    failed: bool,
    /// Somebody sits at the other end of stdin.
    pub attended: bool,
    /// That something is gone for good was said.
    pub warned: bool,
}

/// `rm`.
pub(super) fn remove(terms: &Terms, asked: &Rm) -> u8 {
    let attended = io::stdin().is_terminal();
    let mut removal = Removal {
        name: "rm",
        terms,
        asked,
        bin: Bin::new(terms, "rm"),
        failed: false,
        attended,
        warned: false,
    };
    if asked.ask == Ask::Once && !removal.is_wanted_at_all() {
        return 0;
    }
    let paths: Vec<PathBuf> = asked.operands.iter().map(PathBuf::from).collect();
    for (path, way) in paths.iter().zip(removal.plan(&paths)) {
        removal.operand(path, &way);
    }
    u8::from(removal.failed)
}

/// `unlink`.
pub(super) fn unlink(terms: &Terms, path: &OsStr) -> u8 {
    let asked = Rm { ask: Ask::Never, operands: vec![path.to_owned()], ..Rm::default() };
    let bin = Bin::new(terms, "unlink");
    let mut removal =
        Removal { name: "unlink", terms, asked: &asked, bin, failed: false, attended: false, warned: false };
    let fault = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => Some("Is a directory".to_owned()),
        Ok(metadata) => removal.dispose(Path::new(path), &metadata).err().map(|cause| in_words(&cause)),
        Err(cause) => Some(in_words(&cause)),
    };
    if let Some(fault) = &fault {
        complain("unlink", &format!("cannot unlink {}: {fault}", quoted(path)));
    }
    u8::from(fault.is_some())
}

impl Removal<'_> {
    /// The one question of `-I`.
    fn is_wanted_at_all(&self) -> bool {
        let many = self.asked.operands.len();
        if !self.asked.recursive && many <= 3 {
            return true;
        }
        let arguments = figures::counted(many as u64, "argument");
        let how = if self.asked.recursive { " recursively" } else { "" };
        self.is_wanted(&format!("remove {arguments}{how}? "))
    }

    fn operand(&mut self, path: &Path, way: &Way) {
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(cause) => return self.cannot_find(path, &cause),
        };
        if metadata.is_dir() && !self.may_begin(path, &metadata) {
            return;
        }
        self.go(path, &metadata, &metadata, way);
    }

    /// In this way, and one by one where it cannot go in one step. False where something stays.
    fn go(&mut self, path: &Path, metadata: &Metadata, top: &Metadata, way: &Way) -> bool {
        match way {
            Way::Whole(announced) => self.go_whole(path, announced) || self.one_by_one(path, metadata, top),
            Way::ForGood(real, tree) if tree::remove(Path::new(trimmed(path.as_os_str()))).is_ok() => {
                self.bin.went_for_good(real);
                self.tell_all(tree);
                true
            }
            _ => self.one_by_one(path, metadata, top),
        }
    }

    /// Whether a folder may be removed at all.
    fn may_begin(&mut self, path: &Path, metadata: &Metadata) -> bool {
        let shown = quoted(path.as_os_str());
        if !self.asked.recursive && !self.asked.empty_folders {
            self.cannot(path, "Is a directory");
            return false;
        }
        let last = last_part(path.as_os_str());
        if last == "." || last == ".." {
            self.fails(&format!("refusing to remove '.' or '..' directory: skipping {shown}"));
            return false;
        }
        let is_root =
            fs::metadata("/").is_ok_and(|root| (root.dev(), root.ino()) == (metadata.dev(), metadata.ino()));
        if self.asked.recursive && is_root && self.asked.preserve_root != PreserveRoot::No {
            let same = if path == Path::new("/") { "" } else { " (same as '/')" };
            self.fails(&format!("it is dangerous to operate recursively on {shown}{same}"));
            complain(self.name, "use --no-preserve-root to override this failsafe");
            return false;
        }
        let above = true_path(path).and_then(|real| fs::symlink_metadata(real.parent()?).ok());
        if self.asked.preserve_root == PreserveRoot::All
            && above.is_some_and(|above| above.dev() != metadata.dev())
        {
            self.fails(&format!("skipping {shown}, since it's on a different device"));
            complain(self.name, "and --preserve-root=all is in effect");
            return false;
        }
        true
    }

    /// False where it cannot go in one step: then it goes one by one.
    fn go_whole(&mut self, path: &Path, announced: &Announced) -> bool {
        let Some(place) = self.bin.place(&announced.item) else { return false };
        let from = Path::new(trimmed(path.as_os_str()));
        let is_folder = fs::symlink_metadata(from).is_ok_and(|found| found.is_dir());
        let moved = if is_folder {
            tree::rename_new(from, &place).is_ok()
        } else {
            tree::move_file_new(from, &place).is_ok()
        };
        if moved {
            self.tell_all(&announced.tree);
            return true;
        }
        self.bin.gives_back(announced.share, announced.tree.on_disk);
        self.bin.did_not_come(&announced.item);
        match fs::symlink_metadata(from) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                self.cannot_find(path, &cause);
                true
            }
            _ => false,
        }
    }

    /// Complains of what is not there, unless that is fine.
    fn cannot_find(&mut self, path: &Path, cause: &io::Error) {
        if !self.is_gone_anyhow(cause) {
            self.cannot(path, &in_words(cause));
        }
    }

    /// Whether it is not there, or somebody else was faster, where that is as good.
    fn is_gone_anyhow(&self, cause: &io::Error) -> bool {
        self.asked.missing_is_fine
            && matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    }

    /// As the program itself goes about it: what is in a folder first. False where something stays.
    fn one_by_one(&mut self, path: &Path, metadata: &Metadata, top: &Metadata) -> bool {
        if !metadata.is_dir() {
            return self.is_agreed(path, metadata, "remove") && self.file(path, metadata);
        }
        if self.asked.one_file_system && metadata.dev() != top.dev() {
            self.fails(&format!("skipping {}, since it's on a different device", quoted(path.as_os_str())));
            return false;
        }
        // Paths, since entries would hold the folder open, and folders lie deeper than many may be open.
        let read = fs::read_dir(path).and_then(|all| all.map(|entry| Ok(entry?.path())).collect());
        let paths: Vec<PathBuf> = match read {
            Ok(paths) => paths,
            // It may be empty all the same.
            Err(cause) => return self.folder(path, metadata, Some(&cause)),
        };
        if !paths.is_empty() {
            if !self.asked.recursive {
                self.cannot(path, "Directory not empty");
                return false;
            }
            if !self.is_agreed(path, metadata, "descend into") {
                return false;
            }
        }
        let mut all_gone = true;
        for (path, way) in paths.iter().zip(self.plan(&paths)) {
            match fs::symlink_metadata(path) {
                Ok(below) => all_gone &= self.go(path, &below, top, &way),
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
                Err(cause) => {
                    self.cannot(path, &in_words(&cause));
                    all_gone = false;
                }
            }
        }
        all_gone && self.is_agreed(path, metadata, "remove") && self.folder(path, metadata, None)
    }

    fn file(&mut self, path: &Path, metadata: &Metadata) -> bool {
        match self.dispose(path, metadata) {
            Ok(()) => {
                self.tell(path, false);
                true
            }
            Err(cause) if self.is_gone_anyhow(&cause) => true,
            Err(cause) => {
                self.cannot(path, &in_words(&cause));
                false
            }
        }
    }

    fn folder(&mut self, path: &Path, metadata: &Metadata, unread: Option<&io::Error>) -> bool {
        // What a link leads to is not removed by its name: that fails below.
        let real = true_path(path)
            .filter(|real| !is_behind_a_link(path, metadata) && self.terms.workspace(real).is_some());
        let announced =
            real.is_some_and(|real| self.bin.announce(&[empty_folder(&real, metadata.mode() & 0o7777)]));
        self.warn_once();
        match fs::remove_dir(trimmed(path.as_os_str())) {
            Ok(()) => {
                self.tell(path, true);
                true
            }
            Err(cause) => {
                if announced {
                    self.bin.stayed();
                }
                let is_gone = self.is_gone_anyhow(&cause);
                if !is_gone {
                    self.cannot(path, &in_words(unread.unwrap_or(&cause)));
                }
                is_gone
            }
        }
    }

    /// Removes one that is no folder: into the trash, or away.
    fn dispose(&mut self, path: &Path, metadata: &Metadata) -> io::Result<()> {
        let real = true_path(path).filter(|real| !real.starts_with(&self.terms.into));
        let inside = real.and_then(|real| {
            let share = self.terms.share(&real, self.terms.workspace(&real)?);
            Some((real, share))
        });
        let Some((real, share)) = inside else { return fs::remove_file(path) };
        let (size, length) =
            if metadata.is_file() { (tree::taken(metadata), metadata.len()) } else { (0, 0) };
        if size > self.terms.room(share, self.bin.taken()) {
            self.tell_what_is_over(path, share);
            fs::remove_file(path)?;
            self.bin.went_for_good(&real);
            return Ok(());
        }
        let item = self.bin.name();
        if !self.bin.announce(&[removed(&real, &item, 1, length)]) {
            self.warn_once();
            return fs::remove_file(path);
        }
        let Some(place) = self.bin.place(&item) else { return fs::remove_file(path) };
        match tree::move_file_new(path, &place) {
            Ok(()) => {
                self.bin.takes(share, size);
                Ok(())
            }
            Err(Unmoved::Removal(cause))
                if matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) =>
            {
                self.bin.did_not_come(&item);
                Err(cause)
            }
            Err(Unmoved::Copy(cause) | Unmoved::Removal(cause)) => {
                let removed = fs::remove_file(path);
                self.bin.did_not_come(&item);
                removed?;
                self.bin.went_for_good(&real);
                let (shown, why) = (quoted(path.as_os_str()), in_words(&cause));
                complain(
                    self.name,
                    &format!("{shown} could not be put into the trash ({why}); it is removed for good"),
                );
                Ok(())
            }
        }
    }

    fn warn_once(&mut self) {
        if let Some(why) = self.bin.unusable.as_ref().filter(|_| !self.warned) {
            complain(
                self.name,
                &format!("the trash cannot be used ({why}); what is removed is gone for good"),
            );
            self.warned = true;
        }
    }

    /// Whether whoever sits there agrees, where that is asked.
    fn is_agreed(&self, path: &Path, metadata: &Metadata, verb: &str) -> bool {
        let guarded = !metadata.is_symlink() && !may(path, Access::WRITE_OK);
        let asks = match self.asked.ask {
            Ask::Always => true,
            Ask::Never => false,
            Ask::Once | Ask::Protected => guarded && self.attended,
        };
        if !asks {
            return true;
        }
        let protected = if guarded { "write-protected " } else { "" };
        self.is_wanted(&format!("{verb} {protected}{} {}? ", kind(metadata), quoted(path.as_os_str())))
    }

    fn is_wanted(&self, question: &str) -> bool {
        let mut err = io::stderr().lock();
        let _ = write!(err, "{}: {question}", self.name).and_then(|()| err.flush());
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).is_ok() && answer.starts_with(['y', 'Y'])
    }

    fn tell_all(&mut self, tree: &Tree) {
        for (path, is_folder) in &tree.told {
            self.tell(path, *is_folder);
        }
    }

    fn tell(&mut self, path: &Path, is_folder: bool) {
        let what = if is_folder { "removed directory" } else { "removed" };
        if self.asked.verbose && !say(&format!("{what} {}", quoted(path.as_os_str()))) {
            self.failed = true;
        }
    }

    fn cannot(&mut self, path: &Path, why: &str) {
        self.fails(&format!("cannot remove {}: {why}", quoted(path.as_os_str())));
    }

    fn fails(&mut self, text: &str) {
        complain_plainly(&format!("{}: {text}", self.name));
        self.failed = true;
    }
}
