//! Makes one mount of a view, or of a cache, by system calls only: it runs in a child that must not allocate.
#![expect(
    unsafe_code,
    reason = "rustix has no mount_setattr, and the child's side must not allocate"
)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, mkdirat, open, openat2, symlinkat};
use rustix::io::Errno;

use super::{BindAccess, MountStep, OverlayMount};

/// From the kernel's header; not every C library has them.
const OPEN_TREE_CLONE: u32 = 1;
const OPEN_TREE_CLOEXEC: u32 = libc::O_CLOEXEC.cast_unsigned();
/// `MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH`.
const MOVE_MOUNT_BY_DESCRIPTORS: u32 = 0x44;
/// `FSPICK_CLOEXEC | FSPICK_EMPTY_PATH`.
const FSPICK_BY_DESCRIPTOR: u32 = 0x9;
const FSCONFIG_CMD_RECONFIGURE: u32 = 7;

/// Takes one step. What a bind mount needs and is not there is skipped.
pub(crate) fn make_mount(step: &MountStep) -> io::Result<()> {
    match step {
        MountStep::SealMounts => {
            let root = open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            let private = libc::MS_PRIVATE;
            set_attributes(root.as_raw_fd(), true, libc::MOUNT_ATTR_RDONLY, 0, private)
        }
        MountStep::MountEmpty(at) => mount_empty(at),
        MountStep::MakeFolder(at) => unless_there(mkdirat(CWD, at.as_c_str(), Mode::RWXU)),
        MountStep::MakeFile(at) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            unless_there(open(at.as_c_str(), flags, Mode::RUSR).map(drop))
        }
        MountStep::WriteFile { at, text } => write_file(at, text),
        MountStep::MakeLink { at, target } => {
            unless_there(symlinkat(target.as_c_str(), CWD, at.as_c_str()))
        }
        MountStep::Bind { from, to, access } => unless_gone(bind(from, to, *access)),
        MountStep::Move {
            from,
            to,
            read_only,
        } => unless_gone(move_mount(from, to, *read_only)),
    }
}

/// Accepts that a path was removed meanwhile, or replaced by a link, or is out of this user's reach.
fn unless_gone(done: io::Result<()>) -> io::Result<()> {
    let absent = [libc::ENOENT, libc::ENOTDIR, libc::ELOOP, libc::EACCES];
    done.or_else(|cause| match cause.raw_os_error() {
        Some(error) if absent.contains(&error) => Ok(()),
        _ => Err(cause),
    })
}

fn unless_there(made: rustix::io::Result<()>) -> io::Result<()> {
    match made {
        // A folder of commands may hold something else there: the mount that needs it is skipped then.
        Err(Errno::EXIST | Errno::NOTDIR | Errno::ROFS | Errno::NOENT) => Ok(()),
        made => Ok(made?),
    }
}

fn write_file(at: &CStr, text: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = open(at, flags, Mode::RUSR)?;
    let mut left = text;
    while !left.is_empty() {
        let count = rustix::io::write(&file, left)?;
        left = left.get(count..).unwrap_or_default();
    }
    Ok(())
}

fn mount_empty(at: &CStr) -> io::Result<()> {
    mount_new(c"tmpfs", at, c"size=4m,mode=700")
}

/// Mounts an overlay, and records what came of it.
pub(crate) fn mount_overlay(mount: &OverlayMount) {
    mount.record_outcome(&mount_new(c"overlay", &mount.at, &mount.options));
}

/// Drops what the kernel remembers of an overlay's layers: the user's own tools change the lower one. Without this a
/// folder that they removed and made again stays half there, for as long as the overlay is mounted.
pub(crate) fn refresh_overlay(at: &CStr) -> io::Result<()> {
    let place = open_without_links(at)?;
    // SAFETY: plain system calls on an open descriptor; the first returns a new one or an error.
    let context = unsafe {
        let empty = c"".as_ptr();
        libc::syscall(
            libc::SYS_fspick,
            place.as_raw_fd(),
            empty,
            FSPICK_BY_DESCRIPTOR,
        )
    };
    result(context)?;
    let context = to_descriptor(context)?;
    // SAFETY: as above.
    result(unsafe {
        let none = ptr::null::<libc::c_void>();
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            FSCONFIG_CMD_RECONFIGURE,
            none,
            none,
            0,
        )
    })
}

fn mount_new(kind: &CStr, at: &CStr, options: &CStr) -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    // SAFETY: NUL-terminated strings, all alive; the mount is in this process's namespace alone.
    let done = unsafe {
        libc::mount(
            kind.as_ptr(),
            at.as_ptr(),
            kind.as_ptr(),
            flags,
            options.as_ptr().cast(),
        )
    };
    result(done.into())
}

fn bind(from: &CStr, to: &CStr, access: BindAccess) -> io::Result<()> {
    let source = open_without_links(from)?;
    let target = if from == to { source.as_raw_fd() } else { -1 };
    let opened = if target < 0 {
        Some(open_without_links(to)?)
    } else {
        None
    };
    let target = opened.as_ref().map_or(target, AsRawFd::as_raw_fd);
    let flags = (libc::AT_EMPTY_PATH | libc::AT_RECURSIVE).cast_unsigned();
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | flags;
    // SAFETY: a plain system call on an open descriptor; it returns a new one or an error.
    let tree =
        unsafe { libc::syscall(libc::SYS_open_tree, source.as_raw_fd(), c"".as_ptr(), flags) };
    result(tree)?;
    let tree = to_descriptor(tree)?;
    let read_only = libc::MOUNT_ATTR_RDONLY;
    let fd = tree.as_raw_fd();
    match access {
        BindAccess::Unchanged => {}
        BindAccess::ReadOnly => set_attributes(fd, true, read_only, 0, 0)?,
        // An inner mount that the system keeps read-only stays so, and with it the others.
        BindAccess::Writable => set_attributes(fd, true, 0, read_only, 0)
            .or_else(|_| set_attributes(fd, false, 0, read_only, 0))?,
    }
    attach(fd, target)
}

fn move_mount(from: &CStr, to: &CStr, read_only: bool) -> io::Result<()> {
    let mount = open_without_links(from)?;
    let place = open_without_links(to)?;
    if read_only {
        set_attributes(mount.as_raw_fd(), false, libc::MOUNT_ATTR_RDONLY, 0, 0)?;
    }
    attach(mount.as_raw_fd(), place.as_raw_fd())
}

/// Attaches a mount at an open folder or file. At one of the other kind, which a command may have made in its own folders,
/// the error is as for a path that is not there.
fn attach(mount: RawFd, place: RawFd) -> io::Result<()> {
    if is_folder(mount)? != is_folder(place)? {
        return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
    }
    // SAFETY: a plain system call on open descriptors.
    let done = unsafe {
        let empty = c"".as_ptr();
        libc::syscall(
            libc::SYS_move_mount,
            mount,
            empty,
            place,
            empty,
            MOVE_MOUNT_BY_DESCRIPTORS,
        )
    };
    result(done)
}

fn is_folder(fd: RawFd) -> io::Result<bool> {
    // SAFETY: the descriptor is open while this function runs.
    let stat = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(fd) })?;
    Ok(FileType::from_raw_mode(stat.st_mode).is_dir())
}

/// Opens a path without following links, since one may have been made meanwhile.
fn open_without_links(path: &CStr) -> io::Result<OwnedFd> {
    let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(
        CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        how,
    )?)
}

/// Sets and clears attributes of a mount, and of the mounts below it if `whole`.
fn set_attributes(
    fd: RawFd,
    whole: bool,
    set: u64,
    clear: u64,
    propagation: u64,
) -> io::Result<()> {
    let wanted = libc::mount_attr {
        attr_set: set,
        attr_clr: clear,
        propagation,
        userns_fd: 0,
    };
    let flags = libc::AT_EMPTY_PATH | if whole { libc::AT_RECURSIVE } else { 0 };
    let size = size_of_val(&wanted);
    // SAFETY: reads the structure, which is alive and of the given size.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd,
            c"".as_ptr(),
            flags,
            ptr::from_ref(&wanted),
            size,
        )
    };
    result(done)
}

/// Takes over a descriptor that a system call has just opened.
fn to_descriptor(opened: libc::c_long) -> io::Result<OwnedFd> {
    let number = RawFd::try_from(opened).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: it was just opened and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn result(done: libc::c_long) -> io::Result<()> {
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
