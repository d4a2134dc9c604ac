//! The pipes that take a command's output, and its input.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The size of an output pipe, the largest that the system allows every user: a larger pipe means fewer switches
/// between the command and its reader.
#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 1 << 20;

/// The pipe that takes a command's output, as /proc names it among a process's files.
#[derive(Debug, Clone)]
pub(super) enum OutputPipe {
    /// An unnamed pipe, by its inode.
    Unnamed(u64),
    Named(PathBuf),
}

pub(super) fn open_empty_input() -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    Ok(rustix::fs::open(
        "/dev/null",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// Creates a pipe that programs started meanwhile do not inherit.
#[cfg(target_os = "linux")]
pub(super) fn cloexec_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// Creates a pipe that programs started meanwhile do not inherit: the one thread that creates it starts them all.
#[cfg(not(target_os = "linux"))]
pub(super) fn cloexec_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let ends = rustix::pipe::pipe()?;
    for end in [&ends.0, &ends.1] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
    }
    Ok(ends)
}

/// Creates a pipe that outlives the runner. The child's end is open for reading too. So the child gets neither an end
/// of file nor a broken pipe while there is no runner: it waits when the pipe is full.
#[cfg(target_os = "linux")]
pub(super) fn create_named_pipe(path: &Path) -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    let theirs = open(
        path,
        OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::empty(),
    )?;
    Ok((open_reading_end(path)?, theirs))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn create_named_pipe(_path: &Path) -> io::Result<(OwnedFd, OwnedFd)> {
    // No command outlives the runner on this system, because it could not be recognized.
    create_output_pipe()
}

/// Opens the runner's end of a named pipe to which a command writes, perhaps one of an earlier process of the runner.
pub(super) fn open_reading_end(path: &Path) -> io::Result<OwnedFd> {
    use rustix::fs::{FileType, Mode, OFlags, fstat, open};
    let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let end = open(path, how, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&end)?.st_mode) != FileType::Fifo {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(&end, PIPE_BYTES);
    Ok(end)
}

/// Creates a pipe that ends with the runner.
pub(super) fn create_output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = cloexec_pipe()?;
    // Refused if the user has many pipes; a small one works as well, only slower.
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(&ours, PIPE_BYTES);
    rustix::fs::fcntl_setfl(&ours, rustix::fs::OFlags::NONBLOCK)?;
    Ok((ours, theirs))
}
