//! Assembles a runner with its host, and ends its processes.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::backends::{self, BackendSource, device_backend};
use super::background_commands::HostCommands;
#[cfg(feature = "bridges")]
use super::bridges;
use super::confinement_setup::remove_copied_caches;
#[cfg(target_os = "linux")]
use super::confinement_setup::remove_copied_settings;
use super::host::{ToolHost, assemble_host};
use super::in_force::describe_confinement;
use super::live_config::{LiveConfig, LiveParts};
use super::live_gate::LiveGate;
use super::permission_rules::parse_caller_rights;
use super::sleep_inhibitor::system_sleep_inhibitor;
use super::task_board::RunnerTaskBoard;
use super::{adapters, home_catalog, journal_losses, settings, shell_records};
#[cfg(feature = "bridges")]
use crate::bridges::{BridgeSupervisor, stop_sequence};
use crate::config::{Config, ProcessEnvironment};
use punie_core::clock::ExpiryClock;
use punie_core::ids::LeaseId;
use punie_editor::AttachedEditors;
use punie_engine::journal::Journal;
use punie_engine::runner::{
    CallTitles, CatalogSource, Clock, Runner, RunnerParts, RunnerSettings, ShutdownSignal,
    TaskRequests, ToolThreads, Watchdog, wake_channel,
};
use punie_handlers::plugin::PluginHost;
use punie_home::{
    self, ApprovalQuestions, CanaryFile, DeviceIdentity, Home, InForceFile, OwnerSwitches,
    SecretStore, SupervisionStore, command_to_type,
};
use punie_host::local::local_terminals::LocalTerminals;
use punie_host::local::script_file::ScriptFile;
use punie_host::permission::CallerLimits;
use punie_host::terminals::StopSequence;
use punie_text::output::CallRecordStore;
use punie_text::redact::Redactor;
use punie_tool::ToolRegistry;
use punie_undo::{BeforeImageStore, Trash};

/// An assembled runner with its host.
pub struct AssembledRunner {
    pub runner: Runner,
    /// The processes, to be ended after the runner.
    pub processes: RunnerProcesses,
    pub registry: Arc<ToolRegistry>,
    /// The journal, which survives a crash.
    pub journal: Journal,
}

/// The processes of a runner, and their housekeeping.
pub struct RunnerProcesses {
    terminals: LocalTerminals,
    trash: Trash,
    expiry: ExpiryClock,
    before_images: BeforeImageStore,
    journal: Journal,
    secrets: SecretStore,
    redactor: Redactor,
    live: LiveConfig,
    catalog: Arc<dyn CatalogSource>,
    plugins: PluginHost,
    #[cfg(feature = "bridges")]
    bridges: BridgeSupervisor,
}

impl RunnerProcesses {
    fn from_host(
        host: &ToolHost,
        home: &Home,
        journal: &Journal,
        live: &LiveConfig,
        catalog: &Arc<dyn CatalogSource>,
        expiry: &ExpiryClock,
    ) -> Self {
        Self {
            trash: host.base.trash.clone(),
            expiry: expiry.clone(),
            before_images: host.base.before_images.clone(),
            terminals: host.base.terminals.clone(),
            journal: journal.clone(),
            secrets: SecretStore::in_home(home),
            redactor: host.base.redactor.clone(),
            live: live.clone(),
            catalog: Arc::clone(catalog),
            plugins: host.plugins.clone(),
            #[cfg(feature = "bridges")]
            bridges: bridges::bridge_supervisor(&host.base, home),
        }
    }

    /// Starts background work: reads the login shell's environment, so that the first command need not wait for a slow
    /// profile; keeps the trash within its limits; masks newly stored secrets; loads changed plugins; keeps bridges running.
    /// Dropping the returned value stops this.
    pub fn start_background_work(&self) -> JoinSet<()> {
        let terminals = self.terminals.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { terminals.warm_up().await });
        let images = self.before_images.clone();
        tasks.spawn_blocking(move || images.prepare_snapshots());
        let trash = self.trash.clone();
        tasks.spawn(adapters::remove_expired_hourly(
            trash,
            self.terminals.clone(),
            self.expiry.clone(),
        ));
        tasks.spawn(remove_copied_caches(self.live.home().clone()));
        #[cfg(target_os = "linux")]
        tasks.spawn(remove_copied_settings(self.live.home().clone()));
        tasks.spawn(self.live.clone().keep_published());
        let changes = self.catalog.subscribe_catalog();
        tasks.spawn(self.plugins.clone().follow_changes(changes));
        #[cfg(feature = "bridges")]
        tasks.spawn(self.bridges.clone().follow_state());
        tasks.spawn(adapters::mask_new_secrets(
            self.secrets.clone(),
            self.redactor.clone(),
        ));
        tasks
    }

    /// Waits for the self-test and describes the confinement of commands in words.
    pub async fn describe_commands(&self) -> String {
        let confinement = self.live.prove_confinement().await;
        if !confinement.can_execute {
            return format!("refused: `{}` says why", command_to_type("status -v"));
        }
        describe_confinement(&confinement.level, &confinement.network)
    }

    /// Returns the longest wait of a stop for running calls.
    pub fn stop_grace(&self) -> Duration {
        self.live.current().limits.drain
    }

    /// Awaits the runner, and ends the processes as soon as no call is awaited, during its last deliveries.
    pub async fn serve<T>(&self, stop: &ShutdownSignal, runner: impl Future<Output = T>) -> T {
        let running = async {
            let ended = runner.await;
            // A runner that failed at its start drained nothing.
            stop.mark_calls_over();
            ended
        };
        let ending = async {
            stop.wait_for_calls_over().await;
            self.end_processes(stop).await;
        };
        tokio::join!(running, ending).0
    }

    /// Ends all processes, including background shells unless the owner keeps them. Each gets two seconds to end by
    /// itself, or none if the stop is hurried. No call is awaited by now.
    async fn end_processes(&self, stop: &ShutdownSignal) {
        let now_ms = Clock::system().now_ms();
        // Background shells go on when the runner is told to stop.
        let keeps_shells = self.live.current().limits.keep_shells;
        if let Err(error) = self
            .journal
            .record_shells_stopping(now_ms, keeps_shells)
            .await
        {
            tracing::warn!(%error, "the next life will not know that the shells ended with this one");
        }
        if keeps_shells {
            let terminals = self.terminals.clone();
            let left = tokio::task::spawn_blocking(move || terminals.leave_all_running())
                .await
                .unwrap_or(0);
            tracing::info!(
                shells = left,
                "shells in the background go on; the next start takes them up again"
            );
        }
        let hurried = stop.is_hurried().then(StopSequence::kill_at_once);
        // First: the end of all commands leaves a bridge less time.
        #[cfg(feature = "bridges")]
        self.bridges
            .stop_all(&hurried.clone().unwrap_or_else(stop_sequence))
            .await;
        let sequence = hurried.unwrap_or_else(StopSequence::for_timeout);
        self.terminals.stop_all_commands(sequence).await;
        self.journal.checkpoint_wal().await;
    }
}

/// Assembles a runner and its host.
pub fn assemble_runner(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
    source: BackendSource,
    pairing_code: Option<String>,
    editors: &AttachedEditors,
    tool_threads: &ToolThreads,
) -> anyhow::Result<AssembledRunner> {
    // Created before the host, so that its key is masked.
    let identity = DeviceIdentity::load_or_create(home)?;
    let request_auth = backends::configured_request_auth(config, identity.device_id())?;
    remove_left_files(home)?;
    let watchdog =
        Watchdog::from_variables(|name| environment.get(name)?.to_str().map(str::to_owned));
    let journal = open_journal(config, home, source, watchdog.as_ref())?;
    let supervision = SupervisionStore::in_home(home);
    editors.set_supervision(supervision.clone(), settings::editor_settings(config).ask);
    let (clock, lease, wakes) = (Clock::system(), LeaseId::random(), wake_channel());
    let tasks = TaskRequests::new(
        journal.clone(),
        lease.clone(),
        wakes.0.clone(),
        clock.clone(),
    );
    let board = Arc::new(RunnerTaskBoard::new(tasks));
    let expiry = open_expiry_clock(&journal, source, &clock)?;
    let host = assemble_host(
        config,
        home,
        environment,
        board.clone(),
        Some(&journal),
        &expiry,
        editors,
    )?;
    let (titles, call_records) = history_content(config, home, &host);
    board.attach_host(&host, titles.clone());
    let base = &host.base;
    let adopted = shell_records::adopt_shells(&journal, home, base)?;
    let backend = device_backend(config, home, identity.clone(), &base.redactor, pairing_code)?;
    let settings = settings::runner_settings(config);
    let live = start_live_config(config, home, environment, &host, &settings)?;
    let background_commands = Arc::new(HostCommands::from_host(base));
    let catalog = home_catalog::home_catalog(home, host.plugins.clone());
    let processes = RunnerProcesses::from_host(&host, home, &journal, &live, &catalog, &expiry);
    let parts = RunnerParts {
        backend,
        journal: journal.clone(),
        audit: adapters::open_audit(config, home, identity, &expiry)?,
        request_auth,
        registry: Arc::clone(&host.registry),
        titles,
        call_records,
        finished_calls: None,
        gate: Arc::new(LiveGate {
            live,
            sessions: host.sessions,
            gate: host.gate,
        }),
        redactor: host.base.redactor,
        outputs: host.base.outputs,
        lease,
        survivors: Arc::new(adapters::CrashCleanup::new(
            adopted,
            &host.base.reachable,
            host.base.git,
        )),
        background_commands,
        canary_file: CanaryFile::in_home(home),
        catalog,
        settings,
        sleep_inhibitor: system_sleep_inhibitor(),
        clock,
        expiry,
        confinement: Arc::new(host.base.confinement),
        switches: OwnerSwitches::in_home(home),
        approvals: ApprovalQuestions::in_home(home),
        people: host.base.people.runner,
        supervision,
        watchdog,
        observer: Arc::new(editors.clone()),
        tool_threads: tool_threads.clone(),
    };
    Ok(AssembledRunner {
        runner: Runner::new(parts, wakes),
        processes,
        registry: host.registry,
        journal,
    })
}

/// Opens the journal, which another process may keep locked for a while, and tells the owner of its losses.
fn open_journal(
    config: &Config,
    home: &Home,
    source: BackendSource,
    watchdog: Option<&Watchdog>,
) -> anyhow::Result<Journal> {
    let backend = backends::backend_identity(config, home, source)?;
    let file = home.journal_file();
    if let Some(watchdog) = watchdog {
        watchdog.announce_status(&format!("opening {}", file.display()));
    }
    let journal = Journal::open_for_backend(&file, &backend)?;
    journal_losses::tell_owner(home, &journal)?;
    Ok(journal)
}

/// Opens the clock by which old things are deleted. A backend in this process knows no other clock than this machine's, so
/// that only the time counts that an earlier process stored.
fn open_expiry_clock(
    journal: &Journal,
    source: BackendSource,
    clock: &Clock,
) -> anyhow::Result<ExpiryClock> {
    let known_ms = journal.open_reader()?.last_backend_time_ms()?;
    let expiry = ExpiryClock::from_known_time(clock.clone(), known_ms);
    Ok(match source {
        BackendSource::Configured => expiry,
        BackendSource::Embedded => expiry.without_backend(),
    })
}

/// Takes over the configuration for changes while the runner runs, and publishes it.
fn start_live_config(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
    host: &ToolHost,
    settings: &RunnerSettings,
) -> anyhow::Result<LiveConfig> {
    let callers = CallerLimits::in_workspace(host.base.workspace.clone());
    callers.set_rights(parse_caller_rights(config, &host.registry)?);
    let parts = LiveParts {
        home: home.clone(),
        environment: environment.clone(),
        confinement: host.base.confinement.clone(),
        gate: Arc::clone(&host.gate),
        callers: Arc::new(callers),
        registry: Arc::clone(&host.registry),
        calls: settings.calls.clone(),
        trash: host.base.trash.clone(),
        plugins: host.plugins.clone(),
        #[cfg(feature = "signals")]
        signal_settings: host.base.signals.settings.clone(),
        workspace: host.base.workspace.clone(),
    };
    Ok(LiveConfig::new(config, parts))
}

/// Returns the maker of titles and the store of arguments and outputs, unless the owner wants none kept.
fn history_content(
    config: &Config,
    home: &Home,
    host: &ToolHost,
) -> (Option<CallTitles>, Option<CallRecordStore>) {
    if !config.journal.keep_titles {
        return (None, None);
    }
    let titles = CallTitles::new(
        Arc::clone(&host.registry),
        host.base.redactor.clone(),
        config.workspaces.clone(),
    );
    let records = CallRecordStore::in_folder(home.call_records_dir());
    (Some(titles), Some(records))
}

/// Removes the secrets that an earlier process gave to commands, and the stop orders that it was given.
fn remove_left_files(home: &Home) -> anyhow::Result<()> {
    OwnerSwitches::in_home(home).remove_stop_orders();
    InForceFile::in_home(home).remove_text()?;
    if let Err(error) = ScriptFile::remove_left(&home.scripts_dir()) {
        tracing::warn!(%error, "scripts of an earlier life are left");
    }
    let left = punie_home::remove_stale_mounts(home)?;
    if left > 0 {
        tracing::info!(
            folders = left,
            "secrets that commands of an earlier life were given are removed"
        );
    }
    Ok(())
}
