//! The journal of a device that has worked for several backends: each has its own rows, cursor and facts, and an
//! address whose deployment becomes known later is that deployment's.

use punie_engine::journal::{BackendIdentity, Journal, OfferOutcome, RequestOffer, RequestState};
use punie_tool::request::ToolEffect;

use super::{Desk, file, id, request};

fn at(address: &str, deployment: Option<&str>) -> BackendIdentity {
    BackendIdentity {
        address: address.to_owned(),
        id: deployment.map(str::to_owned),
        adopts_unassigned: false,
    }
}

/// The same file, opened to work for this backend.
fn open(desk: &Desk, backend: &BackendIdentity) -> Desk {
    let dir = tempfile::tempdir().expect("a folder");
    let journal = Journal::open_for_backend(&file(desk.dir.path()), backend).expect("opens");
    Desk {
        journal,
        lease: desk.lease.clone(),
        dir,
    }
}

fn waiting(desk: &Desk) -> Vec<(Option<String>, u32, u32)> {
    let reader = desk.journal.open_reader().expect("reads");
    let rows = reader.other_waiting_backends().expect("reads").into_iter();
    rows.map(|row| (row.address, row.requests, row.results))
        .collect()
}

fn unfinished(desk: &Desk) -> usize {
    let reader = desk.journal.open_reader().expect("reads");
    reader.started_requests_here().expect("reads").len()
        + reader.accepted_requests().expect("reads").len()
}

#[tokio::test]
async fn each_backend_has_its_own_rows_cursor_and_facts() {
    let place = Desk::new();
    let first = open(&place, &at("https://first", Some("1")));
    first.fresh(request("a", "{}")).await;
    let done = first.fresh(request("b", "{}")).await;
    first.record(&done, "said").await.expect("recorded");
    first.accept(Vec::new(), Some("9")).await.expect("moved");
    first
        .journal
        .store_fact("clock_offset_ms", "5".to_owned())
        .await
        .expect("kept");
    first
        .journal
        .store_fact("crashes", "[]".to_owned())
        .await
        .expect("kept");

    let second = open(&place, &at("https://second", Some("2")));
    assert_eq!((unfinished(&second), second.cursor()), (0, None));
    assert_eq!(
        second.state(&id("a")),
        None,
        "it is not shown to the other's model"
    );
    let reader = second.journal.open_reader().expect("reads");
    assert!(reader.undelivered_requests().expect("reads").is_empty());
    assert_eq!(reader.read_fact("clock_offset_ms").expect("reads"), None);
    assert_eq!(
        reader.read_fact("crashes").expect("reads").as_deref(),
        Some("[]"),
        "of the device"
    );
    assert_eq!(waiting(&second), [(Some("https://first".to_owned()), 1, 1)]);
    second.accept(Vec::new(), Some("3")).await.expect("moved");

    let first = open(&place, &at("https://moved.example", Some("1")));
    assert_eq!(
        (unfinished(&first), first.cursor().as_deref()),
        (1, Some("9")),
        "wherever it is met"
    );
    assert_eq!(waiting(&first), []);
}

#[tokio::test]
async fn what_another_backend_asked_under_an_id_is_neither_run_nor_answered_nor_taken_back() {
    let place = Desk::new();
    let first = open(&place, &at("https://first", Some("1")));
    let call = first.fresh(request("a", "{}")).await;
    let second = open(&place, &at("https://second", Some("2")));
    let same = || {
        vec![RequestOffer::Request(
            request("a", "{}"),
            ToolEffect::Executes,
            None,
        )]
    };
    assert!(matches!(
        second.accept(same(), None).await.expect("taken")[..],
        [OfferOutcome::Conflict(_)]
    ));
    assert!(
        second
            .accept(vec![RequestOffer::Cancel(id("a"))], None)
            .await
            .expect("taken")
            .is_empty()
    );
    let first = open(&place, &at("https://first", Some("1")));
    let reader = first.journal.open_reader().expect("reads");
    assert_eq!(reader.accepted_requests().expect("reads"), [id("a")]);
    assert!(reader.cancelled_requests().expect("reads").is_empty());
    first.record(&call, "said").await.expect("recorded");
    assert!(matches!(
        second.accept(same(), None).await.expect("taken")[..],
        [OfferOutcome::Conflict(_)]
    ));
    assert_eq!(first.state(&id("a")), Some(RequestState::Finished));
}

#[tokio::test]
async fn an_address_is_that_of_the_deployment_that_answers_there() {
    let place = Desk::new();
    // Nobody answered yet, or an older deployment that has no id.
    let unnamed = open(&place, &at("https://app", None));
    assert!(unnamed.journal.backend_is_unnamed().expect("reads"));
    unnamed.fresh(request("a", "{}")).await;
    assert!(!unnamed.journal.name_backend(None).await.expect("noted"));
    assert!(
        !unnamed.journal.backend_is_unnamed().expect("reads"),
        "it was asked"
    );
    // The deployment learns to say who it is.
    assert!(
        !unnamed
            .journal
            .name_backend(Some("1".to_owned()))
            .await
            .expect("noted")
    );
    assert_eq!(
        unfinished(&open(&place, &at("https://app", None))),
        1,
        "the address is enough"
    );

    // The same deployment at another address.
    let moved = open(&place, &at("https://other-name", None));
    assert_eq!(unfinished(&moved), 0);
    moved.fresh(request("b", "{}")).await;
    assert!(
        moved
            .journal
            .name_backend(Some("1".to_owned()))
            .await
            .expect("noted"),
        "it is known"
    );
    assert_eq!((unfinished(&moved), waiting(&moved).len()), (2, 0));

    // Another deployment at the same address.
    assert!(
        moved
            .journal
            .name_backend(Some("2".to_owned()))
            .await
            .expect("noted")
    );
    assert_eq!((unfinished(&moved), waiting(&moved).len()), (0, 1));
    let again = open(&place, &at("https://other-name", Some("1")));
    assert_eq!(unfinished(&again), 2, "and back");
}

#[tokio::test]
async fn what_was_there_before_goes_to_the_first_backend_that_was_configured() {
    let place = Desk::new();
    place.fresh(request("a", "{}")).await;
    place.accept(Vec::new(), Some("9")).await.expect("moved");
    let embedded = open(&place, &at("http://127.0.0.1:1", Some("e")));
    assert_eq!((unfinished(&embedded), embedded.cursor()), (0, None));
    assert_eq!(waiting(&embedded), [(None, 1, 0)]);
    let configured = BackendIdentity {
        adopts_unassigned: true,
        ..at("https://app", None)
    };
    let own = open(&place, &configured);
    assert_eq!((unfinished(&own), own.cursor().as_deref()), (1, Some("9")));
    let later = BackendIdentity {
        adopts_unassigned: true,
        ..at("https://later", None)
    };
    assert_eq!(unfinished(&open(&place, &later)), 0);
}
