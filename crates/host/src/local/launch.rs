//! Starts a planned program: the system calls that create its process. Not here: the thread that makes them, and the
//! process once it runs (child_process).
//!
//! On Linux the child shares the runner's memory until it executes the program, as in `posix_spawn`, and the starting
//! thread waits that long. A `fork` would copy the page tables first: a quarter of a millisecond for a small runner,
//! more for a large one, on every command. `posix_spawn` itself cannot set the parent-death signal.
#![expect(
    unsafe_code,
    reason = "the child's side runs between its making and the program's start"
)]

use std::io;
use std::os::fd::BorrowedFd;

use rustix::process::{Pid, Signal};

use super::child_tracking::PreparedTracking;
use super::spawn_plan::SpawnPlan;

/// The descriptors that become the child's standard streams.
pub(super) struct ChildStreams<'a> {
    pub input: BorrowedFd<'a>,
    pub output: BorrowedFd<'a>,
    /// The standard error; the output if there is none.
    pub errors: Option<BorrowedFd<'a>>,
    /// Set if both are the terminal's master side: the child opens the slave side, which becomes its session's
    /// controlling terminal.
    pub terminal: bool,
}

/// Prepares the child before the program starts, the same on every system. It makes system calls only, because the
/// child may share memory and locks with the runner, or have copies of locks that no thread will release.
pub(super) fn set_up_child(runner: Pid, knots: &PreparedTracking) -> io::Result<()> {
    // A session of its own: no terminal to prompt on, and one group to signal.
    rustix::process::setsid()?;
    // If this fails, one of the means to find the command's processes is missing, and the command runs all the same.
    let _ = knots.apply_limit_mark();
    #[cfg(target_os = "linux")]
    if !knots.outlives_runner() {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The runner may have died before the line above took effect.
        if rustix::process::getppid() != Some(runner) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
    }
    #[cfg(target_os = "linux")]
    {
        // Descriptors opened without close-on-exec are not inherited.
        // SAFETY: a plain system call on numbers. It fails on kernels before 5.11, which have no such flag.
        unsafe {
            libc::syscall(
                libc::SYS_close_range,
                3u32,
                u32::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            )
        };
    }
    #[cfg(target_os = "linux")]
    raise_oom_score();
    #[cfg(not(target_os = "linux"))]
    let _ = (runner, Signal::KILL);
    let none = rustix::process::Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    Ok(())
}

/// Raises the child's OOM score: when memory runs out, the kernel then kills a command and not the runner, which can
/// report it.
#[cfg(target_os = "linux")]
fn raise_oom_score() {
    use rustix::fs::{Mode, OFlags, open};
    // Refused if the runner's own score is higher; the commands inherit that one then.
    if let Ok(score) = open(
        c"/proc/self/oom_score_adj",
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        let _ = rustix::io::write(score, b"300");
    }
}

#[cfg(target_os = "linux")]
pub(super) use shared_memory::launch_program;

#[cfg(target_os = "linux")]
mod shared_memory {
    use std::ffi::{CString, c_char, c_int, c_void};
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use std::ptr;
    use std::time::Duration;

    use super::super::child_descriptors::UsedDescriptors;
    use super::super::control_group::ControlGroup;
    use super::super::memory_dumps::with_writable_proc_files;
    use super::{BorrowedFd, ChildStreams, Pid, PreparedTracking, SpawnPlan, io, set_up_child};
    use punie_sandbox::SandboxProfile;
    use punie_sandbox::enter_sandbox::{IdMaps, enter_sandbox};

    /// The child's stack until the program starts. Only a few system calls run on it.
    const STACK_BYTES: usize = 128 << 10;
    /// Added to the error number if entering the confinement failed.
    const CONFINEMENT_FLAG: c_int = 1 << 16;
    /// The highest signal number, real-time signals included.
    const LAST_SIGNAL: c_int = 64;

    /// Everything that the child reads, created before it exists, because the child must not allocate.
    struct ChildArgs<'a> {
        runner: Pid,
        /// The possible paths of the program, in the order of the PATH.
        candidates: Vec<CString>,
        argv: Vec<*const c_char>,
        envp: Vec<*const c_char>,
        cwd: CString,
        streams: ChildStreams<'a>,
        tracking: PreparedTracking,
        profile: Option<(&'a SandboxProfile, IdMaps)>,
        used: UsedDescriptors,
        /// Set by the child: the time it took to enter its control group, in nanoseconds.
        entered_in: u64,
        /// Set by the child if it could not start the program.
        failed: c_int,
    }

    /// Starts the program.
    ///
    /// # Errors
    /// The system's errors, those in the child included: a missing program, a missing folder.
    pub fn launch_program(plan: &SpawnPlan, streams: ChildStreams<'_>) -> io::Result<Pid> {
        let text = |bytes: &[u8]| {
            CString::new(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
        };
        let program = text(plan.program.as_os_str().as_bytes())?;
        let args: Vec<CString> = plan
            .args
            .iter()
            .map(|arg| text(arg.as_bytes()))
            .collect::<Result<_, _>>()?;
        let entry = |(name, value): (&String, &String)| text(format!("{name}={value}").as_bytes());
        let env: Vec<CString> = plan.env.iter().map(entry).collect::<Result<_, _>>()?;
        let tracking = plan.tracking.prepare();
        let used = UsedDescriptors::of_child(plan, &streams, &tracking);
        let mut orders = ChildArgs {
            runner: rustix::process::getpid(),
            candidates: program_candidates(&plan.program, plan.env.get("PATH"))?,
            argv: to_pointers(std::iter::once(&program).chain(&args)),
            envp: to_pointers(&env),
            cwd: text(plan.cwd.as_os_str().as_bytes())?,
            streams,
            tracking,
            profile: plan
                .profile
                .as_ref()
                .map(|cage| (cage, IdMaps::from_current_user())),
            used,
            entered_in: 0,
            failed: 0,
        };
        let pid = with_writable_proc_files(|| clone_child(&mut orders))?;
        // SAFETY: the child wrote it, if at all, before `clone` returned here; a volatile read because the compiler
        // cannot know that.
        let failed = unsafe { ptr::read_volatile(&raw const orders.failed) };
        // SAFETY: as above.
        let entered_in = unsafe { ptr::read_volatile(&raw const orders.entered_in) };
        if entered_in > 0 {
            ControlGroup::record_entry_time(Duration::from_nanos(entered_in));
        }
        if failed == 0 {
            return Ok(pid);
        }
        let collect = || rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        while matches!(collect(), Err(rustix::io::Errno::INTR)) {}
        let cause = io::Error::from_raw_os_error(failed & !CONFINEMENT_FLAG);
        let is_shortage = matches!(cause.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
        let is_of_confinement = failed & CONFINEMENT_FLAG != 0 && !is_shortage;
        Err(if is_of_confinement {
            io::Error::other(format!("it cannot be confined: {cause}"))
        } else {
            cause
        })
    }

    fn to_pointers<'a>(texts: impl IntoIterator<Item = &'a CString>) -> Vec<*const c_char> {
        texts
            .into_iter()
            .map(|text| text.as_ptr())
            .chain([ptr::null()])
            .collect()
    }

    /// Returns the paths to try: a path as it is, or a bare name in every folder of the command's own PATH.
    fn program_candidates(program: &Path, path: Option<&String>) -> io::Result<Vec<CString>> {
        let name = program.as_os_str().as_bytes();
        let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
        if name.contains(&b'/') {
            return Ok(vec![CString::new(name).map_err(invalid)?]);
        }
        let path = path.map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
        let folders = path.split(':').filter(|folder| !folder.is_empty());
        folders
            .map(|folder| CString::new([folder.as_bytes(), b"/", name].concat()).map_err(invalid))
            .collect()
    }

    /// Creates the child, and returns once it has started the program or failed to.
    fn clone_child(orders: &mut ChildArgs<'_>) -> io::Result<Pid> {
        let mut stack = vec![MaybeUninit::<u128>::uninit(); STACK_BYTES / size_of::<u128>()];
        let top = stack.as_mut_ptr_range().end;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let mut every = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: no signal handler of ours may run in the child while it shares our memory, hence the mask, which
        // the child lifts once it has no handlers. The stack (aligned as `u128` is, growing down from its end) and
        // the arguments outlive the child's use of them: CLONE_VFORK returns only after the child has executed the
        // program or has ended. Until then this thread touches neither.
        let raw = unsafe {
            libc::sigfillset(every.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, every.as_ptr(), before.as_mut_ptr());
            let raw = libc::clone(child_main, top.cast(), flags, ptr::from_mut(orders).cast());
            let cause = io::Error::last_os_error();
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
            if raw < 0 { Err(cause) } else { Ok(raw) }
        }?;
        Pid::from_raw(raw).ok_or_else(|| io::Error::from(io::ErrorKind::Other))
    }

    /// Runs in the child until the program starts.
    extern "C" fn child_main(orders: *mut c_void) -> c_int {
        // SAFETY: the pointer comes from the parent, which waits and touches nothing meanwhile.
        let orders = unsafe { &mut *orders.cast::<ChildArgs<'_>>() };
        let cause = match run_child_setup(orders) {
            Ok(never) => match never {},
            Err(cause) => cause.raw_os_error().unwrap_or(libc::EIO),
        };
        // SAFETY: a volatile write to memory that is ours to write, see above; the parent reads it after our end.
        unsafe { ptr::write_volatile(&raw mut orders.failed, cause) };
        // SAFETY: ends this process without running any code of the runner's.
        unsafe { libc::_exit(127) }
    }

    fn run_child_setup(orders: &mut ChildArgs<'_>) -> io::Result<std::convert::Infallible> {
        orders.used.close_others();
        set_up_child(orders.runner, &orders.tracking)?;
        if let Some(door) = orders.tracking.procs_descriptor() {
            let before = monotonic_nanos();
            // If this fails, one of the means to find the command's processes is missing, and the command runs all
            // the same.
            let _ = rustix::io::write(door, b"0");
            let entered_in = monotonic_nanos().saturating_sub(before).max(1);
            // SAFETY: a volatile write to memory that is ours to write; the parent reads it later.
            unsafe { ptr::write_volatile(&raw mut orders.entered_in, entered_in) };
        }
        let ChildStreams {
            input,
            output,
            errors,
            terminal,
        } = &orders.streams;
        if *terminal {
            let theirs = super::super::pty::open_slave_side(*output)?;
            rustix::process::ioctl_tiocsctty(&theirs)?;
            for to in 0..=2 {
                duplicate_onto(theirs.as_fd(), to)?;
            }
        } else {
            for (from, to) in [(*input, 0), (*output, 1), (errors.unwrap_or(*output), 2)] {
                duplicate_onto(from, to)?;
            }
        }
        rustix::process::chdir(orders.cwd.as_c_str())?;
        for signal in 1..=LAST_SIGNAL {
            // SAFETY: resets a signal's disposition in this process alone. The runner ignores SIGPIPE, and more
            // signals if it was started with `nohup` or in the background; a program would inherit that.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: no handler is left that could run here.
        unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
        }
        // Last, because the steps before need more rights than the program may have.
        if let Some((cage, maps)) = &orders.profile {
            enter_sandbox(cage, maps).map_err(|cause| {
                io::Error::from_raw_os_error(
                    cause.raw_os_error().unwrap_or(libc::EIO) | CONFINEMENT_FLAG,
                )
            })?;
        }
        let mut refused = io::Error::from_raw_os_error(libc::ENOENT);
        for place in &orders.candidates {
            // SAFETY: NUL-terminated strings and null-terminated lists, all alive until the exec.
            unsafe { libc::execve(place.as_ptr(), orders.argv.as_ptr(), orders.envp.as_ptr()) };
            let cause = io::Error::last_os_error();
            match cause.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                // As in every shell: a later folder may have one that may be executed.
                Some(libc::EACCES) => refused = cause,
                _ => return Err(cause),
            }
        }
        Err(refused)
    }

    /// Returns the monotonic clock in nanoseconds.
    fn monotonic_nanos() -> u64 {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: writes to `now` alone; a failure leaves it unchanged.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000
            + u64::try_from(now.tv_nsec).unwrap_or(0)
    }

    fn duplicate_onto(from: BorrowedFd<'_>, to: c_int) -> io::Result<()> {
        // SAFETY: plain descriptors. The runner's own standard ones are never closed, so `from` is none of them and
        // the copy does not have close-on-exec.
        if unsafe { libc::dup2(from.as_raw_fd(), to) } < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }
}

/// Starts the program through the standard library's fork.
///
/// # Errors
/// The system's errors, those in the child included.
#[cfg(not(target_os = "linux"))]
pub(super) fn launch_program(plan: &SpawnPlan, streams: ChildStreams<'_>) -> io::Result<Pid> {
    use std::os::fd::AsFd;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    let theirs = if streams.terminal {
        Some(super::pty::open_slave_side(streams.output)?)
    } else {
        None
    };
    let (input, output) = match &theirs {
        Some(theirs) => (theirs.as_fd(), theirs.as_fd()),
        None => (streams.input, streams.output),
    };
    let terminal = streams.terminal;
    let mut command = Command::new(&plan.program);
    command
        .args(&plan.args)
        .env_clear()
        .envs(&plan.env)
        .current_dir(&plan.cwd)
        .stdin(Stdio::from(input.try_clone_to_owned()?))
        .stdout(Stdio::from(output.try_clone_to_owned()?))
        .stderr(Stdio::from(
            streams.errors.unwrap_or(output).try_clone_to_owned()?,
        ));
    let runner = rustix::process::getpid();
    let knots = plan.tracking.prepare();
    let set_up = move || {
        set_up_child(runner, &knots)?;
        if terminal {
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        // A runner started with `nohup` or in the background ignores these signals, and a program would inherit that.
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
            // SAFETY: resets a disposition; the default one has no handler to run.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: between fork and exec, `set_up` makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(set_up) };
    let process = command.spawn()?;
    super::process_stat::to_pid(process.id()).ok_or_else(|| io::Error::from(io::ErrorKind::Other))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::path::PathBuf;

    use rustix::process::{WaitOptions, waitpid};

    use super::super::child_tracking::ChildTracking;
    use super::*;

    fn plan(program: &str, args: &[&str], path: &str) -> SpawnPlan {
        SpawnPlan {
            program: PathBuf::from(program),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: BTreeMap::from([("PATH".to_owned(), path.to_owned())]),
            cwd: PathBuf::from("/"),
            stdin: None,
            serves: false,
            tty: None,
            tracking: ChildTracking::default(),
            profile: None,
        }
    }

    fn run(plan: &SpawnPlan) -> io::Result<(String, Option<i32>)> {
        let (ours, theirs) = rustix::pipe::pipe().expect("a pipe");
        let empty = File::options()
            .read(true)
            .open("/dev/null")
            .expect("nothing");
        let pid = launch_program(
            plan,
            ChildStreams {
                input: empty.as_fd(),
                output: theirs.as_fd(),
                errors: None,
                terminal: false,
            },
        );
        drop(theirs);
        let pid = pid?;
        let mut text = String::new();
        File::from(ours).read_to_string(&mut text).expect("text");
        let (_, status) = waitpid(Some(pid), WaitOptions::empty())
            .expect("waited")
            .expect("ended");
        Ok((text, status.exit_status()))
    }

    #[test]
    fn a_program_gets_its_words_its_environment_and_nothing_else() {
        let told = run(&plan(
            "sh",
            &["-c", "echo \"$0|$1|$PATH|$HOME|$PWD\"; exit 7", "a b", "$x"],
            "/usr/bin:/bin",
        ));
        assert_eq!(
            told.expect("it runs"),
            ("a b|$x|/usr/bin:/bin||/\n".to_owned(), Some(7))
        );
    }

    #[test]
    fn no_signal_is_ignored_or_blocked_in_it() {
        let plan = plan("cat", &["/proc/self/status"], "/usr/bin:/bin");
        let (status, _) = run(&plan).expect("it runs");
        for field in ["SigBlk:", "SigIgn:", "SigCgt:"] {
            let line = status
                .lines()
                .find(|line| line.starts_with(field))
                .expect(field);
            let signals =
                u64::from_str_radix(line.rsplit('\t').next().expect("a value"), 16).expect("hex");
            // The higher bits are real-time signals, two of which the C library reserves.
            assert_eq!(signals & 0x7fff_ffff, 0, "{line}");
        }
    }

    #[test]
    fn what_cannot_be_started_says_why_and_leaves_no_child() {
        let missing = run(&plan("no-such-program", &[], "/usr/bin:/bin")).expect_err("not there");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let data = run(&plan("/etc/passwd", &[], "")).expect_err("no program");
        assert_eq!(data.kind(), io::ErrorKind::PermissionDenied);
        let nowhere = SpawnPlan {
            cwd: PathBuf::from("/no/such/folder"),
            ..plan("true", &[], "/usr/bin:/bin")
        };
        assert_eq!(
            run(&nowhere).expect_err("no folder").kind(),
            io::ErrorKind::NotFound
        );
        let nul = run(&plan("true", &["a\0b"], "/usr/bin:/bin")).expect_err("a NUL");
        assert_eq!(nul.kind(), io::ErrorKind::InvalidInput);
    }
}
