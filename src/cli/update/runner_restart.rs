//! The restart of the service after the program was replaced, at a moment when no call runs.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::cli::context::{CliContext, command_runtime};
use crate::cli::pause::{RESTART_REASON, end_restart_pause};
use crate::cli::status::journal_facts::find_live_run;
use crate::cli::{console, service};
use crate::config::Config;
use crate::service::{ServiceAction, ServiceDefinition};
use punie_engine::journal::JournalReader;
use punie_engine::runner::Clock;
use punie_home::{Home, OwnerSwitch, OwnerSwitches, RunnerLock, SwitchState, command_to_type};

/// The interval in which running calls are counted.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The outcome for the runner of this home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub(super) enum RestartOutcome {
    /// None is up.
    NotRunning,
    /// The service was restarted.
    Restarted,
    /// A runner is up that is not the service.
    #[serde(rename_all = "camelCase")]
    Unmanaged {
        /// Its process id, if it could be read.
        pid: Option<u32>,
    },
    /// The service starts another program.
    OtherProgram {
        /// The file of the service.
        file: String,
    },
}

impl RestartOutcome {
    /// Describes the outcome for people, if there is something to say.
    pub fn describe(&self) -> Option<String> {
        match self {
            Self::NotRunning => None,
            Self::Restarted => Some("The service was restarted with it.".to_owned()),
            Self::Unmanaged { pid } => {
                let pid = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
                Some(format!(
                    "A runner is up{pid} that is not the service. It goes on with the program that it was started with \
                     until you restart it."
                ))
            }
            Self::OtherProgram { file } => Some(format!(
                "The service starts another program, so it was not restarted: {file}"
            )),
        }
    }
}

/// Restarts the service of this home if it runs this program; unless `now`, when no call runs.
pub(super) fn restart_runner(
    program: &Path,
    config: &Config,
    now: bool,
    context: &CliContext,
) -> anyhow::Result<RestartOutcome> {
    let Some(home) = Home::find(&config.home) else {
        return Ok(RestartOutcome::NotRunning);
    };
    let Some(holder) = RunnerLock::find_holder(&home)? else {
        return Ok(RestartOutcome::NotRunning);
    };
    let unmanaged = RestartOutcome::Unmanaged { pid: holder.pid };
    let Some(service) = service::find_installed(config, context)? else {
        return Ok(unmanaged);
    };
    if !service.read_state()?.is_running {
        return Ok(unmanaged);
    }
    let text = service.read_file()?.unwrap_or_default();
    if !text.contains(&*program.to_string_lossy()) {
        let file = service.file_path().display().to_string();
        return Ok(RestartOutcome::OtherProgram { file });
    }
    if now {
        service.run_action(ServiceAction::Restart)?;
    } else {
        command_runtime()?.block_on(restart_when_idle(&service, &home, context))?;
    }
    Ok(RestartOutcome::Restarted)
}

/// Waits until no call runs, keeps new ones from starting, and restarts.
async fn restart_when_idle(
    service: &ServiceDefinition,
    home: &Home,
    context: &CliContext,
) -> anyhow::Result<()> {
    let mut is_told = false;
    loop {
        if count_running(home)? == 0 {
            let pause = BriefPause::begin(home)?;
            // A call may have begun just before.
            tokio::time::sleep(CHECK_INTERVAL).await;
            if count_running(home)? == 0 {
                let restarted = service.run_action(ServiceAction::Restart);
                pause.end()?;
                restarted?;
                return Ok(());
            }
            pause.end()?;
        }
        if !is_told && !context.is_json() {
            is_told = true;
            console::print_line(&format!(
                "A call runs. The service is restarted when it has ended; `{}` shows it. If you press Ctrl-C, the new \
                 program is used from the next start on.",
                command_to_type("status")
            ));
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

fn count_running(home: &Home) -> anyhow::Result<u32> {
    let Some(reader) = JournalReader::find(&home.journal_file())? else {
        return Ok(0);
    };
    let run = find_live_run(home, &reader)?;
    Ok(reader.for_last_backend()?.count_beside_runner(run)?.started)
}

/// The owner's switch, turned on for the moment of the restart unless it is on already.
struct BriefPause {
    switches: OwnerSwitches,
}

impl BriefPause {
    fn begin(home: &Home) -> anyhow::Result<Self> {
        let switches = OwnerSwitches::in_home(home);
        let state = SwitchState {
            since_ms: Clock::system().now_ms(),
            reason: Some(RESTART_REASON.to_owned()),
        };
        switches.switch_on(OwnerSwitch::Paused, &state)?;
        Ok(Self { switches })
    }

    fn end(self) -> anyhow::Result<()> {
        end_restart_pause(&self.switches)?;
        Ok(())
    }
}
