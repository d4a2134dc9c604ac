//! A control group for one command: the kernel's list of all processes that the command started, and one write that
//! kills them all. Not here: the fallback without control groups (the process tree, kill).
//!
//! Needs cgroup v2 and a group of the runner's own that is writable, as a user service has. Creating, opening and
//! removing a group takes 0.03 ms here, and so does the child's entry. Before Linux 6.18, an entry takes a lock that
//! every fork on the machine waits for, and may last milliseconds. So entries are timed, and where they are slow only
//! background commands get a group.
#![expect(clippy::disallowed_methods, reason = "control groups are folders and files under /sys")]

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::group_limits;
use super::identity::ProcessIdentity;
use crate::ids::hex;

/// The longest mean entry time at which every command gets a group.
const QUICK: Duration = Duration::from_micros(200);
/// The depth to which groups within a group are searched. Few programs make any.
const DEPTH: usize = 8;

/// The prefix of a group's folder name. The runner that made it (`pid.start`) and the command's own name follow.
const NAME: &str = "punie-";

/// Groups that could not be removed yet: a process leaves its group a moment after its end.
static LEFT: Mutex<Vec<ControlGroup>> = Mutex::new(Vec::new());

/// The mean of the latest entry times in nanoseconds; the newest counts for a quarter.
static ENTRY: AtomicU64 = AtomicU64::new(0);

/// The control group of one command.
#[derive(Debug, Clone)]
pub(super) struct ControlGroup {
    path: PathBuf,
}

impl ControlGroup {
    /// Creates the group for this name. `None` if no group can be made, or if it would delay the command.
    pub fn make(name: &str, in_the_background: bool) -> Option<Self> {
        if !in_the_background && ENTRY.load(Ordering::Relaxed) > nanoseconds(QUICK) {
            return None;
        }
        let group = Self::named(name)?;
        Self::remove_left();
        match fs::create_dir(&group.path) {
            Ok(()) => {
                group_limits::set(&group.path);
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
    pub fn of_an_earlier_life(name: &str) -> Option<Self> {
        let own = own_name(name);
        let is_its = |path: &PathBuf| maker_of(path).is_some_and(|(_, command)| command == own);
        folders_in(place()?).into_iter().find(is_its).map(|path| Self { path })
    }

    fn named(name: &str) -> Option<Self> {
        static MADE_READY: OnceLock<()> = OnceLock::new();
        let place = place()?;
        // Done once, and only by a runner that starts commands.
        let own = file_name("runner")?;
        MADE_READY.get_or_init(|| group_limits::make_possible(place, &place.join(own)));
        Some(Self { path: place.join(file_name(&own_name(name))?) })
    }

    /// Opens the file to which a child writes to enter the group.
    pub fn door(&self) -> Option<OwnedFd> {
        let procs = File::options().write(true).open(self.path.join("cgroup.procs"));
        procs.ok().map(OwnedFd::from)
    }

    /// Records the duration of an entry.
    pub fn entered_in(took: Duration) {
        let before = ENTRY.load(Ordering::Relaxed);
        let now = nanoseconds(took);
        let mean = if before == 0 { now } else { before - before / 4 + now / 4 };
        ENTRY.store(mean.max(1), Ordering::Relaxed);
    }

    /// Returns the processes in the group and in its subgroups.
    pub fn members(&self) -> Vec<u32> {
        let mut found = Vec::new();
        for group in self.with_those_within() {
            let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        }
        found
    }

    /// Returns whether this process is in the group or a subgroup now. It reads the process's own record, so a pid
    /// that was reused since the group was read does not mislead.
    pub fn holds(&self, pid: u32) -> bool {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let unified = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
        self.path.file_name().is_some_and(|name| Path::new(unified).iter().any(|part| part == name))
    }

    /// Kills all processes in the group at once, including those being forked. Kernels before 5.14 cannot do this.
    pub fn kill(&self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// Removes the group, now or as soon as the kernel allows.
    pub fn remove(&self) {
        if !self.is_removed() {
            left().push(self.clone());
        }
    }

    /// Removes the groups that could not be removed before.
    pub fn remove_left() {
        let waiting = std::mem::take(&mut *left());
        let still: Vec<Self> = waiting.into_iter().filter(|group| !group.is_removed()).collect();
        left().extend(still);
    }

    /// Removes the group unless it has members, and returns whether it is gone.
    fn is_removed(&self) -> bool {
        let gone = |removed: io::Result<()>| match removed {
            Ok(()) => true,
            Err(cause) => cause.kind() == io::ErrorKind::NotFound,
        };
        if gone(fs::remove_dir(&self.path)) {
            return true;
        }
        let all = self.with_those_within();
        all.iter().rev().all(|group| gone(fs::remove_dir(group)))
    }

    /// Returns the group and its subgroups, outer before inner.
    fn with_those_within(&self) -> Vec<PathBuf> {
        let mut all = vec![self.path.clone()];
        let mut level = all.clone();
        for _ in 0..DEPTH {
            level = level.iter().flat_map(|group| folders_in(group)).collect();
            if level.is_empty() {
                break;
            }
            all.extend(level.iter().cloned());
        }
        all
    }
}

fn folders_in(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().filter_map(Result::ok);
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Returns the folder name of this runner's group for a command's own name.
fn file_name(own: &str) -> Option<String> {
    static RUNNER: OnceLock<Option<ProcessIdentity>> = OnceLock::new();
    let runner = RUNNER.get_or_init(|| ProcessIdentity::of(std::process::id())).as_ref()?;
    Some(format!("{NAME}{}.{}-{own}", runner.pid(), runner.start()))
}

fn nanoseconds(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns whether control groups can be created here.
pub(super) fn are_possible() -> bool {
    place().is_some()
}

/// Returns the folder of the runner's own group if groups can be created in it. Searched once.
pub(super) fn place() -> Option<&'static Path> {
    static PLACE: OnceLock<Option<PathBuf>> = OnceLock::new();
    PLACE.get_or_init(find_place).as_deref()
}

fn find_place() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let place = own_folder(&groups, &mounts)?;
    // A permission check does not suffice: root may write anywhere but on read-only mounts. So a trial group is
    // created.
    let trial = place.join(format!("{NAME}trial-{}", std::process::id()));
    fs::create_dir(&trial).ok()?;
    let usable = trial.join("cgroup.procs").exists();
    fs::remove_dir(&trial).ok()?;
    sweep(&place);
    usable.then_some(place)
}

/// Removes empty groups of runners that have ended.
fn sweep(place: &Path) {
    for group in folders_in(place) {
        if let Some((maker, _)) = maker_of(&group)
            && !maker.is_some_and(|(pid, start)| {
                ProcessIdentity::of(pid).is_some_and(|process| process.start() == start)
            })
        {
            // The kernel refuses to remove a group with members.
            let _ = fs::remove_dir(&group);
        }
    }
}

/// Returns the runner that made one of our groups, if the name tells it, and the command's own name.
fn maker_of(group: &Path) -> Option<(Option<(u32, u64)>, &str)> {
    let (maker, command) = group.file_name()?.to_str()?.strip_prefix(NAME)?.split_once('-')?;
    let maker = maker.split_once('.').and_then(|(pid, start)| Some((pid.parse().ok()?, start.parse().ok()?)));
    Some((maker, command))
}

/// Returns a command's own name in group names.
fn own_name(name: &str) -> String {
    hex(&Sha256::digest(name)[..8])
}

fn left() -> MutexGuard<'static, Vec<ControlGroup>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the own group's folder in the version 2 tree.
pub(super) fn own_folder(groups: &str, mounts: &str) -> Option<PathBuf> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    folder_of(own, mounts, |kind| kind.split(' ').next() == Some("cgroup2"))
}

/// Returns the own group's folder in the version 1 tree of the memory controller.
pub(super) fn own_memory_folder(groups: &str, mounts: &str) -> Option<PathBuf> {
    let is_memory = |list: &str| list.split(',').any(|word| word == "memory");
    let own = groups.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        is_memory(controllers).then_some(group)
    })?;
    folder_of(own, mounts, |kind| {
        kind.starts_with("cgroup ") && kind.rsplit(' ').next().is_some_and(is_memory)
    })
}

/// Returns a group's folder among the mounts of its tree, or `None` if no mount contains it.
fn folder_of(group: &str, mounts: &str, is_tree: impl Fn(&str) -> bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        if !is_tree(kind) {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
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
        let folder = |group: &str| own_folder(&format!("4:memory:/other\n0::{group}\n"), MOUNTS);
        assert_eq!(folder("/user/me/runner"), Some("/sys/fs/cgroup/unified/me/runner".into()));
        assert_eq!(folder("/user"), Some("/sys/fs/cgroup/unified/".into()));
        assert_eq!(folder("/system/other"), None, "not below the mounted part");
        assert_eq!(own_folder("0::/user\n", "40 31 0:37 / /sys rw - cgroup cgroup rw\n"), None);
        let older = "40 31 0:37 / /sys/pids rw - cgroup cgroup rw,pids\n\
                     41 31 0:38 / /sys/memory rw - cgroup cgroup rw,memory\n";
        let folder = |groups: &str| own_memory_folder(groups, older);
        assert_eq!(folder("5:pids:/a\n4:memory:/mine\n0::/\n"), Some("/sys/memory/mine".into()));
        assert_eq!(folder("5:pids:/a\n0::/\n"), None);
    }

    #[test]
    fn a_process_says_itself_which_group_it_is_in() {
        let Some(group) = ControlGroup::make("who is in it", true) else {
            return; // None can be made here.
        };
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        assert!(!group.holds(child.id()));
        fs::write(group.path.join("cgroup.procs"), child.id().to_string()).expect("it enters");
        assert!(group.holds(child.id()) && group.members() == [child.id()]);
        assert!(!group.holds(std::process::id()));
        child.kill().expect("killed");
        child.wait().expect("collected");
        assert!(!group.holds(child.id()), "its number is nobody's");
        group.remove();
    }

    #[test]
    fn a_groups_name_tells_who_made_it() {
        let maker = |name: &str| maker_of(Path::new(name)).map(|(maker, own)| (maker, own.to_owned()));
        assert_eq!(maker("/sys/punie-12.345-ab"), Some((Some((12, 345)), "ab".to_owned())));
        assert_eq!(maker("/sys/punie-trial-12"), Some((None, "12".to_owned())));
        assert_eq!(maker("/sys/user.slice"), None);
    }
}
