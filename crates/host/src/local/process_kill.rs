//! Stops a command with its whole process tree, and processes that an earlier process of the runner left running.

#[cfg(target_os = "linux")]
use std::collections::HashSet;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};

use super::child_process::ChildProcess;
use super::control_group;
#[cfg(target_os = "linux")]
use super::process_handle::{ProcessHandle, wait_until_all_ended, wait_until_any_ended};
use super::process_identity::ProcessIdentity;
use super::process_stat::{TreeMember, process_names};
#[cfg(target_os = "linux")]
use super::process_stat::{count_threads, is_member_alive};
use super::process_tree::ProcessTree;
use crate::terminals::{ProcessName, StopReport, StopSequence, StopSignal, StopStep};
use punie_core::ids::RequestId;
#[cfg(target_os = "linux")]
use punie_sandbox::process_limit::is_at_limit;

/// The time in which one of the killed processes is gone. Only one that hangs in the kernel takes long.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// The longest time for killing a command whose processes end and come without an end.
#[cfg(target_os = "linux")]
const MAX_KILL_TIME: Duration = Duration::from_secs(30);

/// The largest number of scans for new processes before those that were found are killed.
#[cfg(target_os = "linux")]
const MAX_HALT_SCANS: usize = 100;

/// The most processes of a command that has a grace before the kill: a quarter of what it may have.
#[cfg(target_os = "linux")]
const MAX_WITH_GRACE: usize = 256;

/// The most processes that are waited for at a time. Each takes one of the runner's descriptors.
#[cfg(target_os = "linux")]
const MAX_WAITED: usize = 64;

/// The number of consecutive scans that must find no new process: one alone may miss a process that is just being
/// forked.
#[cfg(target_os = "linux")]
const EMPTY_SCANS: u32 = 3;

/// The time between two looks at killed processes of which none ends: the kernel may need seconds to dismantle them.
#[cfg(target_os = "linux")]
const KILL_LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// The time that a process may take from closing its files to its end.
#[cfg(target_os = "linux")]
const EXIT_TIMEOUT: Duration = Duration::from_millis(50);

/// Kills the processes that an earlier process of the runner started for `request` and could not end. A process that
/// only has the same id today is never signalled: boot and start time must match the record.
///
/// It is killed without a warning, because its last output has no reader and the runner's start waits for its end.
///
/// Blocks until all have ended, usually a moment.
pub fn kill_survivor(identity: &ProcessIdentity, request: &RequestId) -> StopReport {
    let tree = ProcessTree::from_earlier_run(identity.clone(), request, None);
    let stopped = stop_process_tree(Some(&tree), None, &StopSequence::kill_at_once());
    if stopped.survivors.is_empty() {
        tree.remove_cgroups();
    }
    stopped
}

/// Ends all processes that were started for `request`, also by an earlier process of the runner, found by their marks
/// alone. Blocks until they have ended, or the steps are over.
pub fn end_request_processes(request: &RequestId, sequence: &StopSequence) -> StopReport {
    let tree = ProcessTree::from_request_marks(request);
    let stopped = stop_process_tree(tree.as_ref(), None, sequence);
    if let Some(tree) = tree.filter(|_| stopped.survivors.is_empty()) {
        tree.remove_cgroups();
    }
    stopped
}

/// Finds all running processes that were started for `request`, by their marks alone. Blocks while it scans all
/// processes.
pub fn find_request_processes(request: &RequestId) -> Vec<ProcessName> {
    ProcessTree::from_request_marks(request)
        .map(|tree| process_names(&tree.find_members()))
        .unwrap_or_default()
}

/// Describes to people how a command's processes are found when they are to be ended.
pub fn describe_kill_method() -> &'static str {
    match (
        cfg!(target_os = "linux"),
        control_group::can_create_groups(),
    ) {
        (true, true) => "all processes, by control group and by mark",
        (true, false) => "all processes, by mark (no control group can be made here)",
        (false, _) => "the process group only",
    }
}

/// Stops a command and its descendants, step by step; only its process group if the tree is unknown. Blocks, and
/// returns as soon as all have ended.
pub(super) fn stop_process_tree(
    tree: Option<&ProcessTree>,
    leader: Option<&ChildProcess>,
    sequence: &StopSequence,
) -> StopReport {
    let mut report = StopReport::default();
    let steps = sequence.steps();
    for (at, step) in steps.iter().enumerate() {
        // A shell makes its background jobs ignore SIGINT, so waiting for them is useless. The wait is cut short only
        // if the next step is not yet the final kill.
        let in_vain = step.signal == StopSignal::Interrupt && at + 1 < steps.len();
        let gone = match (tree, leader) {
            #[cfg(target_os = "linux")]
            (Some(tree), leader) => run_stop_step(tree, leader, *step, in_vain, &mut report),
            (_, Some(leader)) => run_group_stop_step(leader, *step, &mut report.by),
            (_, None) => true,
        };
        if gone {
            return report;
        }
    }
    let last = StopStep {
        signal: StopSignal::Kill,
        grace: KILL_GRACE,
    };
    let gone = match (tree, leader) {
        #[cfg(target_os = "linux")]
        (Some(tree), leader) => kill_tree(tree, leader, &mut report),
        (_, Some(leader)) => run_group_stop_step(leader, last, &mut report.by),
        (_, None) => true,
    };
    if let Some(tree) = tree.filter(|_| !gone) {
        report.survivors = process_names(&tree.find_members());
    }
    report
}

/// Returns the descendants that still run after a moment. A process that is just ending has closed its files, so that
/// its pipe looks free, but still counts as living.
pub(super) fn find_lasting_members(tree: &ProcessTree) -> Vec<TreeMember> {
    let members = tree.recent_descendants();
    #[cfg(target_os = "linux")]
    if !members.is_empty() {
        let handles: Vec<ProcessHandle> = members
            .iter()
            .copied()
            .filter_map(ProcessHandle::open)
            .collect();
        if wait_until_all_ended(&handles, Instant::now() + EXIT_TIMEOUT) {
            return tree.recent_descendants();
        }
        return members
            .into_iter()
            .filter(|member| is_member_alive(*member))
            .collect();
    }
    members
}

/// Runs one step before the kill: signals all processes, new ones too, until all have ended (true) or the grace is over.
/// With `in_vain`, the grace also ends as soon as all that are left ignore the signal. A crowd has no grace: those that
/// end make room for others.
#[cfg(target_os = "linux")]
fn run_stop_step(
    tree: &ProcessTree,
    leader: Option<&ChildProcess>,
    step: StopStep,
    in_vain: bool,
    report: &mut StopReport,
) -> bool {
    let until = Instant::now() + step.grace;
    let mut signalled: HashSet<TreeMember> = HashSet::new();
    loop {
        let Some(members) = find_living_members(tree) else {
            return true;
        };
        if members.len() > MAX_WITH_GRACE {
            return false;
        }
        let in_group =
            signalled.is_empty() && leader.is_some_and(|it| it.signal_group(step.signal));
        if in_group {
            report.by = Some(step.signal);
        }
        let mut living = Vec::new();
        for member in members {
            let Some(handle) = ProcessHandle::open(member) else {
                continue;
            };
            let by_group = in_group && member.group == tree.process_group();
            if signalled.insert(member) && !by_group {
                handle.send_signal(step.signal);
                report.by = Some(step.signal);
            }
            if living.len() < MAX_WAITED {
                living.push(handle);
            }
        }
        // A process that cannot be opened cannot be waited for either.
        let nobody_held = living.is_empty() && Instant::now() >= until;
        if nobody_held
            || (in_vain
                && !living.is_empty()
                && living.iter().all(ProcessHandle::ignores_interrupt))
        {
            return false;
        }
        let went_on = if in_vain {
            wait_until_any_ended(&living, until)
        } else {
            wait_until_all_ended(&living, until)
        };
        if !went_on {
            return false;
        }
    }
}

/// Kills all processes, until none is left (true), or none has ended for a while, as one that hangs in the kernel.
#[cfg(target_os = "linux")]
fn kill_tree(tree: &ProcessTree, leader: Option<&ChildProcess>, report: &mut StopReport) -> bool {
    let began = Instant::now();
    let mut progress = began;
    while progress.elapsed() < KILL_GRACE && began.elapsed() < MAX_KILL_TIME {
        let in_groups = tree.kill_control_groups();
        let in_group = leader.is_some_and(|child| child.signal_group(StopSignal::Kill));
        if in_groups || in_group {
            report.by = Some(StopSignal::Kill);
        }
        halt_tree(tree);
        let Some(members) = find_living_members(tree) else {
            return true;
        };
        report.at_process_limit |= is_at_limit(count_threads(&members));
        let mut living = Vec::new();
        for member in members {
            if let Some(handle) = ProcessHandle::open(member) {
                handle.send_signal(StopSignal::Kill);
                report.by = Some(StopSignal::Kill);
                living.push(handle);
                living.truncate(MAX_WAITED);
            }
        }
        if living.is_empty() {
            wait_briefly(KILL_GRACE);
        } else if wait_until_any_ended(&living, Instant::now() + KILL_LOOK_INTERVAL) {
            progress = Instant::now();
            wait_until_all_ended(&living, progress + EXIT_TIMEOUT);
        }
    }
    false
}

/// Returns all living processes, or `None` if several consecutive scans find none.
#[cfg(target_os = "linux")]
fn find_living_members(tree: &ProcessTree) -> Option<Vec<TreeMember>> {
    (0..EMPTY_SCANS)
        .map(|_| tree.find_members())
        .find(|members| !members.is_empty())
}

/// Halts all processes, until several consecutive scans find no new one. None of them starts another one then, and all
/// of them still count against the limit of the command.
#[cfg(target_os = "linux")]
fn halt_tree(tree: &ProcessTree) {
    let mut halted: HashSet<TreeMember> = HashSet::new();
    let mut quiet = 0;
    for _ in 0..MAX_HALT_SCANS {
        let before = halted.len();
        // The quick search is repeated until it finds nothing: each process that still runs takes time from this one.
        tree.for_each_tagged(|member| halt_once(&mut halted, member));
        if halted.len() > before {
            quiet = 0;
            continue;
        }
        for member in tree.find_members() {
            halt_once(&mut halted, member);
        }
        quiet = if halted.len() == before { quiet + 1 } else { 0 };
        if quiet == EMPTY_SCANS {
            return;
        }
    }
}

#[cfg(target_os = "linux")]
fn halt_once(halted: &mut HashSet<TreeMember>, member: TreeMember) {
    if halted.insert(member)
        && let Some(handle) = ProcessHandle::open(member)
    {
        handle.halt();
    }
}

/// Runs one step on the process group alone: signals it and waits until it is empty.
fn run_group_stop_step(leader: &ChildProcess, step: StopStep, by: &mut Option<StopSignal>) -> bool {
    let until = Instant::now() + step.grace;
    if leader.signal_group(step.signal) {
        *by = Some(step.signal);
    }
    while leader.has_group_members() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        wait_briefly(left);
    }
    true
}

/// Looks again and again until something is so. Returns false if it is not within this time.
#[cfg(target_os = "linux")]
pub(super) fn is_so_within(limit: Duration, is_so: impl Fn() -> bool) -> bool {
    const PAUSE: Duration = Duration::from_micros(100);
    let until = Instant::now() + limit;
    while !is_so() {
        if Instant::now() >= until {
            return false;
        }
        wait_briefly(PAUSE);
    }
    true
}

/// Waits for a moment, where there is nothing to wait on.
fn wait_briefly(most: Duration) {
    let time = to_timespec(most.min(Duration::from_millis(20)));
    let _ = poll(&mut [], Some(&time));
}

pub(super) fn to_timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::collections::BTreeMap;

    use super::super::child_log::call_mark;
    use super::super::child_process::{ProcessSpawner, SpawnedProcess};
    use super::super::child_tracking::ChildTracking;
    use super::super::control_group::ControlGroup;
    use super::super::limit_mark::LimitMark;
    use rustix::event::{PollFd, PollFlags};

    use super::super::spawn_plan::SpawnPlan;
    use super::*;

    /// Forks twice, leaves the session, empties its environment, closes its standard streams and reports that.
    const DAEMON: &str =
        "(setsid env -i bash -c 'exec 0<&- 1>&- 2>&-; (setsid sleep 600 &)'); echo done";

    /// A command that left a daemon behind and ended, with the remaining means to find it.
    async fn tree(mark: &str, tracking: ChildTracking) -> (ProcessIdentity, ProcessTree) {
        family_of(DAEMON, mark, tracking).await
    }

    async fn family_of(
        line: &str,
        mark: &str,
        tracking: ChildTracking,
    ) -> (ProcessIdentity, ProcessTree) {
        let plan = SpawnPlan {
            program: "/bin/bash".into(),
            args: vec!["-c".to_owned(), line.to_owned()],
            env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            cwd: "/".into(),
            stdin: None,
            serves: false,
            tty: None,
            tracking: tracking.clone(),
            profile: None,
        };
        let spawner = ProcessSpawner::new().expect("a thread");
        let SpawnedProcess { child, output, .. } = spawner.spawn(plan).await.expect("started");
        let ended = [child.end_descriptor()];
        let mut fds = [PollFd::new(&ended[0], PollFlags::IN)];
        poll(&mut fds, None).expect("it ends");
        drop(output);
        // The mark in the environment and the pipe are not used here.
        let leader = child.identity().expect("it is known").clone();
        (
            leader.clone(),
            ProcessTree::from_command(leader, format!("{mark}:none"), &tracking, None),
        )
    }

    fn end(tree: &ProcessTree) {
        assert!(
            (0..1_000).any(|_| !tree.find_members().is_empty()),
            "it is found"
        );
        let stopped = stop_process_tree(Some(tree), None, &StopSequence::kill_at_once());
        assert_eq!(
            (stopped.by, stopped.survivors),
            (Some(StopSignal::Kill), Vec::new())
        );
        assert!(tree.find_members().is_empty());
        tree.remove_cgroups();
    }

    #[tokio::test]
    async fn a_daemon_that_shed_everything_is_found_by_its_limit_alone() {
        let mark = call_mark(&RequestId::new(), 0);
        let limit = LimitMark::from_name(&mark);
        assert!(
            limit.is_some(),
            "the tests run under a limit of somebody else's"
        );
        // A daemon that the test cannot find must end by itself.
        let (_, lost) =
            family_of(&DAEMON.replace("600", "3"), &mark, ChildTracking::default()).await;
        assert!(
            lost.find_members().is_empty(),
            "the test needs a daemon that nothing else finds"
        );
        let (_, found) = tree(
            &mark,
            ChildTracking {
                limit,
                ..ChildTracking::default()
            },
        )
        .await;
        end(&found);
    }

    #[tokio::test]
    async fn a_daemon_that_shed_everything_is_found_by_its_control_group_alone() {
        let mark = call_mark(&RequestId::new(), 0);
        let Some(group) = ControlGroup::create(&mark, true) else {
            // Without control groups there is nothing to find; the test of the limit covers both.
            assert!(!control_group::can_create_groups());
            return;
        };
        let (_, found) = tree(
            &mark,
            ChildTracking {
                group: Some(group),
                ..ChildTracking::default()
            },
        )
        .await;
        end(&found);
        while ControlGroup::find_earlier(&mark).is_some() {
            // The kernel takes a moment to notice that the group is empty.
            ControlGroup::remove_pending();
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
        let limit = LimitMark::from_name(&call_mark(&RequestId::new(), 0));
        let (_, chain) = family_of(
            &chain,
            "none",
            ChildTracking {
                limit,
                ..ChildTracking::default()
            },
        )
        .await;
        end(&chain);
        for _ in 0..20 {
            assert!(chain.find_members().is_empty());
        }
    }

    #[tokio::test]
    async fn a_later_life_finds_a_daemon_by_the_requests_name() {
        let request = RequestId::new();
        let mark = call_mark(&request, 0);
        let (leader, left) = tree(&mark, ChildTracking::from_mark(&mark, true)).await;
        assert_eq!(left.find_members().len(), 1);
        let stranger = kill_survivor(&leader, &RequestId::new());
        assert!(
            stranger.by.is_none() && left.find_members().len() == 1,
            "another request's is left alone"
        );
        assert_eq!(kill_survivor(&leader, &request).by, Some(StopSignal::Kill));
        assert!(left.find_members().is_empty());
    }
}
