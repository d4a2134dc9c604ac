//! Loads a changed `config.toml` while a runner runs, and applies the settings that need no restart. Not here: noticing
//! the change, and the parts of the runner that use the settings (cli::wiring).

use std::io;

use serde::{Deserialize, Serialize};

use super::effective_config::Config;
use super::error::ConfigError;
use super::signal_switches::is_switch_key;
use super::sources;
use super::tables::Limits;

use punie_core::durable;
pub use punie_core::durable::FileStamp;

/// The tables whose settings are applied while the runner runs, beside the sandbox and the trash.
const LIVE_TABLES: &[&str] = &["policy.", "callers", "limits.", "log.", "signals."];
/// The settings of these tables that need a restart all the same. A lease is agreed on when the session begins; the log's
/// files and form are chosen when logging starts.
const RESTART_KEYS: &[&str] = &[
    "limits.lease_ms",
    "limits.lease_renew_ms",
    "log.file",
    "log.format",
];

/// A setting whose value in the file is not the one in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedSetting {
    /// The key, with its table.
    pub key: String,
    /// The value in force, as a file would have it.
    pub in_force: String,
    /// The value in the file.
    pub in_file: String,
}

impl Config {
    /// Loads the configuration again, with the flags and the environment of the first time.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_again(&self) -> Result<Self, ConfigError> {
        let source = &self.source;
        Self::load(&source.flags, &source.environment, source.rule)
    }

    /// Returns the stamp that the configuration file had when it was read; `None` if it had none that could be read.
    pub fn loaded_stamp(&self) -> Option<FileStamp> {
        self.source.stamp
    }

    /// Returns the stamp of the configuration file.
    ///
    /// # Errors
    /// The system's error, unless there is no file.
    pub fn read_stamp(&self) -> io::Result<FileStamp> {
        durable::read_file_stamp(&self.file)
    }

    /// Returns whether calls may write the configuration file: it, or the file to which it links, lies in a workspace or
    /// in another folder that commands write.
    pub fn is_file_in_reach(&self) -> bool {
        let file = sources::canonicalize_existing(&self.file);
        let mut writable = self.workspaces.iter().chain(&self.sandbox.write);
        writable.any(|folder| file.starts_with(sources::canonicalize_existing(folder)))
    }

    /// Returns the values of `newer` that differ from these.
    pub fn list_changes(&self, newer: &Self) -> Vec<ChangedSetting> {
        let change = |setting: &super::ConfigSetting| {
            let now = newer.settings.iter().find(|now| now.key == setting.key)?;
            (now.value != setting.value).then(|| ChangedSetting {
                key: setting.key.to_owned(),
                in_force: setting.value.clone(),
                in_file: now.value.clone(),
            })
        };
        let mut changes: Vec<ChangedSetting> = self.settings.iter().filter_map(change).collect();
        if self.mcp_servers != newer.mcp_servers {
            let names = |config: &Self| {
                let names: Vec<&str> = config.mcp_servers.iter().map(|one| &*one.name).collect();
                names.join(", ")
            };
            // Their tables may hold secrets, so only the names are shown.
            changes.push(ChangedSetting {
                key: "mcp.servers".to_owned(),
                in_force: names(self),
                in_file: names(newer),
            });
        }
        changes
    }

    /// Returns this configuration with the settings of `newer` that are applied without a restart.
    ///
    /// The paths of the sandbox were checked against the workspaces of `newer`. So where these differ, none of the
    /// sandbox's settings is applied before a restart.
    #[must_use]
    pub fn with_live_settings(&self, newer: &Self) -> Self {
        let mut applied = self.clone();
        let has_same_workspaces = self.workspaces == newer.workspaces;
        if has_same_workspaces {
            applied.sandbox = newer.sandbox.clone();
            // The tool for applications exists only if they were allowed at the start.
            applied.sandbox.apps = self.sandbox.apps && newer.sandbox.apps;
        }
        // The trash of commands is set up at the start, if there is one.
        let has_same_trash = (self.trash.max_mb > 0) == (newer.trash.max_mb > 0);
        if has_same_trash {
            applied.trash = newer.trash.clone();
        }
        applied.policy = newer.policy.clone();
        applied.callers = newer.callers.clone();
        applied.limits = Limits {
            lease: self.limits.lease,
            lease_renew: self.limits.lease_renew,
            ..newer.limits.clone()
        };
        applied.log.level = newer.log.level;
        // The tool for signals exists only if a category was on at the start.
        applied.signals = newer.signals.without_new_permission(&self.signals);
        applied.mcp_servers.clone_from(&newer.mcp_servers);
        for setting in &mut applied.settings {
            let is_applied = match setting.key {
                key if is_switch_key(key) => {
                    applied.signals.switch_of_key(key) == newer.signals.switch_of_key(key)
                }
                "sandbox.apps" => applied.sandbox.apps == newer.sandbox.apps,
                key if key.starts_with("sandbox.") => has_same_workspaces,
                key if key.starts_with("trash.") => has_same_trash,
                key => is_live_setting(key),
            };
            let newer = newer.settings.iter().find(|now| now.key == setting.key);
            if let Some(newer) = newer.filter(|_| is_applied) {
                setting.clone_from(newer);
            }
        }
        applied
    }
}

fn is_live_setting(key: &str) -> bool {
    LIVE_TABLES.iter().any(|table| key.starts_with(table)) && !RESTART_KEYS.contains(&key)
}

/// Describes the time at which a running runner uses a changed value of this key, as [`Config::with_live_settings`]
/// applies it.
pub(super) fn describe_effect(key: &str) -> &'static str {
    match key {
        "sandbox.apps" => "false at once, true when the runner is restarted",
        "trash.max_mb" => "at once; 0, or another value after 0, when the runner is restarted",
        key if is_switch_key(key) => {
            "at once if it is off or preview, else when the runner is restarted"
        }
        key if key.starts_with("sandbox.") => "at once, unless workspaces.paths was changed too",
        key if key.starts_with("trash.") || is_live_setting(key) => "at once",
        _ => "when the runner is restarted",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{GlobalFlags, ProcessEnvironment, SignalSwitch, WorkspaceRule};
    use super::*;
    use punie_sandbox::NetworkAccess;

    fn load(folder: &Path, text: &str) -> Config {
        std::fs::write(folder.join("config.toml"), text).expect("written");
        let flags = GlobalFlags {
            home: Some(folder.to_owned()),
            ..GlobalFlags::default()
        };
        let environment = ProcessEnvironment::new([], None, None);
        Config::load(&flags, &environment, WorkspaceRule::NotNeeded).expect("it is right")
    }

    fn keys(changes: &[ChangedSetting]) -> Vec<String> {
        changes.iter().map(|change| change.key.clone()).collect()
    }

    #[test]
    fn live_settings_are_applied_and_the_others_wait_for_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = load(folder.path(), "");
        let newer = load(
            folder.path(),
            "[sandbox]\nnetwork = \"full\"\n[limits]\nreads = 3\nlease_ms = 90000\n[log]\nfile = \"never\"\n\
             [backend]\nheartbeat_ms = 1000\n",
        );
        let applied = first.with_live_settings(&newer);
        assert_eq!(applied.sandbox.network, NetworkAccess::Full);
        assert_eq!(
            (applied.limits.reads, applied.limits.lease),
            (3, first.limits.lease)
        );
        assert_eq!(keys(&first.list_changes(&newer)).len(), 5);
        assert_eq!(
            keys(&applied.list_changes(&newer)),
            ["backend.heartbeat_ms", "limits.lease_ms", "log.file"]
        );
        assert_eq!(
            applied.list_changes(&newer)[0],
            ChangedSetting {
                key: "backend.heartbeat_ms".to_owned(),
                in_force: "60000".to_owned(),
                in_file: "1000".to_owned(),
            }
        );
    }

    #[test]
    fn limits_of_the_trash_are_applied_and_its_end_waits_for_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = load(folder.path(), "");
        let newer = load(folder.path(), "[trash]\nmax_mb = 5\nkeep_days = 9\n");
        let applied = first.with_live_settings(&newer);
        assert_eq!((applied.trash.max_mb, applied.trash.keep_days), (5, 9));
        assert_eq!(keys(&applied.list_changes(&newer)), [""; 0]);
        let none = load(folder.path(), "[trash]\nmax_mb = 0\n");
        let applied = applied.with_live_settings(&none);
        assert_eq!((applied.trash.max_mb, applied.trash.keep_days), (5, 9));
        assert_eq!(
            keys(&applied.list_changes(&none)),
            ["trash.max_mb", "trash.keep_days"]
        );
    }

    #[test]
    fn a_category_of_signals_is_turned_off_at_once_and_on_by_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = load(folder.path(), "[signals]\napps_system = \"on\"\n");
        let newer = load(
            folder.path(),
            "[signals]\nmessages_notes = \"on\"\nbrowsing_bookmarks = \"preview\"\n",
        );
        let applied = first.with_live_settings(&newer);
        let switches = ["apps_system", "messages_notes", "browsing_bookmarks"]
            .map(|name| applied.signals.find_switch(name));
        assert_eq!(
            switches,
            [SignalSwitch::Off, SignalSwitch::Off, SignalSwitch::Preview].map(Some)
        );
        assert_eq!(
            keys(&applied.list_changes(&newer)),
            ["signals.messages_notes"]
        );
    }

    #[test]
    fn other_workspaces_hold_back_the_whole_sandbox() {
        let folder = tempfile::tempdir().expect("a folder");
        let work = tempfile::tempdir().expect("a folder");
        let first = load(folder.path(), "");
        let newer = load(
            folder.path(),
            &format!(
                "[workspaces]\npaths = [{:?}]\n[sandbox]\nwrite = [\"/srv/x\"]\n[policy]\nask = [\"writes\"]\n",
                work.path().display().to_string()
            ),
        );
        let applied = first.with_live_settings(&newer);
        assert_eq!(applied.policy.ask, ["writes"]);
        assert!(applied.sandbox.write.is_empty());
        assert_eq!(
            keys(&applied.list_changes(&newer)),
            ["sandbox.write", "workspaces.paths"]
        );
    }
}
