//! Taking on a confinement, in the child: the system calls after which it cannot be taken off again. Not here: what it
//! is made of (sandbox), and the rest of the child's way to its program (launch).
#![expect(unsafe_code, reason = "the child's side runs between its making and the program's start")]

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::fs::{Access, CWD, Mode, OFlags, ResolveFlags, access, open, openat2};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, LinkNameSpaceType, move_into_link_name_space};

use crate::sandbox::Instruction;
use crate::sandbox::cage::{Cage, Cover, Spaces};

/// The longest path, its end included (PATH_MAX).
const PATH_BYTES: usize = 4096;
/// From the kernel's header; not every C library has them.
const OPEN_TREE_CLONE: u32 = 1;
const OPEN_TREE_CLOEXEC: u32 = libc::O_CLOEXEC.cast_unsigned();
/// `MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH`.
const MOVE_MOUNT_BY_DESCRIPTORS: u32 = 0x44;

/// How many processes all commands together may have, where the system counts theirs apart from the user's others.
const MOST_PROCESSES: u64 = 4096;

/// How large one file of a command's may become: a mistake that fills the disk ends before the disk does.
const MOST_FILE_BYTES: u64 = 64 << 30;

/// What a user namespace is told of its user, made before the child exists.
pub(super) struct Maps {
    user: String,
    group: String,
}

impl Maps {
    /// This user and group, as they are outside.
    pub fn of_this_user() -> Self {
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self { user: format!("{user} {user} 1"), group: format!("{group} {group} 1") }
    }
}

/// Takes on a cage, for good. System calls only; one that the cage needs and the kernel refuses ends the child.
pub(super) fn shut_in(cage: &Cage, maps: &Maps) -> io::Result<()> {
    match &cage.namespaces {
        Spaces::Ours => {}
        Spaces::Anew { network } => make_namespaces(maps, *network)?,
        Spaces::Made(made) => {
            move_into_link_name_space(made.user.as_fd(), Some(LinkNameSpaceType::User))?;
            if let Some(names) = &made.names {
                move_into_link_name_space(names.as_fd(), Some(LinkNameSpaceType::InterProcessCommunication))?;
            }
            if let Some(network) = &made.network {
                move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
            }
            take_view(cage)?;
            let most = Rlimit { current: Some(MOST_PROCESSES), maximum: Some(MOST_PROCESSES) };
            // A lower limit that is there already stays.
            let _ = setrlimit(Resource::Nproc, most);
        }
    }
    let most = Rlimit { current: Some(MOST_FILE_BYTES), maximum: Some(MOST_FILE_BYTES) };
    let _ = setrlimit(Resource::Fsize, most);
    rustix::thread::set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, none)?;
    if let Some(ruleset) = &cage.ruleset {
        // SAFETY: a plain system call on a descriptor that is open.
        let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) };
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
    let done =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0u32, &raw const program) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes a view of the files of its own, in which doors are shut and what is covered cannot be moved and, where that is
/// asked for, not written. Before the rest of the cage, which refuses mounts.
fn take_view(cage: &Cage) -> io::Result<()> {
    if cage.covers.is_empty() && cage.doors.is_empty() {
        return Ok(());
    }
    let mut here = [0; PATH_BYTES];
    let here = folder(&mut here)?;
    // SAFETY: what is unshared is this process's alone. In a user namespace that is not the files' own, the kernel sees
    // to it that nothing of this reaches the other view.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    shut(&cage.doors)?;
    let mut missed = false;
    for one in &cage.covers {
        match cover_one(one) {
            // Gone meanwhile, or exchanged for a link: it is looked at again when the command has ended.
            Err(cause) if !is_out_of_reach(&cause) => return Err(cause),
            Err(cause) => missed |= cause.kind() == io::ErrorKind::PermissionDenied,
            Ok(()) => {}
        }
    }
    // The folder was entered before: from there a name would lead below the covers.
    match rustix::process::chdir(here) {
        // One that this user cannot come to any more, but for what it was entered with, can stay: where nothing of it was
        // to be covered, by a path that nobody can come by.
        Err(rustix::io::Errno::ACCESS)
            if !missed && !cage.covers.iter().any(|one| leads_through(here, &one.path)) =>
        {
            Ok(())
        }
        entered => Ok(entered?),
    }
}

fn leads_through(path: &CStr, folder: &CStr) -> bool {
    path.to_bytes().strip_prefix(folder.to_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// The folder of this process.
fn folder(path: &mut [u8; PATH_BYTES]) -> io::Result<&CStr> {
    // SAFETY: writes into `path`, no more than its length.
    if unsafe { libc::syscall(libc::SYS_getcwd, path.as_mut_ptr(), PATH_BYTES) } < 0 {
        return Err(io::Error::last_os_error());
    }
    CStr::from_bytes_until_nul(path).map_err(|_| io::Error::from_raw_os_error(libc::ENAMETOOLONG))
}

/// Has these lead nowhere: folders to an empty one that nobody may enter, sockets to a file that nobody may write.
fn shut(doors: &[CString]) -> io::Result<()> {
    let flags = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let mut empty: Option<&CStr> = None;
    for door in doors {
        let at = door.as_ptr();
        // SAFETY: texts that end in NUL, all alive; what is mounted is in this process's view alone.
        let mount = |from: &CStr, kind: *const c_char, flags, how: *const c_char| unsafe {
            libc::mount(from.as_ptr(), at, kind, flags, how.cast()) == 0
        };
        let is_shut = match empty {
            Some(empty) => mount(empty, ptr::null(), libc::MS_BIND, ptr::null()),
            None => mount(c"none", c"tmpfs".as_ptr(), flags, c"size=4k,nr_inodes=1,mode=0".as_ptr()),
        };
        if is_shut {
            empty = empty.or(Some(door));
            continue;
        }
        let mut cause = io::Error::last_os_error();
        if cause.raw_os_error() == Some(libc::ENOTDIR) {
            // The first may not be written, which is refused before it is seen that it is no socket: as with a folder,
            // permission is what lacks.
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
        if !is_out_of_reach(&cause) {
            return Err(cause);
        }
    }
    Ok(())
}

/// Not there, or nowhere that the command gets to.
fn is_out_of_reach(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP | libc::EACCES))
}

fn cover_one(one: &Cover) -> io::Result<()> {
    let held = openat2(
        CWD,
        one.path.as_c_str(),
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )?;
    let whole = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    let how = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | whole.cast_unsigned();
    // SAFETY: a plain system call on a descriptor that is open; it gives a new one, or says that it does not.
    let tree = unsafe { libc::syscall(libc::SYS_open_tree, held.as_raw_fd(), c"".as_ptr(), how) };
    let tree = i32::try_from(tree).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: it was just opened, and nobody else knows it.
    let tree = unsafe { OwnedFd::from_raw_fd(tree) };
    if one.read_only {
        // Adds to what holds of the mount already, which must not be taken from it.
        let wanted =
            libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
        let (fd, size) = (tree.as_raw_fd(), size_of_val(&wanted));
        // SAFETY: reads the structure, which is alive and as long as it says.
        let done = unsafe {
            libc::syscall(libc::SYS_mount_setattr, fd, c"".as_ptr(), whole, &raw const wanted, size)
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let (from, to) = (tree.as_raw_fd(), held.as_raw_fd());
    // SAFETY: a plain system call on descriptors that are open.
    let done = unsafe {
        libc::syscall(libc::SYS_move_mount, from, c"".as_ptr(), to, c"".as_ptr(), MOVE_MOUNT_BY_DESCRIPTORS)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Leaves the runner's user and network namespaces for new ones, in which the loopback works, and that of the names of
/// memory and queues where the kernel has such.
fn make_namespaces(maps: &Maps, network: bool) -> io::Result<()> {
    let which = libc::CLONE_NEWUSER | if network { libc::CLONE_NEWNET } else { 0 };
    // SAFETY: shares no files with another thread; what is unshared is this process's alone.
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

/// Has a program that the standard library starts take on a cage.
pub(super) fn confine(command: &mut tokio::process::Command, cage: Cage) {
    let maps = Maps::of_this_user();
    // SAFETY: between fork and exec, `shut_in` makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(move || shut_in(&cage, &maps)) };
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
