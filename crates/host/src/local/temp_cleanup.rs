//! Removes temporary files of commands that were not used for a day.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::local_terminals::LocalTerminals;
use super::process_identity::ProcessIdentity;

/// The time for which a command's files are kept, because a later command may need them.
const KEEP_TIME: Duration = Duration::from_hours(24);

impl LocalTerminals {
    /// Removes temporary files of commands that were not used for a day before this time. Only on systems that show which
    /// commands still run.
    pub async fn remove_old_temp_files(&self, now: SystemTime) {
        let Some(temp) = self
            .confinement()
            .temp_folder()
            .filter(|_| cfg!(target_os = "linux"))
        else {
            return;
        };
        if let Err(fault) = tokio::task::spawn_blocking(move || clean_temp_folder(&temp, now)).await
        {
            tracing::warn!(%fault, "looking through the temporary files broke off");
        }
    }
}

/// Removes from this folder the entries that were not used for a day before this time. Entries used since the start
/// of the oldest running command that has the folder stay. Its sockets and open files are therefore never removed.
/// Blocks. Returns the number of entries removed.
pub(super) fn clean_temp_folder(folder: &Path, now: SystemTime) -> usize {
    let running = oldest_process_age(folder).unwrap_or(Duration::ZERO);
    let Some(until) = now.checked_sub(KEEP_TIME.max(running)) else {
        return 0;
    };
    let entries = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let left = entries.filter(|entry| !is_used_since(&entry.path(), until));
    let is_gone = |path: &Path| {
        let gone = if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        gone.inspect_err(|cause| tracing::debug!(%cause, "a temporary file stays"))
            .is_ok()
    };
    left.filter(|entry| is_gone(&entry.path())).count()
}

/// Returns whether the entry, or anything in it, was created, changed or read after that time.
fn is_used_since(path: &Path, until: SystemTime) -> bool {
    // An entry that cannot be examined stays.
    let Ok(metadata) = path.symlink_metadata() else {
        return true;
    };
    let seconds = metadata.ctime().max(metadata.mtime()).max(metadata.atime());
    let used = UNIX_EPOCH.checked_add(Duration::from_secs(seconds.try_into().unwrap_or(0)));
    if used.is_none_or(|used| used > until) {
        return true;
    }
    let inside = || {
        fs::read_dir(path)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
    };
    metadata.is_dir() && inside().any(|entry| is_used_since(&entry.path(), until))
}

/// Returns the running time of the oldest process whose TMPDIR is this folder, or whose view of the files has a folder in
/// it mounted.
fn oldest_process_age(folder: &Path) -> Option<Duration> {
    let variable = format!("TMPDIR={}", folder.display());
    let mount = format!(" {}/c-", folder.display());
    let processes = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let uses = |id: &u32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        let mut entries = environment.split(|byte| *byte == 0);
        let mounts = || fs::read_to_string(format!("/proc/{id}/mountinfo")).unwrap_or_default();
        entries.any(|entry| entry == variable.as_bytes()) || mounts().contains(&mount)
    };
    ids.filter(uses)
        .filter_map(ProcessIdentity::from_pid)
        .map(|process| process.process_age())
        .max()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::*;

    fn after(hours: u64) -> SystemTime {
        SystemTime::now() + Duration::from_hours(hours)
    }

    #[test]
    fn what_was_not_used_for_a_day_goes_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let temp = folder.path().join("tmp");
        let outside = folder.path().join("outside");
        fs::create_dir_all(temp.join("made/deep")).expect("made");
        fs::write(temp.join("made/deep/file"), "x").expect("written");
        fs::write(temp.join("plain"), "x").expect("written");
        fs::create_dir(&outside).expect("made");
        fs::write(outside.join("kept"), "x").expect("written");
        std::os::unix::fs::symlink(&outside, temp.join("link")).expect("a link");
        assert_eq!(
            clean_temp_folder(&temp, after(23)),
            0,
            "a later command may want it"
        );
        assert_eq!(clean_temp_folder(&temp, after(25)), 3);
        assert_eq!(fs::read_dir(&temp).expect("there").count(), 0);
        assert!(
            outside.join("kept").exists(),
            "where a link leads is not looked at"
        );
    }

    #[test]
    fn what_a_command_that_lives_may_have_made_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let temp = folder.path();
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo up; read -r _"])
            .env("TMPDIR", temp);
        let mut lives = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        // A process that has only just begun shows no environment yet.
        let mut up = [0; 3];
        lives
            .stdout
            .take()
            .expect("a pipe")
            .read_exact(&mut up)
            .expect("it is up");
        assert!(
            oldest_process_age(temp).is_some_and(|age| age < Duration::from_mins(5)),
            "it is seen"
        );
        assert!(oldest_process_age(Path::new("/nobody/uses/this")).is_none());
        lives.kill().expect("ended");
        lives.wait().expect("collected");
    }

    #[test]
    fn use_is_any_use() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("a/b")).expect("made");
        assert!(is_used_since(&folder.path().join("a"), UNIX_EPOCH));
        assert!(!is_used_since(&folder.path().join("a"), after(1)));
        assert!(
            is_used_since(Path::new("/no/such/path"), after(1)),
            "what cannot be looked at is left alone"
        );
    }
}
