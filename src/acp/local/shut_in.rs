//! Taking on a confinement, in the child: the system calls after which it cannot be taken off again. Not here: what it
//! is made of (sandbox), and the rest of the child's way to its program (launch).
#![expect(unsafe_code, reason = "the child's side runs between its making and the program's start")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, LinkNameSpaceType, move_into_link_name_space};

use crate::sandbox::cage::{Cage, Spaces};

/// How many processes all commands together may have, where the system counts theirs apart from the user's others.
const MOST_PROCESSES: u64 = 4096;

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
        Spaces::Anew => make_namespaces(maps)?,
        Spaces::Made(made) => {
            move_into_link_name_space(made.user.as_fd(), Some(LinkNameSpaceType::User))?;
            move_into_link_name_space(made.network.as_fd(), Some(LinkNameSpaceType::Network))?;
            let most = Rlimit { current: Some(MOST_PROCESSES), maximum: Some(MOST_PROCESSES) };
            // A lower limit that is there already stays.
            let _ = setrlimit(Resource::Nproc, most);
        }
    }
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
    for filter in cage.filters.iter() {
        let program = libc::sock_fprog {
            len: u16::try_from(filter.len()).unwrap_or(0),
            filter: filter.as_ptr().cast_mut().cast(),
        };
        // SAFETY: the kernel copies the program, which is alive and as long as it says, and writes nothing to it. Its
        // instructions have the layout that the kernel's header gives them, in both crates.
        let done = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0u32, &raw const program)
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Leaves the runner's user and network namespaces for new ones, in which the loopback works.
fn make_namespaces(maps: &Maps) -> io::Result<()> {
    // SAFETY: shares no files with another thread; what is unshared is this process's alone.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) } != 0 {
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
