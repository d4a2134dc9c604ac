//! The floor plan of the home: one name for each file and folder in it. Nobody else joins paths under `~/.punie`.

use std::path::{Path, PathBuf};

use super::error::HomeError;
use super::modes::{self, Openness};

/// The folder `~/.punie`, made and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// Makes what is missing, readable for this user only, and checks what is there.
    ///
    /// # Errors
    /// [`HomeError`] when something cannot be written, is open to other users, or is not a folder.
    pub fn open(root: &Path) -> Result<Self, HomeError> {
        let home = Self { root: root.to_owned() };
        modes::ensure_root(&home.root)?;
        for private in [home.state_dir(), home.keys_dir(), home.tokens_dir(), home.secrets_dir()] {
            modes::ensure_dir(&private, Openness::OursAlone)?;
        }
        for inner in [
            home.temp_dir(),
            home.outputs_dir(),
            home.shells_dir(),
            home.switches_dir(),
            home.approvals_dir(),
            home.mounts_dir(),
            home.grants_dir(),
            home.supervision_dir(),
            home.threads_dir(),
            home.trash_dir(),
            home.trash_manifests_dir(),
            home.trash_objects_dir(),
            home.trash_incoming_dir(),
            home.trash_removed_dir(),
            home.trash_doomed_dir(),
            home.trash_programs_dir(),
        ] {
            modes::ensure_dir(&inner, Openness::OursAlone)?;
        }
        for shown in [home.skills_dir(), home.agents_dir(), home.plugins_dir(), home.logs_dir()] {
            modes::ensure_dir(&shown, Openness::NotForeign)?;
        }
        modes::check_writable(&home.state_dir())?;
        modes::check_file_if_there(&home.key_file())?;
        Ok(home)
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// `config.toml`, written by the owner.
    pub fn config_file(&self) -> PathBuf {
        self.root.join("config.toml")
    }
    /// `policy.toml`, written by the owner.
    pub fn policy_file(&self) -> PathBuf {
        self.root.join("policy.toml")
    }
    /// `device.json`: the device's id and public key.
    pub fn device_file(&self) -> PathBuf {
        self.root.join("device.json")
    }
    /// `device.json.new`: there only while an identity is being made.
    pub(super) fn unfinished_device_file(&self) -> PathBuf {
        self.root.join("device.json.new")
    }
    /// `keys/`: private keys.
    pub fn keys_dir(&self) -> PathBuf {
        self.root.join("keys")
    }
    /// `keys/device.ed25519`: the device's private key.
    pub fn key_file(&self) -> PathBuf {
        self.keys_dir().join("device.ed25519")
    }
    /// `keys/device.lock`: held while an identity is being made.
    pub(super) fn identity_lock_file(&self) -> PathBuf {
        self.keys_dir().join("device.lock")
    }
    /// `keys/secrets.key`: opens the owner's secrets.
    pub fn secrets_key_file(&self) -> PathBuf {
        self.keys_dir().join("secrets.key")
    }
    /// `keys/secrets.lock`: held while the owner's secrets are changed.
    pub(super) fn secrets_lock_file(&self) -> PathBuf {
        self.keys_dir().join("secrets.lock")
    }
    /// `secrets/`: the owner's secrets, and nothing that changes otherwise.
    pub fn secrets_dir(&self) -> PathBuf {
        self.root.join("secrets")
    }
    /// `secrets/sealed.json`: the owner's secrets, sealed.
    pub fn secrets_file(&self) -> PathBuf {
        self.secrets_dir().join("sealed.json")
    }
    /// `state/mounts/`: secrets as files, for as long as the commands run that were given them.
    pub fn mounts_dir(&self) -> PathBuf {
        self.state_dir().join("mounts")
    }
    /// `state/`: what must survive a restart.
    pub fn state_dir(&self) -> PathBuf {
        self.root.join("state")
    }
    /// `state/journal.sqlite3`.
    pub fn journal_file(&self) -> PathBuf {
        self.state_dir().join("journal.sqlite3")
    }
    /// `state/outputs/`: the full outputs of clipped calls.
    pub fn outputs_dir(&self) -> PathBuf {
        self.state_dir().join("outputs")
    }
    /// `state/shells/`: named pipes of commands in the background.
    pub fn shells_dir(&self) -> PathBuf {
        self.state_dir().join("shells")
    }
    /// `tmp/`: the temporary files of commands. Not deeper, since a socket's path may have 107 characters only.
    pub fn temp_dir(&self) -> PathBuf {
        self.root.join("tmp")
    }
    /// `state/self-test/`: there only while the runner finds out what confinement keeps in.
    pub fn self_test_dir(&self) -> PathBuf {
        self.state_dir().join("self-test")
    }
    /// `state/scripts/`: commands for editors' terminals, while they run.
    pub fn scripts_dir(&self) -> PathBuf {
        self.state_dir().join("scripts")
    }
    /// `state/switches/`: what the owner, or the runner's own caution, has switched on.
    pub fn switches_dir(&self) -> PathBuf {
        self.state_dir().join("switches")
    }
    /// `state/approvals/`: what waits for the word of the person here.
    pub fn approvals_dir(&self) -> PathBuf {
        self.state_dir().join("approvals")
    }
    /// `state/supervision/`: what persons at editors decided about conversations.
    pub fn supervision_dir(&self) -> PathBuf {
        self.state_dir().join("supervision")
    }
    /// `state/threads/`: what the threads of editors have shown.
    pub fn threads_dir(&self) -> PathBuf {
        self.state_dir().join("threads")
    }
    /// `state/grants/`: what the owner allowed for once or for a while.
    pub fn grants_dir(&self) -> PathBuf {
        self.state_dir().join("grants")
    }
    /// `state/trash/`: what tools deleted, for a while.
    pub fn trash_dir(&self) -> PathBuf {
        self.state_dir().join("trash")
    }
    /// `state/trash/requests/`: a manifest for each request whose before-images are kept.
    pub fn trash_manifests_dir(&self) -> PathBuf {
        self.trash_dir().join("requests")
    }
    /// `state/trash/objects/`: the before-images, each by its hash.
    pub fn trash_objects_dir(&self) -> PathBuf {
        self.trash_dir().join("objects")
    }
    /// `state/trash/incoming/`: what commands are removing just now; the only place in the home that they may write.
    pub fn trash_incoming_dir(&self) -> PathBuf {
        self.trash_dir().join("incoming")
    }
    /// `state/trash/removed/`: what commands have removed.
    pub fn trash_removed_dir(&self) -> PathBuf {
        self.trash_dir().join("removed")
    }
    /// `state/trash/doomed/`: what is on its way out.
    pub fn trash_doomed_dir(&self) -> PathBuf {
        self.trash_dir().join("doomed")
    }
    /// `state/trash/programs/`: the names under which commands find this program first.
    pub fn trash_programs_dir(&self) -> PathBuf {
        self.trash_dir().join("programs")
    }
    /// `state/trash/undone.jsonl`: what was taken back.
    pub fn trash_log_file(&self) -> PathBuf {
        self.trash_dir().join("undone.jsonl")
    }
    /// `state/trash/key`: proves whose manifest is whose.
    pub fn trash_key_file(&self) -> PathBuf {
        self.trash_dir().join("key")
    }
    /// `state/trash/lock`: held while something in the trash is moved.
    pub fn trash_lock_file(&self) -> PathBuf {
        self.trash_dir().join("lock")
    }
    /// `state/audit.jsonl`: what was asked, decided and done; beside it `audit.head` and `audit.lock`.
    pub fn audit_dir(&self) -> PathBuf {
        self.state_dir()
    }
    /// `state/runner.lock`: held by the one runner of this home.
    pub fn lock_file(&self) -> PathBuf {
        self.state_dir().join("runner.lock")
    }
    /// `state/editor.sock`: where editors reach the runner that is up.
    pub fn editor_socket(&self) -> PathBuf {
        self.state_dir().join("editor.sock")
    }
    /// Takes away what a runner left there that is no more; for whoever holds the lock.
    ///
    /// # Errors
    /// The system's.
    #[expect(clippy::disallowed_methods, reason = "this file owns the names in the home")]
    pub fn clear_editor_socket(&self) -> std::io::Result<()> {
        match std::fs::remove_file(self.editor_socket()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
    /// `tokens/`: one secret per file.
    pub fn tokens_dir(&self) -> PathBuf {
        self.root.join("tokens")
    }
    /// `skills/`: one folder per skill.
    pub fn skills_dir(&self) -> PathBuf {
        self.root.join("skills")
    }
    /// `agents/`: one folder per agent.
    pub fn agents_dir(&self) -> PathBuf {
        self.root.join("agents")
    }
    /// `plugins/`: one folder per plugin.
    pub fn plugins_dir(&self) -> PathBuf {
        self.root.join("plugins")
    }
    /// `logs/`: written while in the background.
    pub fn logs_dir(&self) -> PathBuf {
        Self::logs_below(&self.root)
    }
    /// The same of a home that is not made yet: logging starts before anything else.
    pub fn logs_below(root: &Path) -> PathBuf {
        root.join("logs")
    }
    /// `dev-backend.sqlite3`: the embedded backend's store.
    pub fn dev_backend_file(&self) -> PathBuf {
        self.root.join("dev-backend.sqlite3")
    }
}
