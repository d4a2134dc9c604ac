//! Detects whether the kernel killed a process of a command for lack of memory. A SIGKILL that the runner did not send
//! looks the same whatever its reason, but the kernel counts its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::control_group;

/// The kernel's count at a command's start, or `None` if the system has none.
#[derive(Debug, Clone, Copy)]
pub(super) struct OomKillCount(Option<u64>);

impl OomKillCount {
    /// Reads the current count.
    pub fn current() -> Self {
        Self(find_counter().and_then(read_kill_count))
    }

    /// Returns whether the kernel has killed a process for lack of memory since. If only the whole machine is
    /// counted, it may have been another user's process.
    pub fn has_risen(self) -> bool {
        matches!((self, Self::current()), (Self(Some(before)), Self(Some(now))) if now > before)
    }
}

/// Finds the narrowest count, for the runner's lifetime: of its own control group with its subgroups (version 2), of
/// its own group (version 1), or of the machine.
fn find_counter() -> Option<&'static Path> {
    static COUNTER: OnceLock<Option<PathBuf>> = OnceLock::new();
    COUNTER
        .get_or_init(|| {
            counter_candidates()
                .into_iter()
                .find(|path| read_kill_count(path).is_some())
        })
        .as_deref()
}

fn counter_candidates() -> Vec<PathBuf> {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let groups = text("/proc/self/cgroup");
    let mounts = text("/proc/self/mountinfo");
    // The parent group of the commands, which the runner may have left for one beside them.
    let own = control_group::own_group_folder().map(Path::to_owned);
    let own = own.or_else(|| control_group::unified_group_folder(&groups, &mounts));
    let own = own.map(|folder| folder.join("memory.events"));
    let older = control_group::memory_group_folder(&groups, &mounts)
        .map(|folder| folder.join("memory.oom_control"));
    own.into_iter()
        .chain(older)
        .chain(["/proc/vmstat".into()])
        .collect()
}

fn read_kill_count(path: &Path) -> Option<u64> {
    parse_kill_count(&fs::read_to_string(path).ok()?)
}

fn parse_kill_count(text: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_each_of_its_places() {
        assert_eq!(
            parse_kill_count("low 0\nhigh 0\nmax 3\noom 2\noom_kill 1\noom_group_kill 0\n"),
            Some(1)
        );
        assert_eq!(
            parse_kill_count("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"),
            Some(7)
        );
        assert_eq!(parse_kill_count("nr_free_pages 1\noom_kill 0\n"), Some(0));
        assert_eq!(parse_kill_count("oom_kill_disable 0\n"), None);
    }
}
