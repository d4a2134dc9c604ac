//! Identifies a process by its boot, its process id and its start time, because ids are reused.

use std::fmt;
use std::str::FromStr;

/// The identity of one process. No other process ever has the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProcessIdentity {
    boot: String,
    pid: u32,
    start: u64,
}

/// A text that is not a process identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a process identity is boot:pid:start, not {0:?}")]
pub struct InvalidProcessIdentity(String);

impl ProcessIdentity {
    /// Identifies the process that has this id now. `None` if there is none, or if the system does not report start
    /// times (only Linux does so far): then nothing is ever matched or signalled.
    #[cfg(target_os = "linux")]
    pub fn from_pid(pid: u32) -> Option<Self> {
        let start = super::process_stat::ProcessStat::read_proc(pid)?.start;
        Some(Self {
            boot: current_boot_id()?.to_owned(),
            pid,
            start,
        })
    }

    /// Returns `None`: this system does not report start times.
    #[cfg(not(target_os = "linux"))]
    pub fn from_pid(_pid: u32) -> Option<Self> {
        None
    }

    /// Returns an identity that no process has and that is older than every process.
    #[cfg(target_os = "linux")]
    pub(super) fn impossible_process() -> Option<Self> {
        Some(Self {
            boot: current_boot_id()?.to_owned(),
            pid: u32::MAX,
            start: 0,
        })
    }

    /// Returns `None`: no process trees are known here.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn impossible_process() -> Option<Self> {
        None
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the start time, in clock ticks since boot.
    pub fn start_ticks(&self) -> u64 {
        self.start
    }

    /// Returns whether the process was started since the last boot.
    #[cfg(target_os = "linux")]
    pub fn is_of_this_boot(&self) -> bool {
        current_boot_id() == Some(self.boot.as_str())
    }

    /// Returns false: the boot is unknown here.
    #[cfg(not(target_os = "linux"))]
    pub fn is_of_this_boot(&self) -> bool {
        false
    }

    /// Returns the time since the process started, to the second.
    #[cfg(target_os = "linux")]
    pub(super) fn process_age(&self) -> std::time::Duration {
        let up = u64::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Boottime).tv_sec);
        let began = self.start / rustix::param::clock_ticks_per_second().max(1);
        std::time::Duration::from_secs(up.unwrap_or(0).saturating_sub(began))
    }

    /// Returns zero: the start time is unknown here.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn process_age(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    /// Returns whether the process started less than so many seconds ago.
    #[cfg(target_os = "linux")]
    pub(super) fn is_younger_than(&self, seconds: u64) -> bool {
        self.is_of_this_boot() && self.process_age().as_secs() < seconds
    }

    /// Returns whether exactly this process still runs. A zombie does not.
    #[cfg(target_os = "linux")]
    pub fn is_alive(&self) -> bool {
        self.is_of_this_boot()
            && super::process_stat::ProcessStat::read_proc(self.pid)
                .is_some_and(|stat| stat.start == self.start && !stat.has_ended())
    }

    /// Returns false: unknown here.
    #[cfg(not(target_os = "linux"))]
    pub fn is_alive(&self) -> bool {
        false
    }

    /// Returns whether exactly this process runs, or the system does not tell.
    pub fn may_be_alive(&self) -> bool {
        cfg!(not(target_os = "linux")) || self.is_alive()
    }
}

impl fmt::Display for ProcessIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.boot, self.pid, self.start)
    }
}

impl FromStr for ProcessIdentity {
    type Err = InvalidProcessIdentity;

    fn from_str(text: &str) -> Result<Self, InvalidProcessIdentity> {
        let read = || {
            let (rest, start) = text.rsplit_once(':')?;
            let (boot, pid) = rest.rsplit_once(':')?;
            let whole = !boot.is_empty() && !boot.contains(char::is_whitespace);
            let identity = Self {
                boot: boot.to_owned(),
                pid: pid.parse().ok()?,
                start: start.parse().ok()?,
            };
            whole.then_some(identity)
        };
        read().ok_or_else(|| InvalidProcessIdentity(text.to_owned()))
    }
}

#[cfg(target_os = "linux")]
fn current_boot_id() -> Option<&'static str> {
    static BOOT: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    BOOT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(text.trim().to_owned())
    })
    .as_deref()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn an_identity_survives_being_written_down() {
        let own = ProcessIdentity::from_pid(std::process::id()).expect("this process");
        assert!(own.is_alive());
        assert_eq!(
            own.to_string()
                .parse::<ProcessIdentity>()
                .expect("own text"),
            own
        );
        assert!("nonsense".parse::<ProcessIdentity>().is_err());
        assert!(":1:2".parse::<ProcessIdentity>().is_err());
    }

    #[test]
    fn another_start_time_or_boot_is_another_process() {
        let own = ProcessIdentity::from_pid(std::process::id()).expect("this process");
        assert!(
            !ProcessIdentity {
                start: own.start + 1,
                ..own.clone()
            }
            .is_alive()
        );
        assert!(
            !ProcessIdentity {
                boot: "another".to_owned(),
                ..own
            }
            .is_alive()
        );
    }
}
