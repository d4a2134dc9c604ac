//! The layout of the home: the path of each file and folder in it. No other module joins paths under `~/.punie`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::error::HomeError;
use super::file_modes::{self, FolderAccess};

/// The folder `~/.punie`, after it was created and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// Creates missing folders, readable by this user only, and checks existing ones.
    ///
    /// # Errors
    /// [`HomeError`] when a path cannot be written, is open to other users, or is not a folder.
    pub fn open_home(root: &Path) -> Result<Self, HomeError> {
        let home = Self {
            root: root.to_owned(),
        };
        file_modes::ensure_root(&home.root)?;
        for private in [
            home.state_dir(),
            home.keys_dir(),
            home.tokens_dir(),
            home.secrets_dir(),
        ] {
            file_modes::ensure_dir(&private, FolderAccess::OwnerOnly)?;
        }
        for inner in [
            home.temp_dir(),
            home.outputs_dir(),
            home.call_records_dir(),
            home.shells_dir(),
            home.switches_dir(),
            home.approvals_dir(),
            home.mounts_dir(),
            home.grants_dir(),
            home.supervision_dir(),
            home.threads_dir(),
            home.plugin_tools_dir(),
            home.trash_dir(),
            home.trash_manifests_dir(),
            home.trash_objects_dir(),
            home.trash_incoming_dir(),
            home.trash_removed_dir(),
            home.trash_doomed_dir(),
            home.trash_programs_dir(),
            home.trash_snapshots_dir(),
            home.trash_snapshot_contents_dir(),
            home.trash_snapshot_trees_dir(),
            home.trash_snapshot_calls_dir(),
        ] {
            file_modes::ensure_dir(&inner, FolderAccess::OwnerOnly)?;
        }
        for shown in [
            home.skills_dir(),
            home.agents_dir(),
            home.plugins_dir(),
            home.logs_dir(),
        ] {
            file_modes::ensure_dir(&shown, FolderAccess::GroupWrites)?;
        }
        file_modes::check_writable(&home.state_dir())?;
        file_modes::check_secret_file(&home.key_file())?;
        Ok(home)
    }

    /// Returns the folder itself.
    pub fn root_dir(&self) -> &Path {
        &self.root
    }
    /// Returns `policy.toml`, written by the owner.
    pub fn policy_file(&self) -> PathBuf {
        self.root.join("policy.toml")
    }
    /// Returns `device.json`: the device's id and public key.
    pub fn device_file(&self) -> PathBuf {
        self.root.join("device.json")
    }
    /// Returns `device.json.new`, which only exists while an identity is created.
    pub(super) fn unfinished_device_file(&self) -> PathBuf {
        self.root.join("device.json.new")
    }
    /// Returns `keys/`: private keys.
    pub fn keys_dir(&self) -> PathBuf {
        self.root.join("keys")
    }
    /// Returns `keys/device.ed25519`: the device's private key.
    pub fn key_file(&self) -> PathBuf {
        self.keys_dir().join("device.ed25519")
    }
    /// Returns `keys/device.lock`, held while an identity is created.
    pub(super) fn identity_lock_file(&self) -> PathBuf {
        self.keys_dir().join("device.lock")
    }
    /// Returns `keys/secrets.key`, which decrypts the owner's secrets.
    pub fn secrets_key_file(&self) -> PathBuf {
        self.keys_dir().join("secrets.key")
    }
    /// Returns `keys/secrets.lock`, held while the owner's secrets are changed.
    pub(super) fn secrets_lock_file(&self) -> PathBuf {
        self.keys_dir().join("secrets.lock")
    }
    /// Returns `secrets/`: the owner's secrets and no other files.
    pub fn secrets_dir(&self) -> PathBuf {
        self.root.join("secrets")
    }
    /// Returns `secrets/sealed.json`: the owner's secrets, encrypted.
    pub fn secrets_file(&self) -> PathBuf {
        self.secrets_dir().join("sealed.json")
    }
    /// Returns `state/secret-uses.json`: when commands last got each of the owner's secrets.
    pub(super) fn secret_uses_file(&self) -> PathBuf {
        self.state_dir().join("secret-uses.json")
    }
    /// Returns `state/mounts/`: secrets as files, while the commands run that use them.
    pub fn mounts_dir(&self) -> PathBuf {
        self.state_dir().join("mounts")
    }
    /// Returns `state/`: the state that must survive a restart.
    pub fn state_dir(&self) -> PathBuf {
        self.root.join("state")
    }
    /// Returns `state/journal.sqlite3`.
    pub fn journal_file(&self) -> PathBuf {
        self.state_dir().join("journal.sqlite3")
    }
    /// Returns `state/outputs/`: the full outputs of clipped calls.
    pub fn outputs_dir(&self) -> PathBuf {
        self.state_dir().join("outputs")
    }
    /// Returns `state/calls/`: the arguments and answers of calls, for the owner.
    pub fn call_records_dir(&self) -> PathBuf {
        self.state_dir().join("calls")
    }
    /// Returns `state/shells/`: named pipes of background commands.
    pub fn shells_dir(&self) -> PathBuf {
        self.state_dir().join("shells")
    }
    /// Returns `tmp/`: the temporary files of commands. It is at the top level because a socket's path has at most 107
    /// characters.
    pub fn temp_dir(&self) -> PathBuf {
        self.root.join("tmp")
    }
    /// Returns `command-home/`: the folder that confined commands see as the user's home, with their caches.
    pub fn command_home_dir(&self) -> PathBuf {
        self.root.join("command-home")
    }
    /// Returns `state/view/`: where the views of confined commands are put together, in mount namespaces of their own.
    pub fn view_dir(&self) -> PathBuf {
        self.state_dir().join("view")
    }
    /// Returns `state/self-test/`, which only exists while the runner tests its sandbox.
    pub fn self_test_dir(&self) -> PathBuf {
        self.state_dir().join("self-test")
    }
    /// Returns `state/scripts/`: commands for editors' terminals, while they run.
    pub fn scripts_dir(&self) -> PathBuf {
        self.state_dir().join("scripts")
    }
    /// Returns `state/switches/`: the switches that the owner, or the runner after crashes, turned on.
    pub fn switches_dir(&self) -> PathBuf {
        self.state_dir().join("switches")
    }
    /// Returns `state/approvals/`: open questions to the person at this machine.
    pub fn approvals_dir(&self) -> PathBuf {
        self.state_dir().join("approvals")
    }
    /// Returns `state/approver.lock`, held together by the processes that ask a person about calls.
    pub fn approver_lock_file(&self) -> PathBuf {
        self.state_dir().join("approver.lock")
    }
    /// Returns `state/supervision/`: the decisions about conversations that persons made in editors.
    pub fn supervision_dir(&self) -> PathBuf {
        self.state_dir().join("supervision")
    }
    /// Returns `state/threads/`: the calls that editors' threads have shown.
    pub fn threads_dir(&self) -> PathBuf {
        self.state_dir().join("threads")
    }
    /// Returns `state/grants/`: the owner's permissions for one call or for a time.
    pub fn grants_dir(&self) -> PathBuf {
        self.state_dir().join("grants")
    }
    /// Returns `state/trash/`: files that tools deleted, kept for a while.
    pub fn trash_dir(&self) -> PathBuf {
        self.state_dir().join("trash")
    }
    /// Returns `state/trash/requests/`: a manifest for each request with stored before-images.
    pub fn trash_manifests_dir(&self) -> PathBuf {
        self.trash_dir().join("requests")
    }
    /// Returns `state/trash/objects/`: the before-images, each by its hash.
    pub fn trash_objects_dir(&self) -> PathBuf {
        self.trash_dir().join("objects")
    }
    /// Returns `state/trash/incoming/`: files that commands are removing now; the only folder in the home that they may
    /// write.
    pub fn trash_incoming_dir(&self) -> PathBuf {
        self.trash_dir().join("incoming")
    }
    /// Returns `state/trash/removed/`: files that commands have removed.
    pub fn trash_removed_dir(&self) -> PathBuf {
        self.trash_dir().join("removed")
    }
    /// Returns `state/trash/doomed/`: entries that are being deleted.
    pub fn trash_doomed_dir(&self) -> PathBuf {
        self.trash_dir().join("doomed")
    }
    /// Returns `state/trash/programs/`: the names under which commands find this program first.
    pub fn trash_programs_dir(&self) -> PathBuf {
        self.trash_dir().join("programs")
    }
    /// Returns `state/trash/programs/mover-PID.sock`: the socket by which commands of this process have items moved to the
    /// trash.
    pub fn trash_mover_socket(&self) -> PathBuf {
        self.trash_programs_dir()
            .join(format!("mover-{}.sock", std::process::id()))
    }
    /// Returns the process whose socket has this name.
    pub fn mover_socket_process(name: &OsStr) -> Option<u32> {
        let name = name.to_str()?.strip_prefix("mover-")?;
        name.strip_suffix(".sock")?.parse().ok()
    }
    /// Returns `state/trash/snapshots/`: the snapshots of workspaces.
    pub fn trash_snapshots_dir(&self) -> PathBuf {
        self.trash_dir().join("snapshots")
    }
    /// Returns `state/trash/snapshots/contents/`: the contents of files in snapshots, each by its hash.
    pub fn trash_snapshot_contents_dir(&self) -> PathBuf {
        self.trash_snapshots_dir().join("contents")
    }
    /// Returns `state/trash/snapshots/trees/`: each workspace as it was last.
    pub fn trash_snapshot_trees_dir(&self) -> PathBuf {
        self.trash_snapshots_dir().join("trees")
    }
    /// Returns `state/trash/snapshots/calls/`: the starts of calls that run, a folder for each process.
    pub fn trash_snapshot_calls_dir(&self) -> PathBuf {
        self.trash_snapshots_dir().join("calls")
    }
    /// Returns `state/trash/snapshots/lock`, held while contents are stored or deleted.
    pub fn trash_snapshot_lock_file(&self) -> PathBuf {
        self.trash_snapshots_dir().join("lock")
    }
    /// Returns `state/trash/undone.jsonl`: the log of undone changes.
    pub fn trash_log_file(&self) -> PathBuf {
        self.trash_dir().join("undone.jsonl")
    }
    /// Returns `state/trash/key`, which authenticates the manifests.
    pub fn trash_key_file(&self) -> PathBuf {
        self.trash_dir().join("key")
    }
    /// Returns `state/trash/lock`, held while an entry of the trash is moved.
    pub fn trash_lock_file(&self) -> PathBuf {
        self.trash_dir().join("lock")
    }
    /// Returns the folder of `audit.jsonl`, the log of requests, decisions and actions, with `audit.head` and
    /// `audit.lock` beside it.
    pub fn audit_dir(&self) -> PathBuf {
        self.state_dir()
    }
    /// Returns `state/runner.lock`, held by the one runner of this home.
    pub fn runner_lock_file(&self) -> PathBuf {
        self.state_dir().join("runner.lock")
    }
    /// Returns `state/in-force.json`: the settings that the running runner uses.
    pub(super) fn in_force_file(&self) -> PathBuf {
        self.state_dir().join("in-force.json")
    }
    /// Returns `state/editor.sock`, through which editors connect to the running runner.
    pub fn editor_socket(&self) -> PathBuf {
        self.state_dir().join("editor.sock")
    }
    /// Removes the socket of a runner that has ended. The caller must hold the runner's lock.
    ///
    /// # Errors
    /// The system's error.
    #[expect(
        clippy::disallowed_methods,
        reason = "this file owns the names in the home"
    )]
    pub fn clear_editor_socket(&self) -> std::io::Result<()> {
        match std::fs::remove_file(self.editor_socket()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
    /// Returns `state/embedded-backend`: the address of the embedded backend that serves in this home.
    pub fn embedded_backend_file(&self) -> PathBuf {
        self.state_dir().join("embedded-backend")
    }
    /// Returns `tokens/`: a folder for each backend's address, with one secret per file.
    pub fn tokens_dir(&self) -> PathBuf {
        self.root.join("tokens")
    }
    /// Returns `skills/`: one folder per skill.
    pub fn skills_dir(&self) -> PathBuf {
        self.root.join("skills")
    }
    /// Returns `agents/`: one folder per agent.
    pub fn agents_dir(&self) -> PathBuf {
        self.root.join("agents")
    }
    /// Returns `state/loaded/`: skills and agents as they were loaded last, for the time that their files are broken.
    pub(super) fn loaded_versions_dir(&self) -> PathBuf {
        self.state_dir().join("loaded")
    }
    /// Returns `state/imports.json`: the sources of imported skills and agents.
    pub(super) fn import_index_file(&self) -> PathBuf {
        self.state_dir().join("imports.json")
    }
    /// Returns `state/imports.lock`, held by an import while it runs.
    pub(super) fn import_lock_file(&self) -> PathBuf {
        self.state_dir().join("imports.lock")
    }
    /// Returns `state/imports/`: unpacked archives and cloned repositories, while an import runs.
    pub(super) fn import_fetched_dir(&self) -> PathBuf {
        self.state_dir().join("imports")
    }
    /// Returns `plugins/`: one folder per plugin.
    pub fn plugins_dir(&self) -> PathBuf {
        self.root.join("plugins")
    }
    /// Returns `state/plugins/`: the tools that each plugin has listed.
    pub fn plugin_tools_dir(&self) -> PathBuf {
        self.state_dir().join("plugins")
    }
    /// Returns `logs/`: the logs of a runner in the background.
    pub fn logs_dir(&self) -> PathBuf {
        Self::logs_below(&self.root)
    }
    /// Returns the log folder of a home that may not exist yet, because logging starts first.
    pub fn logs_below(root: &Path) -> PathBuf {
        root.join("logs")
    }
    /// Returns `dev-backend.sqlite3`: the embedded backend's store.
    pub fn dev_backend_file(&self) -> PathBuf {
        self.root.join("dev-backend.sqlite3")
    }
    /// Returns `mods/`: the features of self-modification.
    pub fn mods_dir(&self) -> PathBuf {
        self.root.join("mods")
    }
    /// Returns `mods/lock`, held while a feature's record or the files below the root are changed.
    pub(super) fn mods_lock_file(&self) -> PathBuf {
        self.mods_dir().join("lock")
    }
    /// Returns `mods/pending.json`: the change that is being made to the files below the root.
    pub(super) fn pending_mod_file(&self) -> PathBuf {
        self.mods_dir().join("pending.json")
    }
    /// Returns `mods/blobs/`: contents of files, each by its hash.
    pub fn mod_blobs_dir(&self) -> PathBuf {
        self.mods_dir().join("blobs")
    }
    /// Returns `mods/scratch/`: staged contents while they are written.
    pub fn mod_scratch_dir(&self) -> PathBuf {
        self.mods_dir().join("scratch")
    }
    /// Returns `mods/features/`: a folder for each feature.
    pub fn mod_features_dir(&self) -> PathBuf {
        self.mods_dir().join("features")
    }
    /// Returns `mods/features/ID/feature.json`. The id must be checked.
    pub(super) fn mod_feature_file(&self, id: &str) -> PathBuf {
        self.mod_features_dir().join(id).join("feature.json")
    }
    /// Returns `mods/features/ID/staged.json`. The id must be checked.
    pub(super) fn mod_staging_file(&self, id: &str) -> PathBuf {
        self.mod_features_dir().join(id).join("staged.json")
    }
    /// Returns `mods/active/`: a file for each conversation with a feature.
    pub(super) fn active_mods_dir(&self) -> PathBuf {
        self.mods_dir().join("active")
    }
    /// Returns the file of one conversation in `mods/active/`, by the hash of its id.
    pub(super) fn active_mod_file(&self, conversation_sha256: &str) -> PathBuf {
        self.active_mods_dir()
            .join(format!("{conversation_sha256}.json"))
    }
}
