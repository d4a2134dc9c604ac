//! Converts the grants to a Landlock ruleset. Not here: the choice of the grants, and applying the ruleset
//! (enter_sandbox).

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2, readlink};
use rustix::io::Errno;

use super::path_grants::{PathAccess, PathGrant};

/// The newest requested Landlock ABI; an older kernel enforces the part that it supports.
const NEWEST: ABI = ABI::V7;

/// Creates a ruleset that grants only these paths, these open folders for reading, and no TCP if `shut_tcp`; `None` if
/// the kernel has no Landlock.
pub(super) fn create_ruleset(
    places: &[PathGrant],
    shown: Vec<OwnedFd>,
    shut_tcp: bool,
) -> Result<Option<OwnedFd>, RulesetError> {
    let mut made = create(shut_tcp)?;
    for folder in shown {
        made = grant(made, folder, PathAccess::Read)?;
    }
    for place in places {
        // One that went meanwhile, that this user may not even look at, or that became a link, gets no grant.
        let Ok(held) = open_without_links(&place.path) else {
            continue;
        };
        made = grant(made, held, place.access)?;
    }
    Ok(made.into())
}

/// Restricts the calling thread, and those that it starts, to these files and folders and to no TCP. Missing files
/// get no grant, and a link grants nothing. A kernel without Landlock restricts nothing.
///
/// # Errors
/// The kernel refuses what it should know.
pub fn restrict_thread(reads: &[PathBuf], writes: &[PathBuf]) -> Result<(), RulesetError> {
    let mut made = create(true)?;
    let reads = reads.iter().map(|path| (path, PathAccess::Read));
    for (path, usage) in reads.chain(writes.iter().map(|path| (path, PathAccess::Write))) {
        let Ok(held) = open(
            path,
            OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::empty(),
        ) else {
            continue;
        };
        made = grant(made, held, usage)?;
    }
    made.restrict_self().map(drop)
}

/// A ruleset that grants nothing yet.
fn create(shut_tcp: bool) -> Result<RulesetCreated, RulesetError> {
    let mut asked = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    if shut_tcp {
        asked = asked.handle_access(AccessNet::from_all(NEWEST))?;
    }
    asked.create()
}

fn grant(
    made: RulesetCreated,
    held: OwnedFd,
    usage: PathAccess,
) -> Result<RulesetCreated, RulesetError> {
    let is_folder =
        fstat(&held).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
    let mut access = landlock_access(usage);
    if !is_folder {
        access &= AccessFs::from_file(NEWEST);
    }
    made.add_rule(PathBeneath::new(held, access))
}

/// Opens a path without following links, in case one was created meanwhile.
fn open_without_links(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(CWD, path, flags, Mode::empty(), how) {
        // Some containers deny this call.
        Err(Errno::NOSYS | Errno::PERM) => open_and_verify(path, flags),
        held => held,
    }
}

/// Opens a path and checks afterwards that no link was followed.
fn open_and_verify(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let held = open(path, flags, Mode::empty())?;
    let name = readlink(format!("/proc/self/fd/{}", held.as_raw_fd()), Vec::new())?;
    if name.as_bytes() == path.as_os_str().as_bytes() {
        Ok(held)
    } else {
        Err(Errno::LOOP)
    }
}

/// Returns whether Landlock can prevent truncation, as it can from ABI 3 (Linux 6.2) on.
pub(super) fn can_block_truncation() -> bool {
    let asked = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Truncate);
    asked.and_then(Ruleset::create).is_ok()
}

fn landlock_access(usage: PathAccess) -> BitFlags<AccessFs> {
    match usage {
        PathAccess::Read => AccessFs::from_read(NEWEST),
        PathAccess::Write => AccessFs::from_all(NEWEST),
        PathAccess::Reopen => AccessFs::ReadFile | AccessFs::WriteFile,
        PathAccess::Device => {
            AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::ReadDir | AccessFs::IoctlDev
        }
    }
}

/// Turns an error of a ruleset into the system's, if that was the cause, so that a lack of descriptors is known as one.
pub(super) fn as_io_error(error: landlock::RulesetError) -> io::Error {
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        if let Some(code) = cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error)
        {
            return io::Error::from_raw_os_error(code);
        }
        source = cause.source();
    }
    io::Error::other(error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_anywhere_on_the_way_leads_to_no_grant() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().canonicalize().expect("real");
        std::fs::create_dir_all(top.join("real/deep")).expect("made");
        symlink("real", top.join("link")).expect("a link");
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let is_folder = |held: OwnedFd| {
            fstat(&held).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
        };
        for (path, leads) in [("real/deep", true), ("link/deep", false), ("link", false)] {
            let path = top.join(path);
            // A link at the end is opened itself, and a grant for a link grants nothing.
            assert_eq!(
                open_without_links(&path).is_ok_and(is_folder),
                leads,
                "{}",
                path.display()
            );
            assert_eq!(
                open_and_verify(&path, flags).is_ok_and(is_folder),
                leads,
                "{}",
                path.display()
            );
        }
    }
}
