//! The canary: at the start and every quarter of an hour the runner reads and writes in its home, and runs a command
//! that does nothing, in the same way as a call's. The heartbeat's health has the result, and `status` a failure, which
//! stops nothing.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::runner::handles::Handles;
use crate::runner::parts::BackgroundCommands;
use crate::runner::tool_threads::run_on_blocking_thread;
use punie_home::CanaryFile;
use punie_tool::ToolError;
use punie_tool::request::ErrorCode;

/// The interval of the attempts: they need about five milliseconds of processor time, so that an hour has twenty.
const CANARY_INTERVAL: Duration = Duration::from_mins(15);
/// The time limit of the attempts with files; a disk that hangs is a failure.
const FILE_TIMEOUT: Duration = Duration::from_secs(30);
/// The most characters of an error.
const MAX_ERROR_CHARS: usize = 200;

/// Makes the attempts.
pub(in crate::runner) struct Canary {
    pub handles: Arc<Handles>,
    pub file: CanaryFile,
    pub commands: Arc<dyn BackgroundCommands>,
}

/// The result of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Attempt {
    Done,
    /// The owner's settings refuse all commands, which is no failure.
    Refused(String),
    Failed(String),
}

/// The results of the latest attempts.
#[derive(Debug, Clone)]
pub(in crate::runner) struct CanaryReport {
    attempts: [(&'static str, Attempt); 3],
    at_ms: i64,
}

impl CanaryReport {
    /// Returns the report as the health has it: `ok` or an error for each attempt, and the time.
    pub fn to_json(&self) -> Value {
        let mut report = json!({ "atMs": self.at_ms });
        for (name, attempt) in &self.attempts {
            report[name] = match attempt {
                Attempt::Done => json!("ok"),
                Attempt::Refused(text) | Attempt::Failed(text) => json!(text),
            };
        }
        report
    }

    /// Describes the attempts that failed: `write: No space left on device`. Empty if there are none.
    pub fn describe_failures(&self) -> String {
        let failures = self.attempts.iter().filter_map(|(name, attempt)| {
            let Attempt::Failed(text) = attempt else {
                return None;
            };
            Some(format!("{name}: {text}"))
        });
        failures.collect::<Vec<_>>().join("; ")
    }
}

/// Makes the attempts until the runner is over.
pub(in crate::runner) async fn run_canary(canary: Arc<Canary>) {
    let handles = &canary.handles;
    let attempts = async {
        // Its self-test comes before the first command.
        handles.audit.confinement.when_proven().await;
        loop {
            let report = canary.make_attempts().await;
            canary.record_report(report);
            handles.timer.wait_for_check(CANARY_INTERVAL).await;
        }
    };
    tokio::select! {
        () = attempts => {}
        () = handles.phases.over.cancelled() => {}
    }
}

impl Canary {
    async fn make_attempts(&self) -> CanaryReport {
        let file = self.file.clone();
        let files = run_on_blocking_thread(move || [file.try_read(), file.try_write()]);
        let files = timeout(FILE_TIMEOUT, files).await;
        let [read, write] = files.unwrap_or_else(|_| {
            [(); 2].map(|()| Err(io::Error::other("the disk does not answer")))
        });
        let command = self.commands.run_trial_command().await;
        CanaryReport {
            attempts: [
                ("read", self.attempt_with_file(read)),
                ("write", self.attempt_with_file(write)),
                ("exec", self.attempt_with_command(command)),
            ],
            at_ms: self.handles.clock.now_ms(),
        }
    }

    fn attempt_with_file(&self, result: io::Result<()>) -> Attempt {
        match result {
            Ok(()) => Attempt::Done,
            Err(error) => Attempt::Failed(self.error_text(&error.to_string())),
        }
    }

    fn attempt_with_command(&self, result: Result<(), ToolError>) -> Attempt {
        match result {
            Ok(()) => Attempt::Done,
            Err(error) => {
                let text = self.error_text(error.model_text());
                if error.stable_code() == ErrorCode::PolicyDenied {
                    Attempt::Refused(text)
                } else {
                    Attempt::Failed(text)
                }
            }
        }
    }

    /// Returns an error as the backend may have it.
    fn error_text(&self, error: &str) -> String {
        let masked = self.handles.sealer.redactor.mask(error).0;
        masked.chars().take(MAX_ERROR_CHARS).collect()
    }

    fn record_report(&self, report: CanaryReport) {
        let failures = report.describe_failures();
        if !self.handles.health.set_canary(report) {
            return;
        }
        if failures.is_empty() {
            tracing::info!("the runner can read, write and run commands again");
        } else {
            tracing::warn!(error = failures, "an attempt of the runner itself failed");
        }
        self.handles.heartbeat_soon.notify_one();
    }
}
