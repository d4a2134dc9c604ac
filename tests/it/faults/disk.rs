//! A disk that is full, read-only or loses writes. No data is lost or damaged, and no new call starts. The runner
//! finishes and delivers the calls that have started, and reports the cause.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use punie_engine::journal::{DISK_RESERVE_BYTES, RequestState};

use super::disk_model::PowerFailure;
use super::power::{PoweredFixture, request_state};
use crate::harness::process::{ProcessSetting, RunningProgram};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

/// A small tmpfs disk, mounted until the value is dropped. Only root can mount one.
pub(crate) struct SmallDisk {
    pub at: PathBuf,
}

impl SmallDisk {
    pub fn mount(at: PathBuf, megabytes: u32) -> Option<Self> {
        std::fs::create_dir(&at).expect("made");
        let size = format!("size={megabytes}m,mode=700");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &size, "punie-test"])
            .arg(&at);
        let mounted = mount.output().is_ok_and(|ended| ended.status.success());
        if !mounted {
            eprintln!("this user cannot mount a small disk; the test needs one and is skipped");
        }
        mounted.then_some(Self { at })
    }

    /// Fills the disk completely.
    pub fn fill(&self) {
        let mut ballast = File::options()
            .append(true)
            .create(true)
            .open(self.filler_path())
            .expect("opens");
        for block in [1 << 20, 4 << 10] {
            while ballast.write_all(&vec![b'x'; block]).is_ok() {}
        }
    }

    pub fn empty(&self) {
        std::fs::remove_file(self.filler_path()).expect("removed");
    }

    fn filler_path(&self) -> PathBuf {
        self.at.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

/// A fixture whose home is on a small disk.
struct SmallHomeFixture {
    disk: SmallDisk,
    setting: ProcessSetting,
    stage: RunnerFixture,
}

impl SmallHomeFixture {
    async fn new(least_free_mb: u32, megabytes: u32) -> Option<Self> {
        let config = format!("[limits]\nleast_free_mb = {least_free_mb}\n");
        let setup = RunnerFixture::with_config(&config).await;
        let disk = SmallDisk::mount(setup.setting.home.with_file_name("small"), megabytes)?;
        let home = disk.at.join("home");
        let copied = Command::new("cp")
            .arg("-a")
            .arg(&setup.setting.home)
            .arg(&home)
            .status();
        assert!(copied.expect("cp").success());
        Some(Self {
            setting: ProcessSetting {
                home,
                ..setup.setting.clone()
            },
            disk,
            stage: setup,
        })
    }

    fn run(&self) -> RunningProgram {
        RunningProgram::start(&self.setting, &["run"])
    }

    fn reserve(&self) -> u64 {
        let reserve = self.setting.home.join("state/journal.sqlite3.reserve");
        reserve.metadata().map_or(0, |file| file.len())
    }

    async fn degraded_reason(&self) -> String {
        let status = RunningProgram::start(&self.setting, &["status", "--json"])
            .end()
            .await;
        status.json()["degraded"].to_string()
    }

    /// Returns the health of the last heartbeat.
    fn health(&self) -> String {
        let db = self.stage.database();
        db.query_row("select health from presence", [], |row| row.get(0))
            .unwrap_or_default()
    }

    async fn wait_for_heartbeat(&self, words: &str) {
        wait_until(&format!("{words} in a heartbeat"), || {
            self.health().contains(words)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f15_a_read_only_state_folder_ends_the_start_with_its_cause() {
    let setup = RunnerFixture::new().await;
    let id = setup.ask_bash("echo ran >> effects").await;
    let below = setup.setting.home.join("state");
    let is_root = rustix::process::geteuid().is_root();
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
    let state_text = below.to_str().expect("text");
    // Root ignores file modes, so it needs a read-only mount instead.
    let before: &[&str] = if is_root {
        &["unshare", "-m", "sh", "-c", script, state_text]
    } else {
        &[]
    };
    if !is_root {
        std::fs::set_permissions(&below, std::os::unix::fs::PermissionsExt::from_mode(0o500))
            .expect("set");
    }
    let ended = RunningProgram::within(before, &setup.setting, &["run"], &[])
        .end()
        .await;
    if !is_root {
        std::fs::set_permissions(&below, std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .expect("set");
    }
    assert_eq!(ended.code, Some(73), "{ended:?}");
    assert_contains!(ended.log, state_text; "it names the folder that cannot be written");
    assert!(setup.caller.result(&id).await.is_none());
    assert_eq!(setup.read("effects"), "");
    // The same home, writable again.
    let _runner = setup.run();
    setup.answer(&id).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f16_a_disk_that_is_full_when_a_page_comes_is_waited_for() {
    let Some(cramped) = SmallHomeFixture::new(0, 24).await else {
        return;
    };
    let _runner = cramped.run();
    cramped.stage.bash("true").await;
    cramped.disk.fill();
    let id = cramped
        .stage
        .ask_bash(&format!("echo ran >> effects; : {}", "x".repeat(100_000)))
        .await;
    cramped.wait_for_heartbeat("\"degraded\":[\"disk\"]").await;
    assert_eq!(cramped.degraded_reason().await, "[\"disk\"]");
    assert_eq!(cramped.reserve(), 0, "it was given up");
    // Other programs take the space that the reserve freed.
    cramped.disk.fill();
    let later = cramped.stage.ask_bash("echo later >> effects").await;
    cramped.disk.empty();
    cramped.stage.answer(&id).await.expect_ok();
    cramped.stage.answer(&later).await.expect_ok();
    assert_eq!(
        cramped.stage.read("effects").lines().count(),
        2,
        "each once"
    );
    cramped.wait_for_heartbeat("\"degraded\":[]").await;
    wait_until("a new reserve", || cramped.reserve() == DISK_RESERVE_BYTES).await;
    assert_eq!(cramped.degraded_reason().await, "[]");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f16_with_less_room_than_wished_nothing_new_is_begun() {
    let Some(cramped) = SmallHomeFixture::new(16, 32).await else {
        return;
    };
    let _runner = cramped.run();
    cramped.stage.bash("true").await;
    let mut ballast = File::create(cramped.disk.filler_path()).expect("made");
    ballast.write_all(&vec![b'x'; 14 << 20]).expect("written");
    drop(ballast);
    cramped.wait_for_heartbeat("\"degraded\":[\"disk\"]").await;
    assert_eq!(cramped.reserve(), DISK_RESERVE_BYTES, "nothing needed it");
    let id = cramped.stage.ask_bash("echo ran >> effects").await;
    // A poll that was held when space ran short may still bring one request. The runner accepts it and does not start
    // it.
    let said = RunningProgram::start(&cramped.setting, &["status"])
        .end()
        .await
        .out;
    assert_contains!(said, "The disk is nearly full: no new call starts");
    assert_eq!(cramped.stage.read("effects"), "");
    cramped.disk.empty();
    cramped.stage.answer(&id).await.expect_ok();
    assert_eq!(cramped.stage.read("effects"), "ran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f17_a_disk_that_is_full_when_a_call_ends_has_room_for_its_answer() {
    let Some(cramped) = SmallHomeFixture::new(0, 24).await else {
        return;
    };
    let _runner = cramped.run();
    let command = "echo ran >> effects; until [ -e go ]; do sleep 0.02; done; head -c 20000 /dev/zero | tr '\\0' y";
    let id = cramped.stage.ask_bash(command).await;
    cramped.stage.wait_for_line_in("effects").await;
    cramped.disk.fill();
    cramped.stage.write("go", "");
    let answer = cramped.stage.answer(&id).await;
    assert!(
        answer.outcome == "ok" && answer.text().contains("yyyy"),
        "{answer:?}"
    );
    let warnings = answer.payload["meta"]["warnings"].to_string();
    // The freed reserve may leave enough space for the snapshot. Then the call can be undone.
    let has_snapshot = !warnings.contains("cannot be undone");
    assert_eq!(cramped.reserve(), 0, "it was given up for this");
    cramped.wait_for_heartbeat("\"degraded\":[\"disk\"]").await;
    assert_eq!(cramped.degraded_reason().await, "[\"disk\"]");
    cramped.disk.empty();
    wait_until("a new reserve", || cramped.reserve() == DISK_RESERVE_BYTES).await;
    cramped.stage.bash("true").await.expect_ok();
    assert_eq!(cramped.stage.read("effects"), "ran\n");
    // The runner held back the audit rows for which there was no space, and writes them now.
    let rows = || {
        std::fs::read_to_string(cramped.setting.home.join("state/audit.jsonl")).unwrap_or_default()
    };
    let answered = |row: &str| row.contains("\"answered\"") && row.contains(&id);
    wait_until("its audit row", || rows().lines().any(answered)).await;
    let verified = RunningProgram::start(&cramped.setting, &["audit", "verify"])
        .end()
        .await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let undone = RunningProgram::start(&cramped.setting, &["undo", &id])
        .end()
        .await;
    assert_eq!(
        undone.code == Some(0),
        has_snapshot,
        "{warnings}: {undone:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f18_output_that_fills_the_disk_is_cut_at_that_byte_and_its_command_goes_on() {
    let Some(cramped) = SmallHomeFixture::new(0, 24).await else {
        return;
    };
    let _runner = cramped.run();
    let command =
        "head -c 60000000 /dev/zero | tr '\\0' z; echo; echo the end of it; echo ran >> effects";
    let answer = cramped.stage.bash(command).await;
    answer.expect_ok();
    let text = answer.text();
    assert_contains!(text, "the end of it"; "it was not killed");
    let warnings = answer.payload["meta"]["warnings"].to_string();
    assert_contains!(
        warnings,
        "the disk is full, the rest of the output is not kept"
    );
    assert_eq!(cramped.stage.read("effects"), "ran\n");
    let kept: u64 = file_sizes(&cramped.setting.home.join("state/outputs"))
        .iter()
        .sum();
    assert!(
        (8 << 20..24 << 20).contains(&kept),
        "as much as the disk took is kept: {kept}"
    );
}

fn file_sizes(folder: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(folder)
        .expect("a folder")
        .filter_map(Result::ok);
    entries
        .filter_map(|entry| Some(entry.metadata().ok()?.len()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f19_after_a_failed_sync_the_journal_goes_on_in_a_new_file() {
    for nth in 1..=3 {
        let powered = PoweredFixture::new().await;
        powered
            .run(PowerFailure::default())
            .wait_for_log("the catalog is published")
            .await;
        let runner = powered.run(PowerFailure {
            refuse: Some(("journal.sqlite3-wal", nth, nth)),
            ..PowerFailure::default()
        });
        powered.stage.bash("echo ran >> effects").await.expect_ok();
        let id = powered
            .stage
            .ask_bash("echo then >> effects; sleep 600")
            .await;
        wait_until("the second effect", || {
            powered.stage.read("effects").contains("then")
        })
        .await;
        runner
            .wait_for_log("the journal goes on in a file that was looked at")
            .await;
        runner.kill();
        // A record that a sync after the failed one confirmed is durable.
        powered.disk.lose_power(None);
        assert_eq!(
            request_state(powered.on_disk().as_ref(), &id),
            Some(RequestState::Started),
            "refused sync {nth}"
        );
        assert_eq!(powered.stage.read("effects"), "ran\nthen\n");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f19_a_disk_that_keeps_nothing_ends_the_runner_before_anything_is_begun() {
    let powered = PoweredFixture::new().await;
    powered
        .run(PowerFailure::default())
        .wait_for_log("the catalog is published")
        .await;
    let runner = powered.run(PowerFailure {
        refuse: Some(("journal.sqlite3", 1, 1_000_000)),
        ..PowerFailure::default()
    });
    let id = powered.stage.ask_bash("echo ran >> effects").await;
    let ended = runner.end().await;
    assert_eq!(ended.code, Some(73), "{ended:?}");
    assert_eq!(powered.stage.read("effects"), "");
    assert!(powered.stage.caller.result(&id).await.is_none());
    let _runner = powered.run(PowerFailure::default());
    powered.stage.answer(&id).await.expect_ok();
    assert_eq!(powered.stage.read("effects"), "ran\n");
}
