//! Damaged journal files. A torn log costs only writes that were not synced. A damaged file is set aside, and its
//! readable rows are carried over to a new one. A request that may have run is not run again.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use punie_core::ids::{ConversationId, LeaseId, RequestId, ToolName};
use punie_engine::journal::{CloseReason, Journal, RequestOffer, RequestOrigin, RequestState};
use punie_tool::request::{ToolEffect, ToolRequest};

use crate::harness::stage::RunnerFixture;

const PAGE: usize = 4096;

fn tool_request(name: &str) -> ToolRequest {
    ToolRequest {
        id: RequestId::parse(name).expect("an id"),
        tool: ToolName::parse("Bash").expect("a name"),
        args: format!(r#"{{"command":"echo {name}","why":"{}"}}"#, "x".repeat(200)),
        conversation: ConversationId::parse("talk").expect("a name"),
        agent_type: None,
        caller: None,
        session: None,
        created_at_ms: 0.0,
        deadline_ms: None,
        cancelled: false,
        issued_at_ms: None,
        signature: None,
    }
}

async fn accept_requests(
    journal: &Journal,
    names: &[String],
    effect: ToolEffect,
) -> Vec<punie_engine::journal::AcceptedRequest> {
    let offers = names
        .iter()
        .map(|name| RequestOffer::Request(tool_request(name), effect, None))
        .collect();
    let admitted = journal
        .accept_page(offers, RequestOrigin::Backend, &LeaseId::random(), None, 0)
        .await
        .expect("taken");
    let fresh = |admission| match admission {
        punie_engine::journal::OfferOutcome::Fresh(accepted) => accepted,
        other => panic!("not new: {other:?}"),
    };
    admitted.into_iter().map(fresh).collect()
}

fn log_of(file: &Path) -> PathBuf {
    file.with_file_name("journal.sqlite3-wal")
}

fn put_aside(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder)
        .expect("a folder")
        .filter_map(Result::ok);
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| {
            name.contains(".broken-") && !name.contains("-wal") && !name.contains("-shm")
        })
        .collect()
}

#[tokio::test]
async fn f13_a_torn_end_of_the_log_costs_only_what_was_not_synced() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("journal.sqlite3");
    let journal = Journal::open_for_last_backend(&file).expect("opens");
    accept_requests(&journal, &["kept".to_owned()], ToolEffect::Executes).await;
    let synced = log_of(&file).metadata().expect("a log").len();
    journal
        .store_fact("cursor", "unsynced".to_owned())
        .await
        .expect("noted");
    let main = std::fs::read(&file).expect("reads");
    let log = std::fs::read(log_of(&file)).expect("reads");
    let synced = usize::try_from(synced).expect("small");
    assert!(log.len() > synced, "the note is in the log");
    for step in 0..40 {
        let at = synced + (log.len() - synced - 1) * step / 39;
        let mut flipped = log.clone();
        flipped[at] ^= 0x40;
        for torn in [&log[..at], &flipped[..]] {
            let after = tempfile::tempdir().expect("a folder");
            let file = after.path().join("journal.sqlite3");
            std::fs::write(&file, &main).expect("written");
            std::fs::write(log_of(&file), torn).expect("written");
            let journal = Journal::open_for_last_backend(&file).expect("it opens");
            let reader = journal.open_reader().expect("reads");
            let life = reader
                .request_record(&RequestId::parse("kept").expect("an id"))
                .expect("reads");
            assert_eq!(
                life.map(|life| life.state),
                Some(RequestState::Accepted),
                "torn at {at}"
            );
            assert_eq!(
                reader.read_fact("cursor").expect("reads"),
                None,
                "torn at {at}"
            );
            assert_eq!(
                put_aside(after.path()),
                [] as [String; 0],
                "nothing was damaged"
            );
        }
    }
}

/// Writes and closes a journal of 300 requests, of which every tenth is unfinished.
async fn write_journal(folder: &Path) -> PathBuf {
    let file = folder.join("journal.sqlite3");
    let journal = Journal::open_for_last_backend(&file).expect("opens");
    let names: Vec<String> = (0..300).map(|n| format!("r{n:03}")).collect();
    for (n, accepted) in accept_requests(&journal, &names, ToolEffect::Executes)
        .await
        .iter()
        .enumerate()
    {
        if n % 10 == 0 {
            journal
                .record_start(accepted, false, 0)
                .await
                .expect("begun");
        } else {
            journal
                .close_request(&accepted.tool_request().id, CloseReason::Delivered, 0)
                .await
                .expect("closed");
        }
    }
    journal
        .store_fact("cursor", "here".to_owned())
        .await
        .expect("noted");
    journal.checkpoint_wal().await;
    assert_eq!(
        log_of(&file).metadata().map_or(0, |log| log.len()),
        0,
        "all of it is in the file"
    );
    file
}

fn overwrite_page(file: &Path, page: usize) {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .open(file)
        .expect("opens");
    file.seek(SeekFrom::Start((page * PAGE) as u64))
        .expect("there");
    let noise: Vec<u8> = (0..PAGE)
        .map(|at| u8::try_from((at * 167 + page * 31) % 251).expect("a byte"))
        .collect();
    file.write_all(&noise).expect("written");
}

#[tokio::test]
async fn f14_whichever_page_is_damaged_the_rest_is_carried_over() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = write_journal(dir.path()).await;
    let mut sound = Vec::new();
    std::fs::File::open(&file)
        .expect("opens")
        .read_to_end(&mut sound)
        .expect("reads");
    let mut damaged = 0;
    let mut in_part = 0;
    let mut leading = 0;
    for page in 0..sound.len() / PAGE {
        let after = tempfile::tempdir().expect("a folder");
        let file = after.path().join("journal.sqlite3");
        std::fs::write(&file, &sound).expect("written");
        overwrite_page(&file, page);
        let broken = std::fs::read(&file).expect("reads");
        let journal = Journal::open_for_last_backend(&file).expect("it opens");
        let reader = journal.open_reader().expect("reads");
        let (kept, lost) = match reader.damage_report().expect("reads") {
            Some(salvage) => {
                damaged += 1;
                let aside = after.path().join(&salvage.file);
                assert!(
                    std::fs::read(aside).expect("kept") == broken,
                    "it is kept as it was found"
                );
                (salvage.kept, salvage.lost)
            }
            // No table uses this page.
            None => (300, Some(0)),
        };
        // If the tables themselves cannot be found, the number of lost rows is unknown.
        assert!(
            lost.is_none_or(|lost| kept + lost == 300),
            "page {page}: {kept} kept, {lost:?} lost"
        );
        // A damaged leaf page loses its own rows. A damaged inner page loses all rows, and the backend still lists the
        // open requests among them.
        assert!(kept >= 200 || kept == 0, "page {page}: only {kept} kept");
        leading += u32::from(kept == 0);
        in_part += u32::from(kept < 300 && kept > 0);
        let all = (0..300).filter(|n| {
            let id = RequestId::parse(format!("r{n:03}")).expect("an id");
            let state = reader
                .request_record(&id)
                .expect("reads")
                .map(|life| life.state);
            let was = if n % 10 == 0 {
                RequestState::Started
            } else {
                RequestState::Delivered
            };
            assert!(
                state.is_none_or(|state| state == was || state == RequestState::Started),
                "page {page}: r{n:03} is {state:?}"
            );
            state.is_some()
        });
        assert_eq!(
            u32::try_from(all.count()).expect("few"),
            kept,
            "page {page}"
        );
        for id in reader.started_requests().expect("recovery can read it") {
            reader
                .unfinished_request(&id)
                .expect("recovery can read it");
        }
        let waiting = reader.accepted_requests().expect("recovery can read it");
        assert!(
            waiting.is_empty(),
            "a request that may have run is not taken for waiting"
        );
        // The new journal accepts requests.
        accept_requests(&journal, &["new".to_owned()], ToolEffect::Executes).await;
    }
    assert!(
        damaged > 10 && in_part > 3 && leading < 5,
        "{damaged} damaged, {in_part} in part, {leading} leading"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f14_a_runner_with_a_damaged_journal_starts_says_so_and_repeats_nothing() {
    // If page 0 is damaged, nothing in the file can be read.
    for page in [0, 1, 4, 9] {
        let setup =
            RunnerFixture::with_config("[limits]\nlease_ms = 1000\nlease_renew_ms = 300\n").await;
        let runner = setup.run();
        for n in 0..12 {
            setup
                .bash(&format!("echo {n}; : {}", "x".repeat(2_000)))
                .await;
        }
        let id = setup.ask_bash("echo ran >> effects; sleep 600").await;
        setup.wait_for_line_in("effects").await;
        runner.kill();
        let file = setup.setting.home.join("state/journal.sqlite3");
        let raw = rusqlite::Connection::open(&file).expect("opens");
        raw.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))
            .expect("into the file");
        drop(raw);
        overwrite_page(&file, page);

        let _runner = setup.run();
        let answer = setup.answer(&id).await;
        assert_eq!(
            answer.verdict(),
            ("error", "interrupted"),
            "page {page}: {answer:?}"
        );
        setup.bash("echo on").await.expect_ok();
        assert_eq!(setup.read("effects"), "ran\n");
        let status = setup.command(&["status", "--json"]).await.json();
        assert_eq!(
            status["salvage"]["file"], "journal.sqlite3.broken-1",
            "page {page}: {status}"
        );
        let said = setup.command(&["status", "-v"]).await.out;
        assert_contains!(said, "was damaged and is kept as journal.sqlite3.broken-1");
    }
}

#[tokio::test]
async fn f14_a_swap_that_a_crash_cut_off_is_ended_by_the_next_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let place = |name: &str| dir.path().join(name);
    // The state after the crash: the damaged file is set aside, its log is not, and the new file has a temporary name.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let whole = write_journal(elsewhere.path()).await;
    std::fs::write(place("journal.sqlite3.broken-1"), b"damaged").expect("written");
    std::fs::copy(&whole, place("journal.sqlite3.whole")).expect("copied");
    std::fs::write(place("journal.sqlite3-wal"), b"the log of the damaged file").expect("written");
    let raw = rusqlite::Connection::open(place("journal.sqlite3.whole")).expect("opens");
    raw.execute_batch("insert into kv values ('proof', 'of the new one')")
        .expect("written");
    drop(raw);
    let journal = Journal::open_for_last_backend(&place("journal.sqlite3")).expect("opens");
    assert_eq!(
        journal
            .open_reader()
            .expect("reads")
            .read_fact("proof")
            .expect("reads")
            .as_deref(),
        Some("of the new one")
    );
    let log = std::fs::read(place("journal.sqlite3.broken-1-wal")).expect("put aside too");
    assert_eq!(log, b"the log of the damaged file");
    assert!(!place("journal.sqlite3.whole").exists());
}
