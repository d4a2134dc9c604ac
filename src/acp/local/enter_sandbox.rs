//! Enters the sandbox in the child, by system calls that cannot be undone. Not here: the sandbox profile, and the
//! child's other steps (launch).
#![expect(
    unsafe_code,
    reason = "the child's side runs between its making and the program's start"
)]

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::fs::{Access, CWD, Mode, OFlags, ResolveFlags, access, open, openat2};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, LinkNameSpaceType, move_into_link_name_space};

use crate::sandbox::Instruction;
use crate::sandbox::profile::{NamespaceChoice, ProtectedMount, SandboxProfile};

/// The longest path, including its NUL (PATH_MAX).
const PATH_BYTES: usize = 4096;
/// From the kernel's header; not every C library has them.
const OPEN_TREE_CLONE: u32 = 1;
const OPEN_TREE_CLOEXEC: u32 = libc::O_CLOEXEC.cast_unsigned();
/// `MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH`.
const MOVE_MOUNT_BY_DESCRIPTORS: u32 = 0x44;

/// The number of processes of all commands together, if the system counts them apart from the user's others.
const MAX_PROCESSES: u64 = 4096;

/// The largest size of one file that a command writes: a runaway write ends before the disk is full.
const MAX_FILE_BYTES: u64 = 64 << 30;

/// The user and group maps of a user namespace, built before the child exists.
pub(super) struct IdMaps {
    user: String,
    group: String,
}

impl IdMaps {
    /// Maps the current user and group to themselves.
    pub fn from_current_user() -> Self {
        let (user, group) = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        Self {
            user: format!("{user} {user} 1"),
            group: format!("{group} {group} 1"),
        }
    }
}

/// Applies a sandbox profile for good. Makes system calls only. If the kernel refuses one that the profile needs, the
/// child ends.
pub(super) fn enter_sandbox(cage: &SandboxProfile, maps: &IdMaps) -> io::Result<()> {
    match &cage.namespaces {
        NamespaceChoice::Inherited => {}
        NamespaceChoice::New { network } => unshare_namespaces(maps, *network)?,
        NamespaceChoice::Existing(made) => {
            move_into_link_name_space(made.user.as_fd(), Some(LinkNameSpaceType::User))?;
            if let Some(names) = &made.ipc {
                move_into_link_name_space(
                    names.as_fd(),
                    Some(LinkNameSpaceType::InterProcessCommunication),
                )?;
            }
            if let Some(network) = &made.network {
                move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
            }
            unshare_mounts(cage)?;
            let most = Rlimit {
                current: Some(MAX_PROCESSES),
                maximum: Some(MAX_PROCESSES),
            };
            // A lower limit already in force stays.
            let _ = setrlimit(Resource::Nproc, most);
        }
    }
    let most = Rlimit {
        current: Some(MAX_FILE_BYTES),
        maximum: Some(MAX_FILE_BYTES),
    };
    let _ = setrlimit(Resource::Fsize, most);
    rustix::thread::set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    let none = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    rustix::thread::set_capabilities(None, none)?;
    if let Some(ruleset) = &cage.ruleset {
        // SAFETY: a plain system call on an open descriptor.
        let done =
            unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    if !cage.filter.is_empty() {
        load_filter(&cage.filter)?;
    }
    Ok(())
}

/// Refuses the system calls of this filter from here on.
fn load_filter(filter: &[Instruction]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).unwrap_or(0),
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel copies the program, which is alive and as long as it says, and writes nothing to it.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0u32,
            &raw const program,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Takes a view of the files of its own, in which doors are shut and what is covered cannot be moved and, where that
/// is asked for, not written. Before the rest of the cage, which refuses mounts.
fn unshare_mounts(cage: &SandboxProfile) -> io::Result<()> {
    if cage.protected_mounts.is_empty() && cage.blocked_paths.is_empty() {
        return Ok(());
    }
    let mut here = [0; PATH_BYTES];
    let here = current_folder(&mut here)?;
    // SAFETY: only this process's namespace is unshared. In a user namespace that does not own the mounts, the kernel
    // lets none of this propagate to the original namespace.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    block_paths(&cage.blocked_paths)?;
    let mut missed = false;
    for one in &cage.protected_mounts {
        match bind_protected_path(one) {
            // It was removed meanwhile, or replaced by a link: it is examined again when the command has ended.
            Err(cause) if !is_unreachable(&cause) => return Err(cause),
            Err(cause) => missed |= cause.kind() == io::ErrorKind::PermissionDenied,
            Ok(()) => {}
        }
    }
    // The folder was entered before the mounts: relative names would bypass them from there.
    match rustix::process::chdir(here) {
        // This user can no longer reach the folder by its path. It may stay if none of it was to be protected.
        Err(rustix::io::Errno::ACCESS)
            if !missed
                && !cage
                    .protected_mounts
                    .iter()
                    .any(|one| is_path_below(here, &one.path)) =>
        {
            Ok(())
        }
        entered => Ok(entered?),
    }
}

fn is_path_below(path: &CStr, folder: &CStr) -> bool {
    path.to_bytes()
        .strip_prefix(folder.to_bytes())
        .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Returns this process's current folder.
fn current_folder(path: &mut [u8; PATH_BYTES]) -> io::Result<&CStr> {
    // SAFETY: writes into `path`, no more than its length.
    if unsafe { libc::syscall(libc::SYS_getcwd, path.as_mut_ptr(), PATH_BYTES) } < 0 {
        return Err(io::Error::last_os_error());
    }
    CStr::from_bytes_until_nul(path).map_err(|_| io::Error::from_raw_os_error(libc::ENAMETOOLONG))
}

/// Blocks these paths: folders by an empty one that no process may enter, sockets by a file that no process may
/// write.
fn block_paths(doors: &[CString]) -> io::Result<()> {
    let flags = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let mut empty: Option<&CStr> = None;
    for door in doors {
        let at = door.as_ptr();
        // SAFETY: NUL-terminated strings, all alive; the mounts are in this process's namespace alone.
        let mount = |from: &CStr, kind: *const c_char, flags, how: *const c_char| unsafe {
            libc::mount(from.as_ptr(), at, kind, flags, how.cast()) == 0
        };
        let is_shut = match empty {
            Some(empty) => mount(empty, ptr::null(), libc::MS_BIND, ptr::null()),
            None => mount(
                c"none",
                c"tmpfs".as_ptr(),
                flags,
                c"size=4k,nr_inodes=1,mode=0".as_ptr(),
            ),
        };
        if is_shut {
            empty = empty.or(Some(door));
            continue;
        }
        let mut cause = io::Error::last_os_error();
        if cause.raw_os_error() == Some(libc::ENOTDIR) {
            // The first file may not be written. So the kernel reports a permission error, as for a folder, before it
            // notices that the file is no socket.
            if [c"/proc/version", c"/dev/null"]
                .into_iter()
                .any(|file| mount(file, ptr::null(), libc::MS_BIND, ptr::null()))
            {
                continue;
            }
            cause = io::Error::last_os_error();
        } else if cause.raw_os_error() == Some(libc::ENOENT)
            && empty.is_some_and(|empty| access(empty, Access::EXISTS).is_err())
        {
            return Err(cause);
        }
        if !is_unreachable(&cause) {
            return Err(cause);
        }
    }
    Ok(())
}

/// Returns whether a path does not exist, or the command cannot reach it.
fn is_unreachable(cause: &io::Error) -> bool {
    matches!(
        cause.raw_os_error(),
        Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP | libc::EACCES)
    )
}

fn bind_protected_path(one: &ProtectedMount) -> io::Result<()> {
    let held = openat2(
        CWD,
        one.path.as_c_str(),
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )?;
    let whole = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    let how = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | whole.cast_unsigned();
    // SAFETY: a plain system call on an open descriptor; it returns a new one or an error.
    let tree = unsafe { libc::syscall(libc::SYS_open_tree, held.as_raw_fd(), c"".as_ptr(), how) };
    let tree = i32::try_from(tree)
        .ok()
        .filter(|fd| *fd >= 0)
        .ok_or_else(io::Error::last_os_error)?;
    // SAFETY: it was just opened and has no other owner.
    let tree = unsafe { OwnedFd::from_raw_fd(tree) };
    if one.read_only {
        // Adds to the mount's existing attributes, which must not be cleared.
        let wanted = libc::mount_attr {
            attr_set: libc::MOUNT_ATTR_RDONLY,
            attr_clr: 0,
            propagation: 0,
            userns_fd: 0,
        };
        let (fd, size) = (tree.as_raw_fd(), size_of_val(&wanted));
        // SAFETY: reads the structure, which is alive and of the given size.
        let done = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                fd,
                c"".as_ptr(),
                whole,
                &raw const wanted,
                size,
            )
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let (from, to) = (tree.as_raw_fd(), held.as_raw_fd());
    // SAFETY: a plain system call on open descriptors.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            from,
            c"".as_ptr(),
            to,
            c"".as_ptr(),
            MOVE_MOUNT_BY_DESCRIPTORS,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Creates new user and network namespaces, the latter with a working loopback, and an IPC namespace if the kernel
/// supports it.
fn unshare_namespaces(maps: &IdMaps, network: bool) -> io::Result<()> {
    let which = libc::CLONE_NEWUSER | if network { libc::CLONE_NEWNET } else { 0 };
    // SAFETY: shares no files with another thread; only this process's namespaces are unshared.
    let unshare = |which| unsafe { libc::unshare(which) } == 0;
    if !unshare(which | libc::CLONE_NEWIPC) && !unshare(which) {
        return Err(io::Error::last_os_error());
    }
    let told = [
        (c"/proc/self/setgroups", "deny"),
        (c"/proc/self/uid_map", maps.user.as_str()),
        (c"/proc/self/gid_map", maps.group.as_str()),
    ];
    for (file, text) in told {
        let file = open(file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(file, text.as_bytes())?;
    }
    if !network {
        return Ok(());
    }
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: a structure of numbers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(*b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = 0x41; // IFF_UP and IFF_RUNNING.
    // SAFETY: reads the request, which is alive.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Makes a program that the standard library starts enter a sandbox.
pub(super) fn confine_command(command: &mut tokio::process::Command, cage: SandboxProfile) {
    let maps = IdMaps::from_current_user();
    // SAFETY: between fork and exec, the closure makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(move || enter_sandbox(&cage, &maps)) };
}

/// Has a worker process of this program refuse the system calls of this filter; its files it restricts itself.
pub(super) fn filter_calls(command: &mut tokio::process::Command, filter: Vec<Instruction>) {
    let confine = move || {
        rustix::thread::set_no_new_privs(true)?;
        load_filter(&filter)
    };
    // SAFETY: between fork and exec, `confine` makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(confine) };
}
