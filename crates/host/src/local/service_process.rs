//! Programs that serve requests over their standard streams, such as the servers of plugins: started and confined like
//! commands, with less access where that is wanted.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::JoinHandle;

use super::child_log::{ChildLog, call_mark};
use super::child_process::{ChildProcess, SpawnedProcess};
use super::child_tracking::ChildTracking;
use super::command_checks::{check_working_folder, explain_start_failure};
#[cfg(target_os = "linux")]
use super::confinement::ConfinedProcess;
use super::confinement::Confinement;
use super::descriptor_limit;
use super::local_terminals::LocalTerminals;
use super::process_kill::stop_process_tree;
use super::process_tree::ProcessTree;
use super::protected_path_watch::ProtectedPathWatch;
use super::self_test_run::wrap_program;
use super::service_launch::{ServiceHosts, ServiceLaunch};
use super::spawn_plan::SpawnPlan;
use crate::network_proxy::{CallNetwork, NetworkCaller, NetworkProxy, add_proxy_variables};
use crate::terminals::{ExitStatus, StopReport, StopSequence, exit_phrase};
use punie_core::host_traffic::HostTraffic;
use punie_core::ids::RequestId;
use punie_sandbox::{NetworkAccess, SandboxProfile};
use punie_tool::ToolError;

/// A started service with its standard streams.
pub struct ServiceProcess {
    /// Takes its input.
    pub input: Sender,
    /// Gives its output.
    pub output: Receiver,
    /// Gives its standard error.
    pub errors: Receiver,
    /// The processes. They are ended when the last reference is dropped.
    pub running: Arc<RunningService>,
}

/// The processes of a service.
pub struct RunningService {
    child: ChildProcess,
    tree: Option<ProcessTree>,
    watch: Option<ProtectedPathWatch>,
    log: Arc<dyn ChildLog>,
    network: Option<ServiceNetwork>,
    // Its namespaces and the listener of the proxy in them.
    _confinement: Confinement,
}

/// The network of a service: the proxy, and the user name of its processes there.
struct ServiceNetwork {
    proxy: NetworkProxy,
    key: String,
    call: Mutex<Option<Arc<CallNetwork>>>,
}

impl LocalTerminals {
    /// Starts a service. `request` is the call for which it is started.
    ///
    /// # Errors
    /// The program is missing or cannot be started, or the confinement that the owner requires cannot be applied.
    pub async fn start_service(
        &self,
        launch: &ServiceLaunch,
        request: &RequestId,
    ) -> Result<ServiceProcess, ToolError> {
        let environment = self.user_environment().await;
        let mut env = environment.for_command(&[])?;
        env.extend(launch.env.iter().cloned());
        if !descriptor_limit::has_free_descriptors() {
            return Err(descriptor_limit::no_descriptors_error());
        }
        check_working_folder(&launch.folder)?;
        let confinement = self.confinement().of_service(launch);
        let words = confinement.wrapper_arguments(&launch.folder).await?;
        let (program, args) =
            wrap_program(words, PathBuf::from(&launch.program), launch.args.clone());
        let watch = confinement.watch_protected_paths(&launch.folder).await;
        let profile = service_profile(&confinement, watch.as_ref(), &launch.name).await?;
        confinement.set_temp_variables(&mut env, &launch.env);
        confinement.limit_network_retries(&mut env);
        let has_hosts = !matches!(launch.network, ServiceHosts::None);
        let has_proxy = has_hosts && confinement.effective_network() == NetworkAccess::Ask;
        let network = has_proxy.then(|| ServiceNetwork {
            proxy: confinement.network_proxy().clone(),
            key: CallNetwork::new_key(),
            call: Mutex::default(),
        });
        if let Some(network) = &network {
            add_proxy_variables(&network.key, &mut env);
            // Before its first instruction: its first connection may be made at once.
            if let Some(caller) = &launch.caller {
                network.admit_caller(caller.clone());
            }
        }
        let mark = call_mark(request, 0);
        if let Some((name, value)) = mark.split_once('=') {
            env.insert(name.to_owned(), value.to_owned());
        }
        let tracking = ChildTracking::from_mark(&mark, true);
        let plan = SpawnPlan {
            env,
            cwd: launch.folder.clone(),
            serves: true,
            tracking: tracking.clone(),
            profile,
            ..SpawnPlan::new(program, args)
        };
        let spawned = self.shared.spawner.spawn(plan).await;
        let spawned = spawned.map_err(|cause| {
            tracking.cleanup();
            explain_start_failure(&launch.as_command(), &launch.folder, &cause)
        })?;
        let log = Arc::clone(&self.shared.setup.log);
        if let Some(identity) = spawned.child.identity() {
            log.record_child_start(request, identity, &launch.as_command().to_string())
                .await;
        }
        let parts = ServiceParts {
            tracking,
            mark,
            watch,
            log,
            network,
            confinement,
        };
        let service = ServiceProcess::from_spawned(spawned, parts)
            .map_err(|cause| ToolError::from_io("the pipes of a service", &cause))?;
        let mut services = self.shared.services.lock();
        services.retain(|service| service.strong_count() > 0);
        services.push(Arc::downgrade(&service.running));
        Ok(service)
    }
}

impl LocalTerminals {
    /// Begins to stop all services.
    pub(super) fn stop_services(&self, sequence: &StopSequence) -> Vec<JoinHandle<StopReport>> {
        let services = std::mem::take(&mut *self.shared.services.lock());
        let running = services.iter().filter_map(Weak::upgrade);
        let stopping = running.map(|service| {
            let sequence = sequence.clone();
            tokio::task::spawn_blocking(move || service.stop_processes(&sequence))
        });
        stopping.collect()
    }
}

#[cfg(target_os = "linux")]
async fn service_profile(
    confinement: &Confinement,
    watch: Option<&ProtectedPathWatch>,
    name: &str,
) -> Result<Option<SandboxProfile>, ToolError> {
    let temp = confinement
        .temp_folder()
        .map(|folder| folder.join(format!("p-{name}")));
    let process = ConfinedProcess {
        watch,
        temp: temp.as_deref(),
        ..ConfinedProcess::default()
    };
    confinement.sandbox_profile(process).await
}

#[cfg(not(target_os = "linux"))]
async fn service_profile(
    _confinement: &Confinement,
    _watch: Option<&ProtectedPathWatch>,
    _name: &str,
) -> Result<Option<SandboxProfile>, ToolError> {
    Ok(None)
}

/// The parts of a service beside its process.
struct ServiceParts {
    tracking: ChildTracking,
    mark: String,
    watch: Option<ProtectedPathWatch>,
    log: Arc<dyn ChildLog>,
    network: Option<ServiceNetwork>,
    confinement: Confinement,
}

impl ServiceProcess {
    fn from_spawned(spawned: SpawnedProcess, parts: ServiceParts) -> io::Result<Self> {
        let SpawnedProcess {
            child,
            output,
            service_pipes,
            ..
        } = spawned;
        let identity = child.identity().cloned();
        let tree = identity
            .map(|leader| ProcessTree::from_command(leader, parts.mark, &parts.tracking, None));
        if let Some(watch) = &parts.watch {
            watch.attach_processes(tree.clone(), true);
        }
        let running = Arc::new(RunningService {
            child,
            tree,
            watch: parts.watch,
            log: parts.log,
            network: parts.network,
            _confinement: parts.confinement,
        });
        let pipes = service_pipes.ok_or_else(|| io::Error::other("they were not made"))?;
        Ok(Self {
            input: Sender::from_owned_fd(pipes.input)?,
            output: Receiver::from_owned_fd(output)?,
            errors: Receiver::from_owned_fd(pipes.errors)?,
            running,
        })
    }
}

impl RunningService {
    /// Waits until the program has ended, for so long at most, and says how: `exit code 1`.
    pub async fn wait_for_end(self: &Arc<Self>, limit: Duration) -> Option<String> {
        let status = self.wait_for_exit(Some(limit)).await;
        status.as_ref().map(exit_phrase)
    }

    /// Returns the id of its first process.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Waits until the program has ended, for so long at most.
    pub async fn wait_for_exit(self: &Arc<Self>, limit: Option<Duration>) -> Option<ExitStatus> {
        let service = Arc::clone(self);
        let waiting = tokio::task::spawn_blocking(move || {
            let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
            let end = service.child.end_descriptor();
            // Whether it has ended is asked below, also if this fails.
            let _ = poll(&mut [PollFd::new(&end, PollFlags::IN)], limit.as_ref());
            service.child.poll_exit_status().ok()?
        });
        waiting.await.ok().flatten()
    }

    /// Lets its processes use the network for this call until the result is dropped, if the service has any.
    pub fn admit_call(self: &Arc<Self>, caller: NetworkCaller) -> AdmittedCall {
        if let Some(network) = &self.network {
            network.admit_caller(caller);
        }
        AdmittedCall(Arc::clone(self))
    }

    /// Returns the call of the caller for whom it was started.
    pub fn first_call(self: &Arc<Self>) -> AdmittedCall {
        AdmittedCall(Arc::clone(self))
    }

    /// Ends all its processes. Blocks.
    pub fn stop_processes(&self, sequence: &StopSequence) -> StopReport {
        let stopped = stop_process_tree(self.tree.as_ref(), Some(&self.child), sequence);
        if stopped.survivors.is_empty() {
            self.tree.iter().for_each(ProcessTree::remove_cgroups);
            if let Some(identity) = self.child.identity() {
                self.log.record_child_end(identity);
            }
        }
        for change in self
            .watch
            .iter()
            .flat_map(|watch| watch.describe_changes(stopped.survivors.is_empty()))
        {
            tracing::warn!(change, "a service changed a protected path");
        }
        stopped
    }

    /// Ends all its processes without waiting.
    pub fn stop_later(self: &Arc<Self>) {
        let service = Arc::clone(self);
        let stopping = thread::Builder::new()
            .name("stop".to_owned())
            .spawn(move || service.stop_processes(&StopSequence::kill_at_once()));
        if let Err(cause) = stopping {
            tracing::error!(%cause, "a service could not be ended");
        }
    }
}

/// A call of a service that is admitted to the network.
pub struct AdmittedCall(Arc<RunningService>);

impl AdmittedCall {
    /// Returns its traffic with other hosts so far.
    pub fn traffic(&self) -> Vec<HostTraffic> {
        let call = self.0.network.as_ref().map(|network| network.call.lock());
        let call = call.as_ref().and_then(|call| call.as_ref());
        call.map_or_else(Vec::new, |call| call.traffic())
    }

    /// Returns why its connections were not made; `None` if all were.
    pub fn failure_text(&self) -> Option<String> {
        let call = self.0.network.as_ref()?.call.lock();
        call.as_ref()?.failure_text()
    }
}

impl Drop for AdmittedCall {
    fn drop(&mut self) {
        if let Some(network) = &self.0.network {
            network.dismiss_caller();
        }
    }
}

impl ServiceNetwork {
    fn admit_caller(&self, caller: NetworkCaller) {
        let call = self.proxy.admit_with_key(caller, self.key.clone());
        *self.call.lock() = Some(call);
    }

    fn dismiss_caller(&self) {
        if let Some(call) = self.call.lock().take() {
            self.proxy.dismiss_call(&call);
        }
    }
}

/// A service that could not be started leaves nobody admitted.
impl Drop for ServiceNetwork {
    fn drop(&mut self) {
        self.dismiss_caller();
    }
}
