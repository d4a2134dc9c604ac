//! Assembles the supervision of bridges.

use super::host::HostBase;
use crate::bridges::{BridgeDeps, BridgeSupervisor};
use punie_engine::runner::Clock;
use punie_home::{BridgeStore, Home, SecretStore};

/// Creates the supervisor of this home's bridges, which starts nothing yet.
pub(super) fn bridge_supervisor(host: &HostBase, home: &Home) -> BridgeSupervisor {
    BridgeSupervisor::new(BridgeDeps {
        terminals: host.terminals.clone(),
        store: BridgeStore::in_home(home),
        secrets: SecretStore::in_home(home),
        redactor: host.redactor.clone(),
        now_ms: || Clock::system().now_ms(),
    })
}
