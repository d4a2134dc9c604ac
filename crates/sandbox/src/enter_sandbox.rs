//! Enters the sandbox in the child, by system calls that cannot be undone.
#![expect(
    unsafe_code,
    reason = "the child's side runs between its making and the program's start"
)]

use std::ffi::CStr;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};
use rustix::thread::{CapabilitySet, CapabilitySets, LinkNameSpaceType, move_into_link_name_space};

use super::Instruction;
use super::make_mount::{make_mount, mount_overlay, refresh_overlay};
use super::process_limit::{self, MAX_COMMAND_TASKS, MAX_USER_TASKS};
use super::profile::{FIRST_PORT_DESCRIPTOR, NamespaceChoice, SandboxProfile};

/// The longest path, including its NUL (PATH_MAX).
const PATH_BYTES: usize = 4096;
/// The connections to a local port that wait until the runner takes them.
const PENDING_CONNECTIONS: i32 = 64;

/// The largest size of one file that a command writes: a runaway write ends before the disk is full.
const MAX_FILE_BYTES: u64 = 64 << 30;

/// The user and group maps of a user namespace, built before the child exists.
pub struct IdMaps {
    user: String,
    group: String,
    /// The kernel counts the processes of each user namespace apart.
    has_own_count: bool,
}

impl IdMaps {
    /// Maps the current user and group to themselves.
    pub fn from_current_user() -> Self {
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        Self {
            user: format!("{user} {user} 1"),
            group: format!("{group} {group} 1"),
            has_own_count: process_limit::counts_by_namespace(),
        }
    }
}

/// Applies a sandbox profile for good. Makes system calls only. If the kernel refuses one that the profile needs, the
/// child ends.
pub fn enter_sandbox(cage: &SandboxProfile, maps: &IdMaps) -> io::Result<()> {
    match &cage.namespaces {
        NamespaceChoice::Inherited => {}
        NamespaceChoice::New {
            user,
            network,
            ports,
        } => {
            unshare_namespaces(user.as_deref(), maps, *network)?;
            for (port, descriptor) in ports.iter().zip(first_port_descriptor(ports.len())..) {
                listen_at(*port, descriptor)?;
            }
        }
        NamespaceChoice::Existing(made) => {
            // Opened before the view, whose files in /proc are read-only.
            let own_files = open_own_files()?;
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
            enter_view(cage)?;
            limit_processes(maps, own_files.as_fd())?;
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

/// Limits the processes and threads of this command. They are counted in a user namespace of its own, so that it leaves
/// those of others their room. Before the limit is set: the new namespace keeps the one in force for all of its parent's.
fn limit_processes(maps: &IdMaps, own_files: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: this process has one thread and shares no files; only its own namespace is unshared.
    let is_alone = maps.has_own_count && unsafe { libc::unshare(libc::CLONE_NEWUSER) } == 0;
    let most = if is_alone {
        write_id_maps(maps, own_files)?;
        MAX_COMMAND_TASKS
    } else {
        MAX_USER_TASKS
    };
    let most = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    // A lower limit already in force stays.
    let _ = setrlimit(Resource::Nproc, most);
    Ok(())
}

/// Opens this process's folder in /proc.
fn open_own_files() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(open(c"/proc/self", flags, Mode::empty())?)
}

/// Writes the id maps of the user namespace that this process has just made.
fn write_id_maps(maps: &IdMaps, own_files: BorrowedFd<'_>) -> io::Result<()> {
    // The files belong to root in a process whose memory cannot be dumped, as that of the runner and of its copies.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    let told = [
        (c"setgroups", "deny"),
        (c"uid_map", maps.user.as_str()),
        (c"gid_map", maps.group.as_str()),
    ];
    for (file, text) in told {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(own_files, file, flags, Mode::empty())?;
        rustix::io::write(file, text.as_bytes())?;
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

/// Enters the view of the files and makes the process's own mounts in a copy of it. Before the other restrictions, which
/// refuse mounts. The current folder is entered again by its path, since a relative name would lead past the mounts.
fn enter_view(cage: &SandboxProfile) -> io::Result<()> {
    let has_mounts = !cage.mounts.is_empty() || cage.caches.is_some();
    if cage.view.is_none() && !has_mounts {
        return Ok(());
    }
    let mut here = [0; PATH_BYTES];
    let here = current_folder(&mut here)?;
    if let Some(view) = &cage.view {
        move_into_link_name_space(view.mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
        for cache in &view.shared_caches {
            // One that cannot be refreshed is older, and is there.
            let _ = refresh_overlay(cache);
        }
    }
    if has_mounts {
        // SAFETY: only this process's namespace is unshared. In a user namespace that does not own the mounts, the kernel
        // lets none of this propagate to the original namespace.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
            return Err(io::Error::last_os_error());
        }
        for mount in cage
            .caches
            .iter()
            .flat_map(|caches| caches.overlay_mounts())
        {
            mount_overlay(mount);
        }
        for step in &cage.mounts {
            make_mount(step)?;
        }
    }
    rustix::process::chdir(here)?;
    Ok(())
}

/// Returns this process's current folder.
fn current_folder(path: &mut [u8; PATH_BYTES]) -> io::Result<&CStr> {
    // SAFETY: writes into `path`, no more than its length.
    if unsafe { libc::syscall(libc::SYS_getcwd, path.as_mut_ptr(), PATH_BYTES) } < 0 {
        return Err(io::Error::last_os_error());
    }
    CStr::from_bytes_until_nul(path).map_err(|_| io::Error::from_raw_os_error(libc::ENAMETOOLONG))
}

/// Creates a network namespace with a working loopback, and an IPC namespace if the kernel supports it, in this user
/// namespace or a new one.
fn unshare_namespaces(user: Option<&OwnedFd>, maps: &IdMaps, network: bool) -> io::Result<()> {
    let mut which = if network { libc::CLONE_NEWNET } else { 0 };
    match user {
        Some(user) => move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?,
        None => which |= libc::CLONE_NEWUSER,
    }
    // SAFETY: shares no files with another thread; only this process's namespaces are unshared.
    let unshare = |which| unsafe { libc::unshare(which) } == 0;
    if !unshare(which | libc::CLONE_NEWIPC) && !unshare(which) {
        return Err(io::Error::last_os_error());
    }
    if user.is_none() {
        write_id_maps(maps, open_own_files()?.as_fd())?;
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

/// Returns the first descriptor of so many listeners: a process with a low limit has no number as high as usual.
pub fn first_port_descriptor(count: usize) -> RawFd {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.and_then(|limit| i32::try_from(limit).ok());
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    FIRST_PORT_DESCRIPTOR.min(limit.unwrap_or(i32::MAX).saturating_sub(count))
}

/// Listens at a port of the loopback by this descriptor, which the program inherits.
fn listen_at(port: u16, descriptor: RawFd) -> io::Result<()> {
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    listen(&listener, PENDING_CONNECTIONS)?;
    // SAFETY: the process has no other descriptor of this number.
    if unsafe { libc::dup2(listener.as_raw_fd(), descriptor) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Makes a program that the standard library starts enter a sandbox.
pub fn confine_command(command: &mut Command, cage: SandboxProfile) {
    let maps = IdMaps::from_current_user();
    // SAFETY: between fork and exec, the closure makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(move || enter_sandbox(&cage, &maps)) };
}

/// Has a worker process of this program refuse the system calls of this filter; its files it restricts itself.
pub fn filter_calls(command: &mut Command, filter: Vec<Instruction>) {
    let confine = move || {
        rustix::thread::set_no_new_privs(true)?;
        load_filter(&filter)
    };
    // SAFETY: between fork and exec, `confine` makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(confine) };
}
