//! Marks a command's processes with a resource limit that limits nothing and that no process can raise again.
//!
//! Linux has not counted file locks since 2.4, but still has a limit for them (`RLIMIT_LOCKS`). The limit is
//! inherited across fork and exec, and survives a new session, an emptied environment and closed files. Every user
//! can read it in `/proc/PID/limits`, and once lowered, only a process with `CAP_SYS_RESOURCE` can raise it. So its
//! value tells which command a process descends from. A process that another service starts for a command (a
//! container, a cron job) does not have it.
//!
//! A runner that runs within a runner's command has a limit already and can only lower it. Each level therefore marks
//! with the top of a range and leaves the rest to the levels within, so that the outer runner recognizes all of them.

use sha2::{Digest, Sha256};

/// The number of low bits that a mark of each level leaves to inner levels.
const INNER_BITS: [u32; 3] = [32, 12, 0];
/// The highest bit of a mark, so that no mark is near the value for "unlimited".
const TOP_BIT: u32 = 62;

/// The range of limits of one command's processes, and of runners within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LimitMark {
    lowest: u64,
    highest: u64,
}

impl LimitMark {
    /// Returns the mark for this name, always the same. `None` if the limit in force leaves no range for one.
    #[cfg(target_os = "linux")]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::below_limit(
            name,
            rustix::process::getrlimit(rustix::process::Resource::Locks).maximum,
        )
    }

    /// Returns `None`: this system has no such limit.
    #[cfg(not(target_os = "linux"))]
    pub fn from_name(_name: &str) -> Option<Self> {
        None
    }

    /// Returns the mark for this name below a hard limit; `None` stands for "unlimited".
    fn below_limit(name: &str, hard: Option<u64>) -> Option<Self> {
        let digest = Sha256::digest(name);
        let hash = u64::from_be_bytes(*digest.first_chunk::<8>()?);
        let level = match hard {
            None => 0,
            // A limit that no runner set does not define a range.
            Some(hard) if hard >> TOP_BIT != 1 => return None,
            Some(hard) => {
                let at = INNER_BITS
                    .iter()
                    .position(|bits| hard.trailing_ones() >= *bits && *bits > 0)?;
                at + 1
            }
        };
        let within = *INNER_BITS.get(level)?;
        let (outer, room) = match hard {
            None => (1 << TOP_BIT, TOP_BIT),
            Some(hard) => {
                let room = INNER_BITS[level - 1];
                (hard & !low_bits(room), room)
            }
        };
        // The topmost value of the range is left out: all ones would be the outer mark itself.
        let places = low_bits(room - within);
        let lowest = outer | ((hash % places) << within);
        Some(Self {
            lowest,
            highest: lowest | low_bits(within),
        })
    }

    /// Returns the limit to set.
    pub fn value(self) -> u64 {
        self.highest
    }

    /// Returns whether a process has one of these marks. `None`: it has another one, or may have lowered its limit.
    #[cfg(target_os = "linux")]
    pub fn is_any_set_on(marks: &[Self], pid: u32) -> Option<bool> {
        let theirs = locks_limit(pid);
        let is_in =
            |mark: &Self| theirs.is_some_and(|it| (mark.lowest..=mark.highest).contains(&it));
        if marks.iter().any(is_in) {
            return Some(true);
        }
        (!marks.is_empty() && !is_lowered(theirs)).then_some(false)
    }
}

/// Returns whether a process may descend from a command of this runner. A marked process can lower its limit, which
/// removes the mark's number but not the limit itself.
///
/// # Errors
/// The system's, if the process has ended or belongs to another user.
#[cfg(target_os = "linux")]
pub fn may_be_command_process(pid: u32) -> std::io::Result<bool> {
    // An unreadable file must be an error: unlike a missing limit, it tells nothing.
    std::fs::metadata(format!("/proc/{pid}/limits"))?;
    Ok(is_lowered(locks_limit(pid)))
}

/// Returns whether a limit is lower than that of this process.
#[cfg(target_os = "linux")]
fn is_lowered(theirs: Option<u64>) -> bool {
    let ours = rustix::process::getrlimit(rustix::process::Resource::Locks).maximum;
    theirs.is_some_and(|theirs| ours.is_none_or(|ours| theirs < ours))
}

/// Returns a number with so many low bits set.
fn low_bits(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// Returns a process's hard limit on file locks, if it has one.
#[cfg(target_os = "linux")]
fn locks_limit(pid: u32) -> Option<u64> {
    let text = std::fs::read(format!("/proc/{pid}/limits")).ok()?;
    let line = text
        .split(|b| *b == b'\n')
        .find_map(|line| line.strip_prefix(b"Max file locks"))?;
    std::str::from_utf8(line)
        .ok()?
        .split_ascii_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_whose_limit_nobody_lowered_has_no_mark() {
        let mark = LimitMark::from_name("any").expect("a mark");
        let own = std::process::id();
        assert_eq!(LimitMark::is_any_set_on(&[mark], own), Some(false));
        assert_eq!(LimitMark::is_any_set_on(&[], own), None, "unknown");
    }

    proptest! {
        #[test]
        fn a_runner_within_marks_below_its_own_mark_and_within_its_range(
            names in proptest::collection::vec("[a-z0-9.=-]{1,40}", 3),
        ) {
            let outer = LimitMark::below_limit(&names[0], None).expect("room");
            let inner = LimitMark::below_limit(&names[1], Some(outer.value())).expect("room");
            let innermost = LimitMark::below_limit(&names[2], Some(inner.value())).expect("room");
            for (around, within) in [(outer, inner), (inner, innermost)] {
                prop_assert!(within.value() < around.value());
                prop_assert!(around.lowest <= within.lowest && within.highest <= around.highest);
            }
            prop_assert_eq!(LimitMark::below_limit("deeper", Some(innermost.value())), None);
        }

        #[test]
        fn another_name_is_another_mark(one in "[a-z0-9]{8}", other in "[a-z0-9]{8}") {
            prop_assume!(one != other);
            let mark = |name: &str| LimitMark::below_limit(name, None).expect("room");
            prop_assert!(mark(&one).highest < mark(&other).lowest || mark(&other).highest < mark(&one).lowest);
        }
    }

    #[test]
    fn a_limit_of_somebody_elses_is_left_alone() {
        for hard in [0, 1_024, u64::from(u32::MAX), 1 << TOP_BIT] {
            assert_eq!(LimitMark::below_limit("name", Some(hard)), None, "{hard}");
        }
    }
}
