//! One round: ask, disturb, let everything run, judge. Not here: what is asked (work).

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use punie_engine::journal::JournalReader;
use rustix::process::{Pid, Signal, kill_process};

use crate::AS_RUNNER;
use crate::caller::Answer;
use crate::dice::Dice;
use crate::site::Site;
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

/// How long the last run at a backend may take.
const CALM: Duration = Duration::from_secs(90);

struct Scene {
    dir: tempfile::TempDir,
    sites: Vec<Site>,
    device: String,
}

pub async fn play(seed: u64, requests: usize) -> anyhow::Result<Tally> {
    let mut dice = Dice::new(seed);
    let jobs: Vec<Job> = (0..requests)
        .map(|number| Job::new(seed, number, &mut dice))
        .collect();
    let mut scene = Scene::new(&jobs).await?;
    let mut tally = Tally {
        rounds: 1,
        requests: jobs.len() as u64,
        ..Tally::default()
    };

    scene.disturb(&jobs, &mut dice, &mut tally).await?;
    for site in &mut scene.sites {
        site.faults.clear();
        site.ensure_started().await?;
    }
    let mut answers = Vec::new();
    for backend in 0..scene.sites.len() {
        answers.extend(scene.finish_at(backend, &jobs).await?);
    }
    for (job, answer) in &answers {
        judge(job, answer.as_ref(), &scene.work(), &mut tally).with_context(|| job.id.clone())?;
    }
    scene.judge_other_backends(&jobs, &mut tally).await?;
    scene.look_around(&mut tally)?;
    let broken = !tally.violations.is_empty();
    if broken {
        let kept = scene.dir.path().display().to_string();
        tally
            .violations
            .iter_mut()
            .for_each(|what| *what = format!("seed {seed}: {what} ({kept})"));
        scene.dir.disable_cleanup(true);
    }
    for site in &mut scene.sites {
        site.stop().await;
    }
    Ok(tally)
}

impl Scene {
    async fn new(jobs: &[Job]) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        for name in ["home", "work", "logs"] {
            DirBuilder::new()
                .mode(0o700)
                .create(dir.path().join(name))?;
        }
        std::fs::write(dir.path().join("home/config.toml"), QUICK)?;
        work::prepare(&dir.path().join("work"), jobs)?;
        let mut scene = Self {
            dir,
            sites: Vec::new(),
            device: String::new(),
        };
        for number in 0..work::BACKENDS {
            let site =
                Site::start(&scene.dir.path().join(format!("backend-{number}.sqlite3"))).await?;
            scene.device = scene.pair(&site).await?;
            scene.sites.push(site);
        }
        Ok(scene)
    }

    /// Registers the device at a backend and returns its id.
    async fn pair(&self, site: &Site) -> anyhow::Result<String> {
        let pairing = runner(
            self.dir.path(),
            &site.url,
            &["--json", "pair", &site.pairing_code],
        )?;
        let pair = tokio::task::spawn_blocking(|| pairing.wait_with_output()).await??;
        let log =
            || std::fs::read_to_string(self.dir.path().join("logs/runner.log")).unwrap_or_default();
        ensure!(
            pair.status.success(),
            "the device could not be paired: {}",
            log()
        );
        let paired: serde_json::Value = serde_json::from_slice(&pair.stdout)?;
        Ok(paired["deviceId"]
            .as_str()
            .context("a device id")?
            .to_owned())
    }

    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn run_at(&self, backend: usize) -> anyhow::Result<Child> {
        runner(self.dir.path(), &self.sites[backend].url, &["run"])
    }

    /// Asks in parts. Between them it kills the runner, switches it to another backend, stops backends and spoils calls.
    async fn disturb(
        &mut self,
        jobs: &[Job],
        dice: &mut Dice,
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        let runs = 3 + dice.below(4);
        let (mut rest, mut last) = (jobs, 0);
        for run in 0..runs {
            let backend = dice.index(self.sites.len());
            tally.switches += u64::from(run > 0 && backend != last);
            last = backend;
            let mut child = self.run_at(backend)?;
            let part = rest.len().div_ceil(usize::try_from(runs - run)?);
            let (now, later) = rest.split_at(part.min(rest.len()));
            rest = later;
            for job in now {
                self.ask(job, dice, tally).await?;
            }
            tokio::time::sleep(dice.between(0, 250)).await;
            child.kill()?;
            child.wait()?;
            tally.kills += 1;
        }
        Ok(())
    }

    async fn ask(&mut self, job: &Job, dice: &mut Dice, tally: &mut Tally) -> anyhow::Result<()> {
        if dice.once_in(3) {
            tokio::time::sleep(dice.between(0, 40)).await;
        }
        if dice.once_in(6) {
            let stopped = dice.index(self.sites.len());
            tally.backend_stops += u64::from(self.sites[stopped].stop().await);
        }
        let site = &mut self.sites[job.backend];
        site.ensure_started().await?;
        if dice.once_in(4) {
            site.plan_fault(dice);
            tally.network_faults += 1;
        }
        site.caller.ask(&self.device, job).await?;
        if dice.once_in(10) {
            tokio::time::sleep(dice.between(0, 60)).await;
            site.caller.cancel(&job.id).await?;
        }
        Ok(())
    }

    /// The last run at a backend, undisturbed, until each of its requests has a result.
    async fn finish_at(
        &self,
        backend: usize,
        jobs: &[Job],
    ) -> anyhow::Result<Vec<(Job, Option<Answer>)>> {
        let mut child = self.run_at(backend)?;
        let until = Instant::now() + CALM;
        let own = jobs.iter().filter(|job| job.backend == backend);
        let mut answers: Vec<(Job, Option<Answer>)> = own.map(|job| (job.clone(), None)).collect();
        while answers.iter().any(|(_, answer)| answer.is_none()) && Instant::now() < until {
            for (job, answer) in &mut answers {
                if answer.is_none() {
                    *answer = self.sites[backend].caller.result(&job.id).await?;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // An earlier run may have answered all of it, so that this one has only just begun.
        while !handles_stop_signal(child.id())
            && child.try_wait()?.is_none()
            && Instant::now() < until
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let pid = i32::try_from(child.id())
            .ok()
            .and_then(Pid::from_raw)
            .context("a process id")?;
        kill_process(pid, Signal::TERM)?;
        let stopped = tokio::task::spawn_blocking(move || child.wait()).await??;
        if !stopped.success() {
            bail!("the runner did not stop well: {stopped}");
        }
        Ok(answers)
    }

    /// No backend may know a result of another one's request.
    async fn judge_other_backends(&self, jobs: &[Job], tally: &mut Tally) -> anyhow::Result<()> {
        for (number, site) in self.sites.iter().enumerate() {
            for job in jobs.iter().filter(|job| job.backend != number) {
                if site.caller.result(&job.id).await?.is_some() {
                    tally
                        .violations
                        .push(format!("{} has a result at backend {number}", job.id));
                }
            }
        }
        Ok(())
    }

    /// What should be nowhere.
    fn look_around(&self, tally: &mut Tally) -> anyhow::Result<()> {
        let journal =
            JournalReader::open_read_only(&self.dir.path().join("home/state/journal.sqlite3"))?;
        let counts = journal.count_open_requests()?;
        if counts.accepted + counts.started + counts.outbox > 0 {
            tally
                .violations
                .push(format!("the journal is not done: {counts:?}"));
        }
        if counts.undeliverable > 0 {
            tally.violations.push(format!(
                "{} requests had a second result",
                counts.undeliverable
            ));
        }
        for name in work::litter(&self.work())? {
            tally.violations.push(format!("{name} was left behind"));
        }
        Ok(())
    }
}

/// Whether a process has a handler for the signal that asks it to stop: before that, the signal simply ends it.
fn handles_stop_signal(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    let caught = status.ok().and_then(|status| {
        let caught = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:"))?;
        u64::from_str_radix(caught.trim(), 16).ok()
    });
    // Where the system does not tell, it is taken for granted.
    caught.is_none_or(|caught| caught >> (Signal::TERM.as_raw() - 1) & 1 == 1)
}

/// This program as the runner.
fn runner(dir: &Path, url: &str, args: &[&str]) -> anyhow::Result<Child> {
    let log = File::options()
        .append(true)
        .create(true)
        .open(dir.join("logs/runner.log"))?;
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
        let said =
            answer.map(|answer| format!("{} {}: {}", answer.outcome, answer.code, answer.text));
        tally.violations.push(format!(
            "{} ({}) {what}: {made:?}, {said:?}",
            job.id,
            job.tool()
        ));
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
        if answer.outcome != "ok"
            && made.count > 0
            && !answer.may_have_run
            && job.kind != work::Kind::Bash
        {
            violation("is said not to be done and is");
        }
    }
    tally.results += 1;
    tally.recovered += u64::from(answer.recovered);
    let code = if answer.code.is_empty() {
        String::new()
    } else {
        format!(" {}", answer.code)
    };
    *tally
        .outcomes
        .entry(format!("{}{code}", answer.outcome))
        .or_default() += 1;
    Ok(())
}
