//! The runner's descriptors that a child uses before its program starts, and the end of the others.
//!
//! A child has a copy of every descriptor of the runner until its program starts, which may take seconds on a busy
//! machine: a network namespace is made then. A lock on a file belongs to the open file. So if the runner is killed
//! meanwhile, such a child would keep the home and the journal locked.
#![expect(
    unsafe_code,
    reason = "the child's side runs between its making and the program's start"
)]

use std::os::fd::{AsRawFd, RawFd};

use super::child_tracking::PreparedTracking;
use super::launch::ChildStreams;
use super::spawn_plan::SpawnPlan;
use punie_sandbox::SandboxProfile;

/// The descriptors that the child uses, in order.
pub(super) struct UsedDescriptors(Vec<RawFd>);

impl UsedDescriptors {
    /// Lists those of this child, before it exists.
    pub fn of_child(
        plan: &SpawnPlan,
        streams: &ChildStreams<'_>,
        tracking: &PreparedTracking,
    ) -> Self {
        let streams = [Some(streams.input), Some(streams.output), streams.errors];
        let mut used: Vec<RawFd> = streams
            .into_iter()
            .chain([tracking.procs_descriptor()])
            .flatten()
            .chain(plan.profile.iter().flat_map(SandboxProfile::descriptors))
            .map(|descriptor| descriptor.as_raw_fd())
            .collect();
        used.sort_unstable();
        Self(used)
    }

    /// Closes the child's copies of all others. Called in the child; makes system calls only. On kernels before 5.9, which
    /// have no such call, they are closed when the program starts.
    pub fn close_others(&self) {
        let mut first = 3;
        for used in self.0.iter().map(|used| used.cast_unsigned()) {
            if used > first {
                close_range(first, used - 1);
            }
            first = first.max(used + 1);
        }
        close_range(first, u32::MAX);
    }
}

fn close_range(first: u32, last: u32) {
    // SAFETY: the child has a table of its own, and nothing in it uses these copies.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0u32) };
}

#[cfg(test)]
mod tests {

    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::PathBuf;

    use rustix::process::{WaitOptions, waitpid};

    use super::super::control_group::ControlGroup;
    use super::super::launch::launch_program;
    use super::*;

    #[test]
    fn a_child_that_has_not_started_its_program_holds_no_lock_of_the_runner() {
        let folder = tempfile::tempdir().expect("a folder");
        let lock = folder.path().join("lock");
        let held = File::create(&lock).expect("a file");
        held.lock().expect("free");
        // The child waits for room in this pipe, which it takes for its control group.
        let pipe = folder.path().join("cgroup.procs");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).expect("a pipe");
        let open =
            |options: &mut std::fs::OpenOptions| options.custom_flags(libc::O_NONBLOCK).open(&pipe);
        let mut reader = open(File::options().read(true)).expect("one end");
        let mut writer = open(File::options().write(true)).expect("the other");
        while writer.write(&[0; 4096]).is_ok() {}
        let mut plan = SpawnPlan::new(PathBuf::from("/bin/true"), Vec::new());
        plan.tracking.group = Some(ControlGroup::from_folder(folder.path().to_owned()));
        let (tell, told) = std::sync::mpsc::channel();
        let starting = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid()).expect("it listens");
            let (_output, theirs) = rustix::pipe::pipe().expect("a pipe");
            let empty = File::open("/dev/null").expect("nothing");
            let pid = launch_program(
                &plan,
                ChildStreams {
                    input: empty.as_fd(),
                    output: theirs.as_fd(),
                    errors: None,
                    terminal: false,
                },
            );
            let ended = waitpid(Some(pid.expect("it runs")), WaitOptions::empty());
            ended.expect("waited").expect("ended").1.exit_status()
        });
        let thread = told.recv().expect("it runs").as_raw_nonzero();
        let children = format!("/proc/self/task/{thread}/children");
        let begun = std::time::Instant::now();
        let wait_until = |what: &str, is_so: &dyn Fn() -> bool| {
            while !is_so() {
                assert!(begun.elapsed().as_secs() < 90, "{what}");
                std::thread::yield_now();
            }
        };
        wait_until("there is no child", &|| {
            !std::fs::read_to_string(&children)
                .expect("a list")
                .is_empty()
        });
        // As if the runner were killed: nobody gives the lock up.
        drop(held);
        let other = File::open(&lock).expect("there");
        wait_until("the child holds it", &|| other.try_lock().is_ok());
        assert!(!starting.is_finished(), "the child waits");
        while reader.read(&mut [0; 4096]).is_ok() {}
        assert_eq!(starting.join().expect("no panic"), Some(0));
    }
}
