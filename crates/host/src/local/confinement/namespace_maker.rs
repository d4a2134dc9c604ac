//! Starts processes that make namespaces and views, and takes these from them before they end.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};

use super::super::child_process::{ProcessSpawner, SpawnedProcess};
use super::super::command_checks::resolve_program;
use super::super::local_ports;
use super::super::spawn_plan::SpawnPlan;
use crate::terminals::{CommandLaunch, WindowSize};
use punie_sandbox::profile::{NamespaceChoice, NamespaceSet, SandboxProfile};

/// How long the program of such a process may take to start on a busy machine.
const MAX_LOADING_SECONDS: i64 = 60;

/// Opens the namespace of this kind that a process is in.
pub(super) fn open_namespace(process: &SpawnedProcess, kind: &str) -> io::Result<OwnedFd> {
    let path = format!("/proc/{}/ns/{kind}", process.child.pid());
    Ok(open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Starts a process that waits for input that never comes, and returns once its program runs: while the program is
/// being loaded, the process can still have memory that nobody may look into, and its files in /proc cannot be opened.
pub(super) async fn spawn_maker(
    spawner: &ProcessSpawner,
    profile: SandboxProfile,
) -> io::Result<SpawnedProcess> {
    let script = CommandLaunch::Shell("echo; read -r _".to_owned());
    let (program, args) = resolve_program(&script)
        .map_err(|error| io::Error::other(error.model_text().to_owned()))?;
    let plan = SpawnPlan {
        tty: Some(WindowSize::default()),
        profile: Some(profile),
        ..SpawnPlan::new(program, args)
    };
    let maker = spawner.spawn(plan).await?;
    let terminal = maker.output.try_clone()?;
    let wait = move || {
        let limit = Timespec {
            tv_sec: MAX_LOADING_SECONDS,
            tv_nsec: 0,
        };
        let mut terminal = [PollFd::new(&terminal, PollFlags::IN)];
        match rustix::io::retry_on_intr(|| poll(&mut terminal, Some(&limit)))? {
            0 => Err(io::Error::from(io::ErrorKind::TimedOut)),
            _ => Ok(()),
        }
    };
    tokio::task::spawn_blocking(wait)
        .await
        .map_err(io::Error::other)??;
    Ok(maker)
}

/// Creates the namespaces in a process that waits until they are opened here, and then ends. Returns them with the
/// listeners at these ports of their loopback.
pub(super) async fn create_namespaces(
    spawner: &ProcessSpawner,
    user: Arc<OwnedFd>,
    network: bool,
    local_ports: &[u16],
) -> io::Result<(NamespaceSet, Vec<OwnedFd>)> {
    let ports = if network {
        local_ports.to_vec()
    } else {
        Vec::new()
    };
    let count = ports.len();
    let choice = NamespaceChoice::New {
        user: Some(Arc::clone(&user)),
        network,
        ports,
    };
    let maker = spawn_maker(spawner, SandboxProfile::for_making(choice, Vec::new())).await?;
    let listeners = local_ports::take_listeners(maker.child.pid(), count)?;
    let network = network.then(|| open_namespace(&maker, "net")).transpose()?;
    // Without its own IPC namespace, the runner's would be held, and the filter would take it for a separate one.
    let own = |path: &str| std::fs::read_link(format!("{path}/ns/ipc")).ok();
    let is_apart = own("/proc/self") != own(&format!("/proc/{}", maker.child.pid()));
    let names = if is_apart {
        open_namespace(&maker, "ipc").ok()
    } else {
        None
    };
    let set = NamespaceSet {
        user,
        ipc: names,
        network,
    };
    Ok((set, listeners))
}
