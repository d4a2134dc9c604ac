//! Removes a tree that is deeper than files may be open: one folder is held at a time.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, unlinkat};
use rustix::io::Errno;

use super::tree_copy::open_folder;

/// A folder on the way down: its name, and the device and inode of the one around it.
struct Level {
    name: OsString,
    around: (u64, u64),
}

/// Removes all that is in a folder, and the folder. No link is followed, and a folder that is moved meanwhile is an error.
pub(super) fn remove_deep_tree(top: &Path) -> io::Result<()> {
    let mut folder = open_folder(CWD, top.as_os_str())?;
    let mut way: Vec<Level> = Vec::new();
    loop {
        if let Some(name) = remove_entries(&folder)? {
            let around = identity(&folder)?;
            folder = open_folder(&folder, &name)?;
            way.push(Level { name, around });
            continue;
        }
        let Some(Level { name, around }) = way.pop() else {
            return Ok(unlinkat(CWD, top, AtFlags::REMOVEDIR)?);
        };
        folder = open_folder(&folder, OsStr::new(".."))?;
        if identity(&folder)? != around {
            let text = format!("{} was moved while it was removed", name.display());
            return Err(io::Error::other(text));
        }
        unlinkat(&folder, &name, AtFlags::REMOVEDIR)?;
    }
}

/// Removes the files and the empty folders of a folder, until there is a folder that is not empty: returns its name.
fn remove_entries(folder: &File) -> io::Result<Option<OsString>> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let removed = match unlinkat(folder, name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => unlinkat(folder, name, AtFlags::REMOVEDIR),
            removed => removed,
        };
        match removed {
            Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(Some(name.to_owned())),
            removed => removed?,
        }
    }
    Ok(None)
}

fn identity(folder: &File) -> io::Result<(u64, u64)> {
    let metadata = folder.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Mode, OFlags, mkdirat, openat, symlinkat};

    use super::*;

    #[test]
    fn a_tree_of_any_depth_is_removed_and_links_are_not_followed() {
        let place = tempfile::tempdir().expect("a folder");
        let outside = place.path().join("outside");
        std::fs::create_dir_all(outside.join("kept")).expect("made");
        std::fs::create_dir(place.path().join("top")).expect("made");
        let mut folder = open_folder(CWD, place.path().join("top").as_os_str()).expect("opened");
        for _ in 0..5_000 {
            mkdirat(&folder, "d", Mode::RWXU).expect("made");
            mkdirat(&folder, "empty", Mode::RWXU).expect("made");
            symlinkat(&outside, &folder, "link").expect("linked");
            let flags = OFlags::CREATE | OFlags::WRONLY;
            openat(&folder, "file", flags, Mode::RUSR).expect("written");
            folder = open_folder(&folder, OsStr::new("d")).expect("opened");
        }
        remove_deep_tree(&place.path().join("top")).expect("removed");
        assert!(!place.path().join("top").exists());
        assert!(outside.join("kept").exists());
    }
}
