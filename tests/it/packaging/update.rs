//! `update` with a release on a loopback port, run by a copy of the real program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::release::{TARGET, TestRelease, VERSION};
use super::{run_command, run_well};
use crate::harness::caller::ToolCall;
use crate::harness::process::PROGRAM;
use crate::harness::process::copy_program;
use crate::harness::program::make_program;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

const NEWER: &str = "99.0.0";

/// A script that prints this version, and passes every other command to the real program.
fn program_of(version: &str) -> String {
    format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo punie-runner {version} && exit\nexec {PROGRAM} \"$@\"\n"
    )
}

fn newer_release() -> TestRelease {
    TestRelease::of_version(NEWER, &program_of(NEWER), &[TARGET])
}

/// A user who installed the program below a prefix.
struct UpdatingUser {
    dir: tempfile::TempDir,
}

impl UpdatingUser {
    fn new(release: &TestRelease) -> Self {
        let user = Self {
            dir: tempfile::tempdir().expect("a folder"),
        };
        for folder in ["prefix/bin", "home"] {
            fs::create_dir_all(user.path(folder)).expect("a folder");
        }
        put_program(&user.program());
        user.trust(&release.url, &release.public_key());
        user
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    fn program(&self) -> PathBuf {
        self.path("prefix/bin/punie-runner")
    }

    fn trust(&self, url: &str, key: &str) {
        let text = format!("[update]\nurl = \"{url}\"\npublic_key = \"{key}\"\n");
        fs::write(self.path("home/config.toml"), text).expect("written");
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.program());
        command
            .args(args)
            .env_clear()
            .env("HOME", self.dir.path())
            .env("PUNIE_HOME", self.path("home"))
            .env("PATH", "/usr/bin:/bin");
        command
    }

    /// Checks that the command fails with this text and leaves the program as it was, with no file beside it.
    fn refuses(&self, args: &[&str], part: &str) {
        let (succeeded, said) = run_command(&mut self.command(args));
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!succeeded && said.contains(part), "{part}: {said}");
        assert_eq!(
            names_in(&self.path("prefix/bin")),
            ["punie-runner"],
            "{part}"
        );
        assert_eq!(version_of(&self.program()), VERSION, "{part}");
    }
}

/// Puts the real program there as a hard link or a copy. Behind a symlink, `update` would replace the built program.
fn put_program(to: &Path) {
    if fs::hard_link(PROGRAM, to).is_err() {
        copy_program(Path::new(PROGRAM), to);
    }
}

fn version_of(program: &Path) -> String {
    let said = run_well(Command::new(program).arg("--version"));
    said.trim().trim_start_matches("punie-runner ").to_owned()
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn json_of(command: &mut Command) -> Value {
    serde_json::from_str(&run_well(command)).expect("JSON")
}

#[test]
fn an_update_replaces_the_program_and_keeps_the_one_before() {
    let release = newer_release();
    let user = UpdatingUser::new(&release);
    let manual = user.path("prefix/share/man/man1/punie-runner.1");
    fs::create_dir_all(manual.parent().expect("its folder")).expect("a folder");
    fs::write(&manual, "old").expect("written");

    let checked = json_of(&mut user.command(&["--json", "update", "--check"]));
    let expected = json!({"version": VERSION, "found": NEWER, "replaced": false});
    assert_eq!(checked, expected);
    assert_eq!(names_in(&user.path("prefix/bin")), ["punie-runner"]);

    let said = run_well(&mut user.command(&["update"]));
    assert_contains!(said, "update --rollback");
    let previous = user.path("prefix/bin/punie-runner.previous");
    assert_eq!(version_of(&user.program()), NEWER);
    assert_eq!(version_of(&previous), VERSION);
    assert_eq!(
        names_in(&user.path("prefix/bin")),
        ["punie-runner", "punie-runner.previous"]
    );
    let page = fs::read_to_string(&manual).expect("the page");
    assert!(page.starts_with(".ie") || page.contains(".TH"), "{page}");
    assert!(
        user.path("prefix/share/zsh/site-functions/_punie-runner")
            .is_file()
    );
}

#[test]
fn an_update_that_is_not_of_this_project_or_damaged_changes_nothing() {
    let release = newer_release();
    let user = UpdatingUser::new(&release);
    let (other, other_public) = release.other_key();

    user.trust(&release.url, &other_public);
    user.refuses(&["update"], "the signature of");
    user.trust(&release.url, &release.public_key());
    run_well(
        Command::new("openssl")
            .args(["pkeyutl", "-sign", "-rawin", "-inkey"])
            .arg(&other)
            .arg("-in")
            .arg(release.folder().join("SHA256SUMS"))
            .arg("-out")
            .arg(release.folder().join("SHA256SUMS.sig")),
    );
    user.refuses(&["update"], "the signature of");
    fs::write(release.folder().join("SHA256SUMS.sig"), "short").expect("written");
    user.refuses(&["update"], "the signature of");

    release.seal();
    let archive = release.archive(TARGET);
    let whole = fs::read(&archive).expect("the archive");
    fs::write(&archive, &whole[..whole.len() / 2]).expect("written");
    user.refuses(&["update"], "the checksum of");
    release.seal();
    user.refuses(&["update"], "unpacked");
    fs::remove_file(&archive).expect("removed");
    user.refuses(&["update"], "404");
    release.seal();
    user.refuses(&["update"], "has no archive for this machine");
    user.trust("http://127.0.0.1:1", &release.public_key());
    user.refuses(&["update"], "cannot download http://127.0.0.1:1/SHA256SUMS");
    fs::write(user.path("home/config.toml"), "").expect("written");
    user.refuses(&["update"], "was not built by a release");
    user.refuses(&["update", "--rollback"], "no earlier program");
}

#[test]
fn a_mirror_that_offers_an_older_list_than_before_is_refused() {
    let release = newer_release();
    let user = UpdatingUser::new(&release);
    let list = release.folder().join("SHA256SUMS");
    let of_date = |date: &str| {
        let text = fs::read_to_string(&list).expect("the list");
        let (_, rest) = text.split_once('\n').expect("lines");
        fs::write(&list, format!("# punie-runner {NEWER} {date}\n{rest}")).expect("written");
        release.sign();
    };
    of_date("2026-12-02T00:00:00Z");
    let check = || run_well(&mut user.command(&["update", "--check"]));
    assert_contains!(check(), NEWER);
    of_date("2026-12-01T00:00:00Z");
    for args in [&["update", "--check"][..], &["update"]] {
        user.refuses(
            args,
            "offers the list of 2026-12-01T00:00:00Z, and one of 2026-12-02T00:00:00Z",
        );
    }
    // The date of a list counts only for the key that signed it.
    let other = newer_release();
    user.trust(&other.url, &other.public_key());
    assert_contains!(check(), NEWER);
    user.trust(&release.url, &release.public_key());
    of_date("2026-12-02T00:00:01Z");
    assert_contains!(check(), NEWER);
    let text = fs::read_to_string(&list).expect("the list");
    let (_, rest) = text.split_once('\n').expect("lines");
    fs::write(&list, rest).expect("written");
    release.sign();
    user.refuses(&["update"], "does not begin with a version and a date");
}

#[test]
fn a_release_that_is_not_newer_or_does_not_run_is_not_taken() {
    let same = TestRelease::of_version(VERSION, &program_of(VERSION), &[TARGET]);
    let user = UpdatingUser::new(&same);
    let said = run_well(&mut user.command(&["update"]));
    assert_contains!(said, "is the newest release");
    assert_eq!(names_in(&user.path("prefix/bin")), ["punie-runner"]);

    for (program, part) in cases! {
        ("#!/bin/sh\necho the library is missing >&2\nexit 1\n", "the library is missing"),
        ("#!/bin/sh\necho punie-runner 98.0.0\n", "it says 98.0.0"),
        ("not a program", "does not run on this machine"),
    } {
        let release = TestRelease::of_version(NEWER, program, &[TARGET]);
        user.trust(&release.url, &release.public_key());
        user.refuses(&["update"], part);
    }

    let elsewhere = user.path(".cargo/bin");
    fs::create_dir_all(&elsewhere).expect("a folder");
    let program = elsewhere.join("punie-runner");
    put_program(&program);
    let (succeeded, said) = run_command(
        Command::new(&program)
            .args([
                "--home",
                user.path("home").to_str().expect("text"),
                "update",
            ])
            .env("HOME", user.dir.path()),
    );
    assert!(!succeeded && said.contains("cargo install"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_over_a_changed_journal_is_refused() {
    let release = newer_release();
    let user = UpdatingUser::new(&release);
    let previous = user.path("prefix/bin/punie-runner.previous");
    make_program(&previous, &program_of("0.0.9"));
    let journal = user.path("home/state/journal.sqlite3");
    fs::create_dir_all(journal.parent().expect("its folder")).expect("a folder");
    let set_version = |version: u32| {
        let database = rusqlite::Connection::open(&journal).expect("opened");
        database
            .pragma_update(None, "user_version", version)
            .expect("set");
    };
    fs::write(user.path("home/device.json"), "{}").expect("written");
    set_version(99);
    let (succeeded, said) = run_command(&mut user.command(&["update", "--rollback"]));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        !succeeded
            && said.contains("punie-runner 0.0.9 stays aside")
            && said.contains("by a newer version"),
        "{said}"
    );
    assert_eq!(version_of(&user.program()), VERSION);

    set_version(1);
    run_well(&mut user.command(&["update", "--rollback"]));
    assert_eq!(version_of(&user.program()), "0.0.9");
    assert_eq!(version_of(&previous), VERSION);
}

/// A service manager with one service. A restart ends the process in `pid` and runs `start`.
const MANAGER: &str = r#"#!/bin/sh
cd "$(dirname "$0")/.."
case "$*" in
*" show --property=Version") ;;
*" show "*) printf 'LoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nMainPID=%s\n' "$(cat pid 2>/dev/null || echo 0)" ;;
*" restart "*)
    echo restart >> restarts
    if test -e pid; then
        kill -TERM "$(cat pid)"
        while kill -0 "$(cat pid)" 2>/dev/null; do sleep 0.05; done
    fi
    setsid ./start >log 2>&1 </dev/null & echo $! > pid ;;
esac
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_restarts_the_service_after_the_call_that_runs() {
    let release = newer_release();
    let setup = RunnerFixture::new().await;
    let user = UpdatingUser::new(&release);
    let home = setup.setting.home.clone();
    let configuration = fs::read_to_string(home.join("config.toml")).expect("the configuration");
    let key = release.public_key();
    let update = format!(
        "[update]\nurl = \"{}\"\npublic_key = \"{key}\"\n",
        release.url
    );
    fs::write(
        home.join("config.toml"),
        format!("{configuration}\n{update}"),
    )
    .expect("written");
    let text = |path: &Path| path.to_str().expect("a plain path").to_owned();
    fs::create_dir(user.path("bin")).expect("a folder");
    make_program(&user.path("bin/systemctl"), MANAGER);
    let start = format!(
        "#!/bin/sh\nexec {} --home {} --workspace {} --backend-url {} run\n",
        text(&user.program()),
        text(&home),
        text(&setup.setting.workspace),
        setup.setting.url
    );
    make_program(&user.path("start"), &start);
    let typed = |args: &[&str]| {
        let mut command = user.command(args);
        command
            .env("PUNIE_HOME", &home)
            .env("PATH", format!("{}:/usr/bin:/bin", text(&user.path("bin"))))
            .env("PUNIE_BACKEND_URL", &setup.setting.url);
        command
    };
    // Writes the unit and starts the runner, as the service manager would start it.
    let workspace = text(&setup.setting.workspace);
    run_well(&mut typed(&[
        "--workspace",
        &workspace,
        "service",
        "install",
    ]));
    let file = setup.setting.workspace.join("runs");
    let call = setup
        .caller
        .ask(ToolCall::bash("echo one >> runs; sleep 4; echo done"))
        .await;
    wait_until("the call runs", || file.exists()).await;
    let before = fs::read_to_string(user.path("pid")).expect("the pid");
    let updating = std::thread::spawn({
        let mut command = typed(&["update"]);
        move || run_command(&mut command)
    });
    let answer = setup.caller.answer(&call).await;
    assert_contains!(answer.text(), "done");
    let (succeeded, said) = updating.join().expect("it ends");
    assert!(succeeded && said.contains("A call runs."), "{said}");
    assert_contains!(said, "The service was restarted");
    assert_ne!(
        fs::read_to_string(user.path("pid")).expect("the pid"),
        before
    );
    assert_eq!(version_of(&user.program()), NEWER);
    let next = setup.bash("echo two >> runs; cat runs").await;
    assert_contains!(next.text(), "one\ntwo");
    let status: Value = json_of(&mut typed(&["--json", "status"]));
    assert_eq!(status["paused"], Value::Null, "{status}");
    run_well(
        Command::new("kill").arg(
            fs::read_to_string(user.path("pid"))
                .expect("the pid")
                .trim(),
        ),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_of_the_owner_lasts_beyond_that_of_an_update() {
    let setup = RunnerFixture::new().await;
    // The state that an update leaves when it is killed in the middle of the restart.
    let switch = setup.setting.home.join("state/switches/paused");
    fs::create_dir_all(switch.parent().expect("its folder")).expect("a folder");
    let left = r#"{"sinceMs":1,"reason":"for the restart of an update"}"#;
    fs::write(&switch, left).expect("written");
    let paused = setup
        .command(&["--json", "pause", "--reason", "lunch"])
        .await;
    assert_eq!(paused.json()["changed"], true, "{paused:?}");
    let text = fs::read_to_string(&switch).expect("the switch");
    assert_contains!(text, "lunch");
}
