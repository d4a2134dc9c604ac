//! Finds the processes that a command started, even if they have detached from it.
//!
//! A process belongs to the tree if any of these matches: the control group, if there is one; the resource limit that
//! marks all of them (the limit mark); the session; an ancestor; the mark in the environment; the pipe that takes the
//! output. A process can leave its session, empty its environment, lose its parent and redirect its output, and a
//! daemon does all of these. It can lower the limit, but cannot raise it again, unless root lets it. A process that
//! another service started on request does not belong to the tree: it never was a child of the command.

#[cfg(target_os = "linux")]
use std::collections::HashSet;

use super::child_log::{CALL_MARK, call_mark};
use super::child_tracking::ChildTracking;
use super::control_group::ControlGroup;
use super::limit_mark::LimitMark;
use super::output_pipe::OutputPipe;
use super::process_identity::ProcessIdentity;
use super::process_stat::TreeMember;
#[cfg(target_os = "linux")]
use super::process_stat::{
    ProcessStat, all_pids, is_own_thread, newest_pid, pids_newest_first, process_names,
};
#[cfg(target_os = "linux")]
use super::process_tags::{has_env_entry, holds_pipe};
use crate::terminals::ProcessName;
use punie_core::ids::RequestId;

/// The number of a request's outputs, and so of commands, that a later process of the runner looks for.
const MAX_COMMANDS: u32 = 8;
/// The longest range of process ids that is probed one by one rather than listed from /proc.
#[cfg(target_os = "linux")]
const MAX_PID_RANGE: u32 = 200;
/// For so many seconds the process ids cannot have wrapped around, even where there are only 32768.
#[cfg(target_os = "linux")]
const PID_REUSE_SECONDS: u64 = 2;

/// A command and the processes that it started.
#[derive(Debug, Clone)]
pub(super) struct ProcessTree {
    /// The command itself: the leader of the session.
    leader: ProcessIdentity,
    /// The environment entry that all of them have. A mark that ends in a dot matches all entries that begin with it.
    mark: String,
    /// The resource limits that mark them, one for each command.
    limits: Vec<LimitMark>,
    /// The control groups in which they were started.
    groups: Vec<ControlGroup>,
    /// The pipe that takes the output.
    pipe: Option<OutputPipe>,
}

impl ProcessTree {
    /// Creates the tree of a command that was just started.
    pub fn from_command(
        leader: ProcessIdentity,
        mark: String,
        tracking: &ChildTracking,
        pipe: Option<OutputPipe>,
    ) -> Self {
        let limits = tracking.limit.into_iter().collect();
        let groups = tracking.group.iter().cloned().collect();
        Self {
            leader,
            mark,
            limits,
            groups,
            pipe,
        }
    }

    /// Creates the tree of processes that an earlier process of the runner started for a request. All marks can be
    /// computed from the request's id. The pipe cannot: it ended with that process unless it has a name.
    pub fn from_earlier_run(
        leader: ProcessIdentity,
        request: &RequestId,
        pipe: Option<OutputPipe>,
    ) -> Self {
        let marks: Vec<String> = (0..MAX_COMMANDS)
            .map(|number| call_mark(request, number))
            .collect();
        Self {
            leader,
            mark: format!("{CALL_MARK}={request}."),
            limits: marks
                .iter()
                .filter_map(|mark| LimitMark::from_name(mark))
                .collect(),
            groups: marks
                .iter()
                .filter_map(|mark| ControlGroup::find_earlier(mark))
                .collect(),
            pipe,
        }
    }

    /// Creates the tree of a request whose processes were not recorded: only marks identify its members. `None` if
    /// this system does not show them.
    pub fn from_request_marks(request: &RequestId) -> Option<Self> {
        Some(Self::from_earlier_run(
            ProcessIdentity::impossible_process()?,
            request,
            None,
        ))
    }

    /// Returns the leader's process group.
    pub fn process_group(&self) -> u32 {
        self.leader.pid()
    }

    /// Kills all processes in the control groups at once, and returns whether there were any.
    pub fn kill_control_groups(&self) -> bool {
        let peopled: Vec<&ControlGroup> = self
            .groups
            .iter()
            .filter(|group| !group.member_pids().is_empty())
            .collect();
        for group in &peopled {
            group.kill_members();
        }
        !peopled.is_empty()
    }

    /// Freezes the control groups. Returns them; none if there is none, or if one of them cannot be frozen.
    #[cfg(target_os = "linux")]
    pub fn freeze_control_groups(&self) -> Vec<ControlGroup> {
        if self.groups.iter().all(ControlGroup::freeze_members) {
            return self.groups.clone();
        }
        self.thaw_control_groups();
        Vec::new()
    }

    /// Lets the processes in the control groups go on.
    #[cfg(target_os = "linux")]
    pub fn thaw_control_groups(&self) {
        self.groups.iter().for_each(ControlGroup::thaw_members);
    }

    /// Returns whether a control group has refused a process or thread because of its limit.
    pub fn has_met_group_limit(&self) -> bool {
        self.groups.iter().any(ControlGroup::has_met_limit)
    }

    /// Removes the control groups, once no process is left.
    pub fn remove_cgroups(&self) {
        self.groups.iter().for_each(ControlGroup::remove);
    }
}

#[cfg(target_os = "linux")]
impl ProcessTree {
    /// Finds all living processes of the tree.
    pub fn find_members(&self) -> Vec<TreeMember> {
        self.find_members_among(pids_newest_first().into_iter())
    }

    /// Calls back for each process with one of our marks or our pipe as soon as it is found, newest first. A process
    /// that lives for a millisecond would be gone once the whole tree is known.
    pub fn for_each_tagged(&self, mut met: impl FnMut(TreeMember)) {
        if !self.leader.is_of_this_boot() {
            return;
        }
        for pid in pids_newest_first() {
            let young = ProcessStat::read_proc(pid)
                .filter(|stat| stat.start >= self.leader.start_ticks() && !stat.has_ended());
            if let Some(stat) = young.filter(|_| pid != std::process::id() && self.is_tagged(pid)) {
                met(stat.to_member());
            }
        }
    }

    /// Returns the command's own process, if it runs.
    pub fn living_leader(&self) -> Option<TreeMember> {
        let stat = ProcessStat::read_proc(self.leader.pid())?;
        let is_leader = self.leader.is_of_this_boot() && stat.start == self.leader.start_ticks();
        (is_leader && !stat.has_ended()).then(|| stat.to_member())
    }

    /// Returns the id of a living process of the tree.
    pub fn find_any_member(&self) -> Option<u32> {
        let leader = self.living_leader();
        let any = leader.or_else(|| self.find_members().first().copied());
        any.map(|member| member.pid)
    }

    /// Finds the same processes soon after the command's start, without examining every process of the machine,
    /// because every command waits for this when it ends. It relies on the newest process id that the kernel reports.
    pub fn recent_descendants(&self) -> Vec<TreeMember> {
        let leader = self.leader.pid();
        let Some(latest) = newest_pid().filter(|_| self.leader.is_younger_than(PID_REUSE_SECONDS))
        else {
            return self.find_members();
        };
        if latest >= leader && latest - leader < MAX_PID_RANGE {
            return self.find_members_among(leader..=latest);
        }
        let came_since = |pid: &u32| {
            if latest >= leader {
                (leader..=latest).contains(pid)
            } else {
                *pid >= leader || *pid <= latest
            }
        };
        self.find_members_among(all_pids().filter(came_since))
    }

    fn find_members_among(&self, pids: impl Iterator<Item = u32>) -> Vec<TreeMember> {
        let own = std::process::id();
        if !self.leader.is_of_this_boot() {
            return Vec::new();
        }
        let grouped: Vec<u32> = self
            .groups
            .iter()
            .flat_map(ControlGroup::member_pids)
            .collect();
        let in_group = |pid: u32| {
            grouped.contains(&pid) && self.groups.iter().any(|group| group.contains_pid(pid))
        };
        // The command cannot have started an older process. Each process is examined at once, before it can be gone.
        let candidates: Vec<(ProcessStat, bool)> = pids
            .filter(|pid| *pid != own)
            .filter_map(ProcessStat::read_proc)
            .filter(|stat| stat.start >= self.leader.start_ticks() && !is_own_thread(stat.pid))
            .map(|stat| {
                let is_ours = !stat.has_ended() && (in_group(stat.pid) || self.is_tagged(stat.pid));
                (stat, is_ours)
            })
            .collect();
        let leader = self.leader.pid();
        // While a session has members, no new process gets its id; once it is empty, one may.
        let is_id_reused = candidates
            .iter()
            .any(|(stat, _)| stat.pid == leader && stat.start != self.leader.start_ticks());
        let mut members: HashSet<u32> = candidates
            .iter()
            .filter(|(stat, is_ours)| *is_ours || !is_id_reused && stat.session == leader)
            .map(|(stat, _)| stat.pid)
            .collect();
        // Descendants of the processes found so far.
        let mut known = 0;
        while members.len() > known {
            known = members.len();
            for (stat, _) in &candidates {
                if members.contains(&stat.parent) {
                    members.insert(stat.pid);
                }
            }
        }
        candidates
            .iter()
            .map(|(stat, _)| stat)
            .filter(|stat| members.contains(&stat.pid) && !stat.has_ended())
            .map(|stat| stat.to_member())
            .collect()
    }

    /// Returns whether the process has one of our marks or holds our pipe. Of a process whose limit nobody has lowered
    /// nothing else is read: its environment would keep this waiting while it loads a program from a busy disk.
    fn is_tagged(&self, pid: u32) -> bool {
        LimitMark::is_any_set_on(&self.limits, pid).unwrap_or_else(|| {
            has_env_entry(pid, &self.mark)
                || self.pipe.as_ref().is_some_and(|pipe| holds_pipe(pid, pipe))
        })
    }

    /// Returns the processes that hold the output open, or all if none is known to.
    pub fn output_holders(&self, members: &[TreeMember]) -> Vec<ProcessName> {
        let holding: Vec<TreeMember> = members
            .iter()
            .copied()
            .filter(|member| {
                self.pipe
                    .as_ref()
                    .is_some_and(|pipe| holds_pipe(member.pid, pipe))
            })
            .collect();
        process_names(if holding.is_empty() {
            members
        } else {
            &holding
        })
    }
}

#[cfg(not(target_os = "linux"))]
impl ProcessTree {
    /// Returns nothing: on this system, only the process group is known.
    pub fn find_members(&self) -> Vec<TreeMember> {
        Vec::new()
    }

    /// Returns nothing, as above.
    pub fn recent_descendants(&self) -> Vec<TreeMember> {
        Vec::new()
    }

    /// Returns nothing, as above.
    pub fn output_holders(&self, _members: &[TreeMember]) -> Vec<ProcessName> {
        Vec::new()
    }
}
