//! Writes whole files so that a reader, a crash or a full disk never shows half of one: a new file in the same
//! folder, synced, then put in place under its name. Not here: appending, and files that are changed in place.
#![expect(clippy::disallowed_methods, reason = "this file owns the whole-file writes of the home")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Who may read the written file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// This user only (0600).
    OwnerOnly,
    /// As the file that was there before, else as the umask says.
    AsBefore,
}

/// Writes the file, in place of the one that may be there. A link in its place is replaced, not followed.
///
/// # Errors
/// What the system said. The old file is then untouched, unless it was the folder that could not be synced: then the new one
/// stands there, and may be gone again after a power cut.
pub fn write(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let draft = Draft::write(path, bytes, readers)?;
    fs::rename(&draft.path, path)?;
    draft.published();
    sync_dir(parent(path))
}

/// Writes the file only if there is none: whoever comes second gets `AlreadyExists`, and nobody sees half of it.
///
/// # Errors
/// `AlreadyExists`, or what the system said.
pub fn create_new(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let draft = Draft::write(path, bytes, readers)?;
    // A hard link, unlike a rename, refuses to replace what is there. The draft goes when it is dropped.
    fs::hard_link(&draft.path, path)?;
    drop(draft);
    sync_dir(parent(path))
}

/// The written file before it has its name; removed unless published.
struct Draft {
    path: PathBuf,
}

impl Draft {
    fn write(target: &Path, bytes: &[u8], readers: Readers) -> io::Result<Self> {
        let (draft, mut file) = Self::open(target, readers)?;
        if readers == Readers::AsBefore
            && let Ok(before) = fs::symlink_metadata(target)
            && before.is_file()
        {
            file.set_permissions(before.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(draft)
    }

    fn open(target: &Path, readers: Readers) -> io::Result<(Self, File)> {
        let path = parent(target).join(format!(".punie-{}.tmp", uuid::Uuid::new_v4().simple()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(
            &mut options,
            if readers == Readers::OwnerOnly { 0o600 } else { 0o666 },
        );
        #[cfg(not(unix))]
        let _ = readers;
        let file = options.open(&path)?;
        Ok((Self { path }, file))
    }

    fn published(self) {
        std::mem::forget(self);
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Nothing better can be done with a draft that cannot be removed: it is inert.
        let _ = fs::remove_file(&self.path);
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the new name durable. Only some systems have, and need, a way to do so.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        File::open(dir)?.sync_all()
    }
    #[cfg(not(unix))]
    {
        let _ = dir;
        Ok(())
    }
}
