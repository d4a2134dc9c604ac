//! The openings of the sandbox: settings that give commands more than the defaults, and the gaps of a partial level.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::{Config, ValueOrigin};
use punie_sandbox::{ConfinementLevel, NetworkAccess, RequiredLevel, services};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxOpening {
    /// The key under `[sandbox]`; `level` for a gap of the measured level.
    pub setting: String,
    /// The value of the key, or the name of the gap.
    pub value: String,
    /// The access that commands have by it.
    pub meaning: String,
}

/// Lists the openings that the owner set, and those that the system leaves at this level.
pub(super) fn list_openings(
    config: &Config,
    user_home: Option<&Path>,
    level: &ConfinementLevel,
) -> Vec<SandboxOpening> {
    let sandbox = &config.sandbox;
    let mut openings = Vec::new();
    let mut add = |setting: &'static str, value: String, meaning: &'static str| {
        openings.push(SandboxOpening {
            setting: setting.to_owned(),
            value,
            meaning: meaning.to_owned(),
        });
    };
    for path in &sandbox.write {
        let meaning = if services::leads_to_service(user_home, path) {
            "commands can write it and connect to the programs that listen there, which act for you"
        } else {
            "commands can read and write it"
        };
        add("write", path.display().to_string(), meaning);
    }
    for path in &sandbox.read {
        add("read", path.display().to_string(), "commands can read it");
    }
    for port in &sandbox.local_ports {
        let meaning = if services::SERVICE_PORTS.contains(port) {
            "commands can connect to this port of this machine; what listens there runs programs for its callers"
        } else {
            "commands can connect to this port of this machine"
        };
        add("local_ports", port.to_string(), meaning);
    }
    if sandbox.network == NetworkAccess::Full {
        let meaning = "commands can reach the internet, your network and all ports of this machine";
        add("network", sandbox.network.as_str().to_owned(), meaning);
    }
    if sandbox.unsafe_openings {
        let meaning = "write and local_ports may open programs that act for you; commands can then do all that you can";
        add("unsafe", true.to_string(), meaning);
    }
    if sandbox.apps {
        let meaning = "OpenApp starts applications, which run unconfined";
        add("apps", true.to_string(), meaning);
    }
    if !sandbox.confine {
        let meaning = "nothing confines commands; they run only with require = \"none\"";
        add("confine", false.to_string(), meaning);
    }
    let is_own_choice = config.value_origin("sandbox.require") != Some(&ValueOrigin::Default);
    if sandbox.require == RequiredLevel::None && is_own_choice {
        let meaning = "commands run at every level, also unconfined";
        add("require", sandbox.require.as_str().to_owned(), meaning);
    }
    if let ConfinementLevel::Partial(open) = level {
        for escape in open {
            add("level", escape.as_str().to_owned(), escape.describe_risk());
        }
    }
    openings
}
