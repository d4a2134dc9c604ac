//! The facts that several checks share, collected once: the configuration, the home, the running runner, its journal,
//! the backend and the confinement. Nothing is created or changed, but for the self-test's own folder while it runs.

use std::time::Duration;

use crate::cli::context::{CliContext, command_runtime};
use crate::cli::exit::describe_error;
use crate::cli::status::journal_facts::JournalFacts;
use crate::cli::status::runner_status::BackendStatus;
use crate::cli::status::status_facts;
use crate::cli::wiring::{self, BackendProbe, ConfinementInForce, ProbeFailure, SettingsInForce};
use crate::config::{Config, ConfigError, ProcessEnvironment};
use punie_engine::runner::Clock;
use punie_home::{Home, LayoutFaults, RunnerLock, RunnerLockHolder};

/// The time limit for each check over the network. They run together.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(5);

/// A fact, or the text of the error that kept it from being collected.
pub(super) type Fact<T> = Result<T, String>;

/// All shared facts.
pub(super) struct DoctorFacts {
    pub environment: ProcessEnvironment,
    /// The configuration; without its file where that is wrong.
    pub config: Config,
    pub config_fault: Option<ConfigError>,
    /// The home, if its folder exists.
    pub home: Option<Home>,
    pub layout: LayoutFaults,
    pub holder: Fact<Option<RunnerLockHolder>>,
    /// The settings of the running runner.
    pub in_force: Option<SettingsInForce>,
    pub journal: Fact<JournalFacts>,
    pub probe: BackendProbe,
    /// The proxy's host and port, and the answer to a connection.
    pub proxy: Fact<Option<(String, u16)>>,
    pub proxy_answer: Option<Result<(), ProbeFailure>>,
    pub backend: Fact<BackendStatus>,
    pub confinement: Fact<ConfinementInForce>,
    pub now_ms: i64,
}

impl DoctorFacts {
    /// Collects the facts.
    ///
    /// # Errors
    /// [`ConfigError`] if a flag or a variable is wrong.
    pub fn collect(context: &CliContext) -> Result<Self, ConfigError> {
        let (mut config, config_fault) = context.config_with_fault()?;
        let home = Home::find(&config.home);
        let layout = home.as_ref().map(Home::check_layout).unwrap_or_default();
        let holder = match &home {
            Some(home) => RunnerLock::find_holder(home).map_err(|error| error.to_string()),
            None => Ok(None),
        };
        let runner = holder.as_ref().ok().copied().flatten();
        let in_force = home
            .as_ref()
            .zip(runner)
            .and_then(|(home, runner)| SettingsInForce::read_for(runner, home));
        if let Some(in_force) = &in_force {
            in_force.apply_backend(&mut config);
        } else if let (Some(home), None) = (&home, &config.backend.url) {
            // Without its address there is no backend to check; the check of the folder names the error.
            let _ = status_facts::use_embedded_backend(&mut config, home);
        }
        let is_running = runner.is_some();
        let journal = match &home {
            Some(home) => JournalFacts::read_current(&config, home, is_running, in_force.as_ref())
                .map_err(|error| describe_error(&error)),
            None => Ok(JournalFacts::default()),
        };
        let proxy = wiring::proxy_of_backend(&config).map_err(|error| error.to_string());
        let (probe, proxy_answer) = probe_network(&config, proxy.clone().ok().flatten());
        let backend = collect_backend(&config, home.as_ref(), &journal, is_running, &probe);
        let confinement = collect_confinement(
            context,
            &config,
            (home.as_ref(), &layout),
            in_force.as_ref(),
        );
        Ok(Self {
            environment: context.environment().clone(),
            config,
            config_fault,
            home,
            layout,
            holder,
            in_force,
            journal,
            probe,
            proxy,
            proxy_answer,
            backend,
            confinement,
            now_ms: Clock::system().now_ms(),
        })
    }

    /// Returns the running runner.
    pub fn runner(&self) -> Option<RunnerLockHolder> {
        self.holder.as_ref().ok().copied().flatten()
    }

    /// Returns a setting of the running runner, else of the configuration, as a file would have it.
    pub fn setting_value(&self, key: &str) -> Option<String> {
        if let Some(in_force) = &self.in_force {
            return in_force.setting_value(key).map(str::to_owned);
        }
        let mut settings = self.config.all_settings().iter();
        settings
            .find(|setting| setting.key == key)
            .map(|setting| setting.value.clone())
    }
}

/// Returns the home of the configuration, if it exists.
pub(super) fn find_configured_home(context: &CliContext) -> Option<Home> {
    let (config, _) = context.config_with_fault().ok()?;
    Home::find(&config.home)
}

/// Probes the backend and its proxy at the same time.
fn probe_network(
    config: &Config,
    proxy: Option<(String, u16)>,
) -> (BackendProbe, Option<Result<(), ProbeFailure>>) {
    let runtime = match command_runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            let answer = Err(ProbeFailure::Unusable(describe_error(&error)));
            let clock_offset_ms = None;
            return (
                BackendProbe {
                    answer,
                    clock_offset_ms,
                },
                None,
            );
        }
    };
    let probes = async {
        let proxied = async { Some(wiring::connect_once(proxy?, NETWORK_TIMEOUT).await) };
        tokio::join!(wiring::probe_configured(config, NETWORK_TIMEOUT), proxied)
    };
    let answers = runtime.block_on(probes);
    // The system's resolver of names may hang for longer than the time limit.
    runtime.shutdown_background();
    answers
}

fn collect_backend(
    config: &Config,
    home: Option<&Home>,
    journal: &Fact<JournalFacts>,
    is_running: bool,
    probe: &BackendProbe,
) -> Fact<BackendStatus> {
    let home = home.ok_or("there is no home")?;
    let none = JournalFacts::default();
    let journal = journal.as_ref().unwrap_or(&none);
    status_facts::collect_backend(config, home, journal, is_running, probe)
        .map_err(|error| describe_error(&error))
}

fn collect_confinement(
    context: &CliContext,
    config: &Config,
    (home, layout): (Option<&Home>, &LayoutFaults),
    in_force: Option<&SettingsInForce>,
) -> Fact<ConfinementInForce> {
    if let Some(published) = status_facts::published_confinement(in_force) {
        return Ok(published.clone());
    }
    let home = home.filter(|_| layout.unusable.is_empty());
    let home = home.ok_or("the home cannot be used")?;
    if !layout.missing.is_empty() {
        // The self-test would create them, with modes of its own.
        return Err("folders of the home are missing".to_owned());
    }
    status_facts::measure_confinement(context, config, home).map_err(|error| describe_error(&error))
}
