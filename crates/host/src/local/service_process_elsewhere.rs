//! Services on systems on which no command can be confined: none is started.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{Empty, Sink};

use super::local_terminals::LocalTerminals;
use super::service_launch::ServiceLaunch;
use crate::terminals::{ExitStatus, StopReport, StopSequence};
use punie_core::host_traffic::HostTraffic;
use punie_core::ids::RequestId;
use punie_tool::{ErrorCode, ToolError};

/// A started service; there is none here.
#[expect(missing_docs, reason = "the same as where services can be started")]
pub struct ServiceProcess {
    pub input: Sink,
    pub output: Empty,
    pub errors: Empty,
    pub running: Arc<RunningService>,
}

pub struct RunningService(());

/// A call of a service that is admitted to the network.
pub struct AdmittedCall(());

impl LocalTerminals {
    /// Refuses to start a service.
    ///
    /// # Errors
    /// Always.
    #[expect(
        clippy::unused_async,
        reason = "the same as where services can be started"
    )]
    pub async fn start_service(
        &self,
        launch: &ServiceLaunch,
        _request: &RequestId,
    ) -> Result<ServiceProcess, ToolError> {
        let text = format!(
            "{} was not started: programs are not run on this system.",
            launch.program
        );
        Err(ToolError::new(ErrorCode::PolicyDenied, text))
    }
}

impl RunningService {
    /// Returns at once: there is no program.
    #[expect(
        clippy::unused_async,
        reason = "the same as where services can be started"
    )]
    pub async fn wait_for_end(self: &Arc<Self>, _limit: Duration) -> Option<String> {
        None
    }

    /// Returns no process.
    pub fn pid(&self) -> u32 {
        0
    }

    /// Returns at once: there is no program.
    #[expect(
        clippy::unused_async,
        reason = "the same as where services can be started"
    )]
    pub async fn wait_for_exit(self: &Arc<Self>, _limit: Option<Duration>) -> Option<ExitStatus> {
        None
    }

    /// Has nothing to end.
    pub fn stop_processes(&self, _sequence: &StopSequence) -> StopReport {
        StopReport::default()
    }

    /// Returns a call without a network.
    pub fn first_call(self: &Arc<Self>) -> AdmittedCall {
        AdmittedCall(())
    }

    /// Admits a call to no network.
    pub fn admit_call(self: &Arc<Self>, _caller: NetworkCaller) -> AdmittedCall {
        AdmittedCall(())
    }

    /// Does nothing.
    pub fn stop_later(self: &Arc<Self>) {}
}

impl AdmittedCall {
    /// Returns nothing.
    pub fn traffic(&self) -> Vec<HostTraffic> {
        Vec::new()
    }

    /// Returns nothing.
    pub fn failure_text(&self) -> Option<String> {
        None
    }
}
