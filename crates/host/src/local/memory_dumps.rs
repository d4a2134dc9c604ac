//! The runner's memory has keys, tokens and secrets. This file keeps it out of core dumps, and from other processes of
//! the same user.

use rustix::process::{Resource, Rlimit, setrlimit};

/// Forbids core dumps of this process, and lets no other process of the same user read its memory.
pub fn forbid_memory_dumps() {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    // Where the system refuses, the process works all the same.
    let _ = setrlimit(Resource::Core, none);
    #[cfg(target_os = "linux")]
    set_dumpable(rustix::process::DumpableBehavior::NotDumpable);
}

/// Starts a child that shares this process's memory until it runs its program. Meanwhile the system must let this user
/// write the child's files in /proc, such as its id maps, and it refuses that for memory that cannot be dumped.
///
/// One at a time in the whole process, so that none ends this for another: the self-test has a spawner of its own.
#[cfg(target_os = "linux")]
pub(super) fn with_writable_proc_files<T>(start: impl FnOnce() -> T) -> T {
    use rustix::process::{DumpableBehavior, dumpable_behavior};
    static STARTING: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let _alone = STARTING.lock();
    let is_dumpable = dumpable_behavior().map_or(true, |now| now == DumpableBehavior::Dumpable);
    if is_dumpable {
        return start();
    }
    set_dumpable(DumpableBehavior::Dumpable);
    let started = start();
    set_dumpable(DumpableBehavior::NotDumpable);
    started
}

#[cfg(target_os = "linux")]
fn set_dumpable(behavior: rustix::process::DumpableBehavior) {
    let _ = rustix::process::set_dumpable_behavior(behavior);
}
