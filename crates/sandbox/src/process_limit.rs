//! The limit on the processes and threads of one command, and how the kernel counts them.
//!
//! A control group counts the tasks of a command where the system delegates that. Elsewhere RLIMIT_NPROC limits them:
//! from Linux 5.14 on, the kernel counts a user's tasks in each user namespace apart, so every command has one of its own.

use std::sync::OnceLock;

/// The most processes and threads of one command.
pub const MAX_COMMAND_TASKS: u64 = 1024;
/// The most processes and threads of the user at which a command can start another one, where the kernel counts all of
/// them together.
pub(crate) const MAX_USER_TASKS: u64 = 4096;
/// From so many on, a command counts as being at the limit: those that cannot start any more come and go.
const NEARLY_ALL: u64 = MAX_COMMAND_TASKS / 10 * 9;

/// The first kernel that counts a user's tasks in each user namespace apart.
const COUNTING_KERNEL: (u32, u32) = (5, 14);

/// The reason why the kernel does not count the tasks of each command, unless a control group does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UncountedReason {
    /// The limit does not hold for root.
    Root,
    /// The kernel counts all of the user's together.
    OldKernel,
}

/// Returns why RLIMIT_NPROC cannot limit each command here; `None` if it can, given user namespaces.
pub fn uncounted_reason() -> Option<UncountedReason> {
    if rustix::process::geteuid().is_root() {
        Some(UncountedReason::Root)
    } else if counts_by_namespace() {
        None
    } else {
        Some(UncountedReason::OldKernel)
    }
}

/// Returns whether the kernel counts the tasks of each user namespace apart.
pub(crate) fn counts_by_namespace() -> bool {
    static COUNTS: OnceLock<bool> = OnceLock::new();
    *COUNTS.get_or_init(|| {
        let release = rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned();
        cfg!(target_os = "linux") && is_new_enough(&release)
    })
}

fn is_new_enough(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse::<u32>().ok();
    match (next(), next()) {
        (Some(major), Some(minor)) => (major, minor) >= COUNTING_KERNEL,
        _ => false,
    }
}

/// Returns whether a command with so many threads has nearly as many as it may have.
pub fn is_at_limit(threads: u64) -> bool {
    threads >= NEARLY_ALL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_release_tells_whether_namespaces_are_counted() {
        for (release, counts) in [
            ("5.13.19", false),
            ("4.18.0-553.el8_10.x86_64", false),
            ("5.14.0-427.13.1.el9_4.x86_64", true),
            ("6.8", true),
            ("6.18.44-fc", true),
            ("unknown", false),
        ] {
            assert_eq!(is_new_enough(release), counts, "{release}");
        }
    }
}
