//! Keeps the machine awake: by `systemd-inhibit` on Linux, by `caffeinate` on macOS.

use std::sync::Arc;

use punie_engine::runner::SleepInhibitor;
#[cfg(any(target_os = "linux", target_os = "macos"))]
use {
    punie_engine::runner::{AwakeGuard, InhibitedSleep},
    std::process::Stdio,
    tokio::process::Command,
};

/// Returns this system's way to keep the machine awake, if there is one.
#[cfg_attr(
    any(target_os = "linux", target_os = "macos"),
    expect(clippy::unnecessary_wraps, reason = "other systems have none")
)]
pub(super) fn system_sleep_inhibitor() -> Option<Arc<dyn SleepInhibitor>> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    return Some(Arc::new(SystemInhibitor));
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    None
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
struct SystemInhibitor;

#[cfg(any(target_os = "linux", target_os = "macos"))]
impl SleepInhibitor for SystemInhibitor {
    /// Starts the program, which ends when it is dropped, or with this process. A closed lid and `systemctl suspend` still
    /// put the machine to sleep.
    fn inhibit_sleep(&self) -> InhibitedSleep<'_> {
        let child = inhibiting_program()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let guard = child.map(|child| Box::new(child) as AwakeGuard);
        Box::pin(std::future::ready(guard.map_err(|error| error.to_string())))
    }
}

#[cfg(target_os = "linux")]
fn inhibiting_program() -> Command {
    let mut command = Command::new("/usr/bin/systemd-inhibit");
    command.args(["--what=idle", "--mode=block", "--who=punie-runner"]);
    // `cat` ends with its input, which this process holds.
    command.args(["--why=A tool call runs", "cat"]);
    command
}

#[cfg(target_os = "macos")]
fn inhibiting_program() -> Command {
    let mut command = Command::new("/usr/bin/caffeinate");
    command.args(["-i", "-w", &std::process::id().to_string()]);
    command
}
