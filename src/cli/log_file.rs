//! The log's files: the current one and its numbered predecessors, limited in size and readable by this user only.
//! After the file is renamed or removed, a new one is created. If the log cannot be written, its lines are dropped and
//! nothing else fails.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use punie_core::durable::{allow_missing, open_private_file};
use punie_core::file_metadata::file_identity;

/// The size limit of a file.
const MAX_FILE_BYTES: u64 = 10 << 20;
/// The maximum number of files, including the current one.
const MAX_FILES: u32 = 5;
/// The size limit of all files together: one may exceed its limit by a line.
pub const MAX_TOTAL_BYTES: u64 = MAX_FILE_BYTES * (MAX_FILES as u64 + 1);
/// The minimum free space for logging; below it, the space is reserved for the journal.
const MIN_FREE_BYTES: u64 = 220 << 20;
/// The time for which logging pauses after an error.
const RETRY_DELAY: Duration = Duration::from_secs(30);
/// The number of bytes between two checks of the free space.
const CHECK_INTERVAL_BYTES: u64 = 256 << 10;

/// The name of the current file.
pub const LOG_FILE_NAME: &str = "punie-runner.log";

/// Returns the log's existing files, the latest first.
pub fn log_files(folder: &Path) -> Vec<PathBuf> {
    (0..MAX_FILES)
        .map(|number| log_file_path(folder, number))
        .filter(|path| path.is_file())
        .collect()
}

/// Returns the size of all files in the log's folder; 0 if there is none.
///
/// # Errors
/// The folder cannot be read.
pub fn measure_folder(folder: &Path) -> io::Result<u64> {
    let Some(entries) = allow_missing(fs::read_dir(folder))? else {
        return Ok(0);
    };
    let sizes = entries.map(|entry| entry?.metadata().map(|file| file.len()));
    sizes.sum()
}

fn log_file_path(folder: &Path, number: u32) -> PathBuf {
    if number == 0 {
        folder.join(LOG_FILE_NAME)
    } else {
        folder.join(format!("{LOG_FILE_NAME}.{number}"))
    }
}

/// Writes to the log's files. It never fails: lines that cannot be written are dropped.
#[derive(Debug)]
pub struct RotatingLog {
    folder: PathBuf,
    open: Option<OpenLogFile>,
    silent_since: Option<Instant>,
}

#[derive(Debug)]
struct OpenLogFile {
    file: File,
    size: u64,
    bytes_since_check: u64,
}

impl RotatingLog {
    /// Creates a writer for this folder, which need not exist yet.
    pub fn for_folder(folder: PathBuf) -> Self {
        Self {
            folder,
            open: None,
            silent_since: None,
        }
    }

    fn current_path(&self) -> PathBuf {
        log_file_path(&self.folder, 0)
    }

    fn append_line(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        let path = self.current_path();
        // If the file was moved or replaced, open the path again.
        if self
            .open
            .as_ref()
            .is_some_and(|open| !is_same_file(&open.file, &path))
        {
            self.open = None;
        }
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.size > 0 && open.size + length > MAX_FILE_BYTES)
        {
            self.open = None;
            rotate_log_files(&self.folder);
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(open_log_file(&path)?),
        };
        if open.bytes_since_check >= CHECK_INTERVAL_BYTES {
            check_free_space(&self.folder)?;
            open.bytes_since_check = 0;
        }
        open.file.write_all(line)?;
        open.size += length;
        open.bytes_since_check += length;
        Ok(())
    }
}

impl Write for RotatingLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self
            .silent_since
            .is_some_and(|since| since.elapsed() < RETRY_DELAY)
        {
            return Ok(line.len());
        }
        self.silent_since = None;
        if self.append_line(line).is_err() {
            self.open = None;
            self.silent_since = Some(Instant::now());
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens the file for appending and creates it if missing. A full one is rotated first.
fn open_log_file(path: &Path) -> io::Result<OpenLogFile> {
    let folder = path.parent().unwrap_or(Path::new("."));
    check_free_space(folder)?;
    if fs::metadata(path).is_ok_and(|found| found.len() >= MAX_FILE_BYTES) {
        rotate_log_files(folder);
    }
    let file = open_private_file(path, |options| options.append(true).create(true))?;
    let size = file.metadata()?.len();
    Ok(OpenLogFile {
        file,
        size,
        bytes_since_check: 0,
    })
}

/// Rotates the files: each gets the next number and the last is dropped. A file that cannot be renamed is overwritten.
fn rotate_log_files(folder: &Path) {
    for number in (0..MAX_FILES - 1).rev() {
        let _ = fs::rename(
            log_file_path(folder, number),
            log_file_path(folder, number + 1),
        );
    }
}

/// Returns whether the path still names this open file.
pub fn is_same_file(open: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (open.metadata(), fs::metadata(path)) else {
        return false;
    };
    // A system on which files have no identity lets nobody remove an open one.
    file_identity(&ours) == file_identity(&there)
}

/// Checks the disk for free space.
#[cfg(unix)]
fn check_free_space(folder: &Path) -> io::Result<()> {
    let disk = rustix::fs::statvfs(folder)?;
    if disk.f_bavail.saturating_mul(disk.f_frsize) < MIN_FREE_BYTES {
        return Err(io::ErrorKind::StorageFull.into());
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_free_space(_folder: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &Path) -> usize {
        fs::read_to_string(path).map_or(0, |text| text.lines().count())
    }

    #[test]
    fn files_are_rolled_by_size_and_the_oldest_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut log = RotatingLog::for_folder(folder.path().to_owned());
        let line = [b"x".repeat((1 << 20) - 1), b"\n".to_vec()].concat();
        for _ in 0..63 {
            log.write_all(&line).expect("never fails");
        }
        let sizes: Vec<_> = log_files(folder.path())
            .iter()
            .map(|path| lines(path))
            .collect();
        assert_eq!(sizes, [3, 10, 10, 10, 10]);
        // The next process continues the same file.
        let mut log = RotatingLog::for_folder(folder.path().to_owned());
        for _ in 0..8 {
            log.write_all(&line).expect("never fails");
        }
        assert_eq!(lines(&log_file_path(folder.path(), 0)), 1);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 5);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_was_taken_away_is_made_anew_for_this_user_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(LOG_FILE_NAME);
        let mut log = RotatingLog::for_folder(folder.path().to_owned());
        log.write_all(b"one\n").expect("never fails");
        fs::rename(&path, folder.path().join("mine")).expect("renamed");
        log.write_all(b"two\n").expect("never fails");
        assert_eq!(
            fs::read(folder.path().join("mine")).expect("there"),
            b"one\n"
        );
        assert_eq!(fs::read(&path).expect("made anew"), b"two\n");
        fs::remove_file(&path).expect("removed");
        log.write_all(b"three\n").expect("never fails");
        assert_eq!(fs::read(&path).expect("made anew"), b"three\n");
        assert_eq!(
            fs::metadata(&path).expect("there").permissions().mode() & 0o777,
            0o600
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_silences_the_log_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink("/dev/full", folder.path().join(LOG_FILE_NAME)).expect("a link");
        let mut log = RotatingLog::for_folder(folder.path().to_owned());
        log.write_all(b"lost\n").expect("never fails");
        assert!(log.silent_since.is_some());
        fs::remove_file(folder.path().join(LOG_FILE_NAME)).expect("removed");
        log.write_all(b"lost as well\n").expect("never fails");
        assert!(
            !folder.path().join(LOG_FILE_NAME).exists(),
            "it is silent for a while"
        );
        log.silent_since = Instant::now().checked_sub(RETRY_DELAY);
        log.write_all(b"kept\n").expect("never fails");
        assert_eq!(
            fs::read(folder.path().join(LOG_FILE_NAME)).expect("there"),
            b"kept\n"
        );
        let mut nowhere = RotatingLog::for_folder(folder.path().join("no/such/folder"));
        nowhere.write_all(b"lost\n").expect("never fails");
    }
}
