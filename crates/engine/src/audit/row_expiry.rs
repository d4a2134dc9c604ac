//! Removes old rows. A checkpoint with the number and the hash of the last removed row replaces them, so that the
//! other rows still follow from it. A row at the end records the removal; rows cut off by hand have neither. Only
//! rows of an intact chain are removed: a changed row and all rows after it stay.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::time::Duration;

use super::chain::{AuditChain, LockedAuditFile};
use super::chain_head::TextSigner;
use super::line_reader::AuditLineReader;
use super::row::{self, AuditRow, ChainLink};
use super::{AuditActor, AuditEntry, AuditEvent};
use punie_core::clock::{Clock, ExpiryClock};
use punie_core::durable::{open_private_file, sync_parent_folder};

/// The limits of the stored rows.
#[derive(Debug, Clone)]
pub struct AuditRetention {
    /// The age up to which rows are kept.
    pub age: Duration,
    /// The time by which they are too old.
    pub clock: ExpiryClock,
    /// The most bytes of the file.
    pub bytes: u64,
}

/// The position at which the remaining rows begin.
struct ExpiredRange {
    from: u64,
    gone: ChainLink,
    rows: u64,
}

/// Removes rows beyond the limits; returns the new last link if any were removed.
pub(super) fn remove_old_rows(
    chain: &mut AuditChain,
    keep: &AuditRetention,
    sign: Option<&TextSigner>,
) -> io::Result<Option<ChainLink>> {
    let held = chain.lock_file()?;
    // Removes a quarter more than needed, so that it is not repeated at once.
    let most = if held.length > keep.bytes {
        keep.bytes / 4 * 3
    } else {
        u64::MAX
    };
    let Some(cut) = find_expired_range(&held, keep, most, sign)? else {
        return Ok(None);
    };
    let draft = chain.places.rows.with_extension("jsonl.new");
    let mut file = open_private_file(&draft, |options| {
        options.write(true).create(true).truncate(true)
    })?;
    let entry = |event| AuditEntry {
        through: Some(cut.gone.seq),
        count: Some(cut.rows),
        ..AuditEntry::new(event, AuditActor::Runner, Clock::system().now_ms())
    };
    let signature = sign.map(|sign| sign(&row::checkpoint_signed_text(&cut.gone)));
    let checkpoint = AuditEntry {
        signature,
        ..entry(AuditEvent::Checkpoint)
    };
    file.write_all(row::format_checkpoint(&cut.gone, &checkpoint).as_bytes())?;
    let mut rest = &held.file;
    rest.seek(SeekFrom::Start(cut.from))?;
    io::copy(&mut rest.take(held.length - cut.from), &mut file)?;
    let (removal, last) = row::format_row(&held.last, &entry(AuditEvent::Expired));
    file.write_all(removal.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&draft, &chain.places.rows)?;
    // Sync the name before the head refers to the row.
    sync_parent_folder(&chain.places.rows)?;
    chain.mark_file_changed();
    tracing::info!(rows = cut.rows, "old rows of the audit went");
    Ok(Some(last))
}

/// Finds the longest run of first rows that may be removed; none after a checkpoint that this device did not sign.
fn find_expired_range(
    held: &LockedAuditFile,
    keep: &AuditRetention,
    most: u64,
    sign: Option<&TextSigner>,
) -> io::Result<Option<ExpiredRange>> {
    let is_ours = |row: &AuditRow| {
        sign.is_none_or(|sign| {
            row.signature.as_ref() == Some(&sign(&row::checkpoint_signed_text(&row.chain_link())))
        })
    };
    let mut reading = held.file.try_clone()?;
    reading.seek(SeekFrom::Start(0))?;
    let mut at = 0;
    let mut last: Option<ChainLink> = None;
    let mut cut: Option<ExpiredRange> = None;
    let mut rows = 0;
    for read in AuditLineReader::from_file(reading) {
        let line = read?;
        let Some(row) = AuditRow::parse(&line.bytes).filter(|row| row.is_sound && line.is_complete)
        else {
            break;
        };
        let follows = match &last {
            None if row.is_checkpoint() => is_ours(&row),
            None => (row.seq, &row.prev) == (1, &ChainLink::before_first().hash),
            Some(last) => row.seq == last.seq + 1 && row.prev == last.hash,
        };
        let may_go = row.is_checkpoint()
            || keep.clock.is_older(row.at_ms, keep.age)
            || held.length - at > most;
        if !follows || !may_go {
            break;
        }
        at += line.bytes.len() as u64 + 1;
        let chained = row.chain_link();
        // A checkpoint's own time is that of the last removal.
        if !row.is_checkpoint() {
            rows += 1;
            cut = Some(ExpiredRange {
                from: at,
                gone: chained.clone(),
                rows,
            });
        }
        last = Some(chained);
    }
    Ok(cut)
}
