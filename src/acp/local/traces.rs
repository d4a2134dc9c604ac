//! What a process shows of where it comes from: an entry of its environment, the pipe that takes its output. Not here: who
//! is a relative by that (family).
#![expect(clippy::disallowed_methods, reason = "processes are read from /proc")]

use std::path::PathBuf;

use super::family::OutputPipe;

/// Whether the process has this entry in its environment; one that ends in a dot stands for all that go on.
pub(super) fn carries(pid: u32, mark: &str) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    environment.split(|b| *b == 0).any(|entry| {
        if mark.ends_with('.') { entry.starts_with(mark.as_bytes()) } else { entry == mark.as_bytes() }
    })
}

/// Whether the process can write to the pipe, and would leave that to a program that it starts, as whoever was given it
/// for its output does. The runner's own ends are closed on exec, so a copy of the runner that has not started its
/// program yet, whoever's it is, is none that counts: it has all of the runner's files, and loses them one by one.
pub(super) fn holds(pid: u32, pipe: &OutputPipe) -> bool {
    use std::os::unix::fs::PermissionsExt;
    const READABLE: u32 = 0o400;
    const WRITABLE: u32 = 0o200;
    let (wanted, named) = match pipe {
        OutputPipe::Unnamed(inode) => (PathBuf::from(format!("pipe:[{inode}]")), false),
        OutputPipe::Named(path) => (path.clone(), true),
    };
    let ends: Vec<u32> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == wanted))
        .filter(|entry| is_handed_on(pid, &entry.file_name()))
        // The entry's own mode tells how the file was opened.
        .map(|entry| entry.metadata().map_or(0, |entry| entry.permissions().mode()))
        .collect();
    if named {
        return ends.iter().any(|mode| mode & WRITABLE != 0);
    }
    !ends.is_empty() && ends.iter().all(|mode| mode & READABLE == 0)
}

/// Whether a program that the process starts would have this file, too.
fn is_handed_on(pid: u32, descriptor: &std::ffi::OsStr) -> bool {
    const CLOSED_ON_EXEC: u32 = 0o2_000_000;
    let info = std::path::Path::new("/proc").join(pid.to_string()).join("fdinfo").join(descriptor);
    let text = std::fs::read_to_string(info).unwrap_or_default();
    let flags =
        text.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
    flags.is_some_and(|flags| flags & CLOSED_ON_EXEC == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_runner_that_loses_its_files_holds_no_commands_output() {
        let (reading, writing) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
        let inode = rustix::fs::fstat(&writing).expect("known").st_ino;
        let pipe = OutputPipe::Unnamed(inode);
        let own = std::process::id();
        assert!(!holds(own, &pipe), "it can read, too");
        // As in a child between the closing of one and of the other.
        drop(reading);
        assert!(!holds(own, &pipe));
        let given = rustix::io::dup(&writing).expect("a copy");
        assert!(holds(own, &pipe), "one that a program would be given");
        drop(given);
        assert!(!holds(own, &pipe));
    }
}
