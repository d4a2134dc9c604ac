//! Reads a process's tags: an entry of its environment, the pipe that takes its output.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::output_pipe::OutputPipe;

/// Returns whether the process has this entry in its environment. A mark that ends in a dot matches all entries that
/// begin with it.
pub(super) fn has_env_entry(pid: u32, mark: &str) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    environment.split(|b| *b == 0).any(|entry| {
        if mark.ends_with('.') {
            entry.starts_with(mark.as_bytes())
        } else {
            entry == mark.as_bytes()
        }
    })
}

/// Returns whether the process can write to the pipe and would pass it to a program that it starts. A process that
/// received the pipe for its output does both. The runner's own ends are close-on-exec. So a forked copy of any
/// runner that has not started its program yet does not count. It has all of the runner's files, and loses them one
/// by one.
pub(super) fn holds_pipe(pid: u32, pipe: &OutputPipe) -> bool {
    let (wanted, inode) = match pipe {
        OutputPipe::Unnamed(inode) => (PathBuf::from(format!("pipe:[{inode}]")), Some(*inode)),
        OutputPipe::Named(path) => (
            path.clone(),
            std::fs::metadata(path).ok().map(|found| found.ino()),
        ),
    };
    let mut ends = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == wanted))
        .filter_map(|entry| OpenDescriptor::read_fdinfo(pid, &entry.file_name()))
        // The number may belong to another file since its link was read: a new program opens its own files under the
        // numbers that it lost.
        .filter(|end| end.is_handed_on && (end.inode.is_none() || end.inode == inode))
        .peekable();
    match pipe {
        OutputPipe::Named(_) => ends.any(|end| end.access != READ_ONLY),
        OutputPipe::Unnamed(_) => ends.peek().is_some() && ends.all(|end| end.access == WRITE_ONLY),
    }
}

/// The access mode in a file's open flags.
const ACCESS_MODE_BITS: u32 = 0o3;
const READ_ONLY: u32 = 0o0;
const WRITE_ONLY: u32 = 0o1;

/// One open file of a process, as /proc showed it at one moment.
struct OpenDescriptor {
    access: u32,
    /// Set if a program that the process starts inherits it.
    is_handed_on: bool,
    /// Not before Linux 5.14.
    inode: Option<u64>,
}

impl OpenDescriptor {
    fn read_fdinfo(pid: u32, number: &OsStr) -> Option<Self> {
        const CLOSED_ON_EXEC: u32 = 0o2_000_000;
        let info = Path::new("/proc")
            .join(pid.to_string())
            .join("fdinfo")
            .join(number);
        let text = std::fs::read_to_string(info).ok()?;
        let of = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };
        let flags = u32::from_str_radix(of("flags:")?, 8).ok()?;
        let inode = of("ino:").and_then(|number| number.parse().ok());
        Some(Self {
            access: flags & ACCESS_MODE_BITS,
            is_handed_on: flags & CLOSED_ON_EXEC == 0,
            inode,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Imitates a forked runner that starts its program, which then opens its own pipes under the same numbers.
    #[test]
    fn a_number_that_another_file_takes_meanwhile_is_not_taken_for_the_pipe() {
        let (reading, _writing) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
        let (_reading, other) = rustix::pipe::pipe().expect("a pipe");
        let pipe = OutputPipe::Unnamed(rustix::fs::fstat(&reading).expect("known").st_ino);
        let mut number = rustix::io::dup(&other).expect("a number");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    rustix::io::dup3(&reading, &mut number, rustix::io::DupFlags::CLOEXEC)
                        .expect("a copy");
                    rustix::io::dup2(&other, &mut number).expect("a copy");
                }
            });
            let taken = (0..2_000)
                .filter(|_| holds_pipe(std::process::id(), &pipe))
                .count();
            done.store(true, Ordering::Relaxed);
            assert_eq!(taken, 0);
        });
    }

    #[test]
    fn a_copy_of_the_runner_that_loses_its_files_holds_no_commands_output() {
        let (reading, writing) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
        let inode = rustix::fs::fstat(&writing).expect("known").st_ino;
        let pipe = OutputPipe::Unnamed(inode);
        let own = std::process::id();
        assert!(!holds_pipe(own, &pipe), "it can read, too");
        // As in a child between closing one end and the other.
        drop(reading);
        assert!(!holds_pipe(own, &pipe));
        let given = rustix::io::dup(&writing).expect("a copy");
        assert!(holds_pipe(own, &pipe), "one that a program would be given");
        drop(given);
        assert!(!holds_pipe(own, &pipe));
    }
}
