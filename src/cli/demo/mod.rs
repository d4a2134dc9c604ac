//! `demo`: a demonstration with a backend, a device and a caller, connected by real sockets, in a temporary home and
//! workspace. The device is a runner of its own, so that it can be killed. Each request is shown when its answer is there.

mod demo_runner;
mod demo_steps;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;

use super::caller_client::{CallerAnswer, CallerClient, CallerRequest};
use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use super::{console, embedded_runner, embedded_tokens, process_signals, wiring};
use crate::config::WorkspaceRule;
use demo_runner::DemoRunner;
use demo_steps::{DemoStep, STEPS, StepAction, StepMemory};
use punie_core::ids::{DeviceId, RequestId};
use punie_home::{Home, TokenName, command_to_type};
use punie_sandbox::ConfinementLevel;

/// The time limit of one request.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the demonstration.
pub fn run_demo(context: &CliContext) -> anyhow::Result<Exit> {
    let place = DemoFolder::create()?;
    let context = context.with_flags(|flags| {
        flags.home = Some(place.path("home"));
        flags.config = Some(place.path("config.toml"));
        flags.workspaces = vec![place.path("workspace")];
        flags.log.get_or_insert_with(|| "error".to_owned());
    });
    let runtime = command_runtime()?;
    let passed = runtime.block_on(run_demonstration(&context, &place))?;
    runtime.shutdown_background();
    Ok(if passed { Exit::Done } else { Exit::Failed })
}

/// A temporary folder, removed at the end.
struct DemoFolder {
    root: PathBuf,
}

impl DemoFolder {
    fn create() -> anyhow::Result<Self> {
        let random = uuid::Uuid::new_v4().simple().to_string();
        let root = std::env::temp_dir().join(format!("punie-demo-{}", &random[..8]));
        let failed = |cause: std::io::Error| {
            let text = format!("{}: {cause}", root.display());
            CommandError::with_exit(Exit::CannotWrite, text)
        };
        // Fails if the folder exists: the end removes it.
        std::fs::create_dir(&root).map_err(failed)?;
        let place = Self { root: root.clone() };
        std::fs::create_dir(place.path("workspace")).map_err(failed)?;
        // Not by the umask: a home that others may write to is refused.
        Home::open_home(&place.path("home"))?;
        demo_steps::write_settings(&place.root).map_err(failed)?;
        demo_steps::create_sample_files(&place.path("workspace"))?;
        Ok(place)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
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

async fn run_demonstration(context: &CliContext, place: &DemoFolder) -> anyhow::Result<bool> {
    let home = context.open_home()?;
    let stop = punie_engine::runner::ShutdownSignal::new();
    let _signals = process_signals::listen_for_signals(&stop, Duration::ZERO)?;
    let backend = embedded_runner::start_dev_backend(&home, 0).await?;
    let tokens = embedded_tokens::prepare_tokens(&backend, &home)?;
    let context = context.with_embedded_backend(backend.listen_url());
    let config = context.effective_config(WorkspaceRule::Named)?;
    let level = wiring::build_confinement(&config, &home, context.environment())
        .level()
        .await;
    let token = tokens
        .read(TokenName::Caller)?
        .ok_or_else(|| CommandError::with_exit(Exit::Failed, "the caller's token is gone"))?;
    let caller = CallerClient::new(wiring::http_functions(&config)?, token);
    let code = backend.pairing_code()?.unwrap_or_default();
    let mut runner = DemoRunner::start(&place.root, backend.listen_url(), &code)?;
    let device = runner.wait_for_device(&caller).await?;
    if !context.is_json() {
        print_introduction(&config.workspaces[0].display().to_string(), &level);
    }
    let demonstration = Demonstration {
        place,
        caller,
        device,
        level,
        is_json: context.is_json(),
    };
    let passed = tokio::select! {
        passed = demonstration.run_demo_steps(&mut runner) => passed,
        () = stop.wait_for_stop_request() => Err(CommandError::with_exit(Exit::Failed, "stopped")),
    };
    runner.stop().await?;
    backend.stop_server().await;
    passed
}

fn print_introduction(workspace: &str, level: &ConfinementLevel) {
    console::print_line(
        "A caller sends requests through a backend to a runner, all on this machine.",
    );
    console::print_line(&format!("Workspace    {workspace}"));
    console::print_line(&format!("Confinement  {level}\n"));
}

/// The parts that take part.
struct Demonstration<'d> {
    place: &'d DemoFolder,
    caller: CallerClient,
    device: DeviceId,
    level: ConfinementLevel,
    is_json: bool,
}

impl Demonstration<'_> {
    async fn run_demo_steps(&self, runner: &mut DemoRunner) -> anyhow::Result<bool> {
        let begun = Instant::now();
        let mut memory = StepMemory::new(&self.place.path("workspace"));
        let mut done = 0;
        let mut expected = 0;
        for step in STEPS {
            if step.needs_confinement && self.level == ConfinementLevel::None {
                continue;
            }
            let (answer, took) = self.run_step(step, &mut memory, runner).await?;
            let as_wanted = answer
                .as_ref()
                .is_some_and(|answer| (step.wanted)(answer, &mut memory));
            done += 1;
            expected += usize::from(as_wanted);
            self.print_step(step, answer.as_ref(), took, as_wanted);
        }
        if !self.is_json {
            console::print_line(&format!(
                "\n{expected} of {done} as expected, in {:.1} s. Next, in a folder of yours: {}",
                begun.elapsed().as_secs_f64(),
                command_to_type("dev")
            ));
        }
        Ok(done == expected)
    }

    async fn run_step(
        &self,
        step: &DemoStep,
        memory: &mut StepMemory,
        runner: &mut DemoRunner,
    ) -> anyhow::Result<(Option<CallerAnswer>, Duration)> {
        let begun = Instant::now();
        if step.action == StepAction::Undo {
            let answer = runner.undo_request(&memory.to_undo).await?;
            return Ok((Some(answer), begun.elapsed()));
        }
        let ask = CallerRequest {
            id: RequestId::new(),
            tool: step.tool.to_owned(),
            args: (step.args)(memory).to_string(),
            progress: false,
            conversation: Some("demo".to_owned()),
            session: None,
            signed: None,
        };
        memory.request = ask.id.to_string();
        self.caller.append_request(&self.device, &ask).await?;
        match step.action {
            StepAction::Cancel => {
                self.caller.cancel_request(&ask.id).await?;
            }
            StepAction::KillRunner => {
                runner.wait_for_content(&memory.started_file()).await?;
                runner.kill_and_restart().await?;
            }
            StepAction::Request | StepAction::Undo => {}
        }
        let answer = self.caller.wait_for_answer(&ask.id, STEP_TIMEOUT).await?;
        Ok((answer, begun.elapsed()))
    }

    fn print_step(
        &self,
        step: &DemoStep,
        answer: Option<&CallerAnswer>,
        took: Duration,
        as_wanted: bool,
    ) {
        let text = answer.map(CallerAnswer::text).unwrap_or_default();
        let outcome = answer.map_or("no answer", |answer| answer.outcome.as_str());
        if self.is_json {
            return console::print_json(&json!({
                "domain": step.domain, "toolName": step.tool, "what": step.what, "outcome": outcome,
                "ms": took.as_secs_f64() * 1_000.0, "asWanted": as_wanted, "answer": console::cell_text(&text, 200),
            }));
        }
        let mark = if as_wanted { "ok" } else { "NO" };
        let ms = took.as_millis();
        console::print_line(&format!(
            "{mark}  {:<13}{:<50}{ms:>7} ms",
            step.tool, step.what
        ));
        if !as_wanted {
            console::print_line(&format!(
                "    not as expected: {outcome} {}",
                console::cell_text(&text, 300)
            ));
        }
    }
}
