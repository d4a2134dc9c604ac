//! Runs the self-test of confinement: starts its script and reads its output.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::child_process::{ProcessSpawner, SpawnedProcess};
use super::command_checks::resolve_program;
use super::spawn_plan::SpawnPlan;
use crate::terminals::CommandLaunch;
use punie_sandbox::SandboxRules;

/// The time that the self-test may take on a busy machine.
const SELF_TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Plans a shell with this script and its arguments, not confined yet. It starts in the folder for temporary files
/// and finds the same programs as commands.
pub(super) fn build_script_plan(
    text: &str,
    arguments: Vec<String>,
    rules: &SandboxRules,
) -> io::Result<SpawnPlan> {
    let (program, mut args) = resolve_program(&CommandLaunch::Shell(text.to_owned()))
        .map_err(|error| io::Error::other(error.model_text().to_owned()))?;
    args.push("self-test".to_owned());
    args.extend(arguments);
    let usual = ["/usr/local/bin", "/usr/bin", "/bin"].map(Path::new);
    let folders = usual
        .into_iter()
        .chain(rules.search_path.iter().map(PathBuf::as_path));
    // A folder with a colon in its name cannot be on a PATH.
    let folders: Vec<_> = folders
        .map(|folder| folder.display().to_string())
        .filter(|name| !name.contains(':'))
        .collect();
    let env = [("PATH".to_owned(), folders.join(":"))].into();
    let cwd = rules.temp.clone();
    Ok(SpawnPlan {
        env,
        cwd,
        ..SpawnPlan::new(program, args)
    })
}

/// Prepends the wrapper's arguments, if there are any, to a program and its arguments.
pub(super) fn wrap_program(
    words: Vec<String>,
    program: PathBuf,
    args: Vec<String>,
) -> (PathBuf, Vec<String>) {
    let mut words = words.into_iter();
    let Some(first) = words.next() else {
        return (program, args);
    };
    let args = words
        .chain([program.display().to_string()])
        .chain(args)
        .collect();
    (PathBuf::from(first), args)
}

/// Starts a program and returns its whole output once it has ended.
pub(super) async fn capture_output(
    spawner: &ProcessSpawner,
    plan: SpawnPlan,
) -> io::Result<String> {
    let helper = spawner.spawn(plan).await?;
    tokio::task::spawn_blocking(move || read_until_exit(helper))
        .await
        .map_err(io::Error::other)?
}

/// Reads the whole output. Kills the program if it takes too long.
fn read_until_exit(spawned: SpawnedProcess) -> io::Result<String> {
    let until = Instant::now() + SELF_TEST_TIMEOUT;
    let SpawnedProcess {
        child: _killed_in_the_end,
        output,
        ..
    } = spawned;
    let mut file = File::from(output);
    let mut text = Vec::new();
    while Instant::now() < until {
        let second = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&second))?;
        let mut piece = [0; 4096];
        match file.read(&mut piece) {
            Ok(0) => return Ok(String::from_utf8_lossy(&text).into_owned()),
            Ok(count) => text.extend_from_slice(&piece[..count]),
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {}
            Err(cause) => return Err(cause),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_started_by_the_words_before_it() {
        let led = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            wrap_program(
                words,
                "/bin/sh".into(),
                vec!["-c".to_owned(), "x".to_owned()],
            )
        };
        let args = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
        assert_eq!(led(&[]), ("/bin/sh".into(), args(&["-c", "x"])));
        assert_eq!(
            led(&["/b", "-p", "y"]),
            ("/b".into(), args(&["-p", "y", "/bin/sh", "-c", "x"]))
        );
    }
}
