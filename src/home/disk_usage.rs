//! The space on the disk that the home takes, and what earlier versions left in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::layout::Home;

/// The entries of the folder that commands of earlier versions saw as the user's home.
const COPIED_CACHES: [&str; 4] = [
    "command-home",
    "command-home.new",
    "command-home.too-large",
    "command-home.lock",
];

impl Home {
    /// Returns the bytes on the disk that this home takes. Blocks for some microseconds a file.
    pub fn disk_usage(&self) -> u64 {
        tree_size(self.root_dir())
    }

    /// Returns the bytes on the disk that the caches and other files of commands take.
    pub fn commands_disk_usage(&self) -> u64 {
        tree_size(&self.commands_dir())
    }

    /// Removes the copies of the user's caches that earlier versions made. Returns the bytes that they took; `None` if
    /// there were none. Blocks for some microseconds a file.
    ///
    /// # Errors
    /// The system's error; a later call goes on.
    pub fn remove_copied_caches(&self) -> io::Result<Option<u64>> {
        let entries = COPIED_CACHES.map(|name| self.root_dir().join(name));
        let found: Vec<PathBuf> = entries
            .into_iter()
            .filter(|path| path.symlink_metadata().is_ok())
            .collect();
        let bytes = found.iter().map(|path| tree_size(path)).sum();
        for path in &found {
            if path.is_dir() && !path.is_symlink() {
                open_folders(path)?;
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
        }
        Ok((!found.is_empty()).then_some(bytes))
    }
}

/// Returns the bytes on the disk of a file or folder. What cannot be read counts nothing.
fn tree_size(path: &Path) -> u64 {
    let Ok(metadata) = path.symlink_metadata() else {
        return 0;
    };
    #[cfg(unix)]
    let own = std::os::unix::fs::MetadataExt::blocks(&metadata) * 512;
    #[cfg(not(unix))]
    let own = metadata.len();
    if !metadata.is_dir() {
        return own;
    }
    let entries = fs::read_dir(path).into_iter().flatten();
    let inside = entries.filter_map(Result::ok);
    own + inside.map(|entry| tree_size(&entry.path())).sum::<u64>()
}

/// Makes the folders of a tree writable: Go's cache has read-only ones.
pub(super) fn open_folders(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_folders(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn copied_caches_are_removed_once_and_nothing_else_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = Home::open_home(&folder.path().join("home")).expect("a home");
        assert_eq!(home.remove_copied_caches().expect("none"), None);
        let kept = folder.path().join("kept");
        let inner = home.root_dir().join("command-home/go/pkg/mod/x@v1");
        fs::create_dir_all(&inner).expect("made");
        for file in [
            &kept,
            &inner.join("x.go"),
            &home.root_dir().join("command-home.too-large"),
        ] {
            fs::write(file, vec![b'x'; 10_000]).expect("written");
        }
        std::os::unix::fs::symlink(folder.path(), inner.join("link")).expect("a link");
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o555)).expect("set");
        let usage = home.disk_usage();
        assert!(usage >= 20_000, "{usage}");
        let removed = home.remove_copied_caches().expect("removed").expect("some");
        assert!((20_000..=usage).contains(&removed), "{removed} of {usage}");
        assert!(kept.exists() && home.disk_usage() < usage - 20_000);
        assert_eq!(home.remove_copied_caches().expect("none"), None);
        assert!(!home.root_dir().join("command-home").exists());
    }
}
