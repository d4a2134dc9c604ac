//! The settings in force in a running runner, as it publishes them in its home for `status` and `policy`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::openings::{SandboxOpening, list_openings};
use crate::config::{
    BackendKind, BackendUrl, ChangedSetting, Config, ProcessEnvironment, read_config_text,
};
use punie_core::ids::to_hex;
use punie_home::{Home, InForceFile, RunnerLockHolder, command_to_type};
use punie_host::active_rules::RulesSnapshot;
use punie_host::local::confinement::{CachesInUse, Confinement};
use punie_sandbox::ConfinementLevel;

/// The settings in force in a running runner.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingsInForce {
    /// The runner's process.
    pub pid: u32,
    /// The time of its start, in milliseconds since 1970.
    pub started_at_ms: i64,
    /// The program's version.
    pub version: String,
    pub backend: BackendInForce,
    /// The workspaces, without links.
    pub workspaces: Vec<String>,
    /// `signed` if only requests signed with the configured key are run, else `transport`.
    pub request_auth: String,
    /// The effects and tools that need approval.
    pub ask: Vec<String>,
    /// The rules of policy.toml.
    pub policy: PolicyInForce,
    /// The confinement of commands.
    pub confinement: ConfinementInForce,
    /// Every setting with its value and origin.
    pub settings: Vec<SettingInForce>,
    /// The configuration file, as it was when the runner read it last.
    pub config: ConfigFileState,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BackendInForce {
    /// `convex` or `websocket`.
    pub kind: String,
    /// Its address.
    pub url: Option<String>,
}

/// The rules of policy.toml in force.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PolicyInForce {
    /// The number of rules.
    pub rules: usize,
    /// `allow`, `ask` or `deny`: the decision if no rule matches.
    pub default: String,
    /// The error in policy.toml, with its line.
    pub broken: Option<String>,
}

/// The confinement of commands in force.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfinementInForce {
    /// The level; `unproven` until the self-test has run.
    pub level: String,
    /// The network access of commands: `none`, `loopback`, `ask` or `full`.
    pub network: String,
    /// `read_only` or `watched`: the protection of workspace files that run programs later.
    pub protected_paths: String,
    /// The level meets the owner's requirement, so that commands run.
    pub can_execute: bool,
    /// The number of commands' processes is limited.
    pub limits_processes: bool,
    /// The settings that give commands more than the defaults, and the gaps of a partial level.
    pub openings: Vec<SandboxOpening>,
    /// The caches that commands use.
    #[serde(default)]
    pub caches: CachesInUse,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SettingInForce {
    /// The key, with its table.
    pub key: String,
    /// The value, as a file would have it; never a secret.
    pub value: String,
    /// The flag, the variable or the line of the file that sets it, or `default`.
    pub origin: String,
}

/// The state of the configuration file when the runner read it last.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConfigFileState {
    /// Its path.
    pub file: String,
    /// The hash of its text; null if there was no text.
    pub hash: Option<String>,
    /// The reason why it was not applied.
    pub error: Option<String>,
    /// The settings that need a restart.
    pub waiting: Vec<ChangedSetting>,
}

impl SettingsInForce {
    /// Reads the settings of this running runner. `None` if it has published none yet.
    pub fn read_for(holder: RunnerLockHolder, home: &Home) -> Option<Self> {
        let text = InForceFile::in_home(home).read_text()?;
        let settings: Self = serde_json::from_slice(&text).ok()?;
        (Some(settings.pid) == holder.pid).then_some(settings)
    }

    /// Takes over the backend of the running runner, which flags or variables of its own may have named.
    pub fn apply_backend(&self, config: &mut Config) {
        let url = self.backend.url.as_deref();
        config.backend.url = url.and_then(|url| BackendUrl::parse(url).ok());
        if let Ok(kind) = BackendKind::parse(&self.backend.kind) {
            config.backend.kind = kind;
        }
        config.backend.allow_insecure_http |=
            self.setting_value("backend.allow_insecure_http") == Some("true");
    }

    /// Returns the value of a setting, as a file would have it.
    pub fn setting_value(&self, key: &str) -> Option<&str> {
        let mut settings = self.settings.iter();
        settings
            .find(|setting| setting.key == key)
            .map(|setting| setting.value.as_str())
    }
}

impl PolicyInForce {
    /// Describes the rules that were read last.
    pub fn from_rules(current: &RulesSnapshot) -> Self {
        match &current.broken {
            None => Self {
                rules: current.rules.rules.len(),
                default: current.rules.default.as_str().to_owned(),
                broken: None,
            },
            Some(broken) => Self::from_error(broken),
        }
    }

    /// Describes rules that cannot be read.
    pub fn from_error(broken: &str) -> Self {
        Self {
            rules: 0,
            default: "deny".to_owned(),
            broken: Some(broken.to_owned()),
        }
    }
}

impl ConfinementInForce {
    /// Describes the confinement as far as it is known now.
    pub fn from_confinement(
        config: &Config,
        confinement: &Confinement,
        environment: &ProcessEnvironment,
    ) -> Self {
        let level = confinement.proven_level();
        Self {
            level: confinement.level_text(),
            network: confinement.effective_network().as_str().to_owned(),
            protected_paths: if confinement.has_read_only_protection() {
                "read_only"
            } else {
                "watched"
            }
            .to_owned(),
            can_execute: level
                .as_ref()
                .is_some_and(|level| level.meets_requirement(config.sandbox.require)),
            limits_processes: confinement.limits_processes(),
            openings: list_openings(
                config,
                environment.user_dir(),
                level.as_ref().unwrap_or(&ConfinementLevel::None),
            ),
            caches: confinement.caches_in_use(),
        }
    }

    /// Returns whether the self-test has run.
    pub fn is_proven(&self) -> bool {
        self.level != "unproven"
    }
}

/// Describes the confinement of commands in words, by its level and the network access.
pub fn describe_confinement(level: &str, network: &str) -> String {
    let level = match level {
        "full" => "confined",
        "none" => return "not confined: they can do all that you can".to_owned(),
        _ => &format!("partly confined ({})", command_to_type("status -v")),
    };
    let network = match network {
        "full" => "internet open",
        "ask" => "other hosts only by your rules or your yes",
        _ => "no internet",
    };
    format!("{level}; {network}")
}

/// Returns the hash of a configuration file's text; `None` if there is no text.
pub fn config_file_hash(file: &Path) -> Option<String> {
    let text = read_config_text(file).ok()??;
    Some(to_hex(&Sha256::digest(text)))
}
