//! The confinement of plugins, MCP servers and bridges: what commands have, or less.

#[cfg(target_os = "linux")]
use std::sync::Arc;

use super::super::service_launch::{ServiceHosts, ServiceLaunch};
use super::Confinement;
use crate::network_proxy::{HostGate, NetworkProxy};
use punie_sandbox::{NetworkAccess, SandboxRules, WorkspaceAccess};

impl Confinement {
    /// Creates the confinement of one service. It is tested anew, since its rules are others.
    pub(in crate::local) fn of_service(&self, launch: &ServiceLaunch) -> Self {
        let Some(current) = self.state() else {
            return self.clone();
        };
        let mut setup = current.setup.clone();
        let mut proxy = self.proxy.clone();
        let has_own_caches = launch.own.is_none() && launch.workspaces != WorkspaceAccess::Write;
        setup.rules = match &launch.own {
            Some(own) => {
                let reads = current.program_prefixes(&own.programs);
                let reads = [launch.folder.clone()].into_iter().chain(reads).collect();
                setup
                    .rules
                    .with_own_folders(reads, own.writes.clone(), own.home.clone())
            }
            None => SandboxRules {
                shown: vec![launch.folder.clone()],
                ..setup.rules.with_workspace_access(launch.workspaces)
            },
        };
        if has_own_caches {
            setup.rules = setup.rules.with_own_caches(&launch.name);
        }
        match &launch.network {
            ServiceHosts::None => setup.rules.network = NetworkAccess::None,
            ServiceHosts::AsCommands => {}
            ServiceHosts::Declared(hosts) => {
                setup.rules.network = NetworkAccess::Ask;
                proxy = NetworkProxy::default();
                proxy.set_gate(HostGate::for_hosts(hosts.clone()));
            }
        }
        let mut state = current.with_setup(setup);
        state.proxy = proxy;
        #[cfg(target_os = "linux")]
        if has_own_caches {
            state.caches = Arc::default();
        }
        Self::from_state(state)
    }
}
