//! The owner's switches: small files whose existence tells the runner to start no call. They survive restarts and work
//! without a running runner.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::HomeError;
use super::folder_watch::{FolderSignal, FolderWatch};
use super::layout::Home;
use super::private_files::{ensure_private_file, remove_file_if_exists};

/// A switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerSwitch {
    /// The owner paused new calls.
    Paused,
    /// The runner crashed several times in a row and starts no call until it is trusted again.
    SafeMode,
}

/// The state of a switch that is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SwitchState {
    /// The time when it was turned on, in milliseconds since 1970; 0 if that cannot be read.
    #[serde(default)]
    pub since_ms: i64,
    /// The reason, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The switches of one home.
#[derive(Debug, Clone)]
pub struct OwnerSwitches {
    pub(super) folder: PathBuf,
}

impl OwnerSwitches {
    /// Returns the switches of this home.
    pub fn in_home(home: &Home) -> Self {
        Self {
            folder: home.switches_dir(),
        }
    }

    fn switch_file(&self, switch: OwnerSwitch) -> PathBuf {
        self.folder.join(match switch {
            OwnerSwitch::Paused => "paused",
            OwnerSwitch::SafeMode => "safe-mode",
        })
    }

    /// Returns the state of a switch, if it is on. An unreadable file counts as on, because it was meant to stop calls.
    pub fn read_switch(&self, switch: OwnerSwitch) -> Option<SwitchState> {
        match fs::read(self.switch_file(switch)) {
            Ok(text) => Some(serde_json::from_slice(&text).unwrap_or(SwitchState {
                since_ms: 0,
                reason: None,
            })),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(_) => Some(SwitchState {
                since_ms: 0,
                reason: None,
            }),
        }
    }

    /// Turns a switch on. One that is on already keeps its time and reason. Returns whether it was off.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    ///
    /// # Panics
    /// Never: a number and a text are always JSON.
    pub fn switch_on(&self, switch: OwnerSwitch, on: &SwitchState) -> Result<bool, HomeError> {
        let path = self.switch_file(switch);
        let text = serde_json::to_vec(on).expect("a number and a text are JSON");
        ensure_private_file(&path, &text)
    }

    /// Turns a switch off. Returns whether it was on.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be removed.
    pub fn switch_off(&self, switch: OwnerSwitch) -> Result<bool, HomeError> {
        remove_file_if_exists(&self.switch_file(switch))
    }

    /// Watches the switches for changes; `None` if the system cannot.
    pub fn watch(&self) -> Option<FolderSignal> {
        FolderWatch::signal_changes(&self.folder, |_| true)
            .inspect_err(|error| {
                tracing::warn!(%error, "the owner's switches are only looked at now and then");
            })
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_on_until_it_is_off_and_keeps_its_first_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let switches = OwnerSwitches {
            folder: folder.path().to_owned(),
        };
        let on = |reason: &str| SwitchState {
            since_ms: 5,
            reason: Some(reason.to_owned()),
        };
        assert_eq!(switches.read_switch(OwnerSwitch::Paused), None);
        assert!(
            switches
                .switch_on(OwnerSwitch::Paused, &on("lunch"))
                .expect("written")
        );
        assert!(
            !switches
                .switch_on(OwnerSwitch::Paused, &on("later"))
                .expect("it is on")
        );
        assert_eq!(switches.read_switch(OwnerSwitch::Paused), Some(on("lunch")));
        assert_eq!(switches.read_switch(OwnerSwitch::SafeMode), None);
        std::fs::write(switches.switch_file(OwnerSwitch::SafeMode), "half a fi").expect("written");
        assert!(
            switches.read_switch(OwnerSwitch::SafeMode).is_some(),
            "what cannot be read is on"
        );
        assert!(switches.switch_off(OwnerSwitch::Paused).expect("removed"));
        assert!(!switches.switch_off(OwnerSwitch::Paused).expect("it is off"));
        assert_eq!(switches.read_switch(OwnerSwitch::Paused), None);
    }
}
