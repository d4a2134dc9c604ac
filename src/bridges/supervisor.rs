//! Keeps the bridges running that the owner wants: follows the state file, starts each again after its end, and ends it
//! when it is not wanted any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::bridge_copy::BridgeCopy;
use super::restart_backoff::RestartBackoff;
use super::{complete_changes, end_leftover};
use punie_core::ids::RequestId;
use punie_home::{
    BridgeLock, BridgeRecord, BridgeRun, BridgeStore, BridgesState, SecretStore, WantedState,
};
use punie_host::local::local_terminals::LocalTerminals;
use punie_host::terminals::{StopSequence, StopSignal};
use punie_text::redact::Redactor;

/// The time that a bridge has to end by itself.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// The wait for the lock of a bridge, which a command holds for a moment.
const LOCK_RETRY: Duration = Duration::from_millis(50);
/// The wait between two looks at the state where the system reports no changes.
const UNWATCHED_INTERVAL: Duration = Duration::from_secs(2);
/// The times that the end of processes is tried that do not end.
const MAX_STOPS: usize = 3;

/// The signals by which a bridge is ended.
pub fn stop_sequence() -> StopSequence {
    StopSequence::for_signal(StopSignal::Terminate, STOP_GRACE)
}

/// What bridges are started with.
#[derive(Clone)]
pub struct BridgeDeps {
    /// Starts their processes.
    pub terminals: LocalTerminals,
    /// Their files and state.
    pub store: BridgeStore,
    /// Their secrets.
    pub secrets: SecretStore,
    /// Masks these in their logs.
    pub redactor: Redactor,
    /// Returns the time, in milliseconds since 1970.
    pub now_ms: fn() -> i64,
}

/// Supervises all bridges. Clones share them.
#[derive(Clone)]
pub struct BridgeSupervisor {
    deps: BridgeDeps,
    supervised: Arc<tokio::sync::Mutex<Supervised>>,
    /// The error that was logged last, so that it is logged once.
    logged: Arc<Mutex<Option<String>>>,
}

#[derive(Default)]
struct Supervised {
    bridges: BTreeMap<String, SupervisedBridge>,
    is_closed: bool,
}

/// One bridge that is kept running. Dropping it ends its processes.
struct SupervisedBridge {
    record: BridgeRecord,
    stop: watch::Sender<Option<StopSequence>>,
    task: JoinSet<()>,
}

impl SupervisedBridge {
    async fn join(mut self) {
        while self.task.join_next().await.is_some() {}
    }
}

impl BridgeSupervisor {
    /// Supervises nothing yet.
    pub fn new(deps: BridgeDeps) -> Self {
        Self {
            deps,
            supervised: Arc::default(),
            logged: Arc::default(),
        }
    }

    /// Starts and ends bridges as the state file says, now and after each change of it.
    pub async fn follow_state(self) {
        let mut watched = self.deps.store.watch_state();
        loop {
            if let Err(error) = self.apply_state().await {
                let is_new = self.logged.lock().replace(error.clone()).as_ref() != Some(&error);
                if is_new {
                    tracing::warn!(error, "the bridges cannot be looked after");
                }
            }
            let Some(watch) = &mut watched else {
                tokio::time::sleep(UNWATCHED_INTERVAL).await;
                continue;
            };
            if watch.changes.changed().await.is_err() {
                watched = None;
            }
        }
    }

    /// Ends all bridges, and starts none any more.
    pub async fn stop_all(&self, sequence: &StopSequence) {
        let bridges = {
            let mut supervised = self.supervised.lock().await;
            supervised.is_closed = true;
            std::mem::take(&mut supervised.bridges)
        };
        stop_bridges(bridges, sequence).await;
    }

    async fn apply_state(&self) -> Result<(), String> {
        let mut supervised = self.supervised.lock().await;
        if supervised.is_closed {
            return Ok(());
        }
        let state = self.read_state().await?;
        // One that is wanted to start anew, or was deployed anew, ends first.
        let is_wanted = |(name, bridge): &(String, SupervisedBridge)| {
            bridge.record.wanted == WantedState::Started
                && state.bridges.get(name) == Some(&bridge.record)
                && !state.pending.contains_key(name)
        };
        let (kept, ended) = std::mem::take(&mut supervised.bridges)
            .into_iter()
            .partition(is_wanted);
        supervised.bridges = kept;
        stop_bridges(ended, &stop_sequence()).await;
        let store = self.deps.store.clone();
        let completing = tokio::task::spawn_blocking(move || complete_changes(&store));
        let completed = completing.await.map_err(|error| error.to_string())?;
        completed.map_err(|error| error.to_string())?;
        let state = self.read_state().await?;
        for (name, record) in state.bridges {
            let is_running = supervised.bridges.contains_key(&name);
            // One whose change is not complete starts when the file says that it is.
            let is_ready =
                record.wanted == WantedState::Started && !state.pending.contains_key(&name);
            if is_ready && !is_running {
                let (stop, stopped) = watch::channel(None);
                let mut task = JoinSet::new();
                let deps = self.deps.clone();
                let kept = record.clone();
                task.spawn(keep_running(deps, name.clone(), kept, stopped));
                let bridge = SupervisedBridge { record, stop, task };
                supervised.bridges.insert(name, bridge);
            }
        }
        Ok(())
    }

    async fn read_state(&self) -> Result<BridgesState, String> {
        let store = self.deps.store.clone();
        let reading = tokio::task::spawn_blocking(move || store.read_state());
        let read = reading.await.map_err(|error| error.to_string())?;
        read.map_err(|error| error.to_string())
    }
}

/// Ends these bridges side by side, and waits until they are gone.
async fn stop_bridges(bridges: BTreeMap<String, SupervisedBridge>, sequence: &StopSequence) {
    for bridge in bridges.values() {
        bridge.stop.send_replace(Some(sequence.clone()));
    }
    for bridge in bridges.into_values() {
        bridge.join().await;
    }
}

/// Waits until the bridge is to be ended, and says how.
async fn wait_for_stop(stop: &mut watch::Receiver<Option<StopSequence>>) -> StopSequence {
    let asked = stop.wait_for(Option::is_some).await;
    let sequence = asked.ok().and_then(|sequence| sequence.clone());
    sequence.unwrap_or_else(StopSequence::kill_at_once)
}

/// Keeps a bridge running until it is told to end.
async fn keep_running(
    deps: BridgeDeps,
    name: String,
    record: BridgeRecord,
    mut stop: watch::Receiver<Option<StopSequence>>,
) {
    let mut keeper = BridgeKeeper {
        deps,
        name,
        run: BridgeRun {
            wanted_at_ms: record.wanted_at_ms,
            ..BridgeRun::default()
        },
        record,
        backoff: RestartBackoff::default(),
    };
    // Held until all its processes have ended.
    let lock = tokio::select! {
        lock = keeper.take_lock() => lock,
        _ = wait_for_stop(&mut stop) => return,
    };
    let mut is_prepared = false;
    loop {
        let began = Instant::now();
        if !is_prepared {
            is_prepared = keeper.prepare(&lock).await;
        }
        if is_prepared && keeper.run_copy(&mut stop).await == CopyEnd::Stopped {
            return;
        }
        let wait = keeper.backoff.record_end(began.elapsed());
        keeper.run.ends_in_row = keeper.backoff.ends_in_row();
        keeper.store_run().await;
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = wait_for_stop(&mut stop) => return,
        }
        keeper.run.restarts = keeper.run.restarts.saturating_add(1);
    }
}

/// The reason why a copy does not run any more.
#[derive(Debug, PartialEq, Eq)]
enum CopyEnd {
    /// It was told to.
    Stopped,
    /// It ended by itself, or was not started.
    Ended,
}

/// Keeps one bridge running.
struct BridgeKeeper {
    deps: BridgeDeps,
    name: String,
    record: BridgeRecord,
    run: BridgeRun,
    backoff: RestartBackoff,
}

impl BridgeKeeper {
    async fn take_lock(&mut self) -> Arc<BridgeLock> {
        loop {
            match self.deps.store.try_lock(&self.name) {
                Ok(Some(lock)) => return Arc::new(lock),
                Ok(None) => tokio::time::sleep(LOCK_RETRY).await,
                Err(error) => {
                    self.record_problem(error.to_string()).await;
                    tokio::time::sleep(UNWATCHED_INTERVAL).await;
                }
            }
        }
    }

    /// Ends what an earlier run left, and checks the code. Returns whether the bridge can be started.
    async fn prepare(&mut self, lock: &Arc<BridgeLock>) -> bool {
        let store = self.deps.store.clone();
        let name = self.name.clone();
        let record = self.record.clone();
        let lock = Arc::clone(lock);
        let preparing = tokio::task::spawn_blocking(move || {
            let ended = end_leftover(&store, &name, &lock).map_err(|error| error.to_string());
            let checked = ended.and_then(|()| store.check_code(&name, &record));
            let earlier = store.read_runs().map(|mut runs| runs.remove(&name));
            (checked, earlier.ok().flatten().unwrap_or_default())
        });
        let (checked, earlier) = match preparing.await {
            Ok(prepared) => prepared,
            Err(error) => (Err(error.to_string()), BridgeRun::default()),
        };
        // Of processes that do not end, the next try must know too.
        self.run.request = earlier.request;
        (self.run.last_exit, self.run.last_exit_ms) = (earlier.last_exit, earlier.last_exit_ms);
        if let Err(problem) = checked {
            self.record_problem(problem).await;
            return false;
        }
        true
    }

    /// Starts a copy and waits for its end.
    async fn run_copy(&mut self, stop: &mut watch::Receiver<Option<StopSequence>>) -> CopyEnd {
        let request = RequestId::new();
        self.run.request = Some(request.clone());
        // What could not be found again after a crash is not started.
        if !self.store_run().await {
            return CopyEnd::Ended;
        }
        let started = BridgeCopy::start(&self.deps, (&self.name, &self.record), &request).await;
        let mut copy = match started {
            Ok(copy) => copy,
            Err(problem) => {
                self.run.request = None;
                self.record_problem(problem).await;
                return CopyEnd::Ended;
            }
        };
        self.run.pid = Some(copy.pid());
        self.run.since_ms = Some((self.deps.now_ms)());
        self.run.problem = None;
        self.store_run().await;
        tracing::info!(bridge = self.name, pid = copy.pid(), "a bridge is started");
        let (end, how) = tokio::select! {
            how = copy.wait_for_end() => (CopyEnd::Ended, Some(how)),
            sequence = wait_for_stop(stop) => {
                let why = "stopped";
                self.end_processes(&mut copy, sequence, why).await;
                (CopyEnd::Stopped, None)
            }
        };
        if let Some(how) = &how {
            tracing::info!(bridge = self.name, how, "a bridge ended");
            let why = format!("ended: {how}");
            self.end_processes(&mut copy, StopSequence::kill_at_once(), &why)
                .await;
            self.run.last_exit = Some(how.clone());
            self.run.last_exit_ms = Some((self.deps.now_ms)());
        }
        (self.run.pid, self.run.since_ms) = (None, None);
        self.store_run().await;
        end
    }

    /// Ends all processes of a copy. Those that do not end are left for the next start, which needs their end.
    async fn end_processes(&mut self, copy: &mut BridgeCopy, sequence: StopSequence, why: &str) {
        for _ in 0..MAX_STOPS {
            let stopped = copy.stop(sequence.clone(), why).await;
            let Some(survivor) = stopped.survivors.first() else {
                self.run.request = None;
                return;
            };
            tracing::warn!(bridge = self.name, %survivor, "a process of a bridge does not end");
        }
    }

    async fn record_problem(&mut self, problem: String) {
        if self.run.problem.as_ref() != Some(&problem) {
            tracing::warn!(bridge = self.name, problem, "a bridge is not started");
        }
        self.run.problem = Some(problem);
        self.store_run().await;
    }

    /// Stores what became of the bridge. Returns whether it is stored.
    async fn store_run(&mut self) -> bool {
        let store = self.deps.store.clone();
        let name = self.name.clone();
        let run = self.run.clone();
        let storing = tokio::task::spawn_blocking(move || store.record_run(&name, Some(&run)));
        let stored = storing.await;
        if let Ok(Err(error)) = &stored {
            tracing::warn!(bridge = self.name, %error, "what became of a bridge is not recorded");
        }
        matches!(stored, Ok(Ok(())))
    }
}
