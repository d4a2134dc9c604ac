//! Taking on a confinement, in the child: the system calls after which it cannot be taken off again. Not here: what it
//! is made of (sandbox), and the rest of the child's way to its program (launch).
#![expect(unsafe_code, reason = "the child's side runs between its making and the program's start")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, open, openat2};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, LinkNameSpaceType, move_into_link_name_space};

use crate::sandbox::cage::{Cage, Cover, Shut, Spaces};

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
        Spaces::Anew { network, shut } => {
            make_namespaces(maps, *network)?;
            shut_doors(shut);
        }
        Spaces::Made(made) => {
            move_into_link_name_space(made.user.as_fd(), Some(LinkNameSpaceType::User))?;
            if let Some(network) = &made.network {
                move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
            }
            if made.mounts.is_some() || !cage.covers.is_empty() {
                // The folder was entered before: from there names lead past what changes now.
                let mut here = [0; PATH_BYTES];
                let here = folder(&mut here)?;
                if let Some(mounts) = &made.mounts {
                    move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
                }
                cover(&cage.covers)?;
                rustix::process::chdir(here)?;
            }
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
        let program = libc::sock_fprog {
            len: u16::try_from(cage.filter.len()).unwrap_or(0),
            filter: cage.filter.as_ptr().cast_mut(),
        };
        // SAFETY: the kernel copies the program, which is alive and as long as it says, and writes nothing to it.
        let done = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0u32, &raw const program)
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Takes a view of the files of its own, in which what is covered cannot be moved and, where that is asked for, not
/// written. Before the rest of the cage, which refuses mounts.
fn cover(covers: &[Cover]) -> io::Result<()> {
    if covers.is_empty() {
        return Ok(());
    }
    // SAFETY: what is unshared is this process's alone. In a user namespace that is not the files' own, the kernel sees
    // to it that nothing of this reaches the other view.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for one in covers {
        match cover_one(one).map_err(|cause| cause.raw_os_error()) {
            // Gone meanwhile, or exchanged for a link: it is looked at again when the command has ended.
            Ok(()) | Err(Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP)) => {}
            Err(cause) => return Err(io::Error::from_raw_os_error(cause.unwrap_or(libc::EIO))),
        }
    }
    Ok(())
}

/// The folder of this process.
fn folder(path: &mut [u8; PATH_BYTES]) -> io::Result<&CStr> {
    // SAFETY: writes into `path`, no more than its length.
    if unsafe { libc::syscall(libc::SYS_getcwd, path.as_mut_ptr(), PATH_BYTES) } < 0 {
        return Err(io::Error::last_os_error());
    }
    CStr::from_bytes_until_nul(path).map_err(|_| io::Error::from_raw_os_error(libc::ENAMETOOLONG))
}

/// Takes a view of the files of its own, in which these lead nowhere, as far as the system lets it.
fn shut_doors(doors: &[Shut]) {
    // SAFETY: what is unshared is this process's alone; no mount of another view changes by what is done in this one.
    if doors.is_empty() || unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return;
    }
    let flags = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    for door in doors {
        let at = door.path.as_ptr();
        // SAFETY: texts that end in NUL, all alive. One that fails leaves its door as it was.
        unsafe {
            if door.is_folder {
                let (name, how) = (c"none".as_ptr(), c"size=4k,nr_inodes=1,mode=0");
                libc::mount(name, at, c"tmpfs".as_ptr(), flags, how.as_ptr().cast());
            } else {
                // Nobody may write the first, which is asked for before it is seen that it is no socket: the refusal is
                // the same as for a folder.
                let _ = [c"/proc/version", c"/dev/null"]
                    .into_iter()
                    .any(|file| libc::mount(file.as_ptr(), at, ptr::null(), libc::MS_BIND, ptr::null()) == 0);
            }
        }
    }
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

/// Leaves the runner's user and network namespaces for new ones, in which the loopback works.
fn make_namespaces(maps: &Maps, network: bool) -> io::Result<()> {
    let which = libc::CLONE_NEWUSER | if network { libc::CLONE_NEWNET } else { 0 };
    // SAFETY: shares no files with another thread; what is unshared is this process's alone.
    if unsafe { libc::unshare(which) } != 0 {
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
