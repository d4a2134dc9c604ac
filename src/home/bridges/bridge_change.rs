//! Changes of a bridge's files: staged beside, decided by one write of the state, then put in place. A crash leaves the
//! old bridge, or a decided change that the next process completes.

use std::fs;
use std::path::{Path, PathBuf};

use super::bridge_bundle::{BridgeBundle, hash_code};
use super::bridge_record::{BridgeRecord, PendingChange, WantedState};
use super::bridge_store::{BridgeLock, BridgeStore};
use super::package_lock::{check_package_lock, package_text};
use super::{BridgeError, BridgeFolders, HomeError};
use crate::file_modes::{FolderAccess, ensure_dir};
use crate::installed_tree::{TreeChange, is_there, remove_tree, sync_staged};
use punie_core::durable::{Readers, allow_missing, replace_file};
use punie_core::failpoint;

const LOCK_FILE: &str = "package-lock.json";

/// A bridge that is staged. Its folder is removed when this is dropped, unless it was committed.
#[derive(Debug)]
pub struct StagedBridge {
    store: BridgeStore,
    name: String,
    id: String,
    main: String,
    dependencies: Vec<String>,
    is_committed: bool,
    // Only one process stages at a time.
    _lock: BridgeLock,
}

impl BridgeStore {
    fn staging_dir(&self) -> PathBuf {
        self.folder.join("staging")
    }

    /// Copies a bundle into a new staging folder, with the `package.json` that npm gets. Blocks.
    ///
    /// # Errors
    /// [`BridgeError`] for a name or a bundle that cannot be used, and while another process deploys.
    pub fn stage(
        &self,
        name: &str,
        source: &Path,
        dependencies: &[String],
    ) -> Result<StagedBridge, BridgeError> {
        let folders = self.folders(name)?;
        let unusable = |why: String| BridgeError::Unusable(format!("{}: {why}", source.display()));
        let bundle = BridgeBundle::open(source).map_err(unusable)?;
        let pins = bundle.package.merge_pins(dependencies);
        let pins = pins.map_err(BridgeError::Unusable)?;
        let state = self.read_state()?;
        let lock = self.lock_staging()?;
        let staged = StagedBridge {
            store: self.clone(),
            name: name.to_owned(),
            id: self.create_staging()?,
            main: bundle.main.clone(),
            dependencies: pins,
            is_committed: false,
            _lock: lock,
        };
        let copied = bundle.files.copy_to(&staged.code_dir());
        copied.map_err(unusable)?;
        let kind = bundle.package.kind.as_deref();
        let text = package_text(name, kind, &staged.dependencies);
        let package = staged.code_dir().join("package.json");
        replace_file(&package, text.as_bytes(), Readers::OwnerOnly)
            .map_err(HomeError::unwritable(&package))?;
        let before = state.bridges.get(name);
        if before.is_some_and(|before| before.dependencies == staged.dependencies) {
            staged.reuse_lock(&folders)?;
        }
        failpoint::reach("bridge.copied");
        Ok(staged)
    }

    fn lock_staging(&self) -> Result<BridgeLock, BridgeError> {
        self.try_lock_staging()?.ok_or_else(|| {
            BridgeError::Unusable("another command changes a bridge now. Try again".to_owned())
        })
    }

    /// Creates a staging folder, and returns its name.
    fn create_staging(&self) -> Result<String, HomeError> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        for folder in [self.staging_dir(), self.staging_dir().join(&id)] {
            ensure_dir(&folder, FolderAccess::OwnerOnly)?;
        }
        Ok(id)
    }

    /// Records what was decided, unless another change of this bridge is not complete.
    fn record_change(&self, name: &str, change: PendingChange) -> Result<(), BridgeError> {
        let is_free = self.change_state(|state| {
            let is_free = !state.pending.contains_key(name);
            if is_free {
                state.pending.insert(name.to_owned(), change);
            }
            is_free
        })?;
        if !is_free {
            return Err(BridgeError::Unusable(format!(
                "another change of {name} is not complete yet. Try again"
            )));
        }
        failpoint::reach("bridge.decided");
        Ok(())
    }

    /// Decides that a bridge is removed with its data. [`BridgeStore::finish_change`] removes it. Returns false if there
    /// is none of this name.
    ///
    /// # Errors
    /// [`HomeError`] when the state is damaged or cannot be written.
    pub fn decide_removal(&self, name: &str) -> Result<bool, BridgeError> {
        let _lock = self.lock_staging()?;
        if !self.read_state()?.bridges.contains_key(name) {
            return Ok(false);
        }
        // A folder that was not decided on is removed by the next command.
        let staging = self.create_staging()?;
        self.record_change(name, PendingChange { staging, new: None })?;
        Ok(true)
    }

    /// Completes the decided change of a bridge, if there is one. Its processes have ended. Blocks.
    ///
    /// # Errors
    /// [`BridgeError`] when a file cannot be written or read, or the staged code is not what was decided on: then the
    /// bridge is as it was before.
    pub fn finish_change(&self, name: &str, _lock: &BridgeLock) -> Result<(), BridgeError> {
        let Some(change) = self.read_state()?.pending.remove(name) else {
            return Ok(());
        };
        let folders = self.folders(name)?;
        let files = self.files_of_change(&folders, &change);
        let unwritable = HomeError::unwritable(&files.target);
        let is_new = match &change.new {
            Some(new) => is_staged_new(&files, new),
            None => Ok(false),
        };
        match is_new {
            Ok(is_new) => {
                if change.new.is_some() {
                    ensure_dir(folders.root_dir(), FolderAccess::OwnerOnly)?;
                }
                files.make(is_new).map_err(unwritable)?;
            }
            Err(why) => {
                files.put_back().map_err(unwritable)?;
                self.change_state(|state| state.pending.remove(name))?;
                self.remove_staging(&change.staging);
                return Err(BridgeError::Unusable(format!(
                    "{name} stays as it was, because {why}. Deploy it again"
                )));
            }
        }
        self.record_run(name, None)?;
        self.change_state(|state| {
            state.pending.remove(name);
            let before = state.bridges.remove(name);
            if let Some(new) = change.new {
                let new = match before {
                    Some(before) => BridgeRecord {
                        wanted: before.wanted,
                        wanted_at_ms: before.wanted_at_ms,
                        ..new
                    },
                    None => new,
                };
                state.bridges.insert(name.to_owned(), new);
            }
        })?;
        failpoint::reach("bridge.recorded");
        self.remove_staging(&change.staging);
        Ok(())
    }

    /// Returns the paths that a change moves: those of the code, or for a removal those of the whole bridge.
    fn files_of_change(&self, folders: &BridgeFolders, change: &PendingChange) -> TreeChange {
        let staging = self.staging_dir().join(&change.staging);
        let (staged, target) = match &change.new {
            Some(_) => (Some(staging.join("code")), folders.code_dir()),
            None => (None, folders.root_dir().to_owned()),
        };
        TreeChange {
            staged,
            target,
            aside: Some(staging.join("old")),
        }
    }

    /// Removes the staging folders of processes that ended before they decided on a change. Blocks.
    ///
    /// # Errors
    /// [`HomeError`] when the state cannot be read.
    pub fn remove_stale_staging(&self) -> Result<(), HomeError> {
        // A command that stages just now must not find the lock taken.
        if self.list_undecided_staging()?.is_empty() {
            return Ok(());
        }
        let Some(_lock) = self.try_lock_staging()? else {
            return Ok(());
        };
        for id in self.list_undecided_staging()? {
            self.remove_staging(&id);
        }
        Ok(())
    }

    fn list_undecided_staging(&self) -> Result<Vec<String>, HomeError> {
        let ids = fs::read_dir(self.staging_dir())
            .into_iter()
            .flatten()
            .flatten();
        let ids = ids.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let ids: Vec<String> = ids.collect();
        let pending = self.read_state()?.pending;
        let is_decided = |id: &String| pending.values().any(|change| change.staging == *id);
        Ok(ids.into_iter().filter(|id| !is_decided(id)).collect())
    }

    fn remove_staging(&self, id: &str) {
        let folder = self.staging_dir().join(id);
        if let Err(error) = remove_tree(&folder) {
            tracing::warn!(%error, folder = %folder.display(), "a staging folder of a bridge is left");
        }
    }

    /// Checks that the code of a bridge is what was deployed; an error is a part of a sentence. Blocks.
    ///
    /// # Errors
    /// It is not, or cannot be read.
    pub fn check_code(&self, name: &str, record: &BridgeRecord) -> Result<(), String> {
        let folders = self.folders(name).map_err(|error| error.to_string())?;
        let is_same = hash_code(&folders.code_dir())? == record.sha256;
        let changed = || "its code is not what was deployed. Deploy it again".to_owned();
        is_same.then_some(()).ok_or_else(changed)
    }
}

impl StagedBridge {
    /// Returns the staging folder, in which npm may write.
    pub fn folder(&self) -> PathBuf {
        self.store.staging_dir().join(&self.id)
    }

    /// Returns the folder of the code.
    pub fn code_dir(&self) -> PathBuf {
        self.folder().join("code")
    }

    /// Returns the folder that npm sees as the user's home, which is not deployed.
    pub fn npm_dir(&self) -> PathBuf {
        self.folder().join("npm")
    }

    /// Returns its dependencies, each `name@x.y.z`.
    pub fn dependencies(&self) -> &[String] {
        &self.dependencies
    }

    /// Returns whether it has a lock file, that of the bridge before with the same dependencies.
    pub fn has_lock(&self) -> bool {
        self.code_dir().join(LOCK_FILE).is_file()
    }

    /// Takes the lock file of the bridge before.
    fn reuse_lock(&self, folders: &BridgeFolders) -> Result<(), HomeError> {
        let from = folders.code_dir().join(LOCK_FILE);
        let to = self.code_dir().join(LOCK_FILE);
        let copied = allow_missing(fs::copy(&from, &to)).map(drop);
        copied.map_err(HomeError::unwritable(&to))
    }

    /// Checks that the lock file names packages of the registry alone; an error is a part of a sentence.
    ///
    /// # Errors
    /// It does not, or cannot be read.
    pub fn check_lock(&self) -> Result<(), String> {
        let text = fs::read_to_string(self.code_dir().join(LOCK_FILE));
        let text = text.map_err(|error| format!("npm wrote no lock file ({error})"))?;
        check_package_lock(&text)
    }

    /// Decides that this bridge takes the place of the one before. [`BridgeStore::finish_change`] puts it in place.
    /// Blocks.
    ///
    /// # Errors
    /// [`BridgeError`] when the code cannot be read or the state written: then nothing has changed.
    pub fn decide_deployment(
        mut self,
        secrets: std::collections::BTreeMap<String, String>,
        hosts: Vec<String>,
        now_ms: i64,
    ) -> Result<(), BridgeError> {
        failpoint::reach("bridge.installed");
        let code = self.code_dir();
        let sha256 = hash_code(&code).map_err(BridgeError::Unusable)?;
        sync_staged(&self.folder()).map_err(HomeError::unwritable(&code))?;
        let new = BridgeRecord {
            sha256,
            main: self.main.clone(),
            dependencies: self.dependencies.clone(),
            secrets,
            hosts,
            wanted: WantedState::Stopped,
            wanted_at_ms: 0,
            deployed_at_ms: now_ms,
        };
        let staging = self.id.clone();
        let new = Some(new);
        let change = PendingChange { staging, new };
        self.store.record_change(&self.name, change)?;
        self.is_committed = true;
        Ok(())
    }
}

impl Drop for StagedBridge {
    fn drop(&mut self) {
        if !self.is_committed {
            self.store.remove_staging(&self.id);
        }
    }
}

/// Returns whether the staged code is the new one: after an exchange it is the old one. An error is a part of a sentence.
fn is_staged_new(files: &TreeChange, new: &BridgeRecord) -> Result<bool, String> {
    let Some(staged) = files.staged_tree() else {
        return Ok(false);
    };
    if hash_code(staged)? == new.sha256 {
        return Ok(true);
    }
    if is_there(&files.target) && hash_code(&files.target)? == new.sha256 {
        return Ok(false);
    }
    Err("its staged code has changed".to_owned())
}
