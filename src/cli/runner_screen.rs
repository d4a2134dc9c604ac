//! The lines that a runner on a terminal shows about itself: where it works, how commands are confined, whether the
//! backend answers, and its stop.

use std::convert::Infallible;
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::wiring::RunnerProcesses;
use super::{console, prompt_line};
use crate::config::{Config, ProcessEnvironment};
use punie_engine::journal::Journal;
use punie_engine::runner::ShutdownSignal;
use punie_home::{DeviceIdentity, Home};
use punie_host::find_workspace_fault;

/// The screen of a running runner.
pub(super) struct RunnerScreen<'a> {
    pub processes: &'a RunnerProcesses,
    pub journal: Journal,
    /// Cancelled once the backend accepts this device.
    pub connected: CancellationToken,
    pub stop: &'a ShutdownSignal,
}

impl RunnerScreen<'_> {
    /// Awaits the runner, and shows the lines meanwhile.
    pub async fn show_beside<T>(&self, runner: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            never = self.show_lines() => match never {},
            ended = runner => ended,
        }
    }

    /// Shows the lines about the start and the stop.
    pub async fn show_lines(&self) -> Infallible {
        tokio::select! {
            () = self.show_start() => {}
            () = self.stop.wait_for_stop_request() => {}
        }
        self.stop.wait_for_stop_request().await;
        if console::is_terminal() {
            console::print_line(&self.describe_stop());
        }
        std::future::pending().await
    }

    async fn show_start(&self) {
        console::print_row("Commands", &self.processes.describe_commands().await);
        self.connected.cancelled().await;
        console::print_line("Connected. Waiting for requests. Ctrl-C stops.");
    }

    /// Describes the stop that begins now: what it waits for, and how long.
    fn describe_stop(&self) -> String {
        let counts = self.journal.open_reader();
        let counts = counts.and_then(|reader| reader.count_open_requests());
        let calls = match counts.map(|counts| counts.started) {
            Ok(0) | Err(_) => return "Stopping.".to_owned(),
            Ok(1) => "1 call still runs".to_owned(),
            Ok(count) => format!("{count} calls still run"),
        };
        let seconds = self.processes.stop_grace().as_secs_f64();
        format!("Stopping. {calls}: waiting up to {seconds:.0} s. Ctrl-C again ends it.")
    }
}

/// Prints the place where a runner works, before it asks the backend for the first time.
pub(super) fn print_connecting(config: &Config, home: &Home, environment: &ProcessEnvironment) {
    if let Ok(identity) = DeviceIdentity::load_or_create(home) {
        console::print_row("Device", identity.device_id().as_str());
    }
    print_workspaces(&config.workspaces, environment);
    if let Some(url) = &config.backend.url {
        console::print_line(&format!("Connecting to {url} ..."));
    }
}

/// Prints the end of a runner's stop, on a terminal.
pub(super) fn print_stopped(is_json: bool) {
    if !is_json && console::is_terminal() {
        prompt_line::end_prompts();
        console::print_line("Stopped.");
    }
}

/// Prints the folders in which a runner works.
pub(super) fn print_workspaces(workspaces: &[PathBuf], environment: &ProcessEnvironment) {
    let label = if workspaces.len() == 1 {
        "Workspace"
    } else {
        "Workspaces"
    };
    console::print_row(label, &describe_workspaces(workspaces, environment));
}

/// Describes the folders in which a runner works: `~/one (commands start here), ~/two`.
pub(super) fn describe_workspaces(
    workspaces: &[PathBuf],
    environment: &ProcessEnvironment,
) -> String {
    let mut shown: Vec<String> = workspaces
        .iter()
        .map(|path| {
            let shown = console::shorten_path(path, environment.user_dir());
            match find_workspace_fault(path) {
                Some(why) => format!("{shown} ({why})"),
                None => shown,
            }
        })
        .collect();
    if let [first, _, ..] = shown.as_mut_slice() {
        first.push_str(" (commands start here)");
    }
    shown.join(", ")
}
