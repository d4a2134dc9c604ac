//! `demo`: a demonstration with a backend, a device and a caller, connected by real sockets, in a temporary home and
//! workspace. It sends one request after the other and shows each outcome.
#![expect(clippy::disallowed_methods, reason = "it makes and removes a folder of its own")]

mod steps;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::oneshot;

use super::caller::{Answer, Ask, Caller};
use super::context::{Context, runtime};
use super::dev::{self, Ready};
use super::exit::{Exit, Stop};
use super::{print, stop, wiring};
use crate::config::WorkspaceRule;
use crate::home::Home;
use crate::ids::{DeviceId, RequestId};
use crate::redact::Secret;
use crate::sandbox::Level;
use steps::{Memory, STEPS, Step};

/// The time limit of one request.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the demonstration.
pub fn demo(context: &Context) -> anyhow::Result<Exit> {
    let place = Place::make()?;
    let context = context.with_flags(|flags| {
        flags.home = Some(place.root.join("home"));
        flags.config = Some(place.root.join("config.toml"));
        flags.workspaces = vec![place.root.join("workspace")];
        flags.log.get_or_insert_with(|| "error".to_owned());
    });
    let runtime = runtime()?;
    let passed = runtime.block_on(play(&context))?;
    runtime.shutdown_background();
    Ok(if passed { Exit::Done } else { Exit::Failed })
}

/// A temporary folder, removed at the end.
struct Place {
    root: PathBuf,
}

impl Place {
    fn make() -> anyhow::Result<Self> {
        let root = std::env::temp_dir().join(format!("punie-demo-{}", uuid::Uuid::new_v4()));
        let failed =
            |cause: std::io::Error| Stop::with(Exit::CannotWrite, format!("{}: {cause}", root.display()));
        std::fs::create_dir_all(root.join("workspace")).map_err(failed)?;
        // Confined as far as this system allows: the demonstration should not be refused.
        std::fs::write(root.join("config.toml"), "[sandbox]\nrequire = \"none\"\n").map_err(failed)?;
        steps::furnish(&root.join("workspace"))?;
        Ok(Self { root })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(cause) = std::fs::remove_dir_all(&self.root) {
            print::complain(&format!("{} could not be removed: {cause}", self.root.display()));
        }
    }
}

async fn play(context: &Context) -> anyhow::Result<bool> {
    let config = context.config(WorkspaceRule::NotNeeded)?;
    let home = Context::home(&config)?;
    let stop = crate::runner::Stop::new();
    let _signals = stop::on_signals(&stop)?;
    let (ready, is_ready) = oneshot::channel();
    let serving = dev::serve(0, context, &home, &stop, |state| {
        // The player below waits for this.
        let _ = ready.send(state.clone());
    });
    let playing = async {
        let ready = is_ready.await.map_err(|_| Stop::with(Exit::Failed, "the backend did not start"))?;
        let passed = play_steps(context, &home, &ready).await;
        stop.ask();
        passed
    };
    let (served, passed) = tokio::join!(serving, playing);
    served?;
    passed
}

async fn play_steps(context: &Context, home: &Home, ready: &Ready) -> anyhow::Result<bool> {
    let config = context
        .with_flags(|flags| flags.backend_url = Some(ready.url.clone()))
        .config(WorkspaceRule::NotNeeded)?;
    let caller = Caller::new(wiring::functions(&config)?, Secret::new(ready.caller_token.clone()));
    let device = DeviceId::parse(ready.device_id.clone().unwrap_or_default())?;
    if !context.json() {
        let level = wiring::confinement(&config, home, context.environment()).level().await;
        introduce(ready, home.root(), &level);
    }
    let mut memory = Memory::default();
    let mut rows = Vec::new();
    let mut failed = 0;
    for step in STEPS {
        let (answer, took) = ask(&caller, &device, step, &memory).await?;
        let as_wanted = answer.as_ref().is_some_and(|answer| (step.wanted)(answer, &mut memory));
        failed += usize::from(!as_wanted);
        let row = Row::new(rows.len() + 1, step, answer.as_ref(), took, as_wanted);
        if context.json() {
            print::json(&row.json());
        }
        rows.push(row.cells());
    }
    if !context.json() {
        print::table(&["#", "DOMAIN", "TOOL", "WHAT", "OUTCOME", "MS", "", "ANSWER"], &rows);
        print::line(&format!(
            "\n{} requests went from the caller through the backend to the device and back; {} did what they should.",
            rows.len(),
            rows.len() - failed
        ));
    }
    Ok(failed == 0)
}

async fn ask(
    caller: &Caller,
    device: &DeviceId,
    step: &Step,
    memory: &Memory,
) -> anyhow::Result<(Option<Answer>, Duration)> {
    let ask = Ask {
        id: RequestId::new(),
        tool: step.tool.to_owned(),
        args: (step.args)(memory).to_string(),
        progress: false,
        conversation: Some("demo".to_owned()),
        signed: None,
    };
    let begun = Instant::now();
    caller.append(device, &ask).await?;
    if step.taken_back {
        caller.cancel(&ask.id).await?;
    }
    let answer = caller.wait(&ask.id, PATIENCE).await?;
    Ok((answer, begun.elapsed()))
}

fn introduce(ready: &Ready, home: &Path, level: &Level) {
    print::line(&format!("A backend at {}, a device with its home in {},", ready.url, home.display()));
    print::line(&format!(
        "confined: {level} (commands, by the kernel; the file tools keep to the workspace by themselves).\n"
    ));
}

struct Row {
    number: usize,
    step: &'static Step,
    outcome: String,
    ms: f64,
    as_wanted: bool,
    answer: String,
}

impl Row {
    fn new(
        number: usize,
        step: &'static Step,
        answer: Option<&Answer>,
        took: Duration,
        as_wanted: bool,
    ) -> Self {
        let outcome = answer.map_or_else(|| "no answer".to_owned(), |answer| answer.outcome.clone());
        let text = answer.map(Answer::text).unwrap_or_default();
        Self { number, step, outcome, ms: took.as_secs_f64() * 1_000.0, as_wanted, answer: text }
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "domain": self.step.domain, "toolName": self.step.tool, "what": self.step.what, "outcome": self.outcome,
            "ms": self.ms, "asWanted": self.as_wanted, "answer": print::cell(&self.answer, 200),
        })
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.number.to_string(),
            self.step.domain.to_owned(),
            self.step.tool.to_owned(),
            self.step.what.to_owned(),
            self.outcome.clone(),
            format!("{:.1}", self.ms),
            if self.as_wanted { "ok" } else { "NOT AS WANTED" }.to_owned(),
            print::cell(&self.answer, 60),
        ]
    }
}
