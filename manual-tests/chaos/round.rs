//! One round: ask, disturb, let everything run, judge. Not here: what is asked (work).

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use punie_runner::dev_backend::{Clock, DevBackend, DevBackendOptions, Fault, Faults};
use punie_runner::journal::Reader;
use rustix::process::{Pid, Signal, kill_process};

use crate::AS_RUNNER;
use crate::caller::{Answer, Caller};
use crate::dice::Dice;
use crate::tally::Tally;
use crate::work::{self, Job};

/// Waits that a round can afford.
const QUICK: &str = "
[backend.poll]
error_base_ms = 20
error_cap_ms = 200
function_error_min_ms = 50
function_error_max_ms = 200
unauthorized_ms = 200
[safe_mode]
crashes = 0
";

/// How long the last life has.
const CALM: Duration = Duration::from_secs(90);

struct Scene {
    dir: tempfile::TempDir,
    backend: DevBackend,
    faults: Faults,
    caller: Caller,
}

pub async fn play(seed: u64, requests: usize) -> anyhow::Result<Tally> {
    let mut dice = Dice::new(seed);
    let jobs: Vec<Job> = (0..requests).map(|number| Job::new(seed, number, &mut dice)).collect();
    let mut scene = Scene::new(&jobs).await?;
    let mut tally = Tally { rounds: 1, requests: jobs.len() as u64, ..Tally::default() };

    scene.disturb(&jobs, &mut dice, &mut tally).await?;
    scene.faults.clear();
    let answers = scene.let_run(&jobs).await?;
    for (job, answer) in jobs.iter().zip(&answers) {
        judge(job, answer.as_ref(), &scene.work(), &mut tally).with_context(|| job.id.clone())?;
    }
    scene.look_around(&mut tally)?;
    let broken = !tally.violations.is_empty();
    if broken {
        let kept = scene.dir.path().display().to_string();
        tally.violations.iter_mut().for_each(|what| *what = format!("seed {seed}: {what} ({kept})"));
        scene.dir.disable_cleanup(true);
    }
    scene.backend.stop().await;
    Ok(tally)
}

impl Scene {
    async fn new(jobs: &[Job]) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        for name in ["home", "work", "logs"] {
            DirBuilder::new().mode(0o700).create(dir.path().join(name))?;
        }
        std::fs::write(dir.path().join("home/config.toml"), QUICK)?;
        work::prepare(&dir.path().join("work"), jobs)?;
        let faults = Faults::new();
        let backend = DevBackend::start(DevBackendOptions {
            db: dir.path().join("backend.sqlite3"),
            port: 0,
            clock: Clock::system(),
            production_errors: false,
            holds: true,
            faults: Some(faults.clone()),
        })
        .await?;
        let token = backend.mint_caller("chaos")?;
        let (url, code) = (backend.url().to_owned(), backend.pairing_code().to_owned());
        let pairing = runner(dir.path(), &url, &["--json", "pair", &code])?;
        let pair = tokio::task::spawn_blocking(|| pairing.wait_with_output()).await??;
        let log = || std::fs::read_to_string(dir.path().join("logs/runner.log")).unwrap_or_default();
        ensure!(pair.status.success(), "the device could not be paired: {}", log());
        let paired: serde_json::Value = serde_json::from_slice(&pair.stdout)?;
        let device = paired["deviceId"].as_str().context("a device id")?.to_owned();
        let caller = Caller::new(&url, token, device)?;
        Ok(Self { dir, backend, faults, caller })
    }

    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn run(&self) -> anyhow::Result<Child> {
        runner(self.dir.path(), self.backend.url(), &["run"])
    }

    /// Asks in parts, and between them kills the runner and spoils its calls.
    async fn disturb(&self, jobs: &[Job], dice: &mut Dice, tally: &mut Tally) -> anyhow::Result<()> {
        let lives = 2 + dice.below(4);
        let mut rest = jobs;
        for life in 0..lives {
            let mut child = self.run()?;
            let left = lives - life;
            let part = rest.len().div_ceil(usize::try_from(left)?);
            let (now, later) = rest.split_at(part.min(rest.len()));
            rest = later;
            for job in now {
                if dice.once_in(3) {
                    tokio::time::sleep(dice.between(0, 40)).await;
                }
                if dice.once_in(4) {
                    self.spoil(dice);
                    tally.network_faults += 1;
                }
                self.caller.ask(&job.id, job.tool(), &job.args(), &job.conversation.to_string()).await?;
                if dice.once_in(10) {
                    tokio::time::sleep(dice.between(0, 60)).await;
                    self.caller.cancel(&job.id).await?;
                }
            }
            tokio::time::sleep(dice.between(0, 250)).await;
            child.kill()?;
            child.wait()?;
            tally.kills += 1;
        }
        Ok(())
    }

    /// Something goes wrong on the wire.
    fn spoil(&self, dice: &mut Dice) {
        let functions = [
            "events:listForDevice",
            "events:appendResult",
            "events:claim",
            "events:listOpen",
            "devices:openSession",
            "devices:heartbeat",
        ];
        let function = functions[usize::try_from(dice.below(functions.len() as u64)).unwrap_or_default()];
        let fault = match dice.below(9) {
            0 => Fault::Unheard,
            1 | 2 => Fault::Drop,
            3 => Fault::Cut(usize::try_from(dice.below(200)).unwrap_or_default()),
            4 => Fault::Half,
            5 => Fault::Html,
            6 => Fault::Duplicate,
            7 => Fault::Rewind,
            _ => Fault::Status { status: 503, code: "Overloaded".into(), retry_after: None },
        };
        self.faults.plan(function, 1 + u32::try_from(dice.below(3)).unwrap_or_default(), fault);
    }

    /// The last life, undisturbed, until each request has a result.
    async fn let_run(&self, jobs: &[Job]) -> anyhow::Result<Vec<Option<Answer>>> {
        let mut child = self.run()?;
        let until = Instant::now() + CALM;
        let mut answers = vec![None; jobs.len()];
        while answers.iter().any(Option::is_none) && Instant::now() < until {
            for (job, answer) in jobs.iter().zip(&mut answers) {
                if answer.is_none() {
                    *answer = self.caller.result(&job.id).await?;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // Another life may have answered all of it, so that this one has only just begun.
        while !hears_of_a_stop(child.id()) && child.try_wait()?.is_none() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process id")?;
        kill_process(pid, Signal::TERM)?;
        let stopped = tokio::task::spawn_blocking(move || child.wait()).await??;
        if !stopped.success() {
            bail!("the runner did not stop well: {stopped}");
        }
        Ok(answers)
    }

    /// What should be nowhere.
    fn look_around(&self, tally: &mut Tally) -> anyhow::Result<()> {
        let journal = Reader::open(&self.dir.path().join("home/state/journal.sqlite3"))?;
        let counts = journal.counts()?;
        if counts.accepted + counts.started + counts.outbox > 0 {
            tally.violations.push(format!("the journal is not done: {counts:?}"));
        }
        if counts.undeliverable > 0 {
            tally.violations.push(format!("{} requests had a second result", counts.undeliverable));
        }
        for name in work::litter(&self.work())? {
            tally.violations.push(format!("{name} was left behind"));
        }
        Ok(())
    }
}

/// Whether a process has a handler for the signal that asks it to stop: before that, the signal simply ends it.
fn hears_of_a_stop(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    let caught = status.ok().and_then(|status| {
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        u64::from_str_radix(caught.trim(), 16).ok()
    });
    // Where the system does not tell, it is taken for granted.
    caught.is_none_or(|caught| caught >> (Signal::TERM.as_raw() - 1) & 1 == 1)
}

/// This program as the runner.
fn runner(dir: &Path, url: &str, args: &[&str]) -> anyhow::Result<Child> {
    let log = File::options().append(true).create(true).open(dir.join("logs/runner.log"))?;
    Ok(Command::new(std::env::current_exe()?)
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir.join("logs"))
        .env("PUNIE_HOME", dir.join("home"))
        .env("PUNIE_WORKSPACE", dir.join("work"))
        .env("PUNIE_BACKEND_URL", url)
        .env("PUNIE_LOG", "info")
        .env(AS_RUNNER, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()?)
}

/// Whether a request's result is there, is the only one, and tells the truth.
fn judge(job: &Job, answer: Option<&Answer>, work: &Path, tally: &mut Tally) -> anyhow::Result<()> {
    let made = job.effects(work)?;
    tally.effects += made.count as u64;
    let mut violation = |what: &str| {
        let said = answer.map(|answer| format!("{} {}: {}", answer.outcome, answer.code, answer.text));
        tally.violations.push(format!("{} ({}) {what}: {made:?}, {said:?}", job.id, job.tool()));
    };
    let Some(answer) = answer else {
        violation("was lost: no result");
        return Ok(());
    };
    if made.count > 1 {
        violation("was run twice");
    }
    if job.has_effect() {
        if answer.outcome == "ok" && (made.count != 1 || made.partial) {
            violation("is said to be done and is not");
        }
        if answer.outcome != "ok" && made.count > 0 && !answer.may_have_run && job.kind != work::Kind::Bash {
            violation("is said not to be done and is");
        }
    }
    tally.results += 1;
    tally.recovered += u64::from(answer.recovered);
    let code = if answer.code.is_empty() { String::new() } else { format!(" {}", answer.code) };
    *tally.outcomes.entry(format!("{}{code}", answer.outcome)).or_default() += 1;
    Ok(())
}
