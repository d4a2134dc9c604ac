//! Starts processes and detects their end. Not here: their output (pump), their descendants, and stopping them.
//!
//! One thread starts all processes and lives as long as the runner. The kernel ties the parent-death signal to the
//! thread that started a process, not to that thread's process.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, waitpid};
use tokio::sync::oneshot;

use super::launch::{ChildStreams, launch_program};
use super::output_pipe::{cloexec_pipe, create_named_pipe, create_output_pipe, open_empty_input};
use super::process_identity::ProcessIdentity;
#[cfg(target_os = "linux")]
use super::process_stat::to_pid;
use super::pty;
use super::spawn_plan::SpawnPlan;
use crate::terminals::{ExitStatus, StopSignal};

/// A started process, and the pipe or the terminal's master side that receives its standard output and error in
/// order.
pub(super) struct SpawnedProcess {
    pub child: ChildProcess,
    pub output: OwnedFd,
    /// The process that holds the terminal of a command that outlives the runner.
    pub holder: Option<ChildProcess>,
    /// The other pipes of a process that serves.
    pub service_pipes: Option<ServicePipes>,
}

/// The pipes of a process that serves, beside its output.
pub(super) struct ServicePipes {
    /// Takes its input.
    pub input: OwnedFd,
    /// Receives its standard error.
    pub errors: OwnedFd,
}

/// A process started by the runner, which leads its own session and process group.
pub(super) struct ChildProcess {
    pid: Pid,
    identity: Option<ProcessIdentity>,
    status: Mutex<Option<ExitStatus>>,
    ended: OwnedFd,
    /// Set if an earlier process of the runner started it: the system then reports when it ends, but not its exit
    /// status.
    adopted: bool,
}

/// The reason why an adopted process has no exit status.
const ADOPTED_REASON: &str = "the runner was restarted while it ran";

impl ChildProcess {
    /// Adopts a process that an earlier process of the runner started. `None` if it has ended.
    #[cfg(target_os = "linux")]
    pub fn adopt_process(identity: ProcessIdentity) -> Option<Self> {
        let pid = to_pid(identity.pid())?;
        let ended = open_end_descriptor(pid).ok()?;
        // Checked after the descriptor is open, so that the id cannot have gone to another process in between.
        let status = Mutex::new(None);
        identity.is_alive().then_some(Self {
            pid,
            identity: Some(identity),
            status,
            ended,
            adopted: true,
        })
    }

    /// Returns `None`: this system cannot identify processes.
    #[cfg(not(target_os = "linux"))]
    pub fn adopt_process(_identity: ProcessIdentity) -> Option<Self> {
        None
    }

    pub fn pid(&self) -> u32 {
        self.pid.as_raw_pid().unsigned_abs()
    }

    /// Returns the process's identity, or `None` on systems without one.
    pub fn identity(&self) -> Option<&ProcessIdentity> {
        self.identity.as_ref()
    }

    /// Returns a descriptor that is readable (or hung up) once the process has ended.
    pub fn end_descriptor(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Returns the exit status, or `None` while the process runs. Reaps the process.
    pub fn poll_exit_status(&self) -> io::Result<Option<ExitStatus>> {
        if self.adopted {
            let lives = self
                .identity
                .as_ref()
                .is_some_and(ProcessIdentity::is_alive);
            return Ok((!lives).then_some(ExitStatus::Unseen(ADOPTED_REASON)));
        }
        self.reap_status(&mut self.status.lock(), WaitOptions::NOHANG)
    }

    /// Signals its whole process group while it has not been reaped: until then its id cannot be reused. That of an
    /// adopted process can, so its tree is signalled process by process elsewhere. Returns whether the process was
    /// still there.
    pub fn signal_group(&self, signal: StopSignal) -> bool {
        if self.adopted {
            return false;
        }
        let mut known = self.status.lock();
        if !matches!(self.reap_status(&mut known, WaitOptions::NOHANG), Ok(None)) {
            return false;
        }
        let sent = rustix::process::kill_process_group(self.pid, signal_number(signal));
        if signal != StopSignal::Kill {
            // A stopped process handles no signal before it is continued.
            let _ = rustix::process::kill_process_group(self.pid, Signal::CONT);
        }
        sent.is_ok()
    }

    /// Returns whether its process group has any processes left.
    pub fn has_group_members(&self) -> bool {
        rustix::process::test_kill_process_group(self.pid).is_ok()
    }

    fn reap_status(
        &self,
        known: &mut Option<ExitStatus>,
        how: WaitOptions,
    ) -> io::Result<Option<ExitStatus>> {
        while known.is_none() {
            match waitpid(Some(self.pid), how) {
                Ok(Some((_, status))) => *known = Some(from_wait_status(status)),
                Ok(None) => break,
                Err(Errno::INTR) => {}
                Err(cause) => return Err(cause.into()),
            }
        }
        Ok(known.clone())
    }
}

impl Drop for ChildProcess {
    /// A process still runs here only if its starter was dropped meanwhile.
    fn drop(&mut self) {
        if self.signal_group(StopSignal::Kill) {
            let _ = self.reap_status(&mut self.status.lock(), WaitOptions::empty());
        }
    }
}

/// Returns the system's number of a signal.
pub(super) fn signal_number(signal: StopSignal) -> Signal {
    match signal {
        StopSignal::Interrupt => Signal::INT,
        StopSignal::Terminate => Signal::TERM,
        StopSignal::HangUp => Signal::HUP,
        StopSignal::Quit => Signal::QUIT,
        StopSignal::Kill => Signal::KILL,
    }
}

fn from_wait_status(status: WaitStatus) -> ExitStatus {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, Some(signal)) => ExitStatus::from_signal_number(signal),
        (None, None) => ExitStatus::Signal("an unknown signal".to_owned()),
    }
}

struct SpawnJob {
    plan: SpawnPlan,
    reply: oneshot::Sender<io::Result<SpawnedProcess>>,
}

/// A handle to the thread that starts processes. Once the last handle is dropped, the thread ends, and the kernel
/// kills the processes that it started.
#[derive(Clone)]
pub(super) struct ProcessSpawner {
    jobs: mpsc::Sender<SpawnJob>,
}

impl ProcessSpawner {
    pub fn new() -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<SpawnJob>();
        thread::Builder::new()
            .name("spawner".to_owned())
            .spawn(move || {
                while let Ok(job) = queue.recv() {
                    // If the caller is gone, the result is dropped, which kills the process.
                    drop(job.reply.send(start_process(job.plan)));
                }
            })?;
        Ok(Self { jobs })
    }

    /// Starts a process.
    pub async fn spawn(&self, plan: SpawnPlan) -> io::Result<SpawnedProcess> {
        let (reply, answer) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts processes is gone");
        self.jobs
            .send(SpawnJob { plan, reply })
            .map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

fn start_process(mut plan: SpawnPlan) -> io::Result<SpawnedProcess> {
    if let Some(window) = plan.tty {
        let ours = pty::open_pty(window)?;
        let spare = ours.try_clone()?;
        let pid = launch_program(
            &plan,
            ChildStreams {
                input: ours.as_fd(),
                output: ours.as_fd(),
                errors: None,
                terminal: true,
            },
        )?;
        let child = watch_process(pid, spare)?;
        let holder = plan
            .tracking
            .fifo
            .as_deref()
            .and_then(|socket| start_terminal_holder(&ours, socket));
        return Ok(SpawnedProcess {
            child,
            output: ours,
            holder,
            service_pipes: None,
        });
    }
    if plan.serves {
        return start_service(&plan);
    }
    let (output, theirs) = match &plan.tracking.fifo {
        Some(path) => create_named_pipe(path)?,
        None => create_output_pipe()?,
    };
    let (input, ours) = match &plan.stdin {
        Some(_) => {
            let (read, write) = cloexec_pipe()?;
            (read, Some(write))
        }
        None => (open_empty_input()?, None),
    };
    if let (Some(text), Some(ours)) = (plan.stdin.take(), ours) {
        // A separate thread, because the command may read late, or never; if it stops reading, that is no error. It
        // is created before the command: without the thread, nothing must have run.
        let feed = move || drop(File::from(ours).write_all(text.as_bytes()));
        thread::Builder::new()
            .name("stdin".to_owned())
            .spawn(feed)?;
    }
    let spare = output.try_clone()?;
    let pid = launch_program(
        &plan,
        ChildStreams {
            input: input.as_fd(),
            output: theirs.as_fd(),
            errors: None,
            terminal: false,
        },
    )?;
    // Only the child may hold these from here on.
    drop((input, theirs));
    Ok(SpawnedProcess {
        child: watch_process(pid, spare)?,
        output,
        holder: None,
        service_pipes: None,
    })
}

/// Starts a process that serves: each of its standard streams is a pipe of its own.
fn start_service(plan: &SpawnPlan) -> io::Result<SpawnedProcess> {
    let (input, our_input) = cloexec_pipe()?;
    let (output, their_output) = cloexec_pipe()?;
    let (errors, their_errors) = cloexec_pipe()?;
    let spare = output.try_clone()?;
    let streams = ChildStreams {
        input: input.as_fd(),
        output: their_output.as_fd(),
        errors: Some(their_errors.as_fd()),
        terminal: false,
    };
    let child = watch_process(launch_program(plan, streams)?, spare)?;
    Ok(SpawnedProcess {
        child,
        output,
        holder: None,
        service_pipes: Some(ServicePipes {
            input: our_input,
            errors,
        }),
    })
}

/// Starts a process that holds the terminal open after the runner's end. Without it, the command ends with the
/// runner.
#[cfg(target_os = "linux")]
fn start_terminal_holder(terminal: &OwnedFd, socket: &Path) -> Option<ChildProcess> {
    let start = || {
        let (plan, listener) = super::terminal_holder::prepare_holder(socket)?;
        let streams = ChildStreams {
            input: terminal.as_fd(),
            output: listener.as_fd(),
            errors: None,
            terminal: false,
        };
        let spare = terminal.try_clone()?;
        watch_process(launch_program(&plan, streams)?, spare)
    };
    let started = start();
    started
        .inspect_err(|cause| tracing::warn!(%cause, "a terminal will not outlive the runner"))
        .ok()
}

#[cfg(not(target_os = "linux"))]
fn start_terminal_holder(_terminal: &OwnedFd, _socket: &Path) -> Option<ChildProcess> {
    None
}

/// Wraps a started process. If its end cannot be watched, it is killed. `spare`: a descriptor that was opened before the
/// process began and is free from here on, so that a lack of them stops a process before it begins.
pub(super) fn watch_process(pid: Pid, spare: OwnedFd) -> io::Result<ChildProcess> {
    drop(spare);
    let identity = ProcessIdentity::from_pid(pid.as_raw_pid().unsigned_abs());
    match open_end_descriptor(pid) {
        Ok(ended) => Ok(ChildProcess {
            pid,
            identity,
            status: Mutex::new(None),
            ended,
            adopted: false,
        }),
        Err(cause) => {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
            // `ErrorKind::Other`, because the process had begun, and callers take specific kinds to mean that it had
            // not.
            Err(io::Error::other(format!(
                "it was started, could not be watched and was ended at once: {cause}"
            )))
        }
    }
}

/// Returns a descriptor that becomes readable when the process ends.
#[cfg(target_os = "linux")]
fn open_end_descriptor(pid: Pid) -> io::Result<OwnedFd> {
    Ok(rustix::process::pidfd_open(
        pid,
        rustix::process::PidfdFlags::empty(),
    )?)
}

/// Returns a descriptor that becomes readable when the process ends: a pipe whose writing end a waiting thread drops.
#[cfg(not(target_os = "linux"))]
fn open_end_descriptor(pid: Pid) -> io::Result<OwnedFd> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let (ended, running) = cloexec_pipe()?;
    thread::Builder::new()
        .name("child-end".to_owned())
        .spawn(move || {
            let only_look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while waitid(WaitId::Pid(pid), only_look) == Err(Errno::INTR) {}
            drop(running);
        })?;
    Ok(ended)
}
