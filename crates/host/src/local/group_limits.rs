//! Limits one command's processes and memory through its control group.
//!
//! A group can limit its processes only if its parent delegates the controllers, and such a parent must have no
//! process of its own. So a service of `service install` is started in a group beside its commands, and another runner
//! that is alone in its group moves into one. If other processes are in its group, as in a terminal's, there is no such
//! limit, and `status` says so.

use std::fs;
use std::path::Path;

use super::control_group::unified_group_folder;
use punie_sandbox::process_limit::MAX_COMMAND_TASKS;

/// The share of the machine's memory that one command may use, in quarters.
const MEMORY_QUARTERS: u64 = 3;
/// The group that the unit of `service install` puts the runner into, below the unit's own.
pub const RUNNER_SUBGROUP: &str = "punie-runner";
/// The controllers that count, by the kernel's names.
const CONTROLLERS: [&str; 2] = ["pids", "memory"];

/// The resources of a command that its control group limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupLimits {
    /// The number of its processes.
    pub processes: bool,
    /// Its memory.
    pub memory: bool,
}

/// Returns the limits for commands of the runner with this process id, as far as another process can see them.
pub fn limits_of_runner(pid: u32) -> GroupLimits {
    let text = |path: String| fs::read_to_string(path).unwrap_or_default();
    let groups = text(format!("/proc/{pid}/cgroup"));
    let mounts = text(format!("/proc/{pid}/mountinfo"));
    let own = unified_group_folder(&groups, &mounts);
    // A runner that moved is in a child of its commands' parent group.
    let above = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    let found = own
        .into_iter()
        .chain(above)
        .map(|group| delegated_controllers(&group));
    found.fold(GroupLimits::default(), |all, one| GroupLimits {
        processes: all.processes || one.processes,
        memory: all.memory || one.memory,
    })
}

/// Enables the controllers in this group if no process is in it, or only this one, which then moves to `own`. If the
/// system refuses, that limit is missing, and nothing else depends on it.
///
/// A runner in a service's own group stays there: with controllers enabled, and with background shells that outlived a
/// crash, systemd could not start the next runner in that group (219/CGROUP).
pub(super) fn enable_controllers(place: &Path, own: &Path) {
    let limits = delegated_controllers(place);
    if limits.processes && limits.memory {
        return;
    }
    let read = |name: &str| fs::read_to_string(place.join(name)).unwrap_or_default();
    let there = read("cgroup.controllers");
    let wanted: Vec<&str> = CONTROLLERS
        .into_iter()
        .filter(|one| there.split_whitespace().any(|word| word == *one))
        .collect();
    let me = std::process::id().to_string();
    let Ok(members) = fs::read_to_string(place.join("cgroup.procs")) else {
        return;
    };
    let members: Vec<&str> = members.split_whitespace().collect();
    let is_alone = members == [me.as_str()];
    let is_service = place.extension().is_some_and(|kind| kind == "service");
    if wanted.is_empty() || !(members.is_empty() || is_alone && !is_service) {
        return;
    }
    let moved = if is_alone {
        fs::create_dir(own).and_then(|()| fs::write(own.join("cgroup.procs"), &me))
    } else {
        Ok(())
    };
    for one in wanted {
        let handed = fs::write(place.join("cgroup.subtree_control"), format!("+{one}"));
        tracing::debug!(
            ?moved,
            ?handed,
            controller = one,
            "a control group is made ready for limits"
        );
    }
}

/// Sets the limits of this group, as far as its parent delegates the controllers.
pub(super) fn set_group_limits(group: &Path) {
    let limits = [
        ("pids.max", Some(MAX_COMMAND_TASKS)),
        ("memory.max", max_memory()),
    ];
    for (file, most) in limits {
        let file = group.join(file);
        if let Some(most) = most.filter(|_| file.exists())
            && let Err(cause) = fs::write(&file, most.to_string())
        {
            tracing::debug!(%cause, file = %file.display(), "a command is not limited");
        }
    }
}

fn max_memory() -> Option<u64> {
    total_memory(&fs::read_to_string("/proc/meminfo").ok()?)
        .map(|bytes| bytes / 4 * MEMORY_QUARTERS)
}

/// Returns the machine's memory in bytes.
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn delegated_controllers(group: &Path) -> GroupLimits {
    let text = fs::read_to_string(group.join("cgroup.subtree_control")).unwrap_or_default();
    let has = |wanted: &str| text.split_whitespace().any(|word| word == wanted);
    GroupLimits {
        processes: has("pids"),
        memory: has("memory"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_memory_is_read() {
        assert_eq!(
            total_memory("MemTotal:       16316412 kB\nMemFree: 1 kB\n"),
            Some(16_316_412 * 1024)
        );
        assert_eq!(total_memory("MemFree: 1 kB\n"), None);
        let most = max_memory().expect("this machine says it");
        assert!(most > 1 << 20, "{most}");
    }

    /// A folder that looks like a control group, without the kernel's replies to writes.
    fn group(controllers: &str, procs: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (file, text) in [
            ("cgroup.controllers", controllers),
            ("cgroup.procs", procs),
            ("cgroup.subtree_control", ""),
        ] {
            fs::write(folder.path().join(file), text).expect("written");
        }
        folder
    }

    #[test]
    fn a_runner_that_is_alone_makes_room_and_one_among_others_does_not() {
        let me = std::process::id().to_string();
        let alone = group("cpu memory pids\n", &format!("{me}\n"));
        let own = alone.path().join("own");
        enable_controllers(alone.path(), &own);
        assert_eq!(
            fs::read_to_string(own.join("cgroup.procs")).expect("it moved"),
            me
        );
        let asked = fs::read_to_string(alone.path().join("cgroup.subtree_control"));
        assert_eq!(
            asked.expect("there"),
            "+memory",
            "the last that was asked for"
        );
        let empty = group("memory pids", "");
        enable_controllers(empty.path(), &empty.path().join("own"));
        assert!(!empty.path().join("own").exists(), "it has a group beside");
        let asked = fs::read_to_string(empty.path().join("cgroup.subtree_control"));
        assert_eq!(asked.expect("there"), "+memory");
        // A service's own group, in which systemd starts the next runner.
        let unit = alone.path().join("punie-runner.service");
        fs::create_dir(&unit).expect("made");
        fs::write(unit.join("cgroup.controllers"), "memory pids").expect("written");
        fs::write(unit.join("cgroup.procs"), &me).expect("written");
        enable_controllers(&unit, &unit.join("own"));
        assert!(!unit.join("cgroup.subtree_control").exists());
        for (controllers, procs) in [
            ("memory pids", format!("1\n{me}\n")),
            ("cpu io", format!("{me}\n")),
        ] {
            let among = group(controllers, &procs);
            enable_controllers(among.path(), &among.path().join("own"));
            assert!(!among.path().join("own").exists(), "{controllers}, {procs}");
        }
    }

    #[test]
    fn only_what_is_handed_down_is_set() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("pids.max"), "max").expect("written");
        set_group_limits(folder.path());
        assert_eq!(
            fs::read_to_string(folder.path().join("pids.max")).expect("there"),
            "1024"
        );
        assert!(!folder.path().join("memory.max").exists());
    }
}
