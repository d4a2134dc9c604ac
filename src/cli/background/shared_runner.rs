//! The one runner of a home that its clients share: the one that runs, else the service, else one in the background.

use std::process::Stdio;
use std::time::Duration;

use semver::Version;
use tokio::time::{Instant, sleep, timeout_at};

use super::StartReport;
use crate::cli::context::CliContext;
use crate::cli::service;
use crate::cli::wiring::SettingsInForce;
use crate::service::{ServiceAction, ServiceDefinition};
use punie_home::{
    BackgroundRunner, Home, RunnerLock, RunnerLockHolder, RunnerStartLock, SuccessorProgram,
    command_to_type,
};
use punie_host::local::running_program::running_program;

/// The interval of looks while another process starts the runner.
const CHECK_INTERVAL: Duration = Duration::from_millis(25);

/// Returns the runner of this home, which is started if none runs. Of several clients that need it at once, one starts it.
///
/// # Errors
/// It does not start, or not within this time.
pub async fn ensure_runner(
    context: &CliContext,
    home: &Home,
    limit: Duration,
) -> anyhow::Result<RunnerLockHolder> {
    let until = Instant::now() + limit;
    let late = || describe_delay(home, limit);
    let _starting = loop {
        if let Some(lock) = RunnerStartLock::try_acquire(home)? {
            break lock;
        }
        anyhow::ensure!(Instant::now() < until, late());
        sleep(CHECK_INTERVAL).await;
    };
    let mut was_started = false;
    loop {
        match RunnerLock::find_holder(home)? {
            Some(holder) if SettingsInForce::read_for(holder, home).is_some() => {
                ask_older_to_finish(home, holder);
                return Ok(holder);
            }
            None if !was_started => {
                let started = timeout_at(until, start_runner(context)).await;
                was_started = true;
                if let Err(error) = started.map_err(|_elapsed| late())?
                    && RunnerLock::find_holder(home)?.is_none()
                {
                    return Err(error);
                }
            }
            _ => {
                anyhow::ensure!(Instant::now() < until, late());
                sleep(CHECK_INTERVAL).await;
            }
        }
    }
}

/// Says that the runner is not up in time, and which process is in the way.
fn describe_delay(home: &Home, limit: Duration) -> anyhow::Error {
    let holder = RunnerLock::find_holder(home).ok().flatten();
    let process = holder.and_then(|holder| holder.pid);
    let process = process.map_or_else(String::new, |pid| format!(" (process {pid})"));
    anyhow::anyhow!(
        "the runner{process} is not up after {} s. If an editor has started it, open a session there. `{}` may show why",
        limit.as_secs(),
        command_to_type("logs")
    )
}

async fn start_runner(context: &CliContext) -> anyhow::Result<()> {
    let config = context.config_despite_faults()?;
    let service = service::find_installed(&config, context)?;
    // Without a session of the service manager, the service cannot be started from here.
    if let Some(service) = service.filter(|service| service.check_manager().is_ok()) {
        return start_service(service).await;
    }
    let output = tokio::process::Command::new(running_program()?)
        .args(CliContext::home_arguments(&config))
        .arg("background")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .await?;
    match serde_json::from_slice(&output.stdout) {
        Ok(StartReport::Ready) => Ok(()),
        Ok(StartReport::Failed(why)) => Err(anyhow::anyhow!("the runner does not start: {why}")),
        Err(_) => Err(anyhow::anyhow!(
            "the runner does not start. `{}` may show why",
            command_to_type("logs")
        )),
    }
}

async fn start_service(service: ServiceDefinition) -> anyhow::Result<()> {
    let started = tokio::task::spawn_blocking(move || service.run_action(ServiceAction::Start));
    match started.await? {
        Ok(_) => Ok(()),
        Err(error) => Err(anyhow::Error::new(error).context(format!(
            "the service does not start. `{}` may show why",
            command_to_type("service logs")
        ))),
    }
}

/// Asks an older runner in the background to finish, so that the next one is of this program.
fn ask_older_to_finish(home: &Home, holder: RunnerLockHolder) {
    let asked = || -> anyhow::Result<()> {
        let Some(runner) = BackgroundRunner::find(home, holder) else {
            return Ok(());
        };
        let own = env!("CARGO_PKG_VERSION");
        let program = std::env::current_exe()?;
        // A program whose file was replaced is not started again.
        if Version::parse(&runner.version)? < Version::parse(own)? && program.is_file() {
            let version = own.to_owned();
            SuccessorProgram { version, program }.ask(home)?;
        }
        Ok(())
    };
    if let Err(error) = asked() {
        tracing::warn!(%error, "the runner stays that of another version");
    }
}
