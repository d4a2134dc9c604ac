//! The places as a ruleset of the kernel's Landlock. Not here: which places (places), and taking it on
//! (acp::local::launch).

use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use super::places::{Place, Use};

/// The newest version of the interface that is asked for; an older kernel enforces what it knows of it.
const NEWEST: ABI = ABI::V7;

/// A ruleset that grants these places and nothing else, and no TCP where that is shut; none where the kernel knows no
/// Landlock.
pub(super) fn ruleset(places: &[Place], shut_tcp: bool) -> Result<Option<OwnedFd>, RulesetError> {
    let mut asked = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    if shut_tcp {
        asked = asked.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let mut made = asked.create()?;
    for place in places {
        // One that went meanwhile, or that this user may not even look at, needs no grant.
        let Ok(held) = open(&place.path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else { continue };
        let is_folder =
            fstat(&held).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
        let mut access = access(place.usage);
        if !is_folder {
            access &= AccessFs::from_file(NEWEST);
        }
        made = made.add_rule(PathBeneath::new(held, access))?;
    }
    Ok(made.into())
}

/// Whether the kernel's Landlock keeps files from being cut short, as it does from its third version (Linux 6.2) on.
pub(super) fn keeps_lengths() -> bool {
    let asked =
        Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(AccessFs::Truncate);
    asked.and_then(Ruleset::create).is_ok()
}

fn access(usage: Use) -> BitFlags<AccessFs> {
    match usage {
        Use::Read => AccessFs::from_read(NEWEST),
        Use::Write => AccessFs::from_all(NEWEST),
        Use::Reopen => AccessFs::ReadFile | AccessFs::WriteFile,
        Use::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::ReadDir | AccessFs::IoctlDev,
    }
}
