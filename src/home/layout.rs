//! The layout of the home: the path of each file and folder in it. No other module joins paths under `~/.punie`.

use std::path::{Path, PathBuf};

use super::error::HomeError;
use super::file_modes::{self, FolderAccess};
use punie_core::durable::allow_missing;

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
        for (folder, access) in home.folders() {
            file_modes::ensure_dir(&folder, access)?;
        }
        file_modes::check_writable(&home.state_dir())?;
        file_modes::check_secret_file(&home.key_file())?;
        Ok(home)
    }

    /// Returns the home in this folder if there is one, without checking or changing it.
    pub fn find(root: &Path) -> Option<Self> {
        root.is_dir().then(|| Self {
            root: root.to_owned(),
        })
    }

    /// Returns the folders of the home, each after the one that it lies in.
    pub(super) fn folders(&self) -> Vec<(PathBuf, FolderAccess)> {
        let private = [
            self.state_dir(),
            self.keys_dir(),
            self.tokens_dir(),
            self.secrets_dir(),
            self.temp_dir(),
            self.outputs_dir(),
            self.call_records_dir(),
            self.shells_dir(),
            self.hooks_dir(),
            self.authorities_dir(),
            self.switches_dir(),
            self.approvals_dir(),
            self.mounts_dir(),
            self.grants_dir(),
            self.supervision_dir(),
            self.signals_dir(),
            self.threads_dir(),
            self.plugin_tools_dir(),
            self.bridges_dir(),
            self.bridges_state_dir(),
            self.trash_dir(),
            self.trash_manifests_dir(),
            self.trash_objects_dir(),
            self.trash_made_dir(),
            self.trash_doomed_dir(),
            self.trash_snapshots_dir(),
            self.trash_snapshot_contents_dir(),
            self.trash_snapshot_trees_dir(),
            self.trash_snapshot_calls_dir(),
        ];
        let shown = [
            self.skills_dir(),
            self.agents_dir(),
            self.plugins_dir(),
            self.logs_dir(),
        ];
        let with = |access: FolderAccess| move |folder: PathBuf| (folder, access);
        let private = private.into_iter().map(with(FolderAccess::OwnerOnly));
        private
            .chain(shown.into_iter().map(with(FolderAccess::GroupWrites)))
            .collect()
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
    /// Returns `state/identity_map.json`: the aliases of the owner's contacts, encrypted.
    pub fn identity_map_file(&self) -> PathBuf {
        self.state_dir().join("identity_map.json")
    }
    /// Returns `keys/identity_map.key`, which decrypts the identity map.
    pub fn identity_map_key_file(&self) -> PathBuf {
        self.keys_dir().join("identity_map.key")
    }
    /// Returns `keys/identity_map.lock`, held while the identity map is changed.
    pub(super) fn identity_map_lock_file(&self) -> PathBuf {
        self.keys_dir().join("identity_map.lock")
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
    /// Returns `state/hooks/`: the programs through which git starts the hooks of a commit.
    pub fn hooks_dir(&self) -> PathBuf {
        self.state_dir().join("hooks")
    }
    /// Returns `state/authorities/`: the certificate authorities for Java machines in commands.
    pub fn authorities_dir(&self) -> PathBuf {
        self.state_dir().join("authorities")
    }
    /// Returns `tmp/`: the temporary files of commands. It is at the top level because a socket's path has at most 107
    /// characters.
    pub fn temp_dir(&self) -> PathBuf {
        self.root.join("tmp")
    }
    /// Returns `commands/`: what commands use in the place of folders of the user's home.
    pub(super) fn commands_dir(&self) -> PathBuf {
        self.root.join("commands")
    }
    /// Returns `commands/home/`: the folder that confined commands see as the user's home.
    pub fn command_home_dir(&self) -> PathBuf {
        self.commands_dir().join("home")
    }
    /// Returns `commands/caches/`: what commands write in the caches that they share with the user.
    pub fn command_caches_dir(&self) -> PathBuf {
        self.commands_dir().join("caches")
    }
    /// Returns `commands/services/`: the homes and caches of services that share none with commands.
    pub fn service_homes_dir(&self) -> PathBuf {
        self.commands_dir().join("services")
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
    /// Returns `state/clients.lock`, held together by the clients that use the runner.
    pub(super) fn clients_lock_file(&self) -> PathBuf {
        self.state_dir().join("clients.lock")
    }
    /// Returns `state/runner-start.lock`, held by the client that starts the runner.
    pub(super) fn runner_start_lock_file(&self) -> PathBuf {
        self.state_dir().join("runner-start.lock")
    }
    /// Returns `state/background-runner.json`: the runner that a client started, once it is ready.
    pub(super) fn background_runner_file(&self) -> PathBuf {
        self.state_dir().join("background-runner.json")
    }
    /// Returns `state/successor.json`: the newer program for which the runner in the background finishes.
    pub(super) fn successor_file(&self) -> PathBuf {
        self.state_dir().join("successor.json")
    }
    /// Returns `state/mcp-token`, which clients of the MCP server over HTTP send.
    pub fn mcp_token_file(&self) -> PathBuf {
        self.state_dir().join("mcp-token")
    }
    /// Returns `state/release-list.json`: the date of the newest list of releases that an update has seen.
    pub fn release_list_file(&self) -> PathBuf {
        self.state_dir().join("release-list.json")
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
    /// Returns the folder of `audit.jsonl`, the log of requests, decisions and actions, with `audit.head` and
    /// `audit.lock` beside it.
    pub fn audit_dir(&self) -> PathBuf {
        self.state_dir()
    }
    /// Returns `state/runner.lock`, held by the one runner of this home.
    pub fn runner_lock_file(&self) -> PathBuf {
        self.state_dir().join("runner.lock")
    }
    /// Returns `state/config.lock`, held while a command changes the configuration file.
    pub(super) fn config_lock_file(&self) -> PathBuf {
        self.state_dir().join("config.lock")
    }
    /// Returns `state/canary`, which exists only while the runner tries to write.
    pub(super) fn canary_file(&self) -> PathBuf {
        self.state_dir().join("canary")
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
    pub fn clear_editor_socket(&self) -> std::io::Result<()> {
        allow_missing(std::fs::remove_file(self.editor_socket())).map(drop)
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
    /// Returns `state/signals/`: the owner's consents to user signals, and copies of databases while these are read.
    pub fn signals_dir(&self) -> PathBuf {
        self.state_dir().join("signals")
    }
    /// Returns `state/signals/consents.jsonl`: each consent and each withdrawal, with its text.
    pub(super) fn signal_consents_file(&self) -> PathBuf {
        self.signals_dir().join("consents.jsonl")
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
    /// Returns `themes/`: one file per theme.
    pub fn themes_dir(&self) -> PathBuf {
        self.root.join("themes")
    }
    /// Returns `apps/`: one folder per canvas.
    pub fn apps_dir(&self) -> PathBuf {
        self.root.join("apps")
    }
    /// Returns `state/packages.json`: the receipts of installed packages.
    pub(super) fn packages_file(&self) -> PathBuf {
        self.state_dir().join("packages.json")
    }
    /// Returns `state/packages.lock`, held while a package is installed or removed.
    pub(super) fn packages_lock_file(&self) -> PathBuf {
        self.state_dir().join("packages.lock")
    }
    /// Returns `state/packages/`: packages that are being installed, and removed ones.
    pub(super) fn packages_dir(&self) -> PathBuf {
        self.state_dir().join("packages")
    }
    /// Returns `state/packages/staging/`: a package that is being installed.
    pub(super) fn package_staging_dir(&self) -> PathBuf {
        self.packages_dir().join("staging")
    }
    /// Returns `state/packages/removed/`: what uninstalls and updates took away.
    pub(super) fn removed_packages_dir(&self) -> PathBuf {
        self.packages_dir().join("removed")
    }
    /// Returns `state/bridges/bridges.json`: the bridges that were deployed, and which of them are to run.
    pub fn bridges_file(&self) -> PathBuf {
        self.bridges_state_dir().join("bridges.json")
    }

    /// Returns `bridges/`: a folder for each bridge.
    pub(super) fn bridges_dir(&self) -> PathBuf {
        self.root.join("bridges")
    }
    /// Returns `state/bridges/`: what is known of the bridges, and changes of them that are under way.
    pub(super) fn bridges_state_dir(&self) -> PathBuf {
        self.state_dir().join("bridges")
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
}
