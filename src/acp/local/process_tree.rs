//! Finds the processes that a command started, even if they have detached from it. Not here: signalling them.
//!
//! A process belongs to the tree if any of these matches: the control group, if there is one; the resource limit that
//! marks all of them (the limit mark); the session; an ancestor; the mark in the environment; the pipe that takes the
//! output. A process can leave its session, empty its environment, lose its parent and redirect its output, and a
//! daemon does all of these. It cannot remove the limit. A process that another service started on request does not
//! belong to the tree: it never was a child of the command.
#![cfg_attr(
    target_os = "linux",
    expect(clippy::disallowed_methods, reason = "processes are read from /proc")
)]

use std::path::PathBuf;

use super::child_log::{CALL_MARK, call_mark};
use super::child_tracking::ChildTracking;
use super::control_group::ControlGroup;
use super::limit_mark::LimitMark;
use super::process_identity::ProcessIdentity;
#[cfg(target_os = "linux")]
use super::process_tags::{has_env_entry, holds_pipe};
use crate::acp::terminals::ProcessName;
use crate::ids::RequestId;

/// The number of a request's outputs, and so of commands, that a later process of the runner looks for.
const MAX_COMMANDS: u32 = 8;
/// The longest range of process ids that is probed one by one rather than listed from /proc.
#[cfg(target_os = "linux")]
const MAX_PID_RANGE: u32 = 200;
/// For so many seconds the process ids cannot have wrapped around, even where there are only 32768.
#[cfg(target_os = "linux")]
const PID_REUSE_SECONDS: u64 = 2;

/// The number of characters of a command line in a process's name.
#[cfg(target_os = "linux")]
const MAX_COMMAND_CHARS: usize = 80;

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

/// The pipe that takes a command's output, as /proc names it among a process's files.
#[derive(Debug, Clone)]
pub(super) enum OutputPipe {
    /// An unnamed pipe, by its inode.
    Unnamed(u64),
    /// A named pipe.
    Named(PathBuf),
}

impl ProcessTree {
    /// Creates the tree of a command that was just started.
    pub fn from_command(
        leader: ProcessIdentity,
        mark: String,
        ties: &ChildTracking,
        pipe: Option<OutputPipe>,
    ) -> Self {
        let (limits, groups) = (
            ties.limit.into_iter().collect(),
            ties.group.iter().cloned().collect(),
        );
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
                .filter_map(|mark| ControlGroup::find_earlier_group(mark))
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

    /// Removes the control groups, once no process is left.
    pub fn remove_cgroups(&self) {
        self.groups.iter().for_each(ControlGroup::remove_group);
    }
}

/// One process of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TreeMember {
    pub pid: u32,
    pub start: u64,
    pub group: u32,
}

/// A process's entry in /proc.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessStat {
    pub pid: u32,
    pub start: u64,
    parent: u32,
    group: u32,
    session: u32,
    state: u8,
}

#[cfg(target_os = "linux")]
impl ProcessStat {
    pub fn read_proc_stat(pid: u32) -> Option<Self> {
        let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may itself contain parentheses.
        let after_name = text.iter().rposition(|b| *b == b')')? + 1;
        let rest = std::str::from_utf8(&text[after_name..]).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().take(20).collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let id = |at: usize| number(at).and_then(|n| u32::try_from(n).ok());
        Some(Self {
            pid,
            start: number(19)?,
            parent: id(1)?,
            group: id(2)?,
            session: id(3)?,
            state: *fields.first()?.as_bytes().first()?,
        })
    }

    /// Returns whether the process has ended and only waits to be reaped.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    fn to_member(&self) -> TreeMember {
        TreeMember {
            pid: self.pid,
            start: self.start,
            group: self.group,
        }
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
            let young = ProcessStat::read_proc_stat(pid)
                .filter(|stat| stat.start >= self.leader.start_ticks() && !stat.has_ended());
            if let Some(stat) = young.filter(|_| pid != std::process::id() && self.is_tagged(pid)) {
                met(stat.to_member());
            }
        }
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
        // The command cannot have started an older process. Each process is examined at once, before it can be gone.
        let (young, claimed): (Vec<ProcessStat>, Vec<bool>) = pids
            .filter(|pid| *pid != own)
            .filter_map(ProcessStat::read_proc_stat)
            .filter(|stat| stat.start >= self.leader.start_ticks() && !is_own_thread(stat.pid))
            .map(|stat| {
                let in_group = || {
                    grouped.contains(&stat.pid)
                        && self.groups.iter().any(|group| group.contains_pid(stat.pid))
                };
                let claimed = !stat.has_ended() && (in_group() || self.is_tagged(stat.pid));
                (stat, claimed)
            })
            .unzip();
        // While a session has members, no new process gets its id; once it is empty, one may.
        let strange = young
            .iter()
            .any(|stat| stat.pid == self.leader.pid() && stat.start != self.leader.start_ticks());
        let mut found: Vec<bool> = young
            .iter()
            .zip(&claimed)
            .map(|(stat, claimed)| *claimed || (!strange && stat.session == self.leader.pid()))
            .collect();
        // Descendants of the processes found so far.
        loop {
            let before = found.iter().filter(|is| **is).count();
            for at in 0..young.len() {
                if !found[at] {
                    let parent = young.iter().position(|other| other.pid == young[at].parent);
                    found[at] = parent.is_some_and(|parent| found[parent]);
                }
            }
            if found.iter().filter(|is| **is).count() == before {
                break;
            }
        }
        young
            .iter()
            .zip(found)
            .filter(|(stat, is)| *is && !stat.has_ended())
            .map(|(stat, _)| stat.to_member())
            .collect()
    }

    /// Returns whether the process has one of our marks or holds our pipe.
    fn is_tagged(&self, pid: u32) -> bool {
        self.limits.iter().any(|limit| limit.is_set_on(pid))
            || has_env_entry(pid, &self.mark)
            || self.pipe.as_ref().is_some_and(|pipe| holds_pipe(pid, pipe))
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

/// Returns whether exactly this process still runs.
#[cfg(target_os = "linux")]
pub(super) fn is_member_alive(member: TreeMember) -> bool {
    ProcessStat::read_proc_stat(member.pid)
        .is_some_and(|stat| stat.start == member.start && !stat.has_ended())
}

/// Returns whether a process ignores a signal, as far as the system shows it.
#[cfg(target_os = "linux")]
pub(super) fn ignores_signal(pid: u32, signal: rustix::process::Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}

/// Names processes for a reply.
#[cfg(target_os = "linux")]
pub(super) fn process_names(members: &[TreeMember]) -> Vec<ProcessName> {
    members
        .iter()
        .map(|member| ProcessName {
            pid: member.pid,
            command: read_command_line(member.pid),
        })
        .collect()
}

/// Names processes for a reply; none are known on this system.
#[cfg(not(target_os = "linux"))]
pub(super) fn process_names(_members: &[TreeMember]) -> Vec<ProcessName> {
    Vec::new()
}

#[cfg(target_os = "linux")]
fn all_pids() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
}

/// Lists all process ids, newest first as long as they have not wrapped around.
#[cfg(target_os = "linux")]
fn pids_newest_first() -> Vec<u32> {
    let mut pids: Vec<u32> = all_pids().collect();
    pids.sort_unstable_by(|one, other| other.cmp(one));
    pids
}

/// Returns whether an id is that of a thread of this process, whose files and environment need no check. Threads and
/// processes share one range of ids.
#[cfg(target_os = "linux")]
fn is_own_thread(id: u32) -> bool {
    rustix::fs::access(format!("/proc/self/task/{id}"), rustix::fs::Access::EXISTS).is_ok()
}

/// Returns the process id that was assigned last.
#[cfg(target_os = "linux")]
fn newest_pid() -> Option<u32> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    load.split_ascii_whitespace().next_back()?.parse().ok()
}

#[cfg(target_os = "linux")]
fn read_command_line(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    shorten_command_line(&String::from_utf8_lossy(&words).replace('\0', " "))
}

/// Returns the beginning of a command line. A word is shown whole or not at all: a part of it could be part of a
/// secret that the redactor does not recognize.
#[cfg(target_os = "linux")]
fn shorten_command_line(line: &str) -> String {
    let mut shown = String::new();
    for word in line.split_whitespace() {
        if shown.chars().count() + word.chars().count() >= MAX_COMMAND_CHARS {
            shown.push_str(if shown.is_empty() {
                "a process …"
            } else {
                " …"
            });
            break;
        }
        shown.extend((!shown.is_empty()).then_some(' '));
        shown.extend(word.chars().map(|c| if c.is_control() { ' ' } else { c }));
    }
    if shown.is_empty() {
        "a process".to_owned()
    } else {
        shown
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_between_words() {
        assert_eq!(shorten_command_line("sleep  601 "), "sleep 601");
        assert_eq!(shorten_command_line(""), "a process");
        let token = "t".repeat(60);
        assert_eq!(
            shorten_command_line(&format!("tool --verbose --token {token}")),
            "tool --verbose --token …"
        );
        assert_eq!(shorten_command_line(&"x".repeat(100)), "a process …");
        assert_eq!(
            shorten_command_line(&format!("tool {token}")),
            format!("tool {token}")
        );
    }

    #[test]
    fn this_process_is_read_from_the_system() {
        let stat = ProcessStat::read_proc_stat(std::process::id()).expect("this process");
        assert!(!stat.has_ended());
        assert!(stat.start > 0);
        assert!(ProcessStat::read_proc_stat(u32::MAX).is_none());
    }
}
