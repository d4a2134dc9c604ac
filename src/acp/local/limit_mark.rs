//! A mark on a command's processes that none of them can raise again: a resource limit that limits nothing.
//! Not here: who looks for it (family) and who puts it on (launch).
//!
//! Linux has counted no file locks since 2.4, but still keeps a limit for them (`RLIMIT_LOCKS`): inherited by every
//! fork and exec, kept across a new session, an emptied environment and closed files, shown to everybody in
//! `/proc/PID/limits`, and, once lowered, raised by nobody without `CAP_SYS_RESOURCE`. So its value says whose child
//! a process is. What another service starts on a command's behalf (a container, a cron job) has none of it.
//!
//! A runner within a runner's command has a limit already and can only go below it. Each level therefore marks with
//! the top of a range and leaves the rest of it to the levels within, so that the outer one knows them all.
#![cfg_attr(
    target_os = "linux",
    expect(clippy::disallowed_methods, reason = "limits of processes are read from /proc")
)]

use sha2::{Digest, Sha256};

/// How many low bits a mark of each level leaves to the levels within.
const LEFT_WITHIN: [u32; 3] = [32, 12, 0];
/// The highest bit of a mark, so that none is near to what stands for "unlimited".
const TOP_BIT: u32 = 62;

/// The limits that the processes of one command have, and those of runners within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LimitMark {
    lowest: u64,
    highest: u64,
}

impl LimitMark {
    /// The mark for this name, always the same; none where the limit in force leaves no room for one.
    #[cfg(target_os = "linux")]
    pub fn of(name: &str) -> Option<Self> {
        Self::under(name, rustix::process::getrlimit(rustix::process::Resource::Locks).maximum)
    }

    /// None: there is no such limit here.
    #[cfg(not(target_os = "linux"))]
    pub fn of(_name: &str) -> Option<Self> {
        None
    }

    /// The mark for this name below a hard limit, which is none for "unlimited".
    fn under(name: &str, hard: Option<u64>) -> Option<Self> {
        let digest = Sha256::digest(name);
        let hash = u64::from_be_bytes(*digest.first_chunk::<8>()?);
        let level = match hard {
            None => 0,
            // A limit that this program did not set says nothing of the range that belongs to it.
            Some(hard) if hard >> TOP_BIT != 1 => return None,
            Some(hard) => {
                let at = LEFT_WITHIN.iter().position(|bits| hard.trailing_ones() >= *bits && *bits > 0)?;
                at + 1
            }
        };
        let within = *LEFT_WITHIN.get(level)?;
        let (outer, room) = match hard {
            None => (1 << TOP_BIT, TOP_BIT),
            Some(hard) => {
                let room = LEFT_WITHIN[level - 1];
                (hard & !ones(room), room)
            }
        };
        // Not the topmost of the range: all ones would be the outer mark itself.
        let places = ones(room - within);
        let lowest = outer | ((hash % places) << within);
        Some(Self { lowest, highest: lowest | ones(within) })
    }

    /// The limit to set.
    pub fn value(self) -> u64 {
        self.highest
    }

    /// Whether a process carries it.
    #[cfg(target_os = "linux")]
    pub fn is_on(self, pid: u32) -> bool {
        limit_of(pid).is_some_and(|limit| (self.lowest..=self.highest).contains(&limit))
    }
}

/// Whether a process may be one that a command of this runner's started; an error where nobody can tell. The mark can be
/// lowered by whoever carries it, which takes its number away and not that there is a limit.
///
/// # Errors
/// The system's: the process has ended, or is another user's.
#[cfg(target_os = "linux")]
pub fn is_of_a_command(pid: u32) -> std::io::Result<bool> {
    // Unlike a limit that is none, a file that is none tells nothing.
    std::fs::metadata(format!("/proc/{pid}/limits"))?;
    let ours = rustix::process::getrlimit(rustix::process::Resource::Locks).maximum;
    Ok(limit_of(pid).is_some_and(|theirs| ours.is_none_or(|ours| theirs < ours)))
}

/// So many low bits.
fn ones(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// The hard limit of a process, where it has one.
#[cfg(target_os = "linux")]
fn limit_of(pid: u32) -> Option<u64> {
    let text = std::fs::read(format!("/proc/{pid}/limits")).ok()?;
    let line = text.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"Max file locks"))?;
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_runner_within_marks_below_its_own_mark_and_within_its_range(
            names in proptest::collection::vec("[a-z0-9.=-]{1,40}", 3),
        ) {
            let outer = LimitMark::under(&names[0], None).expect("room");
            let inner = LimitMark::under(&names[1], Some(outer.value())).expect("room");
            let innermost = LimitMark::under(&names[2], Some(inner.value())).expect("room");
            for (around, within) in [(outer, inner), (inner, innermost)] {
                prop_assert!(within.value() < around.value());
                prop_assert!(around.lowest <= within.lowest && within.highest <= around.highest);
            }
            prop_assert_eq!(LimitMark::under("deeper", Some(innermost.value())), None);
        }

        #[test]
        fn another_name_is_another_mark(one in "[a-z0-9]{8}", other in "[a-z0-9]{8}") {
            prop_assume!(one != other);
            let mark = |name: &str| LimitMark::under(name, None).expect("room");
            prop_assert!(mark(&one).highest < mark(&other).lowest || mark(&other).highest < mark(&one).lowest);
        }
    }

    #[test]
    fn a_limit_of_somebody_elses_is_left_alone() {
        for hard in [0, 1_024, u64::from(u32::MAX), 1 << TOP_BIT] {
            assert_eq!(LimitMark::under("name", Some(hard)), None, "{hard}");
        }
    }
}
