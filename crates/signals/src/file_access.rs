//! Reading the owner's files: regular files only, bounded, and never a wait for a pipe or a device.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::Budget;
use punie_core::bounded_file::{self, FinalLink};

/// Opens a file, through links too, if it is a regular one.
pub(crate) fn open_regular_file(path: &Path) -> io::Result<File> {
    bounded_file::open_regular_file(path, FinalLink::Follow)
}

/// Returns whether an error says that a file or folder does not exist.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Says for people why a file or folder could not be read, and what helps where the system protects it.
pub(crate) fn describe_error(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return "the system does not allow punie-runner to read it. On macOS: System Settings, Privacy & Security, Full \
            Disk Access"
            .to_owned();
    }
    error.to_string()
}

/// The end of a file.
#[derive(Debug)]
pub(crate) struct FileTail {
    pub bytes: Vec<u8>,
    /// Whether the file has lines before these.
    pub is_cut: bool,
}

/// Reads the last whole lines of a file.
pub(crate) fn read_tail(path: &Path, max_bytes: u64) -> io::Result<FileTail> {
    let mut file = open_regular_file(path)?;
    let length = file.metadata()?.len();
    // One byte more shows whether the cut is at the end of a line.
    let start = length.saturating_sub(max_bytes.saturating_add(1));
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    let is_cut = start > 0;
    if is_cut {
        let first_line = bytes.iter().position(|&byte| byte == b'\n');
        bytes.drain(..first_line.map_or(bytes.len(), |end| end + 1));
    }
    Ok(FileTail { bytes, is_cut })
}

/// Reads a whole file that is not larger than the limit.
pub(crate) fn read_bounded(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    bounded_file::read_regular_file(path, FinalLink::Follow, max_bytes)
}

/// Reads a whole file like [`read_bounded`], or returns `None` if there is none.
///
/// # Errors
/// A text for people.
pub(crate) fn read_if_present(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, String> {
    match read_bounded(path, max_bytes) {
        Err(error) if is_absent(&error) => Ok(None),
        read => read.map(Some).map_err(|error| describe_error(&error)),
    }
}

/// Returns the time of the last change of a file or folder, itself and not a link's target.
pub(crate) fn modified_time(path: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(path).ok()?.modified().ok()
}

/// Returns whether a path is a link.
pub(crate) fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

/// Returns whether there is something at this path, links followed.
pub(crate) fn exists(path: &Path) -> bool {
    fs::metadata(path).is_ok()
}

/// Returns whether there is something at this path, or the system does not say: a protected file is no absent one.
pub(crate) fn may_exist(path: &Path) -> bool {
    !fs::metadata(path).is_err_and(|error| is_absent(&error))
}

/// Returns for people why a folder that is there cannot be listed.
pub(crate) fn listing_problem(folder: &Path) -> Option<String> {
    let error = fs::read_dir(folder).err()?;
    (!is_absent(&error)).then(|| describe_error(&error))
}

/// The kind of an entry of a folder, links not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Folder,
    File,
    Other,
}

#[derive(Debug)]
pub(crate) struct FolderEntry {
    pub name: OsString,
    pub path: PathBuf,
    pub kind: EntryKind,
}

/// Lists a folder as far as the budget goes, by name. An entry whose kind cannot be read is left out.
pub(crate) fn list_folder(path: &Path, budget: &Budget) -> io::Result<Vec<FolderEntry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        if !budget.take_entry() {
            break;
        }
        let Ok(entry) = entry else { continue };
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let kind = match (kind.is_dir(), kind.is_file()) {
            (true, _) => EntryKind::Folder,
            (_, true) => EntryKind::File,
            _ => EntryKind::Other,
        };
        entries.push(FolderEntry {
            name: entry.file_name(),
            path: entry.path(),
            kind,
        });
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_begins_with_a_whole_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lines");
        fs::write(&path, "first\nsecond\nthird\n").expect("a file");
        let tail = |bytes| {
            let tail = read_tail(&path, bytes).expect("a tail");
            (String::from_utf8(tail.bytes).expect("a text"), tail.is_cut)
        };
        assert_eq!(tail(100), ("first\nsecond\nthird\n".to_owned(), false));
        assert_eq!(tail(13), ("second\nthird\n".to_owned(), true));
        assert_eq!(tail(12), ("third\n".to_owned(), true));
        assert_eq!(tail(3), (String::new(), true));
        assert!(read_bounded(&path, 19).is_ok());
        let error = read_bounded(&path, 18).expect_err("too large");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_pipe_or_a_device_is_not_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).expect("a link");
        let error = open_regular_file(&link).expect_err("a device");
        assert!(!is_absent(&error), "{error}");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo").success());
        let error = open_regular_file(&pipe).expect_err("a pipe");
        assert_eq!(error.to_string(), "it is no regular file");
        let missing = open_regular_file(&folder.path().join("missing")).expect_err("nothing");
        assert!(is_absent(&missing));
    }

    #[cfg(unix)]
    #[test]
    fn what_cannot_be_looked_at_is_not_absent() {
        let folder = tempfile::tempdir().expect("a folder");
        let endless = folder.path().join("endless");
        std::os::unix::fs::symlink(&endless, &endless).expect("a link");
        assert!(may_exist(&endless.join("x")) && !exists(&endless.join("x")));
        assert!(listing_problem(&endless).is_some());
        assert!(may_exist(folder.path()) && !may_exist(&folder.path().join("x/y")));
        assert_eq!(listing_problem(folder.path()), None);
        assert_eq!(listing_problem(&folder.path().join("x")), None);
        let refused = io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(describe_error(&refused).contains("Full Disk Access"));
    }
}
