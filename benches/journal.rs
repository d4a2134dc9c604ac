//! What the journal costs: a start with a thousand live requests, and one request from acceptance to delivery.
//! `cargo bench --bench journal`. Nothing here is asserted: it prints a table.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::path::Path;
use std::time::{Duration, Instant};

use punie_core::ids::{ConversationId, LeaseId, RequestId, ToolName};
use punie_engine::journal::{
    AcceptedRequest, BATCH, CloseReason, Journal, OfferOutcome, RequestOffer, RequestOrigin,
    SignatureExpiry,
};
use punie_text::output::OutputStore;
use punie_text::redact::Redactor;
use punie_tool::request::{
    CallOutcome, CleanReply, SealContext, ToolEffect, ToolReply, ToolRequest,
};

/// How often what is quick is done.
const ROUNDS: usize = 300;

fn main() {
    // `cargo test` runs benchmarks too, and has no use for figures.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        start(1_000).await;
        housekeeping(500_000).await;
        for (name, effect, page) in [
            ("read", ToolEffect::Reads, 1),
            ("effect", ToolEffect::Executes, 1),
            ("effects in pages of 20", ToolEffect::Executes, 20),
        ] {
            requests(name, effect, page).await;
        }
    });
}

/// Opening and reading what recovery reads, after a crash.
async fn start(live: usize) {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("journal.sqlite3");
    let journal = Journal::open_for_last_backend(&file).expect("opens");
    let names: Vec<String> = (0..live).map(|n| format!("r{n}")).collect();
    for page in names.chunks(50) {
        let accepted = accept(&journal, page, ToolEffect::Executes).await;
        for accepted in accepted.iter().step_by(3) {
            journal
                .record_start(accepted, false, 0)
                .await
                .expect("begun");
        }
    }
    let mut times = Vec::new();
    for _ in 0..20 {
        let after = tempfile::tempdir().expect("a folder");
        for name in [
            "journal.sqlite3",
            "journal.sqlite3-wal",
            "journal.sqlite3.reserve",
        ] {
            std::fs::copy(dir.path().join(name), after.path().join(name)).expect("copied");
        }
        let begun = Instant::now();
        let journal =
            Journal::open_for_last_backend(&after.path().join("journal.sqlite3")).expect("opens");
        let reader = journal.open_reader().expect("reads");
        let begun_before = reader.started_requests().expect("reads").len();
        reader.waiting_conversations().expect("reads");
        reader
            .accepted_unordered_requests(&["ShellStatus"])
            .expect("reads");
        times.push(begun.elapsed());
        assert_eq!(
            begun_before + reader.accepted_requests().expect("reads").len(),
            live
        );
    }
    println!(
        "start with {live} live requests after a crash: {}",
        figures(&mut times)
    );
}

/// One request after the other while the regular looks go over so many closed ones, of which some are to be forgotten:
/// what the runner does every few minutes (periodic).
#[expect(clippy::too_many_lines, reason = "one measurement, step after step")]
async fn housekeeping(closed: u32) {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("journal.sqlite3");
    let journal = Journal::open_for_last_backend(&file).expect("opens");
    let sql = "with recursive n(n) as (select 1 union all select n + 1 from n where n < ?1) \
         insert into request (id, origin, tool, args, args_hash, conversation, effect, created_at_ms, \
         received_at_ms, state, attempt, lease_id, closed_at_ms) \
         select lower(hex(randomblob(16))), 'backend', 'Bash', '', randomblob(32), 'talk', 'executes', 0.0, n, \
         'delivered', 1, '01890a5d-ac96-774b-bcce-b302099a8057', n from n";
    let raw = rusqlite::Connection::open(&file).expect("opens");
    raw.execute(sql, [closed]).expect("made");
    raw.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))
        .expect("brought into the file");
    drop(raw);
    let outputs = OutputStore::open_output_folder(&dir.path().join("outputs")).expect("opens");
    for (name, forgotten) in [
        ("quiet", 0),
        ("nothing to forget", 0),
        ("20,000 to forget", 20_000),
    ] {
        let looks = async {
            let signed = SignatureExpiry {
                now_ms: 0,
                ttl_ms: 0,
            };
            if name == "quiet" {
                return std::future::pending::<()>().await;
            }
            loop {
                let begun = Instant::now();
                journal
                    .open_reader()
                    .expect("reads")
                    .count_open_requests()
                    .expect("counted");
                journal
                    .open_reader()
                    .expect("reads")
                    .undelivered_requests()
                    .expect("read");
                while journal
                    .delete_closed_requests(forgotten, signed)
                    .await
                    .expect("forgotten")
                    == BATCH
                {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                journal
                    .delete_sent_replies(forgotten)
                    .await
                    .expect("dropped");
                journal
                    .delete_incidents(forgotten)
                    .await
                    .expect("forgotten");
                println!(
                    "  one look: {:.1} ms",
                    begun.elapsed().as_secs_f64() * 1_000.0
                );
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        let mut times = Vec::new();
        let calls = async {
            for number in 0..1_000 {
                let id = format!("{forgotten}-{}-{number}", name.len());
                let reply = reply(&outputs, &id);
                let begun = Instant::now();
                let accepted = accept(&journal, &[id], ToolEffect::Executes)
                    .await
                    .pop()
                    .expect("fresh");
                journal
                    .record_start(&accepted, false, 0)
                    .await
                    .expect("begun");
                journal
                    .record_reply(&accepted, reply, 0)
                    .await
                    .expect("recorded");
                let closing_ms = i64::from(closed) + 1;
                journal
                    .close_request(
                        &accepted.tool_request().id,
                        CloseReason::Delivered,
                        closing_ms,
                    )
                    .await
                    .expect("closed");
                times.push(begun.elapsed());
            }
        };
        tokio::select! {
            () = calls => {}
            () = looks => {}
        }
        let longest = times.iter().max().expect("some").as_secs_f64() * 1_000.0;
        println!(
            "a request beside {closed} closed ones, {name}: {}, longest {longest:.1} ms",
            figures(&mut times)
        );
    }
}

/// One request after the other, from acceptance to delivery.
async fn requests(name: &str, effect: ToolEffect, page: usize) {
    let dir = tempfile::tempdir().expect("a folder");
    let journal =
        Journal::open_for_last_backend(&dir.path().join("journal.sqlite3")).expect("opens");
    let outputs = OutputStore::open_output_folder(&dir.path().join("outputs")).expect("opens");
    let (mut times, mut number) = (Vec::new(), 0);
    for _ in 0..ROUNDS.div_ceil(page) {
        let names: Vec<String> = (0..page).map(|n| format!("r{}", number + n)).collect();
        number += page;
        let replies: Vec<CleanReply> = names.iter().map(|name| reply(&outputs, name)).collect();
        let begun = Instant::now();
        let accepted = accept(&journal, &names, effect).await;
        let mut all = tokio::task::JoinSet::new();
        for (accepted, reply) in accepted.into_iter().zip(replies) {
            let journal = journal.clone();
            all.spawn(async move {
                journal
                    .record_start(&accepted, false, 0)
                    .await
                    .expect("begun");
                journal
                    .record_reply(&accepted, reply, 0)
                    .await
                    .expect("recorded");
                journal
                    .close_request(&accepted.tool_request().id, CloseReason::Delivered, 0)
                    .await
                    .expect("closed");
            });
        }
        while all.join_next().await.is_some() {}
        times.push(begun.elapsed() / u32::try_from(page).expect("small"));
    }
    println!(
        "{name}, per request: {} (a sync here: {})",
        figures(&mut times),
        sync_of(dir.path())
    );
}

fn reply(outputs: &OutputStore, name: &str) -> CleanReply {
    CallOutcome::Ok(ToolReply::from_text("what it printed")).seal(&SealContext {
        redactor: &Redactor::default(),
        store: outputs,
        request: &RequestId::parse(name).expect("an id"),
        tool: &ToolName::parse("Bash").expect("a name"),
        duration: Duration::ZERO,
        attempt: Some(1),
    })
}

async fn accept(journal: &Journal, names: &[String], effect: ToolEffect) -> Vec<AcceptedRequest> {
    let request = |name: &String| ToolRequest {
        id: RequestId::parse(name.as_str()).expect("an id"),
        tool: ToolName::parse("Bash").expect("a name"),
        args: r#"{"command":"cargo test --workspace"}"#.to_owned(),
        conversation: ConversationId::parse("talk").expect("a name"),
        agent_type: None,
        caller: None,
        session: None,
        created_at_ms: 0.0,
        deadline_ms: None,
        cancelled: false,
        issued_at_ms: None,
        signature: None,
    };
    let offers = names
        .iter()
        .map(|name| RequestOffer::Request(request(name), effect, None))
        .collect();
    let admitted = journal
        .accept_page(offers, RequestOrigin::Backend, &LeaseId::random(), None, 0)
        .await
        .expect("taken");
    let fresh = |admission| match admission {
        OfferOutcome::Fresh(accepted) => Some(accepted),
        _ => None,
    };
    admitted.into_iter().filter_map(fresh).collect()
}

/// What one sync of one written page takes in this folder.
fn sync_of(folder: &Path) -> String {
    use std::io::Write as _;
    let mut file = std::fs::File::create(folder.join("synced")).expect("made");
    let mut times = Vec::new();
    for _ in 0..100 {
        file.write_all(&[7; 4096]).expect("written");
        let begun = Instant::now();
        file.sync_data().expect("synced");
        times.push(begun.elapsed());
    }
    figures(&mut times)
}

fn figures(times: &mut [Duration]) -> String {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1_000.0;
    format!("median {:.3} ms, p95 {:.3} ms", at(50), at(95))
}
