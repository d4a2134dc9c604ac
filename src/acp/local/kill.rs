//! Stopping a command with everyone of its family who is found, and what a former life of the runner left behind.
//! Not here: who belongs to a command (family).

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::children::CALL_MARK;
use super::family::{Family, Member, names};
use super::identity::ProcessIdentity;
use super::process::Child;
use crate::acp::terminals::{Ladder, Rung, StopSignal, Stopped};
use crate::ids::RequestId;

/// How long the killed may take to be gone. Only one that hangs in the kernel takes long.
const LAST_GRACE: Duration = Duration::from_secs(5);

/// How long a process may take from closing its files to having ended.
#[cfg(target_os = "linux")]
const LAST_BREATH: Duration = Duration::from_millis(50);

/// Ends what a former life of the runner started for `request` and could not end itself. A process that merely has
/// the same id today is never signalled: the boot and the start time must be the recorded ones.
///
/// It is killed without a warning: nobody waits for what it might still say, and the runner's start waits for its end.
///
/// Blocks until it is done, a moment as a rule.
pub fn kill_survivor(identity: &ProcessIdentity, request: &RequestId) -> Stopped {
    let family = Family { leader: identity.clone(), mark: format!("{CALL_MARK}={request}."), pipe: None };
    stop_tree(Some(&family), None, &Ladder::kill())
}

/// Stops a command and its relatives, rung by rung; only its process group where the family is not known. Blocks;
/// returns as soon as nobody is left.
pub(super) fn stop_tree(family: Option<&Family>, leader: Option<&Child>, ladder: &Ladder) -> Stopped {
    let last = Rung { signal: StopSignal::Kill, grace: LAST_GRACE };
    let mut by = None;
    for rung in ladder.rungs().iter().chain([&last]) {
        let gone = match (family, leader) {
            #[cfg(target_os = "linux")]
            (Some(family), leader) => climb(family, leader, *rung, &mut by),
            (_, Some(leader)) => climb_group(leader, *rung, &mut by),
            (_, None) => true,
        };
        if gone {
            return Stopped { by, survivors: Vec::new() };
        }
    }
    Stopped { by, survivors: family.map(|family| names(&family.members())).unwrap_or_default() }
}

/// The relatives who are still there after a moment. One that is just ending has closed its files already, so that
/// its pipe looks free, and still counts as living.
pub(super) fn lasting(family: &Family) -> Vec<Member> {
    let members = family.members();
    #[cfg(target_os = "linux")]
    if !members.is_empty() {
        let handles: Vec<Handle> = members.iter().copied().filter_map(Handle::open).collect();
        if all_ended(&handles, Instant::now() + LAST_BREATH) {
            return family.members();
        }
        return members.into_iter().filter(|member| super::family::is_living(*member)).collect();
    }
    members
}

/// One rung: signals everyone, newcomers too, until nobody is left (true) or the grace is over.
#[cfg(target_os = "linux")]
fn climb(family: &Family, leader: Option<&Child>, rung: Rung, by: &mut Option<StopSignal>) -> bool {
    let until = Instant::now() + rung.grace;
    let in_group = leader.is_some_and(|child| child.signal_group(rung.signal));
    if in_group {
        *by = Some(rung.signal);
    }
    let mut signalled: Vec<Member> = Vec::new();
    loop {
        let mut living = Vec::new();
        let members = family.members();
        if members.is_empty() {
            return true;
        }
        let first = signalled.is_empty();
        for member in members {
            let Some(handle) = Handle::open(member) else { continue };
            let by_group = in_group && first && member.group == family.leader.pid();
            let again = rung.signal == StopSignal::Kill;
            if again || !(by_group || signalled.contains(&member)) {
                handle.signal(rung.signal);
                *by = Some(rung.signal);
            }
            signalled.push(member);
            living.push(handle);
        }
        if !all_ended(&living, until) {
            return false;
        }
    }
}

/// One rung where only the process group is known: signals it and waits until it is empty.
fn climb_group(leader: &Child, rung: Rung, by: &mut Option<StopSignal>) -> bool {
    let until = Instant::now() + rung.grace;
    if leader.signal_group(rung.signal) {
        *by = Some(rung.signal);
    }
    while leader.group_lives() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        // There is nothing to wait on for a group; an empty poll is a short wait.
        let _ = poll(&mut [], Some(&timespec(left.min(Duration::from_millis(20)))));
    }
    true
}

/// A process held fast: a signal through it cannot reach another one that got the same id.
#[cfg(target_os = "linux")]
struct Handle {
    fd: std::os::fd::OwnedFd,
}

#[cfg(target_os = "linux")]
impl Handle {
    fn open(member: Member) -> Option<Self> {
        let pid = super::process::pid_of(member.pid)?;
        let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()?;
        let still = super::family::Stat::of(member.pid).is_some_and(|stat| stat.start == member.start);
        still.then_some(Self { fd })
    }

    fn signal(&self, signal: StopSignal) {
        // One that has just ended, or is not ours to signal, shows in the next look at the family.
        let _ = rustix::process::pidfd_send_signal(&self.fd, super::process::number(signal));
        if signal != StopSignal::Kill {
            let _ = rustix::process::pidfd_send_signal(&self.fd, rustix::process::Signal::CONT);
        }
    }
}

/// Waits until all have ended; false when the time is up before.
#[cfg(target_os = "linux")]
fn all_ended(handles: &[Handle], until: Instant) -> bool {
    let mut open: Vec<&Handle> = handles.iter().collect();
    while !open.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        let mut fds: Vec<PollFd<'_>> =
            open.iter().map(|handle| PollFd::new(&handle.fd, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&timespec(left))) {
            Ok(0) => return false,
            Ok(_) => {
                let ended: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
                let mut ended = ended.into_iter();
                open.retain(|_| !ended.next().unwrap_or(false));
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 })
}
