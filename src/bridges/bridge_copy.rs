//! One running copy of a bridge: started confined, with its secrets, its output in its log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::task::JoinSet;

use super::bridge_log::BridgeLog;
use super::supervisor::BridgeDeps;
use punie_core::ids::RequestId;
use punie_home::{BridgeFolders, BridgeRecord, SecretStore};
use punie_host::local::service_launch::{
    ServiceFolders, ServiceHosts, ServiceLaunch, WorkspaceAccess,
};
use punie_host::local::service_process::{AdmittedCall, RunningService, ServiceProcess};
use punie_host::network_proxy::NetworkCaller;
use punie_host::terminals::{ExitStatus, StopReport, StopSequence, exit_phrase};
use punie_policy::HostPattern;
use punie_text::redact::{Masker, Redactor};

/// The longest wait for the last output of a copy whose processes are gone.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// A running copy.
pub(super) struct BridgeCopy {
    running: Arc<RunningService>,
    // It has the network and its input as long as it runs.
    _network: AdmittedCall,
    _input: Box<dyn Send + Sync>,
    readers: JoinSet<()>,
    log: Arc<BridgeLog>,
}

impl BridgeCopy {
    /// Starts a copy whose processes this request marks; an error is a sentence.
    pub async fn start(
        deps: &BridgeDeps,
        (name, record): (&str, &BridgeRecord),
        request: &RequestId,
    ) -> Result<Self, String> {
        let folders = deps
            .store
            .folders(name)
            .map_err(|error| error.to_string())?;
        folders.create_own().map_err(|error| error.to_string())?;
        let mut launch = launch_bridge(deps, &folders, (name, record)).await?;
        launch.caller = Some(NetworkCaller {
            tool: "bridge".to_owned(),
            command: name.to_owned(),
            request: request.clone(),
            conversation: None,
        });
        let started = deps.terminals.start_service(&launch, request).await;
        let ServiceProcess {
            input,
            output,
            errors,
            running,
        } = started.map_err(|error| error.model_text().to_owned())?;
        let network = running.first_call();
        let log = Arc::new(BridgeLog::new(&folders));
        let mut readers = JoinSet::new();
        readers.spawn(copy_output(
            output,
            deps.redactor.stream_masker(),
            Arc::clone(&log),
        ));
        readers.spawn(copy_output(
            errors,
            deps.redactor.stream_masker(),
            Arc::clone(&log),
        ));
        let copy = Self {
            running,
            _network: network,
            _input: Box::new(input),
            readers,
            log,
        };
        copy.note(format!("started, process {}", copy.pid())).await;
        Ok(copy)
    }

    /// Returns its first process.
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Waits until its first process has ended, and says how: `exit code 1`.
    pub async fn wait_for_end(&self) -> String {
        match self.running.wait_for_exit(None).await {
            Some(status @ (ExitStatus::Code(_) | ExitStatus::Signal(_))) => exit_phrase(&status),
            _ => "an exit that was not seen".to_owned(),
        }
    }

    /// Ends all its processes, and waits until they are gone and their output is logged.
    pub async fn stop(&mut self, sequence: StopSequence, why: &str) -> StopReport {
        let running = Arc::clone(&self.running);
        let stopping = tokio::task::spawn_blocking(move || running.stop_processes(&sequence));
        let stopped = stopping.await.unwrap_or_default();
        if stopped.survivors.is_empty() {
            // All ends of its pipes are closed, or are in a moment: a process that is just started may have them too.
            let reading = async { while self.readers.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(LAST_OUTPUT_TIMEOUT, reading).await;
        }
        self.note(why.to_owned()).await;
        stopped
    }

    async fn note(&self, note: String) {
        let log = Arc::clone(&self.log);
        // A log that cannot be written stops nothing.
        let _ = tokio::task::spawn_blocking(move || log.append_note(&note)).await;
    }
}

/// Describes the start of a bridge, with its secrets as variables.
async fn launch_bridge(
    deps: &BridgeDeps,
    folders: &BridgeFolders,
    (name, record): (&str, &BridgeRecord),
) -> Result<ServiceLaunch, String> {
    let hosts = record.hosts.iter().map(|host| HostPattern::new(host));
    let hosts = hosts.collect::<Result<Vec<_>, _>>()?;
    let store = deps.secrets.clone();
    let redactor = deps.redactor.clone();
    let wanted = record.secrets.clone();
    let reading = tokio::task::spawn_blocking(move || read_secrets(&store, &redactor, &wanted));
    let mut env = reading.await.map_err(|error| error.to_string())??;
    let data = folders.data_dir().display().to_string();
    env.push(("HOME".to_owned(), data.clone()));
    env.push(("PUNIE_BRIDGE_DATA".to_owned(), data));
    env.extend(proxied_loopback(&record.hosts));
    Ok(ServiceLaunch {
        // No plugin has a dot in its id.
        name: format!("bridge.{name}"),
        program: "node".to_owned(),
        args: vec![record.main.clone()],
        folder: folders.code_dir(),
        workspaces: WorkspaceAccess::Hidden,
        own: Some(ServiceFolders {
            writes: folders.data_dir(),
            home: folders.home_dir(),
            programs: vec!["node".to_owned()],
        }),
        network: if hosts.is_empty() {
            ServiceHosts::None
        } else {
            ServiceHosts::Declared(hosts)
        },
        env,
        caller: None,
    })
}

/// Returns the variables that send connections to this machine's loopback through the proxy too, where it is among the
/// hosts: the program has a loopback of its own.
pub(super) fn proxied_loopback(hosts: &[String]) -> Vec<(String, String)> {
    let is_loopback = |host: &String| {
        ["127.", "localhost", "[::1]", "::1"]
            .iter()
            .any(|start| host.starts_with(start))
    };
    let names: &[&str] = if hosts.iter().any(is_loopback) {
        &["NO_PROXY", "no_proxy"]
    } else {
        &[]
    };
    names
        .iter()
        .map(|name| ((*name).to_owned(), String::new()))
        .collect()
}

/// Reads the secrets of a bridge, which are masked from now on. Blocks.
fn read_secrets(
    store: &SecretStore,
    redactor: &Redactor,
    wanted: &BTreeMap<String, String>,
) -> Result<Vec<(String, String)>, String> {
    let mut variables = Vec::new();
    for (variable, name) in wanted {
        let value = store.get(name).map_err(|error| error.to_string())?;
        let value = value.ok_or_else(|| {
            format!(
                "there is no secret {name}. Store it: {}",
                punie_home::command_to_type(&format!("secrets set {name}"))
            )
        })?;
        redactor.add_secret(&value);
        variables.push((variable.clone(), value.expose().clone()));
    }
    store.record_use(wanted.values().map(String::as_str));
    Ok(variables)
}

/// Copies output to the log, masked, until its end.
async fn copy_output(mut output: impl AsyncRead + Unpin, mut masker: Masker, log: Arc<BridgeLog>) {
    let mut chunk = vec![0; 16 << 10];
    loop {
        let read = output.read(&mut chunk).await.unwrap_or(0);
        let mut clean = Vec::new();
        if read == 0 {
            masker.finish(&mut clean);
        } else {
            masker.push(&chunk[..read], &mut clean);
        }
        if !clean.is_empty() {
            let log = Arc::clone(&log);
            // A log that cannot be written stops nothing.
            let _ = tokio::task::spawn_blocking(move || log.append(&clean)).await;
        }
        if read == 0 {
            return;
        }
    }
}
