//! Captures the environment of the user's login shell, once: the variables of a terminal, at the cost of one profile.
//!
//! Aliases and functions are not part of it. If the shell does not answer in time, or there is none, the runner's own
//! environment is used.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::child_process::{ProcessSpawner, SpawnedProcess};
use super::command_environment::{UserEnvironment, withheld_values};
use super::spawn_plan::SpawnPlan;
use super::variable_names::is_runner_setting;
use crate::terminals::StopSignal;

/// The time that a profile may take.
const PROFILE_TIMEOUT: Duration = Duration::from_secs(3);
/// The largest environment that is read.
const MAX_ENVIRONMENT_BYTES: usize = 4 << 20;
/// Separates the profile's output from the environment.
const ENVIRONMENT_MARKER: &str = "punie-environment-follows";
/// The shells known to accept `-l -c`.
const KNOWN_SHELLS: &[&str] = &["bash", "zsh", "sh", "dash", "ksh", "fish"];

/// Captures the environment of the login shell named in `base`, or uses `base` if that fails. Also returns the
/// secrets that the shell's files set and that commands do not get.
pub(super) async fn load_login_environment(
    spawner: &ProcessSpawner,
    base: &[(String, String)],
) -> (UserEnvironment, Vec<String>) {
    let fallback = UserEnvironment::from_entries(base.iter().cloned());
    match run_login_shell(spawner, base, &fallback).await {
        Some(mut entries) => {
            add_own_folders(&mut entries, base);
            let secrets = withheld_values(&entries);
            (UserEnvironment::from_entries(entries), secrets)
        }
        None => (fallback, Vec::new()),
    }
}

/// Returns the variables of the login shell named in `base`, or `base` if that fails. They are for the runner itself, not
/// for its commands.
pub async fn login_variables(base: Vec<(String, String)>) -> Vec<(String, String)> {
    let fallback = UserEnvironment::from_entries(base.iter().cloned());
    let Ok(spawner) = ProcessSpawner::new() else {
        return base;
    };
    let Some(mut found) = run_login_shell(&spawner, &base, &fallback).await else {
        return base;
    };
    found.retain(|(name, value)| !is_runner_setting(name, value));
    found
}

/// Puts the folders that only the runner's own PATH has before those of the login shell: a person who starts it in a
/// terminal with a toolchain expects commands to have that toolchain.
fn add_own_folders(entries: &mut [(String, String)], base: &[(String, String)]) {
    let is_path = |entry: &&(String, String)| entry.0 == "PATH";
    let own = base.iter().find(is_path).map_or("", |(_, path)| path);
    for (_, path) in entries.iter_mut().filter(|(name, _)| name == "PATH") {
        let known: Vec<&str> = path.split(':').collect();
        let only_own = own.split(':').filter(|folder| !known.contains(folder));
        *path = only_own
            .chain(known.iter().copied())
            .collect::<Vec<_>>()
            .join(":");
    }
}

async fn run_login_shell(
    spawner: &ProcessSpawner,
    base: &[(String, String)],
    fallback: &UserEnvironment,
) -> Option<Vec<(String, String)>> {
    let shell = find_login_shell(base)?;
    let env = fallback.for_command(&[]).ok()?;
    let cwd = fallback
        .get("HOME")
        .map(PathBuf::from)
        .filter(|home| home.is_dir())
        .unwrap_or_else(|| "/".into());
    let args = vec![
        "-l".to_owned(),
        "-c".to_owned(),
        format!("echo; echo {ENVIRONMENT_MARKER}; env -0"),
    ];
    let plan = SpawnPlan {
        env,
        cwd,
        ..SpawnPlan::new(shell, args)
    };
    let shell = match spawner.spawn(plan).await {
        Ok(shell) => shell,
        Err(cause) => {
            tracing::warn!(%cause, "the login shell does not start; commands get the runner's own environment");
            return None;
        }
    };
    let read = tokio::task::spawn_blocking(move || read_shell_output(&shell))
        .await
        .ok()
        .flatten();
    if read.is_none() {
        tracing::warn!(
            "the login shell gave no environment in time; commands get the runner's own"
        );
    }
    read
}

fn find_login_shell(base: &[(String, String)]) -> Option<PathBuf> {
    let (_, shell) = base.iter().find(|(name, _)| name == "SHELL")?;
    let shell = Path::new(shell);
    let known = KNOWN_SHELLS.contains(&shell.file_name()?.to_str()?);
    (shell.is_absolute() && known && shell.is_file()).then(|| shell.to_owned())
}

/// Reads until the shell has ended, even if other processes still hold its output, and kills processes that the
/// profile left running.
fn read_shell_output(spawned: &SpawnedProcess) -> Option<Vec<(String, String)>> {
    let until = Instant::now() + PROFILE_TIMEOUT;
    let mut text = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let ended = wait_for_shell_output(spawned, until)?;
        loop {
            match rustix::io::read(&spawned.output, buffer.as_mut_slice()) {
                Ok(0) => return parse_environment(&text),
                Ok(count) if text.len() + count <= MAX_ENVIRONMENT_BYTES => {
                    text.extend_from_slice(&buffer[..count]);
                }
                Ok(_) => return None,
                Err(_nothing_more) => break,
            }
        }
        if ended {
            spawned.child.signal_group(StopSignal::Kill);
            return parse_environment(&text);
        }
    }
}

/// Waits for output or the end. Returns whether it is the end, or `None` on timeout.
fn wait_for_shell_output(spawned: &SpawnedProcess, until: Instant) -> Option<bool> {
    let left = until.saturating_duration_since(Instant::now());
    let output = spawned.output.as_fd();
    let ended = spawned.child.end_descriptor();
    let mut fds = [
        PollFd::new(&output, PollFlags::IN),
        PollFd::new(&ended, PollFlags::IN),
    ];
    match poll(&mut fds, Some(&Timespec::try_from(left).ok()?)) {
        Ok(0) => None,
        Ok(_) => Some(!fds[1].revents().is_empty()),
        Err(rustix::io::Errno::INTR) => Some(false),
        Err(_) => None,
    }
}

fn parse_environment(text: &[u8]) -> Option<Vec<(String, String)>> {
    let fence = format!("{ENVIRONMENT_MARKER}\n");
    let at = text
        .windows(fence.len())
        .rposition(|window| window == fence.as_bytes())?
        + fence.len();
    let mut entries: Vec<&[u8]> = text[at..].split(|b| *b == 0).collect();
    // The text after the last entry's terminator is not an entry; a logout script may have printed it.
    entries.pop();
    let read = |entry: &[u8]| {
        let (name, value) = std::str::from_utf8(entry).ok()?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    let entries: Vec<(String, String)> = entries.into_iter().filter_map(read).collect();
    entries
        .iter()
        .any(|(name, _)| name == "PATH")
        .then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_profile_prints_is_not_its_environment() {
        let text = b"Welcome!\nA=1\n\npunie-environment-follows\nPATH=/bin\0B=two\nlines\0bye\n";
        let entries = parse_environment(text).expect("an environment");
        assert_eq!(
            entries,
            [
                ("PATH".into(), "/bin".into()),
                ("B".into(), "two\nlines".into())
            ]
        );
    }

    #[test]
    fn without_a_path_nothing_is_believed() {
        assert!(parse_environment(b"punie-environment-follows\nA=1\0").is_none());
        assert!(parse_environment(b"error: no such option\n").is_none());
    }

    #[test]
    fn folders_of_the_own_path_come_before_those_of_the_login_shell() {
        let path = |text: &str| [("PATH".to_owned(), text.to_owned())];
        for (own, login, merged) in [
            ("/v/bin:/bin", "/usr/bin:/bin", "/v/bin:/usr/bin:/bin"),
            (
                "/usr/bin:/bin",
                "/c/bin:/usr/bin:/bin",
                "/c/bin:/usr/bin:/bin",
            ),
        ] {
            let mut entries = path(login);
            add_own_folders(&mut entries, &path(own));
            assert_eq!(entries, path(merged));
        }
    }

    #[test]
    fn only_shells_that_are_known_and_there_are_asked() {
        let named = |shell: &str| find_login_shell(&[("SHELL".to_owned(), shell.to_owned())]);
        assert!(named("/bin/sh").is_some());
        assert!(named("sh").is_none(), "not absolute");
        assert!(named("/no/such/bash").is_none());
        assert!(named("/usr/bin/env").is_none(), "no shell");
    }
}
