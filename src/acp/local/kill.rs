//! Stops a command with its whole process tree, and processes that an earlier process of the runner left running. Not
//! here: finding the processes of a command.

#[cfg(target_os = "linux")]
use std::collections::HashSet;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::control_group;
use super::family::{Family, Member, names};
use super::identity::ProcessIdentity;
use super::process::Child;
use crate::acp::terminals::{Ladder, ProcessName, Rung, StopSignal, Stopped};
use crate::ids::RequestId;

/// The time that killed processes may take to be gone. Only one that hangs in the kernel takes long.
const LAST_GRACE: Duration = Duration::from_secs(5);

/// The largest number of scans for new processes before all are killed.
#[cfg(target_os = "linux")]
const LOOKS: usize = 100;

/// The number of consecutive scans that must find no new process: one alone may miss a process that is just being
/// forked.
#[cfg(target_os = "linux")]
const QUIET_LOOKS: u32 = 3;

/// The time that a process may take from closing its files to its end.
#[cfg(target_os = "linux")]
const LAST_BREATH: Duration = Duration::from_millis(50);

/// Kills the processes that an earlier process of the runner started for `request` and could not end. A process that
/// only has the same id today is never signalled: boot and start time must match the record.
///
/// It is killed without a warning, because its last output has no reader and the runner's start waits for its end.
///
/// Blocks until all have ended, usually a moment.
pub fn kill_survivor(identity: &ProcessIdentity, request: &RequestId) -> Stopped {
    let family = Family::of_a_former_life(identity.clone(), request, None);
    let stopped = stop_tree(Some(&family), None, &Ladder::kill());
    if stopped.survivors.is_empty() {
        family.dissolve();
    }
    stopped
}

/// Ends all processes that an earlier process of the runner started for `request`, found by their marks alone, with a
/// termination signal first. Blocks, two seconds at most for processes that obey.
pub fn end_all_of(request: &RequestId) -> Stopped {
    stop_tree(Family::of_a_request(request).as_ref(), None, &Ladder::timeout())
}

/// Finds all running processes that were started for `request`, by their marks alone. Blocks while it scans all
/// processes.
pub fn left_of(request: &RequestId) -> Vec<ProcessName> {
    Family::of_a_request(request).map(|family| names(&family.members())).unwrap_or_default()
}

/// Describes to people how a command's processes are found when they are to be ended.
pub fn reach() -> &'static str {
    match (cfg!(target_os = "linux"), control_group::are_possible()) {
        (true, true) => "all processes, by control group and by mark",
        (true, false) => "all processes, by mark (no control group can be made here)",
        (false, _) => "the process group only",
    }
}

/// Stops a command and its descendants, step by step; only its process group if the tree is unknown. Blocks, and
/// returns as soon as all have ended.
pub(super) fn stop_tree(family: Option<&Family>, leader: Option<&Child>, ladder: &Ladder) -> Stopped {
    let last = Rung { signal: StopSignal::Kill, grace: LAST_GRACE };
    let mut by = None;
    for (at, rung) in ladder.rungs().iter().chain([&last]).enumerate() {
        // A shell makes its background jobs ignore SIGINT, so waiting for them is useless. The wait is cut short only
        // if the next step is not yet the final kill.
        let in_vain = rung.signal == StopSignal::Interrupt && at + 1 < ladder.rungs().len();
        let gone = match (family, leader) {
            #[cfg(target_os = "linux")]
            (Some(family), leader) => climb(family, leader, *rung, in_vain, &mut by),
            (_, Some(leader)) => climb_group(leader, *rung, &mut by),
            (_, None) => true,
        };
        if gone {
            return Stopped { by, survivors: Vec::new(), in_editor: None };
        }
    }
    let survivors = family.map(|family| names(&family.members())).unwrap_or_default();
    Stopped { by, survivors, in_editor: None }
}

/// Returns the descendants that still run after a moment. A process that is just ending has closed its files, so that
/// its pipe looks free, but still counts as living.
pub(super) fn lasting(family: &Family) -> Vec<Member> {
    let members = family.members_at_a_glance();
    #[cfg(target_os = "linux")]
    if !members.is_empty() {
        let handles: Vec<Handle> = members.iter().copied().filter_map(Handle::open).collect();
        if all_ended(&handles, Instant::now() + LAST_BREATH) {
            return family.members_at_a_glance();
        }
        return members.into_iter().filter(|member| super::family::is_living(*member)).collect();
    }
    members
}

/// Runs one step: signals all processes, new ones too, until all have ended (true) or the grace is over. With
/// `in_vain`, the grace also ends as soon as all that are left ignore the signal.
#[cfg(target_os = "linux")]
fn climb(
    family: &Family,
    leader: Option<&Child>,
    rung: Rung,
    in_vain: bool,
    by: &mut Option<StopSignal>,
) -> bool {
    let until = Instant::now() + rung.grace;
    if rung.signal == StopSignal::Kill && family.kill_groups() {
        *by = Some(rung.signal);
    }
    let in_group = leader.is_some_and(|child| child.signal_group(rung.signal));
    if in_group {
        *by = Some(rung.signal);
    }
    let mut signalled: Vec<Member> = Vec::new();
    loop {
        if rung.signal == StopSignal::Kill {
            freeze(family);
        }
        let mut living = Vec::new();
        let Some(members) = found(family) else { return true };
        let first = signalled.is_empty();
        for member in members {
            let Some(handle) = Handle::open(member) else { continue };
            let by_group = in_group && first && member.group == family.group();
            let again = rung.signal == StopSignal::Kill;
            if again || !(by_group || signalled.contains(&member)) {
                handle.signal(rung.signal);
                *by = Some(rung.signal);
            }
            signalled.push(member);
            living.push(handle);
        }
        // A process that cannot be opened cannot be waited for either.
        let nobody_held = living.is_empty() && Instant::now() >= until;
        if nobody_held || (in_vain && !living.is_empty() && living.iter().all(Handle::ignores_interrupt)) {
            return false;
        }
        let went_on = if in_vain { any_ended(&living, until) } else { all_ended(&living, until) };
        if !went_on {
            return false;
        }
    }
}

/// Returns all living processes, or `None` if several consecutive scans find none.
#[cfg(target_os = "linux")]
fn found(family: &Family) -> Option<Vec<Member>> {
    (0..QUIET_LOOKS).map(|_| family.members()).find(|members| !members.is_empty())
}

/// Stops all processes until several consecutive scans find no new one. A stopped process starts none, and still
/// counts against the user's process limit. So a fork bomb hits that limit and gets no room for new processes.
#[cfg(target_os = "linux")]
fn freeze(family: &Family) {
    let mut stopped: HashSet<Member> = HashSet::new();
    let mut quiet = 0;
    for _ in 0..LOOKS {
        let before = stopped.len();
        let mut stop = |member: Member| {
            if stopped.insert(member)
                && let Some(handle) = Handle::open(member)
            {
                handle.stop();
            }
        };
        family.meet(&mut stop);
        family.members().into_iter().for_each(&mut stop);
        quiet = if stopped.len() == before { quiet + 1 } else { 0 };
        if quiet == QUIET_LOOKS {
            return;
        }
    }
}

/// Runs one step on the process group alone: signals it and waits until it is empty.
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
        // A group offers nothing to wait on; an empty poll is a short wait.
        let _ = poll(&mut [], Some(&timespec(left.min(Duration::from_millis(20)))));
    }
    true
}

/// An open process: a signal through it cannot reach another one that got the same id.
#[cfg(target_os = "linux")]
struct Handle {
    fd: std::os::fd::OwnedFd,
    pid: u32,
}

#[cfg(target_os = "linux")]
impl Handle {
    fn open(member: Member) -> Option<Self> {
        let pid = super::process::pid_of(member.pid)?;
        let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()?;
        let still = super::family::Stat::of(member.pid).is_some_and(|stat| stat.start == member.start);
        still.then_some(Self { fd, pid: member.pid })
    }

    fn ignores_interrupt(&self) -> bool {
        super::family::ignores(self.pid, rustix::process::Signal::INT)
    }

    fn stop(&self) {
        // A process that has just ended is absent from the next scan.
        let _ = rustix::process::pidfd_send_signal(&self.fd, rustix::process::Signal::STOP);
    }

    fn signal(&self, signal: StopSignal) {
        // A process that has just ended, or that we may not signal, shows in the next scan.
        let _ = rustix::process::pidfd_send_signal(&self.fd, super::process::number(signal));
        if signal != StopSignal::Kill {
            let _ = rustix::process::pidfd_send_signal(&self.fd, rustix::process::Signal::CONT);
        }
    }
}

/// Waits until all have ended; returns false on timeout.
#[cfg(target_os = "linux")]
fn all_ended(handles: &[Handle], until: Instant) -> bool {
    ended(handles, until, 0)
}

/// Waits until one has ended, or there is none; returns false on timeout.
#[cfg(target_os = "linux")]
fn any_ended(handles: &[Handle], until: Instant) -> bool {
    ended(handles, until, handles.len().saturating_sub(1))
}

/// Waits until at most so many are left.
#[cfg(target_os = "linux")]
fn ended(handles: &[Handle], until: Instant, left: usize) -> bool {
    let mut open: Vec<&Handle> = handles.iter().collect();
    while open.len() > left {
        let time = until.saturating_duration_since(Instant::now());
        let mut fds: Vec<PollFd<'_>> =
            open.iter().map(|handle| PollFd::new(&handle.fd, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&timespec(time))) {
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::collections::BTreeMap;

    use super::super::children::call_mark;
    use super::super::control_group::ControlGroup;
    use super::super::limit_mark::LimitMark;
    use super::super::process::{Plan, Spawned, Spawner};
    use super::super::ties::Ties;
    use super::*;

    /// Forks twice, leaves the session, empties its environment, closes its standard streams and reports that.
    const DAEMON: &str = "(setsid env -i bash -c 'exec 0<&- 1>&- 2>&-; (setsid sleep 600 &)'); echo done";

    /// A command that left a daemon behind and ended, with the remaining means to find it.
    async fn family(mark: &str, ties: Ties) -> (ProcessIdentity, Family) {
        family_of(DAEMON, mark, ties).await
    }

    async fn family_of(line: &str, mark: &str, ties: Ties) -> (ProcessIdentity, Family) {
        let plan = Plan {
            program: "/bin/bash".into(),
            args: vec!["-c".to_owned(), line.to_owned()],
            env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            cwd: "/".into(),
            stdin: None,
            tty: None,
            ties: ties.clone(),
            cage: None,
        };
        let spawner = Spawner::new().expect("a thread");
        let Spawned { child, output, .. } = spawner.spawn(plan).await.expect("started");
        let ended = [child.ended()];
        let mut fds = [PollFd::new(&ended[0], PollFlags::IN)];
        poll(&mut fds, None).expect("it ends");
        drop(output);
        // The mark in the environment and the pipe are not used here.
        let leader = child.identity().expect("it is known").clone();
        (leader.clone(), Family::of_command(leader, format!("{mark}:none"), &ties, None))
    }

    fn end(family: &Family) {
        assert!((0..1_000).any(|_| !family.members().is_empty()), "it is found");
        let stopped = stop_tree(Some(family), None, &Ladder::kill());
        assert_eq!((stopped.by, stopped.survivors), (Some(StopSignal::Kill), Vec::new()));
        assert!(family.members().is_empty());
        family.dissolve();
    }

    #[tokio::test]
    async fn a_daemon_that_shed_everything_is_found_by_its_limit_alone() {
        let mark = call_mark(&RequestId::new(), 0);
        let limit = LimitMark::of(&mark);
        assert!(limit.is_some(), "the tests run under a limit of somebody else's");
        // A daemon that the test cannot find must end by itself.
        let (_, lost) = family_of(&DAEMON.replace("600", "3"), &mark, Ties::default()).await;
        assert!(lost.members().is_empty(), "the test needs a daemon that nothing else finds");
        let (_, found) = family(&mark, Ties { limit, ..Ties::default() }).await;
        end(&found);
    }

    #[tokio::test]
    async fn a_daemon_that_shed_everything_is_found_by_its_control_group_alone() {
        let mark = call_mark(&RequestId::new(), 0);
        let Some(group) = ControlGroup::make(&mark, true) else {
            // Without control groups there is nothing to find; the test of the limit covers both.
            assert!(!control_group::are_possible());
            return;
        };
        let (_, found) = family(&mark, Ties { group: Some(group), ..Ties::default() }).await;
        end(&found);
        while ControlGroup::of_an_earlier_life(&mark).is_some() {
            // The kernel takes a moment to notice that the group is empty.
            ControlGroup::remove_left();
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn what_never_stays_is_frozen_before_it_is_killed() {
        // Each process starts its successor in another session and ends; only the limit connects them. If the test
        // fails, they end when the folder is removed.
        let guard = tempfile::tempdir().expect("a folder");
        let chain = format!(
            "export HOP='[ -d {} ] && setsid bash -c \"$HOP\" > /dev/null 2>&1 &'; \
             for n in 1 2 3 4 5; do bash -c \"$HOP\" & done; wait; echo done",
            guard.path().display()
        );
        let limit = LimitMark::of(&call_mark(&RequestId::new(), 0));
        let (_, chain) = family_of(&chain, "none", Ties { limit, ..Ties::default() }).await;
        end(&chain);
        for _ in 0..20 {
            assert!(chain.members().is_empty());
        }
    }

    #[tokio::test]
    async fn a_later_life_finds_a_daemon_by_the_requests_name() {
        let request = RequestId::new();
        let mark = call_mark(&request, 0);
        let (leader, left) = family(&mark, Ties::of_command(&mark, true)).await;
        assert_eq!(left.members().len(), 1);
        let stranger = kill_survivor(&leader, &RequestId::new());
        assert!(stranger.by.is_none() && left.members().len() == 1, "another request's is left alone");
        assert_eq!(kill_survivor(&leader, &request).by, Some(StopSignal::Kill));
        assert!(left.members().is_empty());
    }
}
