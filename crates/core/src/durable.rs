//! Writing files so that a crash or a power cut leaves them whole: private files and folders, temporary names, whole
//! files put in place in one step, lines of JSON, and names made durable.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ids::to_hex;

/// The users who may read a written file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// This user only (0600).
    OwnerOnly,
    /// As the file that was there before, else as the umask says.
    AsBefore,
}

/// Makes the names in a folder durable. A file system that cannot do that, as some network file systems, costs the
/// guarantee and is no error.
///
/// # Errors
/// The system's.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    allow_unsupported_sync(File::open(folder).and_then(|folder| folder.sync_all()))
}

/// Takes the answer of a file system that cannot sync a folder for no error.
///
/// # Errors
/// Any other error.
pub fn allow_unsupported_sync(synced: io::Result<()>) -> io::Result<()> {
    match synced {
        Err(cause)
            if matches!(
                cause.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

/// Takes the answer that there is no such file or folder for no error, and returns `None` for it.
///
/// # Errors
/// Any other error.
pub fn allow_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Makes the name of a file durable.
///
/// # Errors
/// The system's.
pub fn sync_parent_folder(path: &Path) -> io::Result<()> {
    sync_folder(parent_folder(path))
}

/// Renames something on one file system to a path where nothing is yet, in one step where the file system can do that.
///
/// # Errors
/// `AlreadyExists`, or the system's.
pub fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // This file system cannot do it in one step.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            renamed => return Ok(renamed?),
        }
    }
    match allow_missing(fs::symlink_metadata(to))? {
        None => fs::rename(from, to),
        Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
    }
}

/// The metadata that changes with a file: its time of change, size and inode. `None` if there is no file.
pub type FileStamp = Option<(SystemTime, u64, u64)>;

/// Reads the stamp of a file.
///
/// # Errors
/// The system's error, unless there is no file.
pub fn read_file_stamp(path: &Path) -> io::Result<FileStamp> {
    let Some(found) = allow_missing(fs::metadata(path))? else {
        return Ok(None);
    };
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(&found);
    #[cfg(not(unix))]
    let number = 0;
    Ok(Some((found.modified()?, found.len(), number)))
}

/// Returns a builder of folders that this user alone may enter (0700).
pub fn private_folder_builder() -> DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "the mode is set on Unix only"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Opens a file; one that is made by this is readable for this user only.
///
/// # Errors
/// The system's.
pub fn open_private_file(
    path: &Path,
    set_options: impl FnOnce(&mut OpenOptions) -> &mut OpenOptions,
) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    set_options(&mut options).open(path)
}

/// Opens a file to lock it; made for this user only if it is not there.
///
/// # Errors
/// The system's.
pub fn open_lock_file(path: &Path) -> io::Result<File> {
    open_private_file(path, |options| {
        options.read(true).write(true).create(true).truncate(false)
    })
}

/// Makes a hidden name for a file beside its target that cannot be foreseen (CVE-2026-46406 was one that could be).
///
/// # Errors
/// The system has no random bytes.
pub fn temp_name(target: &OsStr) -> io::Result<OsString> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random).map_err(|cause| io::Error::other(cause.to_string()))?;
    let stem: String = target.to_string_lossy().chars().take(40).collect();
    Ok(OsString::from(format!(".{stem}.{}.tmp", to_hex(&random))))
}

/// Returns whether a file has a name as [`temp_name`] makes them.
pub fn is_temp_name(name: &str) -> bool {
    let stem = name
        .strip_prefix('.')
        .and_then(|name| name.strip_suffix(".tmp"));
    let random = stem.and_then(|stem| stem.rsplit_once('.'));
    random.is_some_and(|(_, random)| {
        random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Writes a whole file in place of the one that may be there. A link in its place is replaced, not followed.
///
/// # Errors
/// As [`DraftFile::put_in_place`].
pub fn replace_file(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let mut draft = DraftFile::create_beside(path, readers)?;
    draft.file.write_all(bytes)?;
    draft.put_in_place(path)
}

/// Writes a whole file only if there is none. A reader never sees half of it.
///
/// # Errors
/// `AlreadyExists`, or the system's.
pub fn create_file(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let mut draft = DraftFile::create_beside(path, readers)?;
    draft.file.write_all(bytes)?;
    draft.file.sync_all()?;
    // A hard link, unlike a rename, refuses to replace what is there. The draft goes when it is dropped.
    fs::hard_link(&draft.path, path)?;
    drop(draft);
    sync_parent_folder(path)
}

/// Appends values as lines of JSON, durable when this returns; returns how many bytes these are.
///
/// # Errors
/// The system's.
pub fn append_json_lines<T: Serialize>(path: &Path, values: &[T]) -> io::Result<u64> {
    let mut file = open_private_file(path, |options| options.read(true).append(true).create(true))?;
    let mut text = Vec::new();
    // A line that a crash cut off ends here.
    if file.metadata()?.len() > 0 {
        let mut last = [b'\n'];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            text.push(b'\n');
        }
    }
    for value in values {
        serde_json::to_writer(&mut text, value)?;
        text.push(b'\n');
    }
    file.write_all(&text)?;
    file.sync_all()?;
    Ok(text.len() as u64)
}

/// Reads lines of JSON and passes over those that are none: a crash may have cut one off.
pub fn parse_json_lines<T: DeserializeOwned>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
}

/// A file that is written under a temporary name beside its target. It is removed unless it is put in place.
#[derive(Debug)]
pub struct DraftFile {
    path: PathBuf,
    /// The open file.
    pub file: File,
}

impl DraftFile {
    /// Makes the file in the folder of its target.
    ///
    /// # Errors
    /// The system's.
    pub fn create_beside(target: &Path, readers: Readers) -> io::Result<Self> {
        let path = parent_folder(target).join(temp_name(OsStr::new("punie"))?);
        if readers == Readers::OwnerOnly {
            let file = open_private_file(&path, |options| options.write(true).create_new(true))?;
            return Ok(Self { path, file });
        }
        let draft = Self {
            file: File::create_new(&path)?,
            path,
        };
        if let Some(before) = fs::symlink_metadata(target)
            .ok()
            .filter(fs::Metadata::is_file)
        {
            draft.file.set_permissions(before.permissions())?;
        }
        Ok(draft)
    }

    /// Makes the content durable and gives the file its name.
    ///
    /// # Errors
    /// The system's. An old file is then untouched, unless its folder could not be synced: then the new one stands there,
    /// and may be gone again after a power cut.
    pub fn put_in_place(self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        // The draft has no name any more that could be removed when it is dropped.
        fs::rename(&self.path, target)?;
        sync_parent_folder(target)
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        // Nothing better can be done with a draft that cannot be removed: it is inert.
        let _ = fs::remove_file(&self.path);
    }
}

fn parent_folder(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_name_is_recognised_and_another_hidden_file_is_not() {
        let name = temp_name(OsStr::new("device.json")).expect("random bytes");
        assert!(is_temp_name(&name.to_string_lossy()));
        for other in [
            ".mine.tmp",
            "device.json.0123456789abcdef.tmp",
            ".a.0123.tmp",
            ".a.0123456789abcdefg.tmp",
        ] {
            assert!(!is_temp_name(other), "{other}");
        }
    }

    #[test]
    fn a_missing_file_is_none_and_another_error_stays_one() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("there"), "text").expect("written");
        let read = |name: &str| allow_missing(fs::read(folder.path().join(name)));
        assert_eq!(read("there").expect("read"), Some(b"text".to_vec()));
        assert_eq!(read("missing").expect("no error"), None);
        assert!(read("").is_err(), "a folder is no file");
    }

    #[test]
    fn a_line_that_was_cut_off_is_passed_over_and_ends_where_the_next_begins() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.jsonl");
        append_json_lines(&path, &[1, 2]).expect("written");
        OpenOptions::new()
            .append(true)
            .open(&path)
            .expect("there")
            .write_all(b"{\"ki")
            .expect("written");
        append_json_lines(&path, &[3]).expect("written");
        let lines: Vec<u32> = parse_json_lines(&fs::read(&path).expect("there")).collect();
        assert_eq!(lines, [1, 2, 3]);
    }
}
