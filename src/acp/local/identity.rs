//! Which process is meant: a process id alone is given out again, so the boot and the start time go with it.
//! Not here: finding relatives (family) and ending them (kill).
#![cfg_attr(
    target_os = "linux",
    expect(clippy::disallowed_methods, reason = "processes are read from /proc")
)]

use std::fmt;
use std::str::FromStr;

/// One process, for ever: no other will have this identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProcessIdentity {
    boot: String,
    pid: u32,
    start: u64,
}

/// A text that is no identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a process identity is boot:pid:start, not {0:?}")]
pub struct BadIdentity(String);

impl ProcessIdentity {
    /// The process that has this id now; none when there is none, or when this system does not tell start times
    /// (only Linux does so far): then nothing is ever taken for it, and nothing is signalled.
    #[cfg(target_os = "linux")]
    pub fn of(pid: u32) -> Option<Self> {
        let start = super::family::Stat::of(pid)?.start;
        Some(Self { boot: this_boot()?.to_owned(), pid, start })
    }

    /// The process that has this id now: unknown, since this system does not tell start times.
    #[cfg(not(target_os = "linux"))]
    pub fn of(_pid: u32) -> Option<Self> {
        None
    }

    /// A process that there cannot be, for whom everybody is young enough.
    #[cfg(target_os = "linux")]
    pub(super) fn nobody() -> Option<Self> {
        Some(Self { boot: this_boot()?.to_owned(), pid: u32::MAX, start: 0 })
    }

    /// A process that there cannot be: not here, where no relatives are known.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn nobody() -> Option<Self> {
        None
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// When it started, in the system's ticks since boot.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Whether it belongs to the system's present life.
    #[cfg(target_os = "linux")]
    pub fn is_of_this_boot(&self) -> bool {
        this_boot() == Some(self.boot.as_str())
    }

    /// Whether it belongs to the system's present life: unknown here.
    #[cfg(not(target_os = "linux"))]
    pub fn is_of_this_boot(&self) -> bool {
        false
    }

    /// How long ago it started, to the second.
    #[cfg(target_os = "linux")]
    pub(super) fn age(&self) -> std::time::Duration {
        let up = u64::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Boottime).tv_sec);
        let began = self.start / rustix::param::clock_ticks_per_second().max(1);
        std::time::Duration::from_secs(up.unwrap_or(0).saturating_sub(began))
    }

    /// How long ago it started: unknown here.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn age(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    /// Whether it started less than so many seconds ago.
    #[cfg(target_os = "linux")]
    pub(super) fn is_younger_than(&self, seconds: u64) -> bool {
        self.is_of_this_boot() && self.age().as_secs() < seconds
    }

    /// Whether exactly this process is still there. One that ended and was not yet collected is not.
    #[cfg(target_os = "linux")]
    pub fn is_alive(&self) -> bool {
        self.is_of_this_boot()
            && super::family::Stat::of(self.pid).is_some_and(|stat| stat.start == self.start && !stat.ended())
    }

    /// Whether exactly this process is still there: unknown here, hence no.
    #[cfg(not(target_os = "linux"))]
    pub fn is_alive(&self) -> bool {
        false
    }
}

impl fmt::Display for ProcessIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.boot, self.pid, self.start)
    }
}

impl FromStr for ProcessIdentity {
    type Err = BadIdentity;

    fn from_str(text: &str) -> Result<Self, BadIdentity> {
        let read = || {
            let (rest, start) = text.rsplit_once(':')?;
            let (boot, pid) = rest.rsplit_once(':')?;
            let whole = !boot.is_empty() && !boot.contains(char::is_whitespace);
            let identity = Self { boot: boot.to_owned(), pid: pid.parse().ok()?, start: start.parse().ok()? };
            whole.then_some(identity)
        };
        read().ok_or_else(|| BadIdentity(text.to_owned()))
    }
}

#[cfg(target_os = "linux")]
fn this_boot() -> Option<&'static str> {
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
        let own = ProcessIdentity::of(std::process::id()).expect("this process");
        assert!(own.is_alive());
        assert_eq!(own.to_string().parse::<ProcessIdentity>().expect("own text"), own);
        assert!("nonsense".parse::<ProcessIdentity>().is_err());
        assert!(":1:2".parse::<ProcessIdentity>().is_err());
    }

    #[test]
    fn another_start_time_or_boot_is_another_process() {
        let own = ProcessIdentity::of(std::process::id()).expect("this process");
        assert!(!ProcessIdentity { start: own.start + 1, ..own.clone() }.is_alive());
        assert!(!ProcessIdentity { boot: "another".to_owned(), ..own }.is_alive());
    }
}
