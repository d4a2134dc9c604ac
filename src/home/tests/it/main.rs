//! The home on a real disk: modes, whole files and the lock. Its identity and its documents have their own files.

mod documents;
mod heads;
mod identity;
mod secrets;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use punie_core::durable::{self, Readers};
use punie_home::{DeviceIdentity, Home, HomeError, HomeFailureKind, LockError, RunnerLock};
use tempfile::TempDir;

fn home() -> (TempDir, Home) {
    let dir = tempfile::tempdir().expect("a folder for the test");
    let home = Home::open_home(&dir.path().join("home")).expect("a new home");
    (dir, home)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path)
        .expect("it is there")
        .permissions()
        .mode()
        & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the mode can be set");
}

// Modes

#[test]
fn a_new_home_is_for_its_owner_alone_and_opens_again() {
    let (_dir, home) = home();
    for private in [
        home.root_dir(),
        &home.state_dir(),
        &home.keys_dir(),
        &home.tokens_dir(),
        &home.outputs_dir(),
    ] {
        assert_eq!(mode(private), 0o700, "{}", private.display());
    }
    assert_eq!(
        Home::open_home(home.root_dir()).expect("the same home"),
        home
    );
}

#[test]
fn looser_modes_are_refused_with_the_command_that_mends_them() {
    let (_dir, home) = home();
    DeviceIdentity::load_or_create(&home).expect("a new identity");
    let cases = [
        (home.state_dir(), 0o755, 0o700, "chmod 700"),
        (home.keys_dir(), 0o710, 0o700, "chmod 700"),
        (home.tokens_dir(), 0o704, 0o700, "chmod 700"),
        (home.key_file(), 0o644, 0o600, "chmod 600"),
        (home.key_file(), 0o640, 0o600, "chmod 600"),
        (home.root_dir().to_owned(), 0o775, 0o755, "chmod go-w"),
        (home.skills_dir(), 0o777, 0o775, "chmod o-w"),
    ];
    for (path, loose, mended, command) in cases {
        chmod(&path, loose);
        let refused = Home::open_home(home.root_dir()).expect_err("too open");
        assert!(matches!(refused, HomeError::TooOpen { .. }), "{refused}");
        assert_eq!(refused.exit_code(), 77);
        assert!(
            refused
                .to_string()
                .contains(&format!("{command} {}", path.display())),
            "{refused}"
        );
        chmod(&path, mended);
        Home::open_home(home.root_dir()).expect("mended as told");
    }
}

#[test]
fn what_cannot_be_written_differs_from_what_is_wrong() {
    let dir = tempfile::tempdir().expect("a folder for the test");
    let too_long =
        Home::open_home(&dir.path().join("n".repeat(300))).expect_err("no system has such names");
    assert_eq!(
        (too_long.failure_kind(), too_long.exit_code()),
        (HomeFailureKind::Disk, 73),
        "{too_long}"
    );

    let in_the_way = dir.path().join("file");
    fs::write(&in_the_way, "").expect("a file");
    for path in [in_the_way.clone(), in_the_way.join("below")] {
        let wrong = Home::open_home(&path).expect_err("a file in the way");
        assert_eq!(
            (wrong.failure_kind(), wrong.exit_code()),
            (HomeFailureKind::Content, 78),
            "{wrong}"
        );
    }
}

// Whole files

#[test]
fn a_file_is_written_whole_and_leaves_no_drafts() {
    let dir = tempfile::tempdir().expect("a folder for the test");
    let file = dir.path().join("config.toml");
    durable::replace_file(&file, b"one", Readers::OwnerOnly).expect("written");
    assert_eq!(mode(&file), 0o600);
    chmod(&file, 0o640);
    durable::replace_file(&file, b"two", Readers::AsBefore).expect("written");
    assert_eq!(
        (fs::read(&file).expect("there"), mode(&file)),
        (b"two".to_vec(), 0o640)
    );
    durable::replace_file(&file, b"three", Readers::OwnerOnly).expect("written");
    assert_eq!(mode(&file), 0o600);

    let refused =
        durable::create_file(&file, b"four", Readers::OwnerOnly).expect_err("there already");
    assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
    assert!(durable::replace_file(&dir.path().join("no/such"), b"", Readers::OwnerOnly).is_err());
    durable::replace_file(dir.path(), b"", Readers::OwnerOnly).expect_err("a folder in the way");
    assert_eq!(fs::read(&file).expect("there"), b"three");
    assert_eq!(
        fs::read_dir(dir.path()).expect("a folder").count(),
        1,
        "no drafts are left"
    );
}

#[test]
fn a_link_is_replaced_and_not_written_through() {
    let dir = tempfile::tempdir().expect("a folder for the test");
    let target = dir.path().join("target");
    let link = dir.path().join("link");
    fs::write(&target, "untouched").expect("a file");
    symlink(&target, &link).expect("a link");
    durable::replace_file(&link, b"new", Readers::AsBefore).expect("written");
    assert_eq!(fs::read_to_string(&target).expect("there"), "untouched");
    assert_eq!(fs::read_to_string(&link).expect("there"), "new");
}

// The lock

#[test]
fn one_runner_holds_a_home_and_the_next_is_told_which() {
    let (_dir, home) = home();
    assert_eq!(RunnerLock::find_holder(&home).expect("readable"), None);
    let lock = RunnerLock::try_acquire(&home).expect("free");
    let us = Some(std::process::id());
    let held = RunnerLock::try_acquire(&home).expect_err("held");
    assert!(
        matches!(held, LockError::Held { pid } if pid == us),
        "{held}"
    );
    assert_eq!(held.exit_code(), 75);
    assert!(held.to_string().contains(&std::process::id().to_string()));
    assert_eq!(
        RunnerLock::find_holder(&home)
            .expect("readable")
            .expect("held")
            .pid,
        us
    );
    drop(lock);
    assert_eq!(RunnerLock::find_holder(&home).expect("readable"), None);
    RunnerLock::try_acquire(&home).expect("free again");
}

#[test]
fn a_number_left_by_a_crash_does_not_hold_the_home() {
    let (_dir, home) = home();
    fs::write(home.runner_lock_file(), "1\n").expect("left behind");
    assert_eq!(RunnerLock::find_holder(&home).expect("readable"), None);
    RunnerLock::try_acquire(&home).expect("nobody holds it");
}

#[test]
fn somebody_who_looks_never_keeps_a_runner_from_starting() {
    let (_dir, home) = home();
    drop(RunnerLock::try_acquire(&home).expect("free"));
    let done = AtomicBool::new(false);
    let together = Barrier::new(3);
    thread::scope(|scope| {
        scope.spawn(|| {
            together.wait();
            while !done.load(Ordering::Relaxed) {
                RunnerLock::find_holder(&home).expect("readable");
            }
        });
        // One that is slow to look: half of the time it stands in the way.
        scope.spawn(|| {
            let slow = fs::File::open(home.runner_lock_file()).expect("there");
            together.wait();
            while !done.load(Ordering::Relaxed) {
                if slow.try_lock_shared().is_ok() {
                    thread::yield_now();
                    slow.unlock().expect("held");
                }
                thread::yield_now();
            }
        });
        together.wait();
        let starts: Vec<_> = (0..2_000)
            .map(|_| RunnerLock::try_acquire(&home).map(drop))
            .collect();
        done.store(true, Ordering::Relaxed);
        assert!(
            starts.iter().all(Result::is_ok),
            "{:?}",
            starts.iter().find(|start| start.is_err())
        );
    });
}
