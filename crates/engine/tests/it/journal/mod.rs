//! The journal on a real disk: what was promised is there after a crash, each step is taken once, a page is taken
//! whole or not at all.

mod backends;

use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use punie_core::ids::{ConversationId, LeaseId, RequestId, ToolName};
use punie_engine::journal::{
    AcceptedRequest, BATCH, BacklogLimit, CloseReason, Journal, JournalError, JournalReader,
    OfferOutcome, RecordedReply, RecoveredRequest, RequestOffer, RequestOrigin, RequestState,
    RulesReply, SignatureExpiry,
};
use punie_text::output::OutputStore;
use punie_text::redact::Redactor;
use punie_tool::request::{
    CallFailure, CallOutcome, CleanReply, ErrorCode, ResultMeta, SealContext, ToolEffect,
    ToolReply, ToolRequest,
};
use tempfile::TempDir;
use tokio::task::JoinSet;

const DAY_MS: i64 = 86_400_000;
const UNSIGNED: SignatureExpiry = SignatureExpiry {
    now_ms: 0,
    ttl_ms: 0,
};

/// A journal in a folder of its own.
struct Desk {
    journal: Journal,
    lease: LeaseId,
    dir: TempDir,
}

impl Desk {
    fn new() -> Self {
        Self::in_folder(tempfile::tempdir().expect("a folder"))
    }

    fn in_folder(dir: TempDir) -> Self {
        let journal = Journal::open_for_last_backend(&file(dir.path())).expect("opens");
        Self {
            journal,
            lease: LeaseId::random(),
            dir,
        }
    }

    /// What a crash at this moment would leave: the files as they are, without anybody closing them.
    fn crash(&self) -> Self {
        let after = tempfile::tempdir().expect("a folder");
        for entry in std::fs::read_dir(self.dir.path()).expect("the folder") {
            let entry = entry.expect("an entry");
            let name = entry.file_name();
            // The index is shared memory; a process that dies alone leaves one that the next rebuilds.
            if name.to_string_lossy().starts_with("journal.sqlite3")
                && !name.to_string_lossy().ends_with("-shm")
            {
                std::fs::copy(entry.path(), after.path().join(name)).expect("copied");
            }
        }
        Self {
            lease: self.lease.clone(),
            ..Self::in_folder(after)
        }
    }

    async fn accept(
        &self,
        offers: Vec<RequestOffer>,
        cursor: Option<&str>,
    ) -> Result<Vec<OfferOutcome>, JournalError> {
        self.journal
            .accept_page(
                offers,
                RequestOrigin::Backend,
                &self.lease,
                cursor.map(str::to_owned),
                0,
            )
            .await
    }

    /// Accepts one request; it must be new.
    async fn fresh(&self, request: ToolRequest) -> AcceptedRequest {
        let mut admitted = self
            .accept(
                vec![RequestOffer::Request(request, ToolEffect::Executes, None)],
                None,
            )
            .await
            .expect("taken");
        match admitted.pop() {
            Some(OfferOutcome::Fresh(accepted)) => accepted,
            other => panic!("not new: {other:?}"),
        }
    }

    fn state(&self, id: &RequestId) -> Option<RequestState> {
        self.journal
            .open_reader()
            .expect("reads")
            .request_record(id)
            .expect("reads")
            .map(|life| life.state)
    }

    fn cursor(&self) -> Option<String> {
        self.journal
            .open_reader()
            .expect("reads")
            .read_fact("cursor")
            .expect("reads")
    }

    /// The file behind the journal's back.
    fn raw(&self) -> rusqlite::Connection {
        let raw = rusqlite::Connection::open(file(self.dir.path())).expect("opens");
        raw.busy_timeout(Duration::from_secs(30)).expect("set");
        raw
    }

    fn clean(&self, id: &RequestId, outcome: CallOutcome) -> CleanReply {
        outcome.seal(&SealContext {
            redactor: &Redactor::default(),
            store: &OutputStore::open_output_folder(&self.dir.path().join("outputs"))
                .expect("a folder"),
            request: id,
            tool: &ToolName::parse("Bash").expect("a name"),
            duration: Duration::ZERO,
            attempt: None,
        })
    }

    async fn record(
        &self,
        accepted: &AcceptedRequest,
        text: &str,
    ) -> Result<RecordedReply, JournalError> {
        let reply = self.clean(
            &accepted.tool_request().id,
            CallOutcome::Ok(ToolReply::from_text(text)),
        );
        self.journal.record_reply(accepted, reply, 0).await
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("journal.sqlite3")
}

fn id(name: &str) -> RequestId {
    RequestId::parse(name).expect("an id")
}

fn request(name: &str, args: &str) -> ToolRequest {
    ToolRequest {
        id: id(name),
        tool: ToolName::parse("Bash").expect("a name"),
        args: args.to_owned(),
        conversation: ConversationId::parse("talk").expect("a key"),
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

fn offer(name: &str) -> RequestOffer {
    RequestOffer::Request(request(name, "{}"), ToolEffect::Executes, None)
}

fn moved<T: std::fmt::Debug>(result: &Result<T, JournalError>) -> bool {
    matches!(result, Err(JournalError::Moved { .. }))
}

#[tokio::test]
async fn each_step_is_taken_once_and_from_where_it_belongs() {
    let desk = Desk::new();
    let journal = &desk.journal;
    let accepted = desk.fresh(request("a", "{}")).await;
    assert_eq!(
        journal
            .recover_requests(vec![id("a")], 0)
            .await
            .expect("open"),
        [RecoveredRequest::Run],
        "it has not begun"
    );
    assert_eq!(
        journal
            .record_start(&accepted, false, 0)
            .await
            .expect("begins")
            .attempt,
        1
    );
    assert!(
        moved(&journal.record_start(&accepted, false, 0).await),
        "it begins once"
    );
    let recorded = desk.record(&accepted, "first").await.expect("recorded");
    assert!(
        moved(&desk.record(&accepted, "second").await),
        "it has one reply"
    );
    assert!(
        moved(&journal.record_start(&accepted, false, 0).await),
        "what is answered does not begin"
    );
    assert_eq!(
        journal
            .recover_requests(vec![id("a")], 0)
            .await
            .expect("known"),
        [RecoveredRequest::Post],
        "it does not run again"
    );
    journal
        .close_request(&id("a"), CloseReason::Delivered, 0)
        .await
        .expect("closed");
    assert!(
        moved(&journal.replace_reply(&recorded, "{}".to_owned()).await),
        "what is delivered does not change"
    );
    journal
        .close_request(&id("a"), CloseReason::Undeliverable("too late".into()), 0)
        .await
        .expect("no harm");
    assert_eq!(desk.state(&id("a")), Some(RequestState::Delivered));
}

#[tokio::test]
async fn an_offer_is_taken_once_whatever_became_of_it() {
    let desk = Desk::new();
    let again = async || {
        desk.accept(vec![offer("a")], None)
            .await
            .expect("taken")
            .pop()
            .expect("one")
    };
    let accepted = desk.fresh(request("a", "{}")).await;
    assert!(
        matches!(again().await, OfferOutcome::InFlight(left) if left.state == RequestState::Accepted)
    );
    desk.journal
        .record_start(&accepted, false, 0)
        .await
        .expect("begins");
    assert!(
        matches!(again().await, OfferOutcome::InFlight(left) if left.state == RequestState::Started)
    );
    let recorded = desk
        .record(&accepted, "the answer")
        .await
        .expect("recorded");
    assert!(
        matches!(again().await, OfferOutcome::Answered(known) if known == *recorded.request_id())
    );
    desk.journal
        .close_request(&id("a"), CloseReason::Delivered, 0)
        .await
        .expect("closed");
    assert!(matches!(again().await, OfferOutcome::Closed(_)));
    let other = vec![RequestOffer::Request(
        request("a", "{\"other\":1}"),
        ToolEffect::Executes,
        None,
    )];
    let other = desk.accept(other, None).await.expect("taken").pop();
    assert!(
        matches!(other, Some(OfferOutcome::Conflict(_))),
        "{other:?}"
    );
    assert_eq!(desk.state(&id("a")), Some(RequestState::Delivered));
}

#[tokio::test]
async fn a_cancel_is_remembered_and_one_of_what_is_over_is_nothing() {
    let desk = Desk::new();
    let accepted = desk.fresh(request("a", "{}")).await;
    let page = vec![
        RequestOffer::Cancel(id("a")),
        RequestOffer::Cancel(id("unknown")),
    ];
    let admitted = desk.accept(page, None).await.expect("taken");
    assert!(
        matches!(&admitted[..], [OfferOutcome::Cancel(cancelled)] if *cancelled == id("a")),
        "{admitted:?}"
    );
    let after = desk.crash();
    let reader = after.journal.open_reader().expect("reads");
    let left = reader
        .unfinished_request(&id("a"))
        .expect("reads")
        .expect("open");
    assert!(left.request.cancelled, "a crash does not forget it");
    assert_eq!(reader.cancelled_requests().expect("reads"), [id("a")]);
    desk.record(&accepted, "done").await.expect("recorded");
    assert!(
        desk.accept(vec![RequestOffer::Cancel(id("a"))], None)
            .await
            .expect("taken")
            .is_empty()
    );
}

#[tokio::test]
async fn a_page_is_taken_with_its_cursor_or_not_at_all() {
    let desk = Desk::new();
    desk.accept(vec![offer("a"), offer("b")], Some("5"))
        .await
        .expect("taken");
    let after = desk.crash();
    assert_eq!(after.cursor().as_deref(), Some("5"));
    assert!(after.state(&id("a")).is_some() && after.state(&id("b")).is_some());
    refuse(&desk, "abort");
    let refused = desk
        .accept(vec![offer("c"), offer("poison"), offer("d")], Some("9"))
        .await;
    assert!(refused.is_err());
    assert_eq!(
        (desk.cursor().as_deref(), desk.state(&id("c"))),
        (Some("5"), None)
    );
    desk.accept(vec![offer("c"), offer("d")], Some("9"))
        .await
        .expect("taken without it");
    assert_eq!(desk.cursor().as_deref(), Some("9"));
}

/// From now on the file refuses one request, taking back this much: `abort` the statement, `rollback` everything.
fn refuse(desk: &Desk, how: &str) {
    let trigger = format!(
        "create trigger refuse before insert on request when new.id = 'poison' \
         begin select raise({how}, 'on purpose'); end"
    );
    desk.raw().execute_batch(&trigger).expect("made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_fails_among_others_takes_only_itself_back_and_nobody_is_told_a_lie() {
    for how in ["abort", "rollback"] {
        let desk = Desk::new();
        refuse(&desk, how);
        let raw = desk.raw();
        // While another process holds the file, writes queue up; then they share a commit.
        raw.execute_batch("begin immediate").expect("held");
        let mut writes = JoinSet::new();
        for name in ["a", "b", "c", "poison", "d", "e"] {
            let journal = desk.journal.clone();
            let lease = desk.lease.clone();
            writes.spawn(async move {
                let taken = journal
                    .accept_page(vec![offer(name)], RequestOrigin::Backend, &lease, None, 0)
                    .await;
                (name, taken.is_ok())
            });
        }
        let early = tokio::time::timeout(Duration::from_millis(200), writes.join_next()).await;
        assert!(
            early.is_err(),
            "writes wait for another process, they are not refused: {early:?}"
        );
        raw.execute_batch("commit").expect("released");
        for (name, taken) in writes.join_all().await {
            assert_eq!(desk.state(&id(name)).is_some(), taken, "{name}, {how}");
            assert!(
                taken || name == "poison" || how == "rollback",
                "{name} was taken back with another, {how}"
            );
            assert!(!(taken && name == "poison"));
        }
        // And the journal goes on.
        desk.accept(vec![offer("later")], None)
            .await
            .expect("taken");
        assert_eq!(
            desk.crash().state(&id("later")),
            Some(RequestState::Accepted)
        );
    }
}

#[tokio::test]
async fn what_is_closed_is_forgotten_after_its_time_and_nothing_else_is() {
    let desk = Desk::new();
    let now = 100 * DAY_MS;
    for (name, closed) in [("old", Some(69)), ("young", Some(71)), ("open", None)] {
        let accepted = desk.fresh(request(name, "{}")).await;
        desk.journal
            .record_start(&accepted, false, DAY_MS)
            .await
            .expect("begins");
        if let Some(day) = closed {
            desk.record(&accepted, "done").await.expect("recorded");
            desk.journal
                .close_request(&id(name), CloseReason::Delivered, day * DAY_MS)
                .await
                .expect("closed");
        }
    }
    assert_eq!(
        desk.journal
            .delete_closed_requests(now - 30 * DAY_MS, UNSIGNED)
            .await
            .expect("forgotten"),
        1
    );
    assert_eq!(desk.state(&id("old")), None);
    assert_eq!(desk.state(&id("young")), Some(RequestState::Delivered));
    assert_eq!(desk.state(&id("open")), Some(RequestState::Started));
}

/// Makes so many requests that were closed at a time, by the tables themselves.
fn make_closed(desk: &Desk, count: u32, closed_at_ms: i64) {
    let sql = "with recursive n(n) as (select 1 union all select n + 1 from n where n < ?1) \
         insert into request (id, origin, tool, args, args_hash, conversation, effect, created_at_ms, \
         received_at_ms, state, attempt, lease_id, closed_at_ms, sent_at_ms) \
         select 'made-' || n, 'backend', 'Bash', '', x'00', 'talk', 'executes', 0.0, 0, 'delivered', 1, \
         '01890a5d-ac96-774b-bcce-b302099a8057', ?2, ?2 from n";
    desk.raw()
        .execute(sql, (count, closed_at_ms))
        .expect("made");
    let kept = "insert into result (request_id, payload) select id, '{}' from request where state = 'delivered'";
    desk.raw().execute_batch(kept).expect("made");
}

#[tokio::test]
async fn what_is_deleted_is_deleted_in_small_batches() {
    let desk = Desk::new();
    let made = u32::try_from(2 * BATCH + 50).expect("small");
    make_closed(&desk, made, 5);
    let kept = || -> u32 {
        desk.raw()
            .query_row("select count(*) from result", [], |row| row.get(0))
            .expect("counted")
    };
    for batch in [BATCH, BATCH, 50, 0] {
        assert_eq!(
            desk.journal.delete_sent_replies(10).await.expect("dropped"),
            batch
        );
    }
    assert_eq!(kept(), 0);
    for batch in [BATCH, BATCH, 50, 0] {
        assert_eq!(
            desk.journal
                .delete_closed_requests(10, UNSIGNED)
                .await
                .expect("forgotten"),
            batch
        );
    }
    for n in 0..made {
        let about = id(&format!("gone-{n}"));
        desk.journal
            .record_incident(&about, "conflict", None, 5)
            .await
            .expect("noted");
    }
    for batch in [BATCH, BATCH, 50, 0] {
        assert_eq!(
            desk.journal.delete_incidents(10).await.expect("forgotten"),
            batch
        );
    }
}

#[tokio::test]
async fn a_signed_request_is_remembered_for_as_long_as_its_signature_is_good() {
    let desk = Desk::new();
    for (name, deadline_ms) in [("dated", Some(500.0)), ("undated", None), ("plain", None)] {
        let signature = (name != "plain").then(|| "c2lnbmVk".to_owned());
        let accepted = desk
            .fresh(ToolRequest {
                deadline_ms,
                signature,
                ..request(name, "{}")
            })
            .await;
        desk.record(&accepted, "done").await.expect("recorded");
        desk.journal
            .close_request(&id(name), CloseReason::Delivered, 1)
            .await
            .expect("closed");
    }
    let forget = async |now_ms| {
        let signed = SignatureExpiry {
            now_ms,
            ttl_ms: 200,
        };
        desk.journal
            .delete_closed_requests(10, signed)
            .await
            .expect("forgotten");
        ["dated", "undated", "plain"].map(|name| desk.state(&id(name)).is_some())
    };
    assert_eq!(forget(200).await, [true, true, false]);
    assert_eq!(forget(201).await, [true, false, false]);
    assert_eq!(forget(500).await, [true, false, false]);
    assert_eq!(forget(501).await, [false, false, false]);
}

#[tokio::test]
async fn a_backlog_is_read_as_far_as_there_is_room() {
    let desk = Desk::new();
    for n in 0..6 {
        let talk = if n < 4 { "long" } else { "short" };
        let conversation = ConversationId::parse(talk).expect("a key");
        desk.fresh(ToolRequest {
            conversation,
            ..request(&format!("r{n}"), &"x".repeat(100))
        })
        .await;
    }
    let reader = desk.journal.open_reader().expect("reads");
    let long = ConversationId::parse("long").expect("a key");
    let read = |calls, bytes, busy: &[&str]| {
        let busy = busy.iter().map(|name| id(name)).collect();
        let waiting = reader
            .waiting_requests_in(&long, BacklogLimit { calls, bytes }, &busy)
            .expect("reads");
        let ids: Vec<_> = waiting
            .requests
            .iter()
            .map(|left| left.request.id.to_string())
            .collect();
        (ids.join(" "), waiting.more)
    };
    assert_eq!(read(9, 9_999, &[]), ("r0 r1 r2 r3".to_owned(), false));
    assert_eq!(read(2, 9_999, &[]), ("r0 r1".to_owned(), true));
    assert_eq!(
        read(9, 150, &["r0"]),
        ("r1 r2".to_owned(), true),
        "one may go beyond the bytes"
    );
    assert_eq!(read(9, 1, &["r0", "r1", "r2"]), ("r3".to_owned(), false));
    let talks = reader.waiting_conversations().expect("reads");
    assert_eq!(
        talks.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["long", "short"]
    );
    assert!(
        reader
            .accepted_unordered_requests(&["ShellStatus"])
            .expect("reads")
            .is_empty()
    );
    assert_eq!(
        reader
            .accepted_unordered_requests(&["Bash"])
            .expect("reads")
            .len(),
        6
    );
}

#[tokio::test]
async fn an_answered_request_whose_reply_is_lost_is_no_reply_to_post_and_is_in_doubt_at_the_next_start()
 {
    let desk = Desk::new();
    let accepted = desk.fresh(request("a", "{}")).await;
    desk.journal
        .record_start(&accepted, false, 0)
        .await
        .expect("begins");
    desk.record(&accepted, "done").await.expect("recorded");
    desk.raw().execute("delete from result", []).expect("lost");
    assert!(
        desk.journal
            .open_reader()
            .expect("reads")
            .undelivered_requests()
            .expect("reads")
            .is_empty()
    );
    let after = desk.crash();
    assert_eq!(after.state(&id("a")), Some(RequestState::Started));
    let fates = after
        .journal
        .recover_requests(vec![id("a")], 0)
        .await
        .expect("open");
    assert_eq!(fates, [RecoveredRequest::Answer(RulesReply::Interrupted)]);
}

#[tokio::test]
async fn notes_and_forgetting_move_no_open_request_and_all_else_may() {
    let desk = Desk::new();
    let before = desk.journal.change_counter();
    desk.journal.store_facts_later(vec![
        ("last_contact_ms", "5".to_owned()),
        ("last_poll_ms", "4".to_owned()),
    ]);
    desk.journal
        .store_fact("backend_link", "up".to_owned())
        .await
        .expect("noted");
    desk.journal
        .delete_closed_requests(0, UNSIGNED)
        .await
        .expect("forgotten");
    let reader = desk.journal.open_reader().expect("open");
    assert_eq!(
        reader
            .read_fact("last_contact_ms")
            .expect("read")
            .as_deref(),
        Some("5"),
        "made, though not waited for"
    );
    assert_eq!(
        desk.journal.change_counter(),
        before,
        "what was counted still holds"
    );
    let mut last = before;
    let mut rises = |what| {
        let now = desk.journal.change_counter();
        assert!(now > std::mem::replace(&mut last, now), "{what}");
    };
    let accepted = desk.fresh(request("one", "{}")).await;
    rises("accepted");
    desk.journal
        .record_start(&accepted, false, 1)
        .await
        .expect("begins");
    rises("started");
    desk.record(&accepted, "done").await.expect("recorded");
    rises("finished");
    desk.journal
        .close_request(&id("one"), CloseReason::Delivered, 2)
        .await
        .expect("closed");
    rises("delivered");
}

#[tokio::test]
async fn a_task_s_reply_is_never_undelivered() {
    let desk = Desk::new();
    let admitted = desk
        .journal
        .accept_page(
            vec![offer("task")],
            RequestOrigin::Task,
            &desk.lease,
            None,
            0,
        )
        .await
        .expect("taken");
    let [OfferOutcome::Fresh(task)] = &admitted[..] else {
        panic!("not new: {admitted:?}")
    };
    desk.record(task, "the answer").await.expect("recorded");
    let after = desk.crash();
    let reader = after.journal.open_reader().expect("reads");
    let life = reader
        .request_record(&id("task"))
        .expect("reads")
        .expect("there");
    assert_eq!(life.state, RequestState::Delivered);
    assert!(life.payload.expect("kept").contains("the answer"));
    assert_eq!(reader.count_open_requests().expect("reads").outbox, 0);
    assert!(reader.undelivered_requests().expect("reads").is_empty());
}

#[test]
fn a_file_of_a_newer_program_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let raw = rusqlite::Connection::open(file(dir.path())).expect("opens");
    raw.execute_batch("create table request (id, later); pragma user_version = 99")
        .expect("made");
    drop(raw);
    let before = std::fs::read(file(dir.path())).expect("reads");
    let refused = Journal::open_for_last_backend(&file(dir.path()));
    assert!(
        matches!(refused, Err(JournalError::Newer { .. })),
        "{refused:?}"
    );
    assert_eq!(std::fs::read(file(dir.path())).expect("reads"), before);
}

#[tokio::test]
async fn another_process_reads_only_a_journal_that_is_made_and_of_its_own_version() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = file(dir.path());
    assert!(
        JournalReader::find(&path)
            .expect("no file is no error")
            .is_none()
    );
    let raw = rusqlite::Connection::open(&path).expect("opens");
    raw.execute_batch("pragma journal_mode = wal")
        .expect("being made");
    assert!(
        JournalReader::find(&path)
            .expect("nor is one that is just being made")
            .is_none()
    );
    raw.execute_batch("create table request (id); pragma user_version = 1")
        .expect("of before");
    assert!(matches!(
        JournalReader::find(&path),
        Err(JournalError::Older { .. })
    ));
    raw.execute_batch("pragma user_version = 99")
        .expect("of later");
    assert!(matches!(
        JournalReader::find(&path),
        Err(JournalError::Newer { .. })
    ));
    let desk = Desk::new();
    assert!(
        JournalReader::find(&file(desk.dir.path()))
            .expect("reads")
            .is_some()
    );
}

// Whatever happens in whatever order.

const REQUESTS: usize = 5;

#[derive(Debug, Clone)]
enum Step {
    Accept(Vec<usize>),
    Cancel(usize),
    Start(usize),
    Record(usize),
    Close(usize),
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = 0..REQUESTS;
    let step = prop_oneof![
        2 => prop::collection::vec(one.clone(), 1..4).prop_map(Step::Accept),
        1 => one.clone().prop_map(Step::Cancel),
        3 => one.clone().prop_map(Step::Start),
        3 => one.clone().prop_map(Step::Record),
        2 => one.prop_map(Step::Close),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..40)
}

/// What really happened to one request.
#[derive(Debug, Default)]
struct Deeds {
    accepted: Option<AcceptedRequest>,
    begun: u32,
    replies: Vec<RecordedReply>,
    rank: u32,
    taken_back: bool,
}

fn effect(n: usize) -> ToolEffect {
    if n.is_multiple_of(2) {
        ToolEffect::Executes
    } else {
        ToolEffect::Reads
    }
}

fn rank(state: RequestState) -> u32 {
    match state {
        RequestState::Accepted => 1,
        RequestState::Started => 2,
        RequestState::Finished => 3,
        RequestState::Delivered | RequestState::Undeliverable => 4,
    }
}

struct World {
    desk: Desk,
    deeds: Vec<Deeds>,
    pages: u32,
}

impl World {
    async fn take(&mut self, step: Step) {
        match step {
            Step::Accept(numbers) => self.accept(&numbers).await,
            Step::Cancel(n) => {
                self.deeds[n].taken_back |= self.deeds[n].accepted.is_some();
                self.desk
                    .accept(vec![RequestOffer::Cancel(id(&format!("r{n}")))], None)
                    .await
                    .expect("taken");
            }
            Step::Start(n) => {
                let Some(accepted) = &self.deeds[n].accepted else {
                    return;
                };
                if self
                    .desk
                    .journal
                    .record_start(accepted, false, 0)
                    .await
                    .is_ok()
                {
                    self.deeds[n].begun += 1;
                }
            }
            Step::Record(n) => {
                let Some(accepted) = self.deeds[n].accepted.clone() else {
                    return;
                };
                self.answer(n, &accepted, CallOutcome::Ok(ToolReply::from_text("done")))
                    .await;
            }
            Step::Close(n) => {
                // Only what is recorded can be delivered.
                if let Some(reply) = self.deeds[n].replies.last() {
                    self.desk
                        .journal
                        .close_request(reply.request_id(), CloseReason::Delivered, 0)
                        .await
                        .expect("closed");
                }
            }
            Step::Crash => self.crash().await,
        }
    }

    async fn accept(&mut self, numbers: &[usize]) {
        let offers = numbers
            .iter()
            .map(|n| RequestOffer::Request(request(&format!("r{n}"), "{}"), effect(*n), None))
            .collect();
        self.pages += 1;
        let cursor = self.pages.to_string();
        let admitted = self
            .desk
            .accept(offers, Some(&cursor))
            .await
            .expect("taken");
        for (n, admission) in numbers.iter().zip(admitted) {
            if let OfferOutcome::Fresh(accepted) = admission {
                assert!(self.deeds[*n].accepted.is_none(), "r{n} is new twice");
                self.deeds[*n].accepted = Some(accepted);
            }
        }
    }

    async fn answer(&mut self, n: usize, accepted: &AcceptedRequest, outcome: CallOutcome) {
        let reply = self.desk.clean(&accepted.tool_request().id, outcome);
        if let Ok(recorded) = self.desk.journal.record_reply(accepted, reply, 0).await {
            self.deeds[n].replies.push(recorded);
        }
    }

    /// The process dies; the next one goes on as recovery does.
    async fn crash(&mut self) {
        self.desk = self.desk.crash();
        let reader = self.desk.journal.open_reader().expect("reads");
        let open = [
            reader.started_requests().expect("reads"),
            reader.accepted_requests().expect("reads"),
        ]
        .concat();
        for id in open {
            let left = reader
                .unfinished_request(&id)
                .expect("reads")
                .expect("open");
            let n: usize = left.request.id.as_str()[1..].parse().expect("a number");
            let state = left.state;
            let accepted = AcceptedRequest::from(left);
            match state {
                RequestState::Started if effect(n).runs_at_most_once() => {
                    let failure = CallFailure {
                        code: ErrorCode::Interrupted,
                        text: String::new(),
                        meta: ResultMeta::default(),
                    };
                    self.answer(n, &accepted, CallOutcome::Error(failure)).await;
                }
                RequestState::Started => {
                    let ids = vec![accepted.tool_request().id.clone()];
                    let fate = self
                        .desk
                        .journal
                        .recover_requests(ids, 0)
                        .await
                        .expect("open")[0];
                    if fate != RecoveredRequest::Run {
                        // Taken back meanwhile, or the third crash while it ran.
                        let taken_back = self.deeds[n].taken_back;
                        let verdict = if taken_back {
                            RulesReply::ChangedNothing
                        } else {
                            RulesReply::CrashLooping
                        };
                        assert_eq!(fate, RecoveredRequest::Answer(verdict));
                        let failure = CallFailure {
                            code: ErrorCode::Interrupted,
                            text: String::new(),
                            meta: ResultMeta::default(),
                        };
                        self.answer(n, &accepted, CallOutcome::Error(failure)).await;
                        continue;
                    }
                    assert!(
                        !self.deeds[n].taken_back,
                        "r{n} runs again though it was taken back"
                    );
                    self.deeds[n].rank = rank(RequestState::Accepted);
                }
                _ => {}
            }
        }
    }

    fn check(&mut self) {
        let reader = self.desk.journal.open_reader().expect("reads");
        let undelivered = reader.undelivered_requests().expect("reads");
        for (n, deeds) in self.deeds.iter_mut().enumerate() {
            let id = id(&format!("r{n}"));
            let life = reader.request_record(&id).expect("reads");
            assert_eq!(
                life.is_some(),
                deeds.accepted.is_some(),
                "r{n} is known exactly if it was promised"
            );
            let Some(life) = life else { continue };
            assert!(
                deeds.replies.len() <= 1,
                "r{n} has {} replies",
                deeds.replies.len()
            );
            assert!(
                deeds.begun <= 1 || !effect(n).runs_at_most_once(),
                "r{n} began {} times",
                deeds.begun
            );
            assert!(
                rank(life.state) >= deeds.rank,
                "r{n} went back to {:?}",
                life.state
            );
            assert_eq!(
                deeds.replies.is_empty(),
                rank(life.state) < 3,
                "r{n} is {:?}",
                life.state
            );
            assert_eq!(
                undelivered.contains(&id),
                life.state == RequestState::Finished
            );
            if life.state == RequestState::Finished {
                let reply = reader.undelivered_reply(&id).expect("reads");
                assert_eq!(
                    reply.as_ref(),
                    deeds.replies.last(),
                    "the reply of r{n} is the one recorded"
                );
            }
            deeds.rank = rank(life.state);
        }
        let cursor = self
            .desk
            .cursor()
            .map_or(0, |cursor| cursor.parse().expect("a number"));
        assert_eq!(cursor, self.pages, "the cursor is the last page's");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_events_repeats_an_effect_or_a_result(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let deeds = (0..REQUESTS).map(|_| Deeds::default()).collect();
            let mut world = World { desk: Desk::new(), deeds, pages: 0 };
            for step in steps {
                world.take(step).await;
                world.check();
            }
        });
    }
}
