//! The state files of the bridges, and their locks. Commands write what is wanted, and the runner what became of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

use super::bridge_record::{BridgeRecord, BridgeRun, BridgesState, WantedState};
use super::{BridgeError, BridgeFolders, HomeError};
use crate::Home;
use crate::folder_watch::{FolderSignal, FolderWatch};
use crate::runner_lock::{lock_exclusively, try_lock_file};
use crate::state_file::StateFile;

type Runs = BTreeMap<String, BridgeRun>;

/// The bridges of one home.
#[derive(Debug, Clone)]
pub struct BridgeStore {
    pub(super) home: Home,
    pub(super) folder: PathBuf,
    state: StateFile<BridgesState>,
    runs: StateFile<Runs>,
}

/// The right to start, stop or exchange a bridge. It ends with the process.
#[derive(Debug)]
pub struct BridgeLock {
    _file: File,
}

impl BridgeStore {
    /// Returns the bridges of this home.
    pub fn in_home(home: &Home) -> Self {
        let folder = home.bridges_state_dir();
        Self {
            state: StateFile::new(home.bridges_file()),
            runs: StateFile::new(folder.join("runs.json")),
            home: home.clone(),
            folder,
        }
    }

    /// Returns the folders of a bridge.
    ///
    /// # Errors
    /// As [`BridgeFolders::in_home`].
    pub fn folders(&self, name: &str) -> Result<BridgeFolders, BridgeError> {
        BridgeFolders::in_home(&self.home, name)
    }

    /// Reads what is deployed and wanted.
    ///
    /// # Errors
    /// [`HomeError`] when the file cannot be read or is damaged.
    pub fn read_state(&self) -> Result<BridgesState, HomeError> {
        Ok(self.state.read()?.unwrap_or_default())
    }

    /// Changes what is deployed and wanted, in one step.
    ///
    /// # Errors
    /// [`HomeError`] when the file is damaged or cannot be written: then nothing has changed.
    pub(super) fn change_state<T>(
        &self,
        change: impl FnOnce(&mut BridgesState) -> T,
    ) -> Result<T, HomeError> {
        let _writing = lock_exclusively(&self.folder.join("bridges.lock"))?;
        let before = self.read_state()?;
        let mut state = before.clone();
        let result = change(&mut state);
        if state != before {
            self.state.write(&state)?;
        }
        Ok(result)
    }

    /// Sets the wanted state of a bridge; with a time, it is started anew. Returns the bridge; `None` if there is none of this name.
    ///
    /// # Errors
    /// [`HomeError`] when the file is damaged or cannot be written.
    pub fn set_wanted(
        &self,
        name: &str,
        wanted: WantedState,
        at_ms: Option<i64>,
    ) -> Result<Option<BridgeRecord>, HomeError> {
        self.change_state(|state| {
            let record = state.bridges.get_mut(name)?;
            record.wanted = wanted;
            record.wanted_at_ms = at_ms.unwrap_or(record.wanted_at_ms);
            Some(record.clone())
        })
    }

    /// Reads what became of the bridges.
    ///
    /// # Errors
    /// [`HomeError`] when the file cannot be read or is damaged.
    pub fn read_runs(&self) -> Result<BTreeMap<String, BridgeRun>, HomeError> {
        Ok(self.runs.read()?.unwrap_or_default())
    }

    /// Records what became of a bridge; `None` removes it.
    ///
    /// # Errors
    /// [`HomeError`] when the file is damaged or cannot be written.
    pub fn record_run(&self, name: &str, run: Option<&BridgeRun>) -> Result<(), HomeError> {
        let _writing = lock_exclusively(&self.folder.join("bridges.lock"))?;
        let mut runs = self.read_runs()?;
        let before = match run {
            Some(run) => runs.insert(name.to_owned(), run.clone()),
            None => runs.remove(name),
        };
        if before.as_ref() == run {
            return Ok(());
        }
        self.runs.write(&runs)
    }

    /// Takes the right to start, stop or exchange a bridge; `None` while another process has it.
    ///
    /// # Errors
    /// [`BridgeError`] for what is no name, and when the lock cannot be written.
    pub fn try_lock(&self, name: &str) -> Result<Option<BridgeLock>, BridgeError> {
        self.folders(name)?;
        self.try_lock_file(&format!("{name}.run"))
            .map_err(Into::into)
    }

    /// Takes the right to stage a change; `None` while another process has it.
    pub(super) fn try_lock_staging(&self) -> Result<Option<BridgeLock>, HomeError> {
        self.try_lock_file("staging.lock")
    }

    fn try_lock_file(&self, file_name: &str) -> Result<Option<BridgeLock>, HomeError> {
        let taken = try_lock_file(&self.folder.join(file_name))?;
        Ok(taken.map(|file| BridgeLock { _file: file }))
    }

    /// Watches the state files for changes; `None` if the system cannot.
    pub fn watch_state(&self) -> Option<FolderSignal> {
        // A lock changes nothing.
        let is_lock = |path: &PathBuf| path.extension().is_none_or(|end| end != "json");
        FolderWatch::signal_changes(&self.folder, move |event| !event.paths.iter().all(is_lock))
            .inspect_err(|error| {
                tracing::warn!(%error, "changes of the bridges are only looked for now and then");
            })
            .ok()
    }
}
