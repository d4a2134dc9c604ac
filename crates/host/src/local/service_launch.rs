//! What a service is started with: its program, its folders, its hosts. Not here: starting it (service_process).

use std::path::PathBuf;

use crate::network_proxy::NetworkCaller;
#[cfg(unix)]
use crate::terminals::CommandLaunch;
use punie_policy::HostPattern;
pub use punie_sandbox::WorkspaceAccess;

/// A program to start as a service.
#[derive(Debug, Clone)]
pub struct ServiceLaunch {
    /// Its name, by which it gets a folder for temporary files.
    pub name: String,
    /// The program: a path, or a name on the PATH.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The folder in which it starts. It may read there.
    pub folder: PathBuf,
    /// Its access to the workspaces.
    pub workspaces: WorkspaceAccess,
    /// Its own folders, beside which it gets nothing of the user's but programs.
    pub own: Option<ServiceFolders>,
    /// Its access to the network while a call is admitted.
    pub network: ServiceHosts,
    /// Variables beside those of every command.
    pub env: Vec<(String, String)>,
    /// The caller for whom it has the network from its start on; without one, none has it before
    /// [`RunningService::admit_call`](super::service_process::RunningService::admit_call).
    pub caller: Option<NetworkCaller>,
}

/// The folders that a service alone uses.
#[derive(Debug, Clone)]
pub struct ServiceFolders {
    /// The folder that it writes.
    pub writes: PathBuf,
    /// The folder that it sees as the user's home.
    pub home: PathBuf,
    /// The programs that it needs. Of the user's home it sees what these need.
    pub programs: Vec<String>,
}

/// The hosts that a service may reach.
#[derive(Debug, Clone)]
pub enum ServiceHosts {
    /// None.
    None,
    /// Those that commands may reach.
    AsCommands,
    /// These alone, and nobody is asked.
    Declared(Vec<HostPattern>),
}

impl ServiceLaunch {
    #[cfg(unix)]
    pub(super) fn as_command(&self) -> CommandLaunch {
        CommandLaunch::Program {
            command: self.program.clone(),
            args: self.args.clone(),
        }
    }
}
