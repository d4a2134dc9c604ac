//! The devices that are compared: the real program as a child, and the floor as another. Also what the system says
//! of a running one.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::floor;
use super::stage::Stage;

/// Which device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The least that the wire allows.
    Floor,
    /// The same with a journal.
    Journal,
    /// The real program.
    Runner,
}

impl Kind {
    /// Both, in the order of measuring.
    pub const BOTH: [Self; 2] = [Self::Floor, Self::Runner];

    /// As the tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Journal => "floor with a journal",
            Self::Runner => "runner",
        }
    }

    /// How it is started on this stage.
    pub fn command(self, stage: &Stage, runner: &Path, once: bool) -> Command {
        self.command_in(stage, runner, &stage.workspace(), once)
    }

    fn command_in(self, stage: &Stage, runner: &Path, workspace: &Path, once: bool) -> Command {
        let mut command = match self {
            Self::Runner => {
                let mut command = Command::new(runner);
                command
                    .arg("--home")
                    .arg(stage.home())
                    .arg("--workspace")
                    .arg(workspace);
                command.args(["--backend-url", &stage.url]);
                command.args(if once { &["--once"][..] } else { &[] });
                command.args(["run", "--pairing-code", &stage.pairing_code]);
                command
            }
            Self::Floor | Self::Journal => {
                let mut command = Command::new(std::env::current_exe().expect("this program"));
                command
                    .arg(floor::WORD)
                    .arg(stage.root())
                    .args([&stage.url, &stage.pairing_code]);
                command.args(once.then_some(floor::ONCE));
                command.args((self == Self::Journal).then_some(floor::JOURNAL));
                command
            }
        };
        let log = File::options()
            .create(true)
            .append(true)
            .open(stage.log())
            .expect("a log");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        command
    }
}

/// A running device, killed when dropped.
pub struct Device {
    child: Child,
}

/// What the system counted for a process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Time on a processor.
    pub cpu: Duration,
    /// How often one of its threads was put to sleep and woken.
    pub switches: u64,
}

impl Device {
    /// Starts one; the backend knows it when this returns.
    pub fn start(kind: Kind, stage: &Stage, runner: &Path) -> Self {
        Self::start_in(kind, stage, runner, &stage.workspace())
    }

    /// The same, with another workspace than the stage's.
    pub fn start_in(kind: Kind, stage: &Stage, runner: &Path, workspace: &Path) -> Self {
        let child = kind
            .command_in(stage, runner, workspace, false)
            .spawn()
            .expect("the device starts");
        stage.wait_for_device();
        Self { child }
    }

    /// A line of its status, in KiB.
    pub fn status_kib(&self, line: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .expect("a running process");
        let value = text
            .lines()
            .find_map(|found| found.strip_prefix(line)?.strip_prefix(':'));
        value
            .and_then(|value| value.split_ascii_whitespace().next()?.parse().ok())
            .unwrap_or(0)
    }

    /// Starts the search for the highest memory use anew.
    pub fn forget_peak(&self) {
        fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").expect("a process of ours");
    }

    /// What it used since it started.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        let tasks = format!("/proc/{}/task", self.child.id());
        for task in fs::read_dir(tasks).expect("a running process").flatten() {
            let schedstat = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let nanos = schedstat
                .split_ascii_whitespace()
                .next()
                .and_then(|first| first.parse().ok());
            usage.cpu += Duration::from_nanos(nanos.unwrap_or(0));
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let switches = status.lines().find_map(|line| {
                line.strip_prefix("voluntary_ctxt_switches:")?
                    .trim()
                    .parse()
                    .ok()
            });
            usage.switches += switches.unwrap_or(0);
        }
        usage
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
