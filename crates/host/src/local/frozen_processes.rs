//! Freezes the processes of a command for some milliseconds: by its control group, or else by stopping each.

use std::collections::HashSet;

use super::control_group::ControlGroup;
use super::process_handle::ProcessHandle;
use super::process_stat::{ProcessStat, TreeMember};
use super::process_tree::ProcessTree;

/// The number of scans for new processes. What was found in each does not start others any more.
const MAX_SCANS: usize = 20;

/// The processes of a command while they stand still. They go on when this is dropped.
pub(super) struct FrozenProcesses {
    groups: Vec<ControlGroup>,
    stopped: Vec<TreeMember>,
}

impl FrozenProcesses {
    /// Freezes all processes of a command. Blocks for less than a millisecond where it has a control group, and else for
    /// a scan of all processes.
    pub fn freeze_tree(tree: &ProcessTree) -> Self {
        let groups = tree.freeze_control_groups();
        let stopped = if groups.is_empty() {
            stop_members(tree)
        } else {
            Vec::new()
        };
        Self { groups, stopped }
    }

    /// Lets the processes of a command go on that were frozen by an earlier runner.
    pub fn resume_tree(tree: &ProcessTree) {
        tree.thaw_control_groups();
        let is_stopped = |member: &TreeMember| {
            ProcessStat::read_proc(member.pid).is_some_and(|stat| stat.is_stopped())
        };
        let members = tree.find_members().into_iter();
        resume_members(members.filter(is_stopped));
    }
}

impl Drop for FrozenProcesses {
    fn drop(&mut self) {
        self.groups.iter().for_each(ControlGroup::thaw_members);
        // A shell last: it must not find its jobs stopped.
        resume_members(self.stopped.drain(..).rev());
    }
}

fn resume_members(members: impl Iterator<Item = TreeMember>) {
    for handle in members.filter_map(ProcessHandle::open) {
        handle.resume();
    }
}

/// Stops all processes of a tree, until a scan finds no new one. Returns those that did not stand still before.
fn stop_members(tree: &ProcessTree) -> Vec<TreeMember> {
    let mut seen = HashSet::new();
    let mut stopped = Vec::new();
    let mut stop = |member: TreeMember| {
        if seen.insert(member)
            && let Some(handle) = ProcessHandle::open(member)
            && ProcessStat::read_proc(member.pid).is_some_and(|stat| !stat.is_stopped())
        {
            handle.pause();
            stopped.push(member);
            return true;
        }
        false
    };
    // Before the first scan: most often it is the only one.
    if let Some(leader) = tree.living_leader() {
        stop(leader);
    }
    for _ in 0..MAX_SCANS {
        let mut is_any_new = false;
        tree.for_each_tagged(|member| is_any_new |= stop(member));
        if !is_any_new {
            for member in tree.find_members() {
                is_any_new |= stop(member);
            }
        }
        if !is_any_new {
            break;
        }
    }
    stopped
}
