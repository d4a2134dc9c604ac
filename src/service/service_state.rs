//! The state of a service, as its manager tells it.

use serde::Serialize;

/// The state of a service. `None` where the manager does not say.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceState {
    /// The manager knows the service.
    pub is_installed: bool,
    /// The runner runs.
    pub is_running: bool,
    /// The manager's own word for the state, such as `active (running)`.
    pub state: String,
    /// The start of the running process, as the manager writes times.
    pub since: Option<String>,
    /// The process id of the runner.
    pub pid: Option<u32>,
    /// The service is started at login.
    pub is_enabled: Option<bool>,
    /// The service is started with the system, and outlives the last logout.
    pub lingers: Option<bool>,
    /// The number of restarts since the last start by hand.
    pub restarts: Option<u32>,
    /// The exit code of the last process that ended by itself with an error.
    pub failed_with: Option<i32>,
}
