//! Reading files that any program may have put there: never a wait for a pipe, and never more than so many bytes.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

/// The treatment of a symlink at the end of a path. Links on the way to it are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalLink {
    /// What it leads to is opened.
    Follow,
    /// It is an error.
    Refuse,
}

/// Opens a file for reading without waiting for a pipe's other end. It may be a pipe or a device.
///
/// # Errors
/// The system's.
pub fn open_nonblocking(path: &Path, link: FinalLink) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        let no_link = match link {
            FinalLink::Follow => 0,
            FinalLink::Refuse => libc::O_NOFOLLOW,
        };
        let flags = no_link | libc::O_NONBLOCK | libc::O_NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    #[cfg(not(unix))]
    if link == FinalLink::Refuse && path.symlink_metadata()?.is_symlink() {
        return Err(io::Error::other("it is a link"));
    }
    options.open(path)
}

/// Opens a regular file for reading, and nothing else.
///
/// # Errors
/// The system's, or it is no regular file.
pub fn open_regular_file(path: &Path, link: FinalLink) -> io::Result<File> {
    // Opening a device can have effects, so the kind is checked before.
    check_kind(&match link {
        FinalLink::Follow => path.metadata()?,
        FinalLink::Refuse => path.symlink_metadata()?,
    })?;
    // A pipe that took the file's name since then does not make this wait.
    let file = open_nonblocking(path, link)?;
    check_kind(&file.metadata()?)?;
    Ok(file)
}

/// Reads an open file to its end.
///
/// # Errors
/// The system's; `FileTooLarge` if there are more bytes than that; or it is no regular file.
pub fn read_bounded(file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
    let found = file.metadata()?;
    check_kind(&found)?;
    let mut bytes = Vec::new();
    if found.len() <= max_bytes {
        // It may have grown.
        file.take(max_bytes.saturating_add(1))
            .read_to_end(&mut bytes)?;
    }
    if found.len().max(bytes.len() as u64) > max_bytes {
        let why = format!("it is larger than {} KB", max_bytes >> 10);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// Reads a whole file, as [`open_regular_file`] and [`read_bounded`] do.
///
/// # Errors
/// As theirs.
pub fn read_regular_file(path: &Path, link: FinalLink, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_bounded(open_regular_file(path, link)?, max_bytes)
}

fn check_kind(found: &Metadata) -> io::Result<()> {
    if found.is_file() {
        Ok(())
    } else {
        Err(io::Error::other("it is no regular file"))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::durable::{Readers, replace_file};

    const NO_FILE: &str = "it is no regular file";

    #[test]
    fn a_pipe_is_refused_and_nothing_waits_for_its_other_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let link = folder.path().join("link");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).expect("a pipe");
        std::os::unix::fs::symlink(&pipe, &link).expect("a link");
        for path in [&pipe, &link] {
            for links in [FinalLink::Follow, FinalLink::Refuse] {
                let error = read_regular_file(path, links, 100).expect_err("no file");
                assert_eq!(error.to_string(), NO_FILE, "{} {links:?}", path.display());
            }
        }
        // So it goes where the pipe takes the place of a file between the look at it and the opening.
        let opened = open_nonblocking(&pipe, FinalLink::Refuse).expect("opened");
        let error = read_bounded(opened, 100).expect_err("a pipe");
        assert_eq!(error.to_string(), NO_FILE);
    }

    #[test]
    fn a_file_is_read_up_to_the_limit_and_by_a_link_if_that_is_wanted() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        let link = folder.path().join("link");
        replace_file(&file, b"1234", Readers::OwnerOnly).expect("written");
        std::os::unix::fs::symlink("file", &link).expect("a link");
        let read = |path: &Path, links, most| read_regular_file(path, links, most);
        assert_eq!(read(&file, FinalLink::Refuse, 4).expect("read"), b"1234");
        assert_eq!(read(&link, FinalLink::Follow, 4).expect("read"), b"1234");
        let too_large = read(&file, FinalLink::Follow, 3).expect_err("too large");
        assert_eq!(too_large.kind(), io::ErrorKind::FileTooLarge);
        assert!(open_nonblocking(&link, FinalLink::Refuse).is_err());
        let missing = read(&folder.path().join("missing"), FinalLink::Follow, 4);
        assert_eq!(
            missing.expect_err("nothing").kind(),
            io::ErrorKind::NotFound
        );
    }
}
