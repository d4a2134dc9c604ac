//! Keeps the machine awake: by logind on Linux, by `caffeinate` on macOS.
#![cfg_attr(
    target_os = "macos",
    expect(clippy::disallowed_methods, reason = "this file starts caffeinate")
)]

use std::sync::Arc;

use punie_engine::runner::SleepInhibitor;
#[cfg(any(target_os = "linux", target_os = "macos"))]
use punie_engine::runner::{AwakeGuard, InhibitedSleep};

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
    fn inhibit_sleep(&self) -> InhibitedSleep<'_> {
        inhibit_idle_sleep()
    }
}

/// Asks logind not to count the machine as idle. A closed lid and `systemctl suspend` still put it to sleep.
#[cfg(target_os = "linux")]
fn inhibit_idle_sleep() -> InhibitedSleep<'static> {
    const BUS_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
    let asking = async {
        let bus = zbus::Connection::system().await?;
        let answer = bus
            .call_method(
                Some("org.freedesktop.login1"),
                "/org/freedesktop/login1",
                Some("org.freedesktop.login1.Manager"),
                "Inhibit",
                &("idle", "punie-runner", "A tool call runs", "block"),
            )
            .await?;
        answer.body().deserialize::<zbus::OwnedFd>()
    };
    Box::pin(async move {
        match tokio::time::timeout(BUS_TIMEOUT, asking).await {
            // Closing it ends the inhibition.
            Ok(Ok(descriptor)) => Ok(Box::new(descriptor) as AwakeGuard),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the system's bus does not answer".to_owned()),
        }
    })
}

/// Starts `caffeinate`, which ends when it is dropped, or with this process.
#[cfg(target_os = "macos")]
fn inhibit_idle_sleep() -> InhibitedSleep<'static> {
    let child = tokio::process::Command::new("/usr/bin/caffeinate")
        .args(["-i", "-w", &std::process::id().to_string()])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn();
    let guard = child.map(|child| Box::new(child) as AwakeGuard);
    Box::pin(std::future::ready(guard.map_err(|error| error.to_string())))
}
