//! The file itself: what is done to it by hand is found at the row, and what crashes and old age do to it is not
//! mistaken for that.

use std::time::{Duration, Instant};

use punie_engine::audit::{
    AuditActor, AuditEntry, AuditEvent, AuditFlaw, AuditHead, AuditRetention, HeadSignature,
    append_entry_durably, sha256_text, verify_chain,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Folder, all, link, of, row};
use punie_core::clock::{Clock, ExpiryClock};

/// The line with its hash made anew, as who knows how rows are hashed would.
pub(super) fn hashed_anew(line: &str) -> String {
    let (text, _) = line.rsplit_once(",\"hash\":\"").expect("a row");
    let hash = Sha256::digest(format!("punie-audit-row:v1\n{text}"));
    format!("{text},\"hash\":\"{}\"}}", punie_core::ids::to_hex(&hash))
}

/// The value of a column, changed.
fn other(value: &Value) -> Value {
    match value {
        Value::String(text) => {
            json!(format!(
                "{}{}",
                if text.starts_with('0') { '1' } else { '0' },
                &text[1..]
            ))
        }
        Value::Number(number) => json!(number.as_i64().expect("whole") + 1),
        Value::Bool(truth) => json!(!truth),
        other => panic!("{other} is in no row"),
    }
}

#[tokio::test]
async fn h105_an_edit_of_any_column_of_any_row_is_named() {
    let folder = Folder::with_rows(5).await;
    assert_eq!(folder.flaw(), None);
    let lines = folder.lines();
    let mut edits = 0;
    for (n, line) in lines.iter().enumerate() {
        let columns: serde_json::Map<String, Value> =
            serde_json::from_str(line).expect("an object");
        assert_eq!(columns.len(), 27, "every column is there: {line}");
        for (name, value) in &columns {
            let from = format!("\"{name}\":{value}");
            let to = format!("\"{name}\":{}", other(value));
            let mut edited = lines.clone();
            edited[n] = line.replacen(&from, &to, 1);
            assert_ne!(edited[n], *line, "{name}");
            folder.put(&edited);
            let flaw = folder.flaw();
            let seq = n as u64 + 1 + u64::from(name == "seq");
            assert_eq!(
                flaw,
                Some((AuditFlaw::Edited, Some(seq))),
                "{name} of row {}",
                n + 1
            );
            let said = folder.verify().fault.expect("a fault").text;
            assert!(said.contains(&format!("row {seq} was edited")), "{said}");
            edits += 1;
        }
    }
    assert_eq!(edits, 5 * 27);
}

#[tokio::test]
async fn h105_a_column_taken_out_or_put_in_is_named() {
    let folder = Folder::with_rows(3).await;
    let lines = folder.lines();
    for (from, to) in [
        ("\"code\":\"io\",", ""),
        ("\"code\":\"io\",", "\"code\":\"io\",\"more\":1,"),
        ("{\"seq\"", "{ \"seq\""),
    ] {
        let mut edited = lines.clone();
        edited[1] = lines[1].replacen(from, to, 1);
        assert_ne!(edited, lines);
        folder.put(&edited);
        assert_eq!(folder.flaw(), Some((AuditFlaw::Edited, Some(2))), "{to}");
    }
}

#[tokio::test]
async fn h105_a_row_that_was_edited_and_hashed_anew_is_named_by_the_next_one() {
    let folder = Folder::with_rows(5).await;
    let mut lines = folder.lines();
    lines[2] = hashed_anew(&lines[2].replace("request-3", "request-9"));
    folder.put(&lines);
    assert_eq!(folder.flaw(), Some((AuditFlaw::Edited, Some(3))));
    // The last one has no next; the head knows it.
    let folder = Folder::with_rows(5).await;
    let mut lines = folder.lines();
    lines[4] = hashed_anew(&lines[4].replace("request-5", "request-9"));
    folder.put(&lines);
    assert_eq!(folder.flaw(), Some((AuditFlaw::Edited, Some(5))));
    std::fs::remove_file(&folder.places.head).expect("removed");
    assert_eq!(
        folder.flaw(),
        Some((AuditFlaw::MissingHead, None)),
        "whoever removes it as well is found by that"
    );
}

#[tokio::test]
async fn h105_rows_taken_out_cut_off_moved_or_put_in_are_named() {
    let folder = Folder::with_rows(6).await;
    let lines = folder.lines();
    let with = |change: fn(&mut Vec<String>)| {
        let mut changed = lines.clone();
        change(&mut changed);
        folder.put(&changed);
        folder.flaw()
    };
    assert_eq!(
        with(|lines| drop(lines.remove(2))),
        Some((AuditFlaw::Missing, Some(3)))
    );
    assert_eq!(
        with(|lines| drop(lines.drain(1..4))),
        Some((AuditFlaw::Missing, Some(2)))
    );
    assert_eq!(
        with(|lines| drop(lines.remove(0))),
        Some((AuditFlaw::Missing, Some(1)))
    );
    assert_eq!(
        with(|lines| drop(lines.drain(..4))),
        Some((AuditFlaw::Missing, Some(1)))
    );
    assert_eq!(
        with(|lines| lines.swap(2, 3)),
        Some((AuditFlaw::OutOfOrder, Some(3)))
    );
    assert_eq!(
        with(|lines| lines.rotate_left(1)),
        Some((AuditFlaw::OutOfOrder, Some(1)))
    );
    assert_eq!(
        with(|lines| lines.insert(3, lines[2].clone())),
        Some((AuditFlaw::Inserted, Some(3)))
    );
    assert_eq!(
        with(|lines| lines.insert(5, lines[1].clone())),
        Some((AuditFlaw::OutOfOrder, Some(2)))
    );
    assert_eq!(
        with(|lines| lines.insert(2, "{}".to_owned())),
        Some((AuditFlaw::Unreadable, Some(3)))
    );
    assert_eq!(
        with(|lines| lines.insert(2, String::new())),
        Some((AuditFlaw::Unreadable, Some(3)))
    );
    // Cut off at the end: the head that is kept beside the rows knows of them.
    assert_eq!(
        with(|lines| lines.truncate(4)),
        Some((AuditFlaw::Missing, Some(5)))
    );
    let said = folder.verify().fault.expect("a fault").text;
    assert_eq!(
        said,
        "rows 5 to 6 are missing: they were cut off at the end"
    );
    assert_eq!(with(Vec::clear), Some((AuditFlaw::Unreadable, Some(1))));
    std::fs::remove_file(&folder.places.rows).expect("removed");
    assert_eq!(folder.flaw(), Some((AuditFlaw::Missing, Some(1))));
    folder.put(&lines);
    assert_eq!(folder.flaw(), None);
}

#[tokio::test]
async fn h105_a_row_put_in_with_a_fitting_number_and_hash_is_named() {
    let folder = Folder::with_rows(6).await;
    let mut lines = folder.lines();
    // It follows row 3, and row 4 does so too.
    let forged = hashed_anew(&lines[3].replace("request-4", "request-x"));
    lines.insert(3, forged);
    folder.put(&lines);
    assert_eq!(folder.flaw(), Some((AuditFlaw::Inserted, Some(4))));
}

#[tokio::test]
async fn h105_an_audit_that_was_written_anew_is_missed_by_a_head_known_elsewhere() {
    let folder = Folder::with_rows(6).await;
    let known = format!("{}:{}", folder.verify().last.seq, folder.verify().last.hash);
    for file in [&folder.places.rows, &folder.places.head] {
        std::fs::remove_file(file).expect("removed");
    }
    let audit = folder.open(all());
    audit.queue_entries((11..=20).map(row).collect());
    audit.flush_durably().await;
    assert_eq!(folder.flaw(), None, "it is sound by itself");
    let report = verify_chain(&folder.places, &[link(&known)], None).expect("readable");
    assert_eq!(
        report.fault.map(|fault| (fault.flaw, fault.seq)),
        Some((AuditFlaw::Edited, Some(6)))
    );
}

#[tokio::test]
async fn h105_a_head_that_this_device_did_not_sign_is_named() {
    let folder = Folder::new();
    let (audit, public) = folder.opened_by_a_device(all());
    audit.queue_entries((1..=4).map(row).collect());
    audit.flush_durably().await;
    drop(audit);
    let report = || verify_chain(&folder.places, &[], Some(&public)).expect("readable");
    assert_eq!(
        (report().sound, report().head_signed),
        (true, HeadSignature::ByThisDevice)
    );
    // Two rows cut off, and a head that says so without the key.
    let lines = folder.lines();
    folder.put(&lines[..2]);
    let row: Value = serde_json::from_str(&lines[1]).expect("a row");
    let mut head: Value = serde_json::from_slice(&of(&folder.places.head)).expect("a head");
    head["seq"] = json!(2);
    head["hash"] = row["hash"].clone();
    std::fs::write(&folder.places.head, head.to_string()).expect("written");
    let flaw = report().fault.map(|fault| fault.flaw);
    assert_eq!(
        (flaw, report().head_signed),
        (Some(AuditFlaw::ForgedHead), HeadSignature::No)
    );
}

#[tokio::test]
async fn what_a_crash_leaves_half_written_is_cut_off_and_told_and_is_no_fault() {
    let folder = Folder::with_rows(3).await;
    let mut text = folder.text();
    text.push_str("{\"seq\":4,\"prev\":\"00");
    std::fs::write(&folder.places.rows, &text).expect("written");
    let report = folder.verify();
    assert_eq!(
        (report.sound, report.rows, report.torn_bytes),
        (true, 3, 19)
    );
    append_entry_durably(folder.places.clone(), row(4)).expect("added");
    let report = folder.verify();
    assert_eq!((report.sound, report.rows, report.torn_bytes), (true, 5, 0));
    let told: Value = serde_json::from_str(&folder.lines()[3]).expect("a row");
    assert_eq!(
        (&told["event"], &told["count"]),
        (&json!("torn"), &json!(19))
    );
}

#[tokio::test]
async fn rows_taken_away_under_a_runner_are_missing_in_what_it_adds() {
    let folder = Folder::new();
    let audit = folder.open(all());
    audit.queue_entries((1..=4).map(row).collect());
    audit.flush_durably().await;
    folder.put(&folder.lines()[..2]);
    audit.append_entry(row(5)).await;
    assert_eq!(folder.flaw(), Some((AuditFlaw::Missing, Some(3))));
    // Also where the head goes with them.
    std::fs::remove_file(&folder.places.rows).expect("removed");
    std::fs::remove_file(&folder.places.head).expect("removed");
    audit.append_entry(row(6)).await;
    assert_eq!(folder.flaw(), Some((AuditFlaw::Missing, Some(1))));
}

#[tokio::test]
async fn a_runner_and_the_owners_commands_take_turns() {
    let folder = Folder::new();
    let audit = folder.open(all());
    let places = folder.places.clone();
    let owner = std::thread::spawn(move || {
        for n in 0..50 {
            append_entry_durably(
                places.clone(),
                AuditEntry::new(AuditEvent::Pause, AuditActor::Owner, n),
            )
            .expect("added");
        }
    });
    for n in 1..=200 {
        audit.append_entry(row(n)).await;
    }
    owner.join().expect("it ended");
    audit.flush_durably().await;
    let report = folder.verify();
    assert_eq!((report.fault, report.rows), (None, 250));
}

#[tokio::test]
async fn old_rows_go_and_the_rest_still_follows_and_cutting_by_hand_does_not_pass_for_it() {
    let folder = Folder::with_rows(40).await;
    let whole = folder.lines();
    let bytes = folder.text().len() as u64;
    folder
        .open(AuditRetention {
            bytes: bytes / 2,
            ..all()
        })
        .flush_durably()
        .await;
    let report = folder.verify();
    assert_eq!(report.fault, None);
    let first = report.first_seq.expect("rows");
    assert!((20..=39).contains(&first), "{report:?}");
    assert_eq!((report.last.seq, report.rows), (41, 42 - first));
    assert!(folder.text().len() as u64 <= bytes / 2 + 1_000);
    // What stayed is as it was, and is still watched over.
    let lines = folder.lines();
    assert_eq!(lines[1], whole[usize::try_from(first).expect("few") - 1]);
    let mut edited = lines.clone();
    edited[2] = edited[2].replace("words", "wards");
    folder.put(&edited);
    assert_eq!(folder.flaw(), Some((AuditFlaw::Edited, Some(first + 1))));
    // A checkpoint further on, made by hand as the program makes it.
    let cut: Value = serde_json::from_str(&lines[2]).expect("a row");
    let mut checkpoint: Value = serde_json::from_str(&lines[0]).expect("a row");
    (checkpoint["seq"], checkpoint["prev"]) = (cut["seq"].clone(), cut["hash"].clone());
    let forged =
        std::iter::once(hashed_anew(&checkpoint.to_string())).chain(lines[3..].iter().cloned());
    folder.put(&forged.collect::<Vec<_>>());
    assert_eq!(folder.flaw(), Some((AuditFlaw::Missing, Some(1))));
    // By age everything goes but what is new.
    folder.put(&lines);
    folder
        .open(AuditRetention {
            age: Duration::from_hours(1),
            ..all()
        })
        .flush_durably()
        .await;
    let report = folder.verify();
    assert_eq!(
        (report.fault, report.first_seq, report.last.seq),
        (None, Some(41), 42)
    );
}

#[tokio::test]
async fn a_row_that_was_changed_does_not_go_with_age() {
    let folder = Folder::with_rows(10).await;
    let mut lines = folder.lines();
    lines[4] = lines[4].replace("words", "wards");
    folder.put(&lines);
    folder
        .open(AuditRetention {
            age: Duration::from_hours(1),
            ..all()
        })
        .flush_durably()
        .await;
    assert_eq!(
        folder.flaw(),
        Some((AuditFlaw::Edited, Some(5))),
        "the owner can still find it"
    );
}

#[tokio::test]
async fn texts_from_elsewhere_are_bounded_and_cannot_break_a_row() {
    let folder = Folder::new();
    let audit = folder.open(all());
    let hostile = format!(
        "\",\"hash\":\"{}\"}}\n{{\"seq\":1}}\n\u{1b}[2J{}",
        "0".repeat(64),
        "é".repeat(10_000)
    );
    audit
        .append_entry(AuditEntry {
            agent_type: Some(hostile),
            ..row(1)
        })
        .await;
    audit.append_entry(row(2)).await;
    let report = folder.verify();
    assert_eq!((report.fault, report.rows), (None, 2));
    assert!(folder.text().len() < 4_000);
    assert!(!folder.text().contains('\u{1b}'));
}

#[tokio::test]
async fn the_files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::with_rows(1).await;
    for file in [
        &folder.places.rows,
        &folder.places.head,
        &folder.places.lock,
    ] {
        assert_eq!(
            file.metadata().expect("there").permissions().mode() & 0o777,
            0o600,
            "{}",
            file.display()
        );
    }
    assert!(
        AuditHead::read_head(&folder.places.head)
            .expect("readable")
            .is_some()
    );
    assert!(folder.dir.path().exists());
}

#[tokio::test]
async fn a_file_that_cannot_be_written_holds_nobody_up_and_gets_its_rows_later() {
    let folder = Folder::new();
    // A folder stands where the rows should.
    std::fs::create_dir(&folder.places.rows).expect("made");
    let audit = folder.open(all());
    audit.append_entry(row(1)).await;
    assert!(audit.is_failing());
    audit.queue_entries(vec![row(2)]);
    std::fs::remove_dir(&folder.places.rows).expect("removed");
    audit.append_entry(row(3)).await;
    audit.flush_durably().await;
    assert!(!audit.is_failing());
    let report = folder.verify();
    assert_eq!((report.fault, report.rows), (None, 3));
}

/// Prints how long it takes; the bound is only there so that a quadratic walk does not pass.
#[tokio::test]
#[expect(clippy::print_stdout, reason = "a figure")]
#[ignore = "slow: `.ci/run` runs it"]
async fn a_hundred_thousand_rows_are_verified() {
    let folder = Folder::new();
    let audit = folder.open(all());
    for batch in 0..100 {
        audit.queue_entries((1..=1_000).map(|n| row(batch * 1_000 + n)).collect());
    }
    audit.flush_durably().await;
    let begun = Instant::now();
    let report = folder.verify();
    println!(
        "verified {} rows, {} bytes, in {:?}",
        report.rows,
        folder.text().len(),
        begun.elapsed()
    );
    assert_eq!((report.fault, report.rows), (None, 100_000));
    assert_eq!(
        sha256_text("{}"),
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    );
}

#[tokio::test]
async fn a_time_of_day_that_is_set_ahead_removes_no_row() {
    let folder = Folder::with_rows(10).await;
    let now_ms = Clock::system().now_ms();
    let ahead = Clock::from_fn(move || now_ms + 400 * 86_400_000);
    let keep = |known_ms| AuditRetention {
        age: Duration::from_hours(1),
        clock: ExpiryClock::from_known_time(ahead.clone(), known_ms),
        ..all()
    };
    // Nobody has told the time; then an earlier process knew it when the rows were written.
    for known_ms in [None, Some(row(1).at_ms)] {
        let audit = folder.open(keep(known_ms));
        audit.append_entry(row(11)).await;
        audit.flush_durably().await;
        assert_eq!(folder.verify().first_seq, Some(1), "{known_ms:?}");
    }
    // The backend tells it.
    let known = keep(None);
    known.clock.record_backend_time(now_ms);
    folder.open(known).flush_durably().await;
    assert!(folder.verify().first_seq.is_some_and(|first| first > 1));
}
