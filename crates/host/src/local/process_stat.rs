//! Single processes as /proc shows them: ids, states and names.

use rustix::process::Pid;

use crate::terminals::ProcessName;

/// The number of characters of a command line in a process's name.
#[cfg(target_os = "linux")]
const MAX_COMMAND_CHARS: usize = 80;

/// Converts a process id for system calls.
pub(super) fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
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
    pub parent: u32,
    group: u32,
    pub session: u32,
    pub threads: u64,
    state: u8,
    flags: u64,
}

/// Counts the threads of these processes.
#[cfg(target_os = "linux")]
pub(super) fn count_threads(members: &[TreeMember]) -> u64 {
    let stats = members
        .iter()
        .filter_map(|member| ProcessStat::read_proc(member.pid));
    stats.map(|stat| stat.threads).sum()
}

/// Returns 0: no limit is set on this system.
#[cfg(not(target_os = "linux"))]
pub(super) fn count_threads(_members: &[TreeMember]) -> u64 {
    0
}

#[cfg(target_os = "linux")]
impl ProcessStat {
    pub fn read_proc(pid: u32) -> Option<Self> {
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
            threads: number(17)?,
            flags: number(6)?,
            state: *fields.first()?.as_bytes().first()?,
        })
    }

    /// Returns whether the process runs nothing any more: it waits to be reaped, or for the kernel, which may take
    /// seconds to dismantle it on a busy machine. One whose first thread alone has ended still runs.
    pub fn has_ended(&self) -> bool {
        // `PF_EXITING`, see proc_pid_stat(5).
        const EXITING: u64 = 0x4;
        (matches!(self.state, b'Z' | b'X') || self.flags & EXITING != 0) && self.threads <= 1
    }

    /// Returns whether a signal or a debugger has stopped the process.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    pub fn to_member(self) -> TreeMember {
        TreeMember {
            pid: self.pid,
            start: self.start,
            group: self.group,
        }
    }
}

/// Returns whether exactly this process still runs.
#[cfg(target_os = "linux")]
pub(super) fn is_member_alive(member: TreeMember) -> bool {
    ProcessStat::read_proc(member.pid)
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
pub(super) fn all_pids() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
}

/// Lists all process ids, newest first as long as they have not wrapped around.
#[cfg(target_os = "linux")]
pub(super) fn pids_newest_first() -> Vec<u32> {
    let mut pids: Vec<u32> = all_pids().collect();
    pids.sort_unstable_by(|one, other| other.cmp(one));
    pids
}

/// Returns whether an id is that of a thread of this process, whose files and environment need no check. Threads and
/// processes share one range of ids.
#[cfg(target_os = "linux")]
pub(super) fn is_own_thread(id: u32) -> bool {
    rustix::fs::access(format!("/proc/self/task/{id}"), rustix::fs::Access::EXISTS).is_ok()
}

/// Returns the process id that was assigned last.
#[cfg(target_os = "linux")]
pub(super) fn newest_pid() -> Option<u32> {
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
        let stat = ProcessStat::read_proc(std::process::id()).expect("this process");
        assert!(!stat.has_ended());
        assert!(stat.start > 0);
        assert!(ProcessStat::read_proc(u32::MAX).is_none());
    }
}
