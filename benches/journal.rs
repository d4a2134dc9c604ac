//! What the journal costs: a start with a thousand live requests, and one request from acceptance to delivery.
//! `cargo bench --bench journal`. Nothing here is asserted: it prints a table.
#![expect(clippy::disallowed_methods, reason = "a benchmark makes files")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::path::Path;
use std::time::{Duration, Instant};

use punie_runner::ids::{ConversationId, LeaseId, RequestId, ToolName};
use punie_runner::journal::{Accepted, Admission, Close, Journal, Offer, Origin};
use punie_runner::output::OutputStore;
use punie_runner::redact::Redactor;
use punie_runner::request::{CleanReply, Effect, Outcome, Reply, Sealing, ToolRequest};

/// How often what is quick is done.
const ROUNDS: usize = 300;

fn main() {
    // `cargo test` runs benchmarks too, and has no use for figures.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        start(1_000).await;
        for (name, effect, page) in [
            ("read", Effect::Reads, 1),
            ("effect", Effect::Executes, 1),
            ("effects in pages of 20", Effect::Executes, 20),
        ] {
            requests(name, effect, page).await;
        }
    });
}

/// Opening and reading what recovery reads, after a crash.
async fn start(live: usize) {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("journal.sqlite3");
    let journal = Journal::open(&file).expect("opens");
    let names: Vec<String> = (0..live).map(|n| format!("r{n}")).collect();
    for page in names.chunks(50) {
        let accepted = accept(&journal, page, Effect::Executes).await;
        for accepted in accepted.iter().step_by(3) {
            journal.start(accepted, false, 0).await.expect("begun");
        }
    }
    let mut times = Vec::new();
    for _ in 0..20 {
        let after = tempfile::tempdir().expect("a folder");
        for name in ["journal.sqlite3", "journal.sqlite3-wal", "journal.sqlite3.reserve"] {
            std::fs::copy(dir.path().join(name), after.path().join(name)).expect("copied");
        }
        let begun = Instant::now();
        let journal = Journal::open(&after.path().join("journal.sqlite3")).expect("opens");
        let left = journal.reader().expect("reads").unfinished().expect("reads").len();
        times.push(begun.elapsed());
        assert_eq!(left, live);
    }
    println!("start with {live} live requests after a crash: {}", figures(&mut times));
}

/// One request after the other, from acceptance to delivery.
async fn requests(name: &str, effect: Effect, page: usize) {
    let dir = tempfile::tempdir().expect("a folder");
    let journal = Journal::open(&dir.path().join("journal.sqlite3")).expect("opens");
    let outputs = OutputStore::open(&dir.path().join("outputs")).expect("opens");
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
                journal.start(&accepted, false, 0).await.expect("begun");
                journal.record(&accepted, reply, 0).await.expect("recorded");
                journal.close(&accepted.request().id, Close::Delivered, 0).await.expect("closed");
            });
        }
        while all.join_next().await.is_some() {}
        times.push(begun.elapsed() / u32::try_from(page).expect("small"));
    }
    println!("{name}, per request: {} (a sync here: {})", figures(&mut times), sync_of(dir.path()));
}

fn reply(outputs: &OutputStore, name: &str) -> CleanReply {
    Outcome::Ok(Reply::text("what it printed")).seal(&Sealing {
        redactor: &Redactor::default(),
        store: outputs,
        request: &RequestId::parse(name).expect("an id"),
        tool: &ToolName::parse("Bash").expect("a name"),
        duration: Duration::ZERO,
        attempt: Some(1),
    })
}

async fn accept(journal: &Journal, names: &[String], effect: Effect) -> Vec<Accepted> {
    let request = |name: &String| ToolRequest {
        id: RequestId::parse(name.as_str()).expect("an id"),
        tool: ToolName::parse("Bash").expect("a name"),
        args: r#"{"command":"cargo test --workspace"}"#.to_owned(),
        conversation: ConversationId::parse("talk").expect("a name"),
        agent_type: None,
        created_at_ms: 0.0,
        deadline_ms: None,
        cancelled: false,
        issued_at_ms: None,
        signature: None,
    };
    let offers = names.iter().map(|name| Offer::Request(request(name), effect)).collect();
    let admitted = journal.accept(offers, Origin::Backend, &LeaseId::random(), None, 0).await.expect("taken");
    let fresh = |admission| match admission {
        Admission::Fresh(accepted) => Some(accepted),
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
