//! The covers of protected files in the view of a process that runs: whether a file still has one, and covering it
//! again.
#![expect(
    unsafe_code,
    reason = "a child enters the view by system calls only, and the C library has no other way to ask for a lease"
)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Mode, OFlags, StatVfsMountFlags, fstatvfs, open};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::make_mount::make_mount;
use super::{BindAccess, MountStep};

/// From the kernel's header; the C library's crate lacks it.
const F_SETSIG: libc::c_int = 10;

/// Returns whether a process has a view of the files, and finds this file writable there. False if it finds none.
///
/// # Errors
/// The system's, among them that the process has ended.
pub fn has_lost_cover(process: u32, file: &Path) -> io::Result<bool> {
    let namespace = |of: &str| rustix::fs::stat(format!("/proc/{of}/ns/mnt"));
    if namespace(&process.to_string())?.st_ino == namespace("self")?.st_ino {
        return Ok(false);
    }
    let mut shown = PathBuf::from(format!("/proc/{process}/root"));
    shown.push(file.strip_prefix("/").unwrap_or(file));
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match open(&shown, flags, Mode::empty()) {
        Ok(found) => Ok(!fstatvfs(&found)?.f_flag.contains(StatVfsMountFlags::RDONLY)),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(false),
        Err(cause) => Err(cause.into()),
    }
}

/// Covers files in the view of a process, and of those that share it: from now on they find these read-only.
///
/// # Errors
/// The system's, among them that the process has ended.
pub fn cover_files(process: u32, files: &[PathBuf]) -> io::Result<()> {
    let cover = |file: &PathBuf| {
        let path = CString::new(file.as_os_str().as_bytes())?;
        Ok(MountStep::Bind {
            from: path.clone(),
            to: path,
            access: BindAccess::ReadOnly,
        })
    };
    let steps = files.iter().map(cover).collect::<io::Result<Vec<_>>>()?;
    let view = format!("/proc/{process}/ns/mnt");
    let view = open(view, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let user = open_owner(&view)?;
    let enter = move || {
        move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
        move_into_link_name_space(view.as_fd(), Some(LinkNameSpaceType::Mount))?;
        steps.iter().try_for_each(make_mount)?;
        // SAFETY: ends this child at once. It has done its work, and runs no program.
        unsafe { libc::_exit(0) }
    };
    let mut child = Command::new("true");
    // SAFETY: between fork and exit, the closure makes system calls only: it neither allocates nor locks.
    unsafe { child.pre_exec(enter) };
    let status = child.spawn()?.wait()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("the child ended: {status}")))
}

/// Opens the user namespace that a mount namespace belongs to.
fn open_owner(namespace: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call on an open descriptor; it returns a new one or an error.
    let owner = unsafe { libc::ioctl(namespace.as_raw_fd(), libc::NS_GET_USERNS) };
    if owner < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just opened and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(owner) })
}

/// Returns whether some program has a file open for writing, or mapped so. `file` is open for reading. False where the
/// file system does not tell.
pub fn is_open_for_writing(file: &File) -> bool {
    // The kernel grants a lease for reading only on a file that nobody has open for writing.
    let set = |command, value: libc::c_int| {
        // SAFETY: a plain system call on an open descriptor, with a number.
        unsafe { libc::fcntl(file.as_raw_fd(), command, value) }
    };
    // The usual signal to the holder of a lease would end the runner; this one is ignored.
    if set(F_SETSIG, libc::SIGURG) != 0 {
        return false;
    }
    if set(libc::F_SETLEASE, libc::F_RDLCK) == 0 {
        set(libc::F_SETLEASE, libc::F_UNLCK);
        return false;
    }
    io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_open_for_writing_while_a_program_has_it_so() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let is_open = || is_open_for_writing(&File::open(file.path()).expect("opened"));
        assert!(is_open(), "the handle of the test itself");
        let path = file.into_temp_path();
        let is_open = || is_open_for_writing(&File::open(&path).expect("opened"));
        assert!(!is_open(), "nobody has it open");
        let writer = File::options().append(true).open(&path).expect("opened");
        assert!(is_open(), "nothing was written yet");
        drop(writer);
        assert!(!is_open(), "it is closed");
    }

    #[test]
    fn a_process_without_a_view_has_lost_no_cover() {
        let own = std::process::id();
        let lost = has_lost_cover(own, Path::new("/etc/hostname")).expect("it runs");
        assert!(!lost);
        has_lost_cover(u32::MAX, Path::new("/etc/hostname")).expect_err("there is none");
    }
}
