//! `demo`: a demonstration with a backend, a device and a caller, connected by real sockets, in a temporary home and
//! workspace. It sends one request after the other and shows each outcome.
#![expect(
    clippy::disallowed_methods,
    reason = "it makes and removes a folder of its own"
)]

mod demo_steps;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::oneshot;

use super::caller_client::{CallerAnswer, CallerClient, CallerRequest};
use super::context::{CliContext, command_runtime};
use super::dev::{self, ReadyMessage};
use super::exit::{CommandError, Exit};
use super::table::Column;
use super::{console, signals, wiring};
use crate::config::WorkspaceRule;
use crate::home::Home;
use crate::ids::{DeviceId, RequestId};
use crate::redact::Secret;
use crate::sandbox::ConfinementLevel;
use demo_steps::{DemoStep, STEPS, StepMemory};

/// The time limit of one request.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the demonstration.
pub fn run_demo(context: &CliContext) -> anyhow::Result<Exit> {
    let place = DemoFolder::create_demo_folder()?;
    let context = context.with_flags(|flags| {
        flags.home = Some(place.root.join("home"));
        flags.config = Some(place.root.join("config.toml"));
        flags.workspaces = vec![place.root.join("workspace")];
        flags.log.get_or_insert_with(|| "error".to_owned());
    });
    let runtime = command_runtime()?;
    let passed = runtime.block_on(run_demonstration(&context))?;
    runtime.shutdown_background();
    Ok(if passed { Exit::Done } else { Exit::Failed })
}

/// A temporary folder, removed at the end.
struct DemoFolder {
    root: PathBuf,
}

impl DemoFolder {
    fn create_demo_folder() -> anyhow::Result<Self> {
        let root = std::env::temp_dir().join(format!("punie-demo-{}", uuid::Uuid::new_v4()));
        let failed = |cause: std::io::Error| {
            CommandError::with_exit(Exit::CannotWrite, format!("{}: {cause}", root.display()))
        };
        std::fs::create_dir_all(root.join("workspace")).map_err(failed)?;
        // Confined as far as this system allows: the demonstration should not be refused.
        std::fs::write(root.join("config.toml"), "[sandbox]\nrequire = \"none\"\n")
            .map_err(failed)?;
        demo_steps::create_sample_files(&root.join("workspace"))?;
        Ok(Self { root })
    }
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        if let Err(cause) = std::fs::remove_dir_all(&self.root) {
            console::print_error(&format!(
                "{} could not be removed: {cause}",
                self.root.display()
            ));
        }
    }
}

async fn run_demonstration(context: &CliContext) -> anyhow::Result<bool> {
    let home = context.open_home()?;
    let stop = crate::runner::ShutdownSignal::new();
    let _signals = signals::listen_for_signals(&stop)?;
    let (ready, is_ready) = oneshot::channel();
    let serving = dev::serve_dev(0, context, &home, &stop, |state| {
        // The player below waits for this.
        let _ = ready.send(state.clone());
    });
    let playing = async {
        let ready = is_ready
            .await
            .map_err(|_| CommandError::with_exit(Exit::Failed, "the backend did not start"))?;
        let passed = run_demo_steps(context, &home, &ready).await;
        stop.request_stop();
        passed
    };
    let (served, passed) = tokio::join!(serving, playing);
    served?;
    passed
}

async fn run_demo_steps(
    context: &CliContext,
    home: &Home,
    ready: &ReadyMessage,
) -> anyhow::Result<bool> {
    let config = context
        .with_flags(|flags| flags.backend_url = Some(ready.url.clone()))
        .effective_config(WorkspaceRule::NotNeeded)?;
    let caller = CallerClient::new(
        wiring::http_functions(&config)?,
        Secret::new(ready.caller_token.clone()),
    );
    let device = DeviceId::parse(ready.device_id.clone().unwrap_or_default())?;
    if !context.is_json() {
        let level = wiring::build_confinement(&config, home, context.environment())
            .confinement_level()
            .await;
        print_introduction(ready, home.root_dir(), &level);
    }
    let mut memory = StepMemory::default();
    let mut rows = Vec::new();
    let mut failed = 0;
    for step in STEPS {
        let (answer, took) = send_demo_step(&caller, &device, step, &memory).await?;
        let as_wanted = answer
            .as_ref()
            .is_some_and(|answer| (step.wanted)(answer, &mut memory));
        failed += usize::from(!as_wanted);
        let row = StepResult::new(rows.len() + 1, step, answer.as_ref(), took, as_wanted);
        if context.is_json() {
            console::print_json(&row.to_json());
        }
        rows.push(row.step_cells());
    }
    if !context.is_json() {
        console::print_table(
            &[
                Column::text("#"),
                Column::text("DOMAIN"),
                Column::text("TOOL"),
                Column::text("WHAT"),
                Column::text("OUTCOME"),
                Column::number("MS"),
                Column::outcome(""),
                Column::flexible("ANSWER"),
            ],
            &rows,
        );
        console::print_line(&format!(
            "\n{} requests went from the caller through the backend to the device and back; {} did what they should.",
            rows.len(),
            rows.len() - failed
        ));
    }
    Ok(failed == 0)
}

async fn send_demo_step(
    caller: &CallerClient,
    device: &DeviceId,
    step: &DemoStep,
    memory: &StepMemory,
) -> anyhow::Result<(Option<CallerAnswer>, Duration)> {
    let ask = CallerRequest {
        id: RequestId::new(),
        tool: step.tool.to_owned(),
        args: (step.args)(memory).to_string(),
        progress: false,
        conversation: Some("demo".to_owned()),
        signed: None,
    };
    let begun = Instant::now();
    caller.append_request(device, &ask).await?;
    if step.is_cancelled {
        caller.cancel_request(&ask.id).await?;
    }
    let answer = caller.wait_for_answer(&ask.id, STEP_TIMEOUT).await?;
    Ok((answer, begun.elapsed()))
}

fn print_introduction(ready: &ReadyMessage, home: &Path, level: &ConfinementLevel) {
    console::print_line(&format!(
        "A backend at {}, a device with its home in {},",
        ready.url,
        home.display()
    ));
    console::print_line(&format!(
        "confined: {level} (commands, by the kernel; the file tools keep to the workspace by themselves).\n"
    ));
}

struct StepResult {
    number: usize,
    step: &'static DemoStep,
    outcome: String,
    ms: f64,
    as_wanted: bool,
    answer: String,
}

impl StepResult {
    fn new(
        number: usize,
        step: &'static DemoStep,
        answer: Option<&CallerAnswer>,
        took: Duration,
        as_wanted: bool,
    ) -> Self {
        let outcome =
            answer.map_or_else(|| "no answer".to_owned(), |answer| answer.outcome.clone());
        let text = answer.map(CallerAnswer::answer_text).unwrap_or_default();
        Self {
            number,
            step,
            outcome,
            ms: took.as_secs_f64() * 1_000.0,
            as_wanted,
            answer: text,
        }
    }

    fn to_json(&self) -> serde_json::Value {
        json!({
            "domain": self.step.domain, "toolName": self.step.tool, "what": self.step.what, "outcome": self.outcome,
            "ms": self.ms, "asWanted": self.as_wanted, "answer": console::cell_text(&self.answer, 200),
        })
    }

    fn step_cells(&self) -> Vec<String> {
        vec![
            self.number.to_string(),
            self.step.domain.to_owned(),
            self.step.tool.to_owned(),
            self.step.what.to_owned(),
            self.outcome.clone(),
            format!("{:.1}", self.ms),
            if self.as_wanted {
                "ok"
            } else {
                "NOT AS WANTED"
            }
            .to_owned(),
            console::cell_text(&self.answer, 60),
        ]
    }
}
