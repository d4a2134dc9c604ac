//! The runner of the demonstration: a process of its own, which is killed in the middle of a request.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::process::{Child, Command};

use super::STEP_TIMEOUT;
use crate::cli::caller_client::{CallerAnswer, CallerClient};
use crate::cli::exit::{CommandError, Exit};
use punie_core::ids::DeviceId;

/// The interval at which it looks for a file or the device.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A runner in the folder of the demonstration. It is killed when this is dropped.
pub(super) struct DemoRunner {
    root: PathBuf,
    url: String,
    code: String,
    child: Child,
}

impl DemoRunner {
    pub fn start(root: &Path, url: &str, code: &str) -> anyhow::Result<Self> {
        let child = program(root, url)?
            .args(["run", "--pairing-code", code])
            .spawn()?;
        Ok(Self {
            root: root.to_owned(),
            url: url.to_owned(),
            code: code.to_owned(),
            child,
        })
    }

    /// Waits until the backend knows the device.
    pub async fn wait_for_device(&mut self, caller: &CallerClient) -> anyhow::Result<DeviceId> {
        let begun = Instant::now();
        loop {
            if let [(device, _)] = caller.list_known_devices().await?.as_slice() {
                return Ok(DeviceId::parse(device.clone())?);
            }
            self.check_running(begun)?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until a command wrote to this file. A shell creates it before it writes.
    pub async fn wait_for_content(&mut self, file: &Path) -> anyhow::Result<()> {
        let begun = Instant::now();
        while std::fs::metadata(file).map_or(0, |found| found.len()) == 0 {
            self.check_running(begun)?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    fn check_running(&mut self, since: Instant) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_none() && since.elapsed() < STEP_TIMEOUT {
            return Ok(());
        }
        let log = std::fs::read_to_string(log_file(&self.root)).unwrap_or_default();
        let last = log.lines().last().unwrap_or("it logged nothing");
        Err(CommandError::with_exit(
            Exit::Failed,
            format!("the demonstration's runner does not answer: {last}"),
        ))
    }

    /// Kills the runner as a power cut would, and starts it again.
    pub async fn kill_and_restart(&mut self) -> anyhow::Result<()> {
        self.child.kill().await?;
        *self = Self::start(&self.root, &self.url, &self.code)?;
        Ok(())
    }

    /// Puts back what a request changed, as its owner does. Returns what `undo` printed.
    pub async fn undo_request(&self, request: &str) -> anyhow::Result<CallerAnswer> {
        let undo = program(&self.root, &self.url)?
            .args(["undo", request])
            .stdout(Stdio::piped())
            .output()
            .await?;
        let outcome = if undo.status.success() { "ok" } else { "error" };
        let text = String::from_utf8_lossy(&undo.stdout).into_owned();
        Ok(CallerAnswer {
            outcome: outcome.to_owned(),
            payload: json!({"result": text}),
        })
    }

    /// Stops the runner and waits for its end.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.child.kill().await?;
        Ok(())
    }
}

/// This program with the demonstration's home, workspace and settings.
fn program(root: &Path, url: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("--home")
        .arg(root.join("home"))
        .arg("--config")
        .arg(root.join("config.toml"))
        .arg("--workspace")
        .arg(root.join("workspace"))
        .args(["--backend-url", url])
        .env("HOME", root.join("user"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(
            File::options()
                .create(true)
                .append(true)
                .open(log_file(root))?,
        )
        .kill_on_drop(true);
    Ok(command)
}

fn log_file(root: &Path) -> PathBuf {
    root.join("runner.log")
}
