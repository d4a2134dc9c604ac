//! Starting processes and knowing when they ended. Not here: what they print (pump), their relatives (family),
//! and how they are stopped (kill).
//!
//! All processes are started by one thread that lives as long as the runner: the system ties "kill me when my
//! parent dies" to the thread that started the process, not to the process it belongs to.
#![expect(unsafe_code, reason = "the child's side of a fork is set up between fork and exec")]
#![expect(clippy::disallowed_methods, reason = "this room starts processes")]

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use rustix::process::{Pid, Signal};
use tokio::sync::oneshot;

use crate::acp::terminals::{ExitStatus, StopSignal, signal_name};

/// A pipe as large as the system allows everybody: fewer switches between the command and its reader.
#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 1 << 20;

/// What to start.
pub(super) struct Plan {
    pub program: PathBuf,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    pub stdin: Option<String>,
}

/// A started process and the one pipe that takes its output and its errors, in the order they come.
pub(super) struct Spawned {
    pub child: Child,
    pub output: OwnedFd,
}

/// A process of ours. It leads its own session and process group.
pub(super) struct Child {
    pid: u32,
    process: Mutex<std::process::Child>,
    ended: OwnedFd,
}

impl Child {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Readable (or hung up) once the process has ended.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// How it ended; none while it runs. Collects it from the system.
    pub fn status(&self) -> io::Result<Option<ExitStatus>> {
        Ok(self.process().try_wait()?.map(named))
    }

    /// Signals its whole process group while it has not been collected: until then its id cannot be another's.
    /// Returns whether it was still there.
    pub fn signal_group(&self, signal: StopSignal) -> bool {
        let mut process = self.process();
        if !matches!(process.try_wait(), Ok(None)) {
            return false;
        }
        let Some(group) = pid_of(self.pid) else { return false };
        let sent = rustix::process::kill_process_group(group, number(signal));
        if signal != StopSignal::Kill {
            // A stopped process acts on nothing before it is continued.
            let _ = rustix::process::kill_process_group(group, Signal::CONT);
        }
        sent.is_ok()
    }

    /// Whether anything is left in its process group.
    pub fn group_lives(&self) -> bool {
        pid_of(self.pid).is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
    }

    fn process(&self) -> MutexGuard<'_, std::process::Child> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Child {
    /// Only a process whose starter went away meanwhile is still running here.
    fn drop(&mut self) {
        if self.signal_group(StopSignal::Kill) {
            drop(self.process().wait());
        }
    }
}

/// The system's number of a signal.
pub(super) fn number(signal: StopSignal) -> Signal {
    match signal {
        StopSignal::Interrupt => Signal::INT,
        StopSignal::Terminate => Signal::TERM,
        StopSignal::HangUp => Signal::HUP,
        StopSignal::Quit => Signal::QUIT,
        StopSignal::Kill => Signal::KILL,
    }
}

/// A process id as the system's calls take it.
pub(super) fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

fn named(status: std::process::ExitStatus) -> ExitStatus {
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, Some(signal)) => {
            ExitStatus::Signal(signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned))
        }
        (None, None) => ExitStatus::Signal("an unknown signal".to_owned()),
    }
}

type Started = Box<dyn FnOnce(&Spawned) + Send>;

struct Job {
    plan: Plan,
    started: Started,
    reply: oneshot::Sender<io::Result<Spawned>>,
}

/// The thread that starts processes. When the last handle is gone it ends, and the system kills what it started.
#[derive(Clone)]
pub(super) struct Spawner {
    jobs: mpsc::Sender<Job>,
}

impl Spawner {
    pub fn new() -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        thread::Builder::new().name("spawner".to_owned()).spawn(move || {
            while let Ok(job) = queue.recv() {
                let spawned = start(job.plan).inspect(|spawned| (job.started)(spawned));
                // A caller that went away meanwhile drops what it was to get, and that kills it.
                drop(job.reply.send(spawned));
            }
        })?;
        Ok(Self { jobs })
    }

    /// Starts a process; `started` is called before anybody else sees it.
    pub async fn spawn(&self, plan: Plan, started: Started) -> io::Result<Spawned> {
        let (reply, answer) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts processes is gone");
        self.jobs.send(Job { plan, started, reply }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

fn start(plan: Plan) -> io::Result<Spawned> {
    let (output, theirs) = output_pipe()?;
    let mut command = Command::new(&plan.program);
    command
        .args(&plan.args)
        .env_clear()
        .envs(&plan.env)
        .current_dir(&plan.cwd)
        .stdin(if plan.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(theirs.try_clone()?)
        .stderr(theirs);
    let runner = rustix::process::getpid();
    // SAFETY: between fork and exec, `set_up_child` makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(move || set_up_child(runner)) };
    let mut process = command.spawn()?;
    // Only the child may hold the pipe's other end from here on.
    drop(command);
    let pid = process.id();
    let input = process.stdin.take();
    let ended = match end_of(pid) {
        Ok(ended) => ended,
        Err(cause) => {
            drop(process.kill());
            drop(process.wait());
            return Err(cause);
        }
    };
    let child = Child { pid, process: Mutex::new(process), ended };
    if let (Some(text), Some(mut input)) = (plan.stdin, input) {
        // A thread of its own: the command may read late, or never. One that stops reading is its own affair.
        thread::Builder::new()
            .name("stdin".to_owned())
            .spawn(move || drop(input.write_all(text.as_bytes())))?;
    }
    Ok(Spawned { child, output })
}

fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    #[cfg(target_os = "linux")]
    let (ours, theirs) = {
        let ends = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // Refused when the user has many pipes; the small one works as well, only slower.
        let _ = rustix::pipe::fcntl_setpipe_size(&ends.0, PIPE_BYTES);
        ends
    };
    #[cfg(not(target_os = "linux"))]
    let (ours, theirs) = {
        let ends = rustix::pipe::pipe()?;
        for end in [&ends.0, &ends.1] {
            rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
        }
        ends
    };
    rustix::fs::fcntl_setfl(&ours, rustix::fs::OFlags::NONBLOCK)?;
    Ok((ours, theirs))
}

/// Something to poll that becomes ready when the process ends.
#[cfg(target_os = "linux")]
fn end_of(pid: u32) -> io::Result<OwnedFd> {
    let pid = pid_of(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?)
}

/// Something to poll that becomes ready when the process ends: a pipe whose writing end a waiting thread drops.
#[cfg(not(target_os = "linux"))]
fn end_of(pid: u32) -> io::Result<OwnedFd> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let pid = pid_of(pid).ok_or(io::ErrorKind::InvalidInput)?;
    let (ended, running) = rustix::pipe::pipe()?;
    for end in [&ended, &running] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
    }
    thread::Builder::new().name("child-end".to_owned()).spawn(move || {
        let only_look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(pid), only_look) == Err(rustix::io::Errno::INTR) {}
        drop(running);
    })?;
    Ok(ended)
}

/// Runs in the child, between fork and exec: system calls only.
fn set_up_child(runner: Pid) -> io::Result<()> {
    // A session of its own: no terminal to ask on, and one group to signal.
    rustix::process::setsid()?;
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The runner may have died before the line above took effect.
        if rustix::process::getppid() != Some(runner) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        // Whatever was opened without care for exec stays here.
        // SAFETY: a plain system call on numbers. It fails on kernels before 5.11, which have no such flag.
        unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = runner;
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    // A runner started with `nohup` or in the background ignores these, and a child would inherit that.
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: resets a disposition; the default one has no handler to run.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    Ok(())
}
