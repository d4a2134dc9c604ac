//! What is done to the audit without the device's key while no runner lives does not become sound when one starts and
//! puts its signature over it.

use std::time::Duration;

use punie_engine::audit::{
    AuditActor, AuditEntry, AuditEvent, AuditFlaw, AuditLog, AuditRetention, append_entry_durably,
    verify_chain,
};
use serde_json::{Value, json};

use super::chain::hashed_anew;
use super::{Folder, all, row};

/// Rows in an audit of their own.
async fn made(rows: std::ops::RangeInclusive<i64>) -> Vec<String> {
    let other = Folder::new();
    let audit = other.open(all());
    audit.queue_entries(rows.map(row).collect());
    audit.flush_durably().await;
    other.lines()
}

/// An audit with six rows, signed by a device.
async fn signed() -> Folder {
    let folder = Folder::new();
    live(&folder, all(), 1..=6).await;
    folder
}

/// A life of a runner: it adds these rows and ends. The device's key.
async fn live(
    folder: &Folder,
    keep: AuditRetention,
    rows: std::ops::RangeInclusive<i64>,
) -> String {
    let (audit, public): (AuditLog, String) = folder.opened_by_a_device(keep);
    audit.queue_entries(rows.map(row).collect());
    audit.flush_durably().await;
    public
}

fn flaw(folder: &Folder, public: &str) -> Option<(AuditFlaw, Option<u64>)> {
    let report = verify_chain(&folder.places, &[], Some(public)).expect("readable");
    report.fault.map(|fault| (fault.flaw, fault.seq))
}

#[tokio::test]
async fn h105_rows_cut_off_while_no_runner_lived_are_missing_after_the_next_start() {
    let folder = signed().await;
    folder.put(&folder.lines()[..4]);
    let public = live(&folder, all(), 7..=8).await;
    assert_eq!(flaw(&folder, &public), Some((AuditFlaw::Missing, Some(5))));
}

#[tokio::test]
async fn h105_rows_put_in_the_place_of_others_while_no_runner_lived_show_after_the_next_start() {
    for rows in [5..=6, 5..=9] {
        let folder = signed().await;
        folder.put(&folder.lines()[..4]);
        let last = *rows.end();
        for _ in rows {
            append_entry_durably(
                folder.places.clone(),
                AuditEntry::new(AuditEvent::Pause, AuditActor::Owner, 1),
            )
            .expect("added");
        }
        let public = live(&folder, all(), 10..=11).await;
        assert_eq!(
            flaw(&folder, &public),
            Some((AuditFlaw::Edited, u64::try_from(last).ok())),
            "up to {last}"
        );
    }
}

#[tokio::test]
async fn h105_rows_put_in_the_place_of_others_under_a_living_runner_show() {
    let folder = Folder::new();
    let (audit, public) = folder.opened_by_a_device(all());
    audit.queue_entries((1..=6).map(row).collect());
    audit.flush_durably().await;
    folder.put(&folder.lines()[..4]);
    for _ in 5..=9 {
        append_entry_durably(
            folder.places.clone(),
            AuditEntry::new(AuditEvent::Pause, AuditActor::Owner, 1),
        )
        .expect("added");
    }
    audit.append_entry(row(10)).await;
    audit.flush_durably().await;
    assert_eq!(flaw(&folder, &public), Some((AuditFlaw::Edited, Some(9))));
}

#[tokio::test]
async fn h105_rows_written_anew_without_a_head_or_with_a_forged_one_show_before_and_after_the_next_start()
 {
    for head in [None, Some("{}"), Some("no head")] {
        let folder = signed().await;
        folder.put(&made(11..=16).await);
        std::fs::remove_file(&folder.places.head).expect("removed");
        if let Some(text) = head {
            std::fs::write(&folder.places.head, text).expect("written");
        }
        let (audit, public) = folder.opened_by_a_device(all());
        let said = flaw(&folder, &public).map(|(flaw, _)| flaw);
        let expected = if head.is_none() {
            AuditFlaw::MissingHead
        } else {
            AuditFlaw::ForgedHead
        };
        assert_eq!(said, Some(expected), "{head:?}");
        audit.queue_entries(vec![row(17)]);
        audit.flush_durably().await;
        let said = flaw(&folder, &public).map(|(flaw, _)| flaw);
        assert_eq!(said, Some(AuditFlaw::MissingHead), "{head:?}");
    }
}

#[tokio::test]
async fn an_audit_in_which_only_the_owners_commands_wrote_needs_no_head_and_a_killed_runner_leaves_one()
 {
    let folder = Folder::new();
    append_entry_durably(
        folder.places.clone(),
        AuditEntry::new(AuditEvent::Pause, AuditActor::Owner, 1),
    )
    .expect("added");
    let (audit, public) = folder.opened_by_a_device(all());
    assert_eq!(flaw(&folder, &public), None);
    audit.append_entry(row(1)).await;
    assert_eq!(
        flaw(&folder, &public),
        None,
        "without a rest there is a head as well"
    );
    assert!(folder.places.head.exists());
}

#[tokio::test]
async fn h105_a_checkpoint_made_by_hand_is_named_and_no_runner_signs_another_in_its_place() {
    let folder = signed().await;
    let old = AuditRetention {
        age: Duration::from_hours(1),
        ..all()
    };
    let lines = folder.lines();
    let cut: Value = serde_json::from_str(&lines[2]).expect("a row");
    let gone = |event: &str, seq: &Value, prev: &Value| {
        hashed_anew(
            &json!({"seq": seq, "prev": prev, "atMs": 1, "event": event, "who": "runner", "through": 3,
                    "count": 3, "hash": ""})
            .to_string(),
        )
    };
    let last: Value = serde_json::from_str(&lines[5]).expect("a row");
    let mut forged = vec![gone("checkpoint", &cut["seq"], &cut["hash"])];
    forged.extend_from_slice(&lines[3..]);
    forged.push(gone("expired", &json!(7), &last["hash"]));
    folder.put(&forged);
    assert_eq!(
        folder.flaw(),
        None,
        "without the device's key nobody can tell"
    );
    for _ in 0..2 {
        let public = live(&folder, old.clone(), 8..=8).await;
        assert_eq!(
            flaw(&folder, &public),
            Some((AuditFlaw::ForgedCheckpoint, Some(3)))
        );
    }
}

#[tokio::test]
async fn rows_that_the_runner_let_go_of_are_borne_out_by_its_signature_again_and_again() {
    let folder = signed().await;
    let old = AuditRetention {
        age: Duration::from_hours(1),
        ..all()
    };
    for n in 7..=9 {
        let public = live(&folder, old.clone(), n..=n).await;
        assert_eq!(flaw(&folder, &public), None);
    }
    let report = folder.verify();
    assert!(
        report.first_seq.is_some_and(|first| first > 7),
        "{report:?}"
    );
}
