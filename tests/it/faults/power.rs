//! Power cuts: the disk has all synced data, and a random part of the rest. The runner still knows every request that
//! it accepted, and no effect happens twice.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;

use punie_core::ids::{LeaseId, RequestId};
use punie_engine::journal::{Journal, JournalReader, RequestOffer, RequestOrigin, RequestState};
use serde_json::json;

use super::disk_model::{DurableDisk, PowerFailure};
use crate::harness::caller::ToolCall;
use crate::harness::process::RunningProgram;
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

/// Short leases: a test must wait until the lease of a process that was cut off has run out.
const SHORT_LEASES: &str = "[limits]\nlease_ms = 1000\nlease_renew_ms = 300\n";

/// A fixture whose home is on a disk that can lose its power.
pub struct PoweredFixture {
    pub stage: RunnerFixture,
    pub relay: Relay,
    pub disk: DurableDisk,
    _store: tempfile::TempDir,
}

impl PoweredFixture {
    pub async fn new() -> Self {
        let setup = RunnerFixture::with_config(SHORT_LEASES).await;
        let relay = Relay::before(&setup.setting.url).await;
        let store = tempfile::tempdir().expect("a folder");
        let disk = DurableDisk::under(&setup.setting.home, store.path());
        Self {
            stage: setup,
            relay,
            disk,
            _store: store,
        }
    }

    pub fn run(&self, mishap: PowerFailure) -> RunningProgram {
        let mut setting = self.stage.setting.clone();
        setting.url.clone_from(&self.relay.url);
        let variables = self.disk.variables(mishap);
        let variables: Vec<(&str, &OsStr)> = variables
            .iter()
            .map(|(name, value)| (*name, value.as_os_str()))
            .collect();
        RunningProgram::start_with(&setting, &["run"], &variables)
    }

    pub fn journal(&self) -> PathBuf {
        self.stage.setting.home.join("state/journal.sqlite3")
    }

    /// Returns the journal as the disk has it, if it has one. Checks that the file is sound.
    pub fn on_disk(&self) -> Option<JournalReader> {
        let path = self.journal();
        if path.metadata().map_or(0, |file| file.len()) == 0 {
            return None;
        }
        let raw = rusqlite::Connection::open(&path).expect("opens");
        raw.set_db_config(
            rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
            true,
        )
        .expect("set");
        let said: String = raw
            .query_row("pragma integrity_check(1)", [], |row| row.get(0))
            .expect("it can be checked");
        assert_eq!(said, "ok", "a power cut must not damage the file");
        Some(JournalReader::open_read_only(&path).expect("it can be read"))
    }

    fn nothing_was_put_aside(&self) {
        let state = self.journal().parent().expect("a folder").to_owned();
        let names = std::fs::read_dir(state)
            .expect("a folder")
            .filter_map(Result::ok);
        let broken: Vec<_> = names
            .map(|entry| entry.file_name())
            .filter(|name| name.to_string_lossy().contains("broken"))
            .collect();
        assert!(broken.is_empty(), "no file was damaged: {broken:?}");
    }
}

pub fn request_state(journal: Option<&JournalReader>, id: &str) -> Option<RequestState> {
    let id = RequestId::parse(id).expect("an id");
    // A file that was cut off while it was created has no tables.
    journal?.request_record(&id).ok()?.map(|life| life.state)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f10_an_effect_that_had_begun_is_known_after_a_power_cut_and_not_run_again() {
    let powered = PoweredFixture::new().await;
    let runner = powered.run(PowerFailure::default());
    let id = powered
        .stage
        .ask_bash("echo ran >> effects; sleep 600")
        .await;
    powered.stage.wait_for_line_in("effects").await;
    runner.kill();
    powered.disk.lose_power(None);
    assert_eq!(
        request_state(powered.on_disk().as_ref(), &id),
        Some(RequestState::Started)
    );

    let _runner = powered.run(PowerFailure::default());
    powered.stage.answer(&id).await.expect_error("interrupted");
    powered.stage.bash("true").await;
    assert_eq!(powered.stage.read("effects"), "ran\n");
    powered.nothing_was_put_aside();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f11_a_read_that_a_power_cut_made_forgotten_is_offered_again_and_answered_once() {
    let powered = PoweredFixture::new().await;
    powered.stage.write("found.txt", "it is there\n");
    powered.relay.rule(|path, _| {
        if path == "events:appendResult" {
            CallFate::Unheard
        } else {
            CallFate::Pass
        }
    });
    let runner = powered.run(PowerFailure::default());
    let id = powered
        .stage
        .ask(ToolCall::new("Read", &json!({ "file_path": "found.txt" })))
        .await;
    powered
        .stage
        .wait_for_state(&id, RequestState::Finished)
        .await;
    runner.kill();
    powered.disk.lose_power(None);
    powered.on_disk();

    powered.relay.rule(|_, _| CallFate::Pass);
    let _runner = powered.run(PowerFailure::default());
    let answer = powered.stage.answer(&id).await;
    assert!(
        answer.outcome == "ok" && answer.text().contains("it is there"),
        "{answer:?}"
    );
    powered
        .stage
        .wait_for_state(&id, RequestState::Delivered)
        .await;
    assert_eq!(powered.relay.posts(&id).1, 1);
    powered.nothing_was_put_aside();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f12_a_power_cut_anywhere_in_the_making_of_the_journal_leaves_one_that_opens() {
    let powered = PoweredFixture::new().await;
    let home = &powered.stage.setting.home;
    let pristine = home.with_extension("pristine");
    copy_tree(home, &pristine);
    let mut dice = SeededNumbers(12);
    let mut cut = 0;
    for at in 1.. {
        std::fs::remove_dir_all(home).expect("removed");
        copy_tree(&pristine, home);
        powered.disk.settle();
        let mut runner = powered.run(PowerFailure {
            cut_at: at,
            ..PowerFailure::default()
        });
        let ready = wait_for_some("a cut or a runner that is up", async || {
            let polls = runner.log().contains("the runner is up") && powered.journal().exists();
            (runner.has_ended() || polls).then_some(polls && !runner.has_ended())
        })
        .await;
        drop(runner);
        if ready {
            break;
        }
        cut += 1;
        let mut chance = || dice.roll(2) == 0;
        powered
            .disk
            .lose_power(if at % 2 == 0 { Some(&mut chance) } else { None });
        drop(
            Journal::open_for_last_backend(&powered.journal()).expect("it opens, or is made anew"),
        );
    }
    assert!(
        cut >= 5,
        "the making of a journal syncs more often than {cut} times"
    );
    let _runner = powered.run(PowerFailure::default());
    powered.stage.bash("echo fine").await.expect_ok();
}

#[tokio::test]
async fn a_journal_at_rest_is_one_file_with_nothing_beside() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("journal.sqlite3");
    let log = || {
        file.with_file_name("journal.sqlite3-wal")
            .metadata()
            .map_or(0, |log| log.len())
    };
    let journal = Journal::open_for_last_backend(&file).expect("opens");
    let accept = async |name: &str| {
        let offers = vec![RequestOffer::Cancel(RequestId::parse(name).expect("an id"))];
        let lease = LeaseId::random();
        journal
            .accept_page(
                offers,
                RequestOrigin::Backend,
                &lease,
                Some(name.to_owned()),
                0,
            )
            .await
            .expect("taken");
        journal
            .record_failed_post(
                &RequestId::parse(name).expect("an id"),
                "offline".to_owned(),
                0,
            )
            .await
            .expect("noted");
    };
    accept("told").await;
    assert!(log() > 0, "what is new is in the log first");
    journal.checkpoint_wal().await;
    assert_eq!(log(), 0, "told to rest");
    accept("untold").await;
    assert!(log() > 0);
    wait_until("the log to be empty", || log() == 0).await;
    assert_eq!(
        journal
            .open_reader()
            .expect("reads")
            .read_fact("cursor")
            .expect("reads")
            .as_deref(),
        Some("untold")
    );
}

/// Random numbers from a seed (SplitMix64).
struct SeededNumbers(u64);

impl SeededNumbers {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

fn copy_tree(from: &std::path::Path, to: &std::path::Path) {
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(from)
        .arg(to)
        .status();
    assert!(copied.expect("cp").success());
}

/// Sends a mix of reads and effects, and records the mark of each effect. Returns the ids of the new requests.
async fn ask_mixed(
    powered: &PoweredFixture,
    asked: &mut BTreeMap<String, Option<String>>,
    dice: &mut SeededNumbers,
) -> Vec<String> {
    let mut new = Vec::new();
    for _ in 0..3 + dice.roll(4) {
        let mark = format!("m{}", asked.len());
        let conversation = format!("c{}", dice.roll(3));
        let (ask, mark) = match dice.roll(4) {
            0 => (ToolCall::new("Glob", &json!({ "pattern": "*" })), None),
            1 => (
                ToolCall::new("Read", &json!({ "file_path": "found.txt" })),
                None,
            ),
            2 => (
                ToolCall::bash(&format!(
                    "echo {mark} >> effects; sleep 0.0{}",
                    dice.roll(10)
                )),
                Some(mark),
            ),
            _ => (
                ToolCall::bash(&format!("echo {mark} >> effects")),
                Some(mark),
            ),
        };
        let id = powered.stage.ask(ask.in_conversation(&conversation)).await;
        asked.insert(id.clone(), mark);
        new.push(id);
    }
    new
}

/// Counts how often each effect happened.
fn count_effects(powered: &PoweredFixture) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in powered.stage.read("effects").lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

/// Cuts the power this many times, at random syncs. In odd rounds, half of the unsynced data reaches the disk all the
/// same.
async fn cut_power(cuts: u32) {
    let powered = PoweredFixture::new().await;
    powered.stage.write("found.txt", "it is there\n");
    let mut dice = SeededNumbers(0xf00d);
    let mut asked = BTreeMap::new();
    let mut fell = 0;
    let mut open = Vec::new();
    for round in 0..cuts {
        open.extend(ask_mixed(&powered, &mut asked, &mut dice).await);
        let at = u32::try_from(1 + dice.roll(7)).expect("small");
        let mut runner = powered.run(PowerFailure {
            cut_at: at,
            after: dice.roll(2) == 0,
            refuse: None,
        });
        wait_for_some("a cut, or everything answered", async || {
            if runner.has_ended() {
                return Some(());
            }
            while let Some(id) = open.last() {
                powered.stage.caller.result(id).await?;
                open.pop();
            }
            Some(())
        })
        .await;
        fell += u32::from(runner.has_ended());
        drop(runner);
        let mut chance = || dice.roll(2) == 0;
        powered.disk.lose_power(if round % 2 == 1 {
            Some(&mut chance)
        } else {
            None
        });
        forgets_nothing(&powered, &asked, round);
    }
    let _runner = powered.run(PowerFailure::default());
    for id in asked.keys() {
        let answer = powered.stage.answer(id).await;
        let done = asked[id]
            .as_ref()
            .map(|mark| count_effects(&powered).get(mark).copied().unwrap_or(0));
        if answer.outcome == "ok" {
            assert!(
                done.is_none_or(|done| done == 1),
                "{id}: {done:?} {answer:?}"
            );
        } else {
            answer.expect_error("interrupted");
        }
        assert!(
            powered.relay.posts(id).1 <= 1,
            "two results of {id} were stored"
        );
    }
    let counts = count_effects(&powered);
    let repeated = counts.values().filter(|times| **times > 1).count();
    powered.nothing_was_put_aside();
    println!(
        "{cuts} rounds, {fell} cut at a sync, {} requests, {} effects, {repeated} repeated, 0 forgotten, 0 damaged files",
        asked.len(),
        counts.len()
    );
    assert_eq!(repeated, 0);
    assert!(
        fell * 2 >= cuts,
        "most rounds should be cut at a sync, not {fell} of {cuts}"
    );
}

/// Checks that the disk knows every claim that the backend granted, and every effect that happened.
fn forgets_nothing(powered: &PoweredFixture, asked: &BTreeMap<String, Option<String>>, round: u32) {
    let journal = powered.on_disk();
    let counts = count_effects(powered);
    for call in powered.relay.calls("events:claim") {
        let id = call.args["requestId"].as_str().expect("an id");
        if let Some(mark) = &asked[id]
            && call.answer["value"]["granted"] == true
        {
            let known = request_state(journal.as_ref(), id);
            assert!(
                known.is_some(),
                "round {round}: {id} was claimed and is forgotten"
            );
            let done = counts.get(mark).copied().unwrap_or(0);
            assert!(done <= 1, "round {round}: {id} was done {done} times");
            assert!(
                done == 0 || known != Some(RequestState::Accepted),
                "round {round}: {id} was done and the disk does not know that it began"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `.ci/run` runs it"]
async fn f10_thirty_power_cuts_forget_no_promise() {
    cut_power(30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute or two; `cargo test --test it -- --ignored two_hundred_power_cuts --nocapture`"]
async fn only_by_name_two_hundred_power_cuts_forget_no_promise() {
    cut_power(200).await;
}
