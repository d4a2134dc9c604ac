//! Writes whole files atomically: a reader, a crash or a full disk never shows a partial file. The content goes to a
//! new file in the same folder, which is synced and then renamed. Not here: appending, and files that are changed in
//! place.
#![expect(clippy::disallowed_methods, reason = "this file owns the whole-file writes of the home")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The users that may read the written file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// This user only (0600).
    OwnerOnly,
    /// Those of the previous file, else those that the umask allows.
    AsBefore,
}

/// Writes the file, replacing an existing one. A symlink in its place is replaced, not followed.
///
/// # Errors
/// The system's error. The old file is then unchanged, unless syncing the folder failed: then the new file is there,
/// but may be lost after a power failure.
pub fn write(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let draft = Draft::write(path, bytes, readers)?;
    fs::rename(&draft.path, path)?;
    draft.published();
    sync_dir(parent(path))
}

/// Writes the file only if there is none. Of several writers only the first succeeds, and no reader sees a partial
/// file.
///
/// # Errors
/// `AlreadyExists`, or the system's error.
pub fn create_new(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let draft = Draft::write(path, bytes, readers)?;
    // A hard link, unlike a rename, never replaces a file. Dropping the draft removes its other name.
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
        // A draft that cannot be removed is harmless.
        let _ = fs::remove_file(&self.path);
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the new name durable. Only some systems support and need this.
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
