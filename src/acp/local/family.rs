//! Who belongs to a command: what it started, far as it may have moved away. Not here: what is done to them.
//!
//! A relative is found by any of these: the control group, where there are such groups; the limit that all of them
//! carry (limit_mark); the session; the line of parents; the mark in the environment; the pipe that takes the output.
//! A process can leave its session, empty its environment, lose its parent and redirect its output, and does all of
//! it to become a daemon. It cannot take off the limit. What another service was asked to start is no relative: it
//! was never a child of the command.
#![cfg_attr(
    target_os = "linux",
    expect(clippy::disallowed_methods, reason = "processes are read from /proc")
)]

use std::path::PathBuf;

use super::children::{CALL_MARK, call_mark};
use super::control_group::ControlGroup;
use super::identity::ProcessIdentity;
use super::limit_mark::LimitMark;
use super::ties::Ties;
#[cfg(target_os = "linux")]
use super::traces::{carries, holds};
use crate::acp::terminals::ProcessName;
use crate::ids::RequestId;

/// How many outputs of a request, and so commands, a later life looks for.
const COMMANDS: u32 = 8;
/// How many process ids in a row are rather asked for one by one than looked for in the list of all.
#[cfg(target_os = "linux")]
const FEW: u32 = 200;
/// For so long the ids cannot have been given out all and begun anew, even where there are only 32768.
#[cfg(target_os = "linux")]
const ONE_ROUND: u64 = 2;

/// How much of a command line a name shows.
#[cfg(target_os = "linux")]
const SHOWN: usize = 80;

/// A command and what it started.
#[derive(Debug, Clone)]
pub(super) struct Family {
    /// The command itself: the leader of the session.
    leader: ProcessIdentity,
    /// The entry in the environment that all of them carry; one that ends in a dot stands for all that go on.
    mark: String,
    /// The limits that all of them carry, each from one command.
    limits: Vec<LimitMark>,
    /// The control groups that they were born in.
    groups: Vec<ControlGroup>,
    /// What takes the output.
    pipe: Option<OutputPipe>,
}

/// The pipe that takes a command's output, as the system names it among a process's files.
#[derive(Debug, Clone)]
pub(super) enum OutputPipe {
    /// One without a name, by its inode.
    Unnamed(u64),
    /// One with a name.
    Named(PathBuf),
}

impl Family {
    /// A command that was just started.
    pub fn of_command(leader: ProcessIdentity, mark: String, ties: &Ties, pipe: Option<OutputPipe>) -> Self {
        let (limits, groups) = (ties.limit.into_iter().collect(), ties.group.iter().cloned().collect());
        Self { leader, mark, limits, groups, pipe }
    }

    /// What a former life of the runner started for a request. Everything can be computed again from the request's
    /// name, but for the pipe, which went with that life unless it has a name.
    pub fn of_a_former_life(leader: ProcessIdentity, request: &RequestId, pipe: Option<OutputPipe>) -> Self {
        let marks: Vec<String> = (0..COMMANDS).map(|number| call_mark(request, number)).collect();
        Self {
            leader,
            mark: format!("{CALL_MARK}={request}."),
            limits: marks.iter().filter_map(|mark| LimitMark::of(mark)).collect(),
            groups: marks.iter().filter_map(|mark| ControlGroup::of_an_earlier_life(mark)).collect(),
            pipe,
        }
    }

    /// The same where nothing was written down of the process that began it: only marks tell who belongs to it. None
    /// where the system does not tell them.
    pub fn of_a_request(request: &RequestId) -> Option<Self> {
        Some(Self::of_a_former_life(ProcessIdentity::nobody()?, request, None))
    }

    /// The leader's process group.
    pub fn group(&self) -> u32 {
        self.leader.pid()
    }

    /// Kills everyone in the control groups at once; whether there was anybody.
    pub fn kill_groups(&self) -> bool {
        let peopled: Vec<&ControlGroup> =
            self.groups.iter().filter(|group| !group.members().is_empty()).collect();
        for group in &peopled {
            group.kill();
        }
        !peopled.is_empty()
    }

    /// Nobody is left: the control groups go.
    pub fn dissolve(&self) {
        self.groups.iter().for_each(ControlGroup::remove);
    }
}

/// One relative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Member {
    pub pid: u32,
    pub start: u64,
    pub group: u32,
}

/// What the system tells of a process.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy)]
pub(super) struct Stat {
    pub pid: u32,
    pub start: u64,
    parent: u32,
    group: u32,
    session: u32,
    state: u8,
}

#[cfg(target_os = "linux")]
impl Stat {
    pub fn of(pid: u32) -> Option<Self> {
        let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name is in brackets and may contain anything, brackets too.
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

    /// Whether it only waits to be collected.
    pub fn ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    fn member(&self) -> Member {
        Member { pid: self.pid, start: self.start, group: self.group }
    }
}

#[cfg(target_os = "linux")]
impl Family {
    /// Everyone of the family who still lives.
    pub fn members(&self) -> Vec<Member> {
        self.members_among(newest_first().into_iter())
    }

    /// Shows everyone who carries one of our marks or holds our pipe at the moment that they are found, the newest
    /// first: one that lives for a millisecond is gone when the whole family is known.
    pub fn meet(&self, mut met: impl FnMut(Member)) {
        if !self.leader.is_of_this_boot() {
            return;
        }
        for pid in newest_first() {
            let young = Stat::of(pid).filter(|stat| stat.start >= self.leader.start() && !stat.ended());
            if let Some(stat) = young.filter(|_| pid != std::process::id() && self.claims(pid)) {
                met(stat.member());
            }
        }
    }

    /// The same soon after the command's start without asking after every process of the machine: what every command
    /// waits for at its end. Counts on the system's word which id it gave out last.
    pub fn members_at_a_glance(&self) -> Vec<Member> {
        let leader = self.leader.pid();
        let Some(latest) = latest_pid().filter(|_| self.leader.is_younger_than(ONE_ROUND)) else {
            return self.members();
        };
        if latest >= leader && latest - leader < FEW {
            return self.members_among(leader..=latest);
        }
        let came_since = |pid: &u32| {
            if latest >= leader { (leader..=latest).contains(pid) } else { *pid >= leader || *pid <= latest }
        };
        self.members_among(all_pids().filter(came_since))
    }

    fn members_among(&self, pids: impl Iterator<Item = u32>) -> Vec<Member> {
        let own = std::process::id();
        if !self.leader.is_of_this_boot() {
            return Vec::new();
        }
        let grouped: Vec<u32> = self.groups.iter().flat_map(ControlGroup::members).collect();
        // Nobody older than the command can have been started by it. Who is asked at once cannot be gone meanwhile.
        let (young, claimed): (Vec<Stat>, Vec<bool>) = pids
            .filter(|pid| *pid != own)
            .filter_map(Stat::of)
            .filter(|stat| stat.start >= self.leader.start() && !is_a_thread_of_ours(stat.pid))
            .map(|stat| {
                let in_group =
                    || grouped.contains(&stat.pid) && self.groups.iter().any(|group| group.holds(stat.pid));
                let claimed = !stat.ended() && (in_group() || self.claims(stat.pid));
                (stat, claimed)
            })
            .unzip();
        // While a session has members its id is given to no new process, but once it is empty it may be.
        let strange =
            young.iter().any(|stat| stat.pid == self.leader.pid() && stat.start != self.leader.start());
        let mut found: Vec<bool> = young
            .iter()
            .zip(&claimed)
            .map(|(stat, claimed)| *claimed || (!strange && stat.session == self.leader.pid()))
            .collect();
        // Children of those found, and theirs.
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
            .filter(|(stat, is)| *is && !stat.ended())
            .map(|(stat, _)| stat.member())
            .collect()
    }

    /// Whether the process carries one of our marks or holds our pipe.
    fn claims(&self, pid: u32) -> bool {
        self.limits.iter().any(|limit| limit.is_on(pid))
            || carries(pid, &self.mark)
            || self.pipe.as_ref().is_some_and(|pipe| holds(pid, pipe))
    }

    /// Those who hold the output open, or, where nobody admits to it, everyone.
    pub fn holders(&self, members: &[Member]) -> Vec<ProcessName> {
        let holding: Vec<Member> = members
            .iter()
            .copied()
            .filter(|member| self.pipe.as_ref().is_some_and(|pipe| holds(member.pid, pipe)))
            .collect();
        names(if holding.is_empty() { members } else { &holding })
    }
}

#[cfg(not(target_os = "linux"))]
impl Family {
    /// Nobody: this system does not tell; only the process group is known here.
    pub fn members(&self) -> Vec<Member> {
        Vec::new()
    }

    /// Nobody, as above.
    pub fn members_at_a_glance(&self) -> Vec<Member> {
        Vec::new()
    }

    /// Nobody, as above.
    pub fn holders(&self, _members: &[Member]) -> Vec<ProcessName> {
        Vec::new()
    }
}

/// Whether exactly this process is still there.
#[cfg(target_os = "linux")]
pub(super) fn is_living(member: Member) -> bool {
    Stat::of(member.pid).is_some_and(|stat| stat.start == member.start && !stat.ended())
}

/// Whether a process ignores a signal, as far as the system tells.
#[cfg(target_os = "linux")]
pub(super) fn ignores(pid: u32, signal: rustix::process::Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}

/// Processes as an answer names them.
#[cfg(target_os = "linux")]
pub(super) fn names(members: &[Member]) -> Vec<ProcessName> {
    members.iter().map(|member| ProcessName { pid: member.pid, command: command_line(member.pid) }).collect()
}

/// Processes as an answer names them; none are known here.
#[cfg(not(target_os = "linux"))]
pub(super) fn names(_members: &[Member]) -> Vec<ProcessName> {
    Vec::new()
}

#[cfg(target_os = "linux")]
fn all_pids() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
}

/// The same, those first that were started last, as long as the numbers do not begin anew.
#[cfg(target_os = "linux")]
fn newest_first() -> Vec<u32> {
    let mut pids: Vec<u32> = all_pids().collect();
    pids.sort_unstable_by(|one, other| other.cmp(one));
    pids
}

/// Whether an id is that of a thread of this process, whose files and environment are not worth a look: threads have
/// theirs out of the same numbers as processes.
#[cfg(target_os = "linux")]
fn is_a_thread_of_ours(id: u32) -> bool {
    rustix::fs::access(format!("/proc/self/task/{id}"), rustix::fs::Access::EXISTS).is_ok()
}

/// The id that was given out last.
#[cfg(target_os = "linux")]
fn latest_pid() -> Option<u32> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    load.split_ascii_whitespace().next_back()?.parse().ok()
}

#[cfg(target_os = "linux")]
fn command_line(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    shown(&String::from_utf8_lossy(&words).replace('\0', " "))
}

/// The beginning of a command line. A word is shown whole or not at all: part of one could be part of a secret, which
/// nobody would know any more.
#[cfg(target_os = "linux")]
fn shown(line: &str) -> String {
    let mut shown = String::new();
    for word in line.split_whitespace() {
        if shown.chars().count() + word.chars().count() >= SHOWN {
            shown.push_str(if shown.is_empty() { "a process …" } else { " …" });
            break;
        }
        shown.extend((!shown.is_empty()).then_some(' '));
        shown.extend(word.chars().map(|c| if c.is_control() { ' ' } else { c }));
    }
    if shown.is_empty() { "a process".to_owned() } else { shown }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_between_words() {
        assert_eq!(shown("sleep  601 "), "sleep 601");
        assert_eq!(shown(""), "a process");
        let token = "t".repeat(60);
        assert_eq!(shown(&format!("tool --verbose --token {token}")), "tool --verbose --token …");
        assert_eq!(shown(&"x".repeat(100)), "a process …");
        assert_eq!(shown(&format!("tool {token}")), format!("tool {token}"));
    }

    #[test]
    fn this_process_is_read_from_the_system() {
        let stat = Stat::of(std::process::id()).expect("this process");
        assert!(!stat.ended());
        assert!(stat.start > 0);
        assert!(Stat::of(u32::MAX).is_none());
    }
}
