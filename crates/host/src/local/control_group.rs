//! A control group for one command: the kernel's list of all processes that the command started, and one write that
//! kills them all.
//!
//! Needs cgroup v2 and a group of the runner's own that is writable, as a user service has. Creating, opening and
//! removing a group takes 0.03 ms here, and so does the child's entry. Before Linux 6.18, an entry takes a lock that
//! every fork on the machine waits for, and may last milliseconds. So entries are timed, and where they are slow only
//! background commands get a group.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::group_limits;
use super::process_identity::ProcessIdentity;
#[cfg(target_os = "linux")]
use super::process_kill::is_so_within;
use punie_core::ids::to_hex;

/// The longest mean entry time at which every command gets a group.
const QUICK_ENTRY: Duration = Duration::from_micros(200);
/// The depth to which groups within a group are searched. Few programs make any.
const MAX_SUBGROUP_DEPTH: usize = 8;

/// The longest wait for a group to freeze. One whose processes hang in the kernel takes long.
#[cfg(target_os = "linux")]
const MAX_FREEZE_WAIT: Duration = Duration::from_millis(5);

/// The prefix of a group's folder name. The runner that made it (`pid.start`) and the command's own name follow.
const GROUP_PREFIX: &str = "punie-";

/// Groups that could not be removed yet: a process leaves its group a moment after its end.
static PENDING_REMOVALS: Mutex<Vec<ControlGroup>> = Mutex::new(Vec::new());

/// The mean of the latest entry times in nanoseconds; the newest counts for a quarter.
static MEAN_ENTRY_NANOS: AtomicU64 = AtomicU64::new(0);

/// The control group of one command.
#[derive(Debug, Clone)]
pub(super) struct ControlGroup {
    path: PathBuf,
}

impl ControlGroup {
    /// Creates the group for this name. `None` if no group can be made, or if it would delay the command.
    pub fn create(name: &str, in_the_background: bool) -> Option<Self> {
        if !in_the_background && MEAN_ENTRY_NANOS.load(Ordering::Relaxed) > to_nanos(QUICK_ENTRY) {
            return None;
        }
        let group = Self::for_command_name(name)?;
        Self::remove_pending();
        match fs::create_dir(&group.path) {
            Ok(()) => {
                group_limits::set_group_limits(&group.path);
                Some(group)
            }
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => Some(group),
            Err(cause) => {
                tracing::debug!(%cause, "no control group for this command");
                None
            }
        }
    }

    /// Finds the group that an earlier process of the runner made for this name.
    pub fn find_earlier(name: &str) -> Option<Self> {
        let own = hash_command_name(name);
        let is_its =
            |path: &PathBuf| parse_group_name(path).is_some_and(|(_, command)| command == own);
        list_subfolders(own_group_folder()?)
            .into_iter()
            .find(is_its)
            .map(|path| Self { path })
    }

    #[cfg(test)]
    pub fn from_folder(path: PathBuf) -> Self {
        Self { path }
    }

    fn for_command_name(name: &str) -> Option<Self> {
        static MADE_READY: OnceLock<()> = OnceLock::new();
        let place = own_group_folder()?;
        // Done once, and only by a runner that starts commands.
        let own = group_file_name("runner")?;
        MADE_READY.get_or_init(|| group_limits::enable_controllers(place, &place.join(own)));
        Some(Self {
            path: place.join(group_file_name(&hash_command_name(name))?),
        })
    }

    /// Opens the file to which a child writes to enter the group.
    pub fn open_procs_file(&self) -> Option<OwnedFd> {
        let procs = File::options()
            .write(true)
            .open(self.path.join("cgroup.procs"));
        procs.ok().map(OwnedFd::from)
    }

    pub fn record_entry_time(took: Duration) {
        let before = MEAN_ENTRY_NANOS.load(Ordering::Relaxed);
        let now = to_nanos(took);
        let mean = if before == 0 {
            now
        } else {
            before - before / 4 + now / 4
        };
        MEAN_ENTRY_NANOS.store(mean.max(1), Ordering::Relaxed);
    }

    /// Returns the processes in the group and in its subgroups.
    pub fn member_pids(&self) -> Vec<u32> {
        let mut found = Vec::new();
        for group in self.with_subgroups() {
            let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        }
        found
    }

    /// Returns whether this process is in the group or a subgroup now. It reads the process's own record, so a pid
    /// that was reused since the group was read does not mislead.
    pub fn contains_pid(&self, pid: u32) -> bool {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let unified = groups
            .lines()
            .find_map(|line| line.strip_prefix("0::"))
            .unwrap_or_default();
        self.path
            .file_name()
            .is_some_and(|name| Path::new(unified).iter().any(|part| part == name))
    }

    /// Kills all processes in the group at once, including those being forked. Kernels before 5.14 cannot do this.
    pub fn kill_members(&self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// Freezes all processes in the group, and returns whether they stand still.
    #[cfg(target_os = "linux")]
    pub fn freeze_members(&self) -> bool {
        if fs::write(self.path.join("cgroup.freeze"), "1").is_err() {
            return false;
        }
        let is_frozen = || {
            let events = fs::read_to_string(self.path.join("cgroup.events")).unwrap_or_default();
            events.lines().any(|line| line == "frozen 1")
        };
        let is_in_time = is_so_within(MAX_FREEZE_WAIT, is_frozen);
        if !is_in_time {
            self.thaw_members();
        }
        is_in_time
    }

    /// Lets the processes in the group go on.
    #[cfg(target_os = "linux")]
    pub fn thaw_members(&self) {
        // A group that is gone has no processes.
        let _ = fs::write(self.path.join("cgroup.freeze"), "0");
    }

    /// Returns whether the group has refused a process or thread because of its limit.
    pub fn has_met_limit(&self) -> bool {
        let events = fs::read_to_string(self.path.join("pids.events")).unwrap_or_default();
        let refused = events.lines().find_map(|line| line.strip_prefix("max "));
        refused.is_some_and(|count| count.trim() != "0")
    }

    /// Removes the group, now or as soon as the kernel allows.
    pub fn remove(&self) {
        if !self.try_remove() {
            PENDING_REMOVALS.lock().push(self.clone());
        }
    }

    /// Removes the groups that could not be removed before.
    pub fn remove_pending() {
        let waiting = std::mem::take(&mut *PENDING_REMOVALS.lock());
        let still: Vec<Self> = waiting
            .into_iter()
            .filter(|group| !group.try_remove())
            .collect();
        PENDING_REMOVALS.lock().extend(still);
    }

    /// Removes the group unless it has members, and returns whether it is gone.
    fn try_remove(&self) -> bool {
        let gone = |removed: io::Result<()>| match removed {
            Ok(()) => true,
            Err(cause) => cause.kind() == io::ErrorKind::NotFound,
        };
        if gone(fs::remove_dir(&self.path)) {
            return true;
        }
        let all = self.with_subgroups();
        all.iter().rev().all(|group| gone(fs::remove_dir(group)))
    }

    /// Returns the group and its subgroups, outer before inner.
    fn with_subgroups(&self) -> Vec<PathBuf> {
        let mut all = vec![self.path.clone()];
        let mut level = all.clone();
        for _ in 0..MAX_SUBGROUP_DEPTH {
            level = level
                .iter()
                .flat_map(|group| list_subfolders(group))
                .collect();
            if level.is_empty() {
                break;
            }
            all.extend(level.iter().cloned());
        }
        all
    }
}

fn list_subfolders(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Returns the folder name of this runner's group for a command's own name.
fn group_file_name(own: &str) -> Option<String> {
    static RUNNER: OnceLock<Option<ProcessIdentity>> = OnceLock::new();
    let runner = RUNNER
        .get_or_init(|| ProcessIdentity::from_pid(std::process::id()))
        .as_ref()?;
    Some(format!(
        "{GROUP_PREFIX}{}.{}-{own}",
        runner.pid(),
        runner.start_ticks()
    ))
}

fn to_nanos(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns whether control groups can be created here.
pub(super) fn can_create_groups() -> bool {
    own_group_folder().is_some()
}

/// Returns the folder of the runner's own group if groups can be created in it; of a service that is in a group of its
/// own, the one above. Searched once.
pub(super) fn own_group_folder() -> Option<&'static Path> {
    static PLACE: OnceLock<Option<PathBuf>> = OnceLock::new();
    PLACE.get_or_init(find_own_group).as_deref()
}

fn find_own_group() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mut place = unified_group_folder(&groups, &mounts)?;
    if place.ends_with(group_limits::RUNNER_SUBGROUP) {
        place.pop();
    }
    // A permission check does not suffice: root may write anywhere but on read-only mounts. So a trial group is
    // created.
    let trial = place.join(format!("{GROUP_PREFIX}trial-{}", std::process::id()));
    fs::create_dir(&trial).ok()?;
    let usable = trial.join("cgroup.procs").exists();
    fs::remove_dir(&trial).ok()?;
    remove_stale_groups(&place);
    usable.then_some(place)
}

/// Removes empty groups of runners that have ended.
fn remove_stale_groups(place: &Path) {
    for group in list_subfolders(place) {
        if let Some((maker, _)) = parse_group_name(&group)
            && !maker.is_some_and(|(pid, start)| {
                ProcessIdentity::from_pid(pid).is_some_and(|process| process.start_ticks() == start)
            })
        {
            // The kernel refuses to remove a group with members.
            let _ = fs::remove_dir(&group);
        }
    }
}

/// Returns the runner that made one of our groups, if the name tells it, and the command's own name.
fn parse_group_name(group: &Path) -> Option<(Option<(u32, u64)>, &str)> {
    let (maker, command) = group
        .file_name()?
        .to_str()?
        .strip_prefix(GROUP_PREFIX)?
        .split_once('-')?;
    let maker = maker
        .split_once('.')
        .and_then(|(pid, start)| Some((pid.parse().ok()?, start.parse().ok()?)));
    Some((maker, command))
}

/// Returns a command's own name in group names.
fn hash_command_name(name: &str) -> String {
    to_hex(&Sha256::digest(name)[..8])
}

/// Returns the own group's folder in the version 2 tree.
pub(super) fn unified_group_folder(groups: &str, mounts: &str) -> Option<PathBuf> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    find_mounted_folder(own, mounts, |kind| {
        kind.split(' ').next() == Some("cgroup2")
    })
}

/// Returns the own group's folder in the version 1 tree of the memory controller.
pub(super) fn memory_group_folder(groups: &str, mounts: &str) -> Option<PathBuf> {
    let is_memory = |list: &str| list.split(',').any(|word| word == "memory");
    let own = groups.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        is_memory(controllers).then_some(group)
    })?;
    find_mounted_folder(own, mounts, |kind| {
        kind.starts_with("cgroup ") && kind.rsplit(' ').next().is_some_and(is_memory)
    })
}

/// Returns a group's folder among the mounts of its tree, or `None` if no mount contains it.
fn find_mounted_folder(
    group: &str,
    mounts: &str,
    is_tree: impl Fn(&str) -> bool,
) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        if !is_tree(kind) {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let root = fields.next()?;
        let point = fields.next()?;
        let below = Path::new(group).strip_prefix(root).ok()?;
        Some(Path::new(point).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw\n\
                          40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
                          41 31 0:38 /user /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_own_group_is_found_below_the_mount_that_shows_it() {
        let folder =
            |group: &str| unified_group_folder(&format!("4:memory:/other\n0::{group}\n"), MOUNTS);
        assert_eq!(
            folder("/user/me/runner"),
            Some("/sys/fs/cgroup/unified/me/runner".into())
        );
        assert_eq!(folder("/user"), Some("/sys/fs/cgroup/unified/".into()));
        assert_eq!(folder("/system/other"), None, "not below the mounted part");
        assert_eq!(
            unified_group_folder("0::/user\n", "40 31 0:37 / /sys rw - cgroup cgroup rw\n"),
            None
        );
        let older = "40 31 0:37 / /sys/pids rw - cgroup cgroup rw,pids\n\
                     41 31 0:38 / /sys/memory rw - cgroup cgroup rw,memory\n";
        let folder = |groups: &str| memory_group_folder(groups, older);
        assert_eq!(
            folder("5:pids:/a\n4:memory:/mine\n0::/\n"),
            Some("/sys/memory/mine".into())
        );
        assert_eq!(folder("5:pids:/a\n0::/\n"), None);
    }

    #[test]
    fn a_process_says_itself_which_group_it_is_in() {
        let Some(group) = ControlGroup::create("who is in it", true) else {
            return; // None can be made here.
        };
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("started");
        assert!(!group.contains_pid(child.id()));
        fs::write(group.path.join("cgroup.procs"), child.id().to_string()).expect("it enters");
        assert!(group.contains_pid(child.id()) && group.member_pids() == [child.id()]);
        assert!(!group.contains_pid(std::process::id()));
        child.kill().expect("killed");
        child.wait().expect("collected");
        assert!(!group.contains_pid(child.id()), "its number is nobody's");
        group.remove();
    }

    #[test]
    fn a_groups_name_tells_who_made_it() {
        let maker = |name: &str| {
            parse_group_name(Path::new(name)).map(|(maker, own)| (maker, own.to_owned()))
        };
        assert_eq!(
            maker("/sys/punie-12.345-ab"),
            Some((Some((12, 345)), "ab".to_owned()))
        );
        assert_eq!(maker("/sys/punie-trial-12"), Some((None, "12".to_owned())));
        assert_eq!(maker("/sys/user.slice"), None);
    }
}
