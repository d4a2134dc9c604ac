//! Checks the rows that a runner finds when it starts. Its own signature will soon cover all of them. So rows that the
//! last process's head does not confirm are marked first.

use std::io;

use super::chain::{AuditChain, LockedAuditFile, find_row_hash, read_rows};
use super::chain_head::TextSigner;
use super::row::ChainLink;
use super::{AuditActor, AuditEntry, AuditEvent, AuditHead};

/// Returns the entry to write before any other; `None` if the head confirms the rows.
///
/// # Errors
/// The files cannot be read now.
pub(super) fn check_stored_head(
    chain: &mut AuditChain,
    sign: Option<&TextSigner>,
    now_ms: i64,
) -> io::Result<Option<AuditEntry>> {
    let chained = chain.lock_file()?;
    let unproven = |why: &str| {
        Some(AuditEntry::new(AuditEvent::Unproven, AuditActor::Runner, now_ms).with_detail(why))
    };
    let head = match AuditHead::read_head(&chain.places.head) {
        Ok(head) => head,
        Err(error) => {
            let is_damaged =
                [io::ErrorKind::Other, io::ErrorKind::InvalidData].contains(&error.kind());
            return if is_damaged {
                Ok(unproven("the head was none"))
            } else {
                Err(error)
            };
        }
    };
    let Some(head) = head else {
        if read_rows(&chained.file)?.any(|row| row.is_ok_and(|row| !row.is_by_owner())) {
            return Ok(unproven("the head was missing"));
        }
        // From here on a head exists before any row of a runner.
        AuditHead::new(chained.last, sign).write_head(&chain.places.head)?;
        punie_core::durable::open_private_file(&chain.places.head, |options| options.read(true))?
            .sync_all()?;
        punie_core::durable::sync_parent_folder(&chain.places.head)?;
        return Ok(None);
    };
    // The same key signs the same text with the same signature.
    if sign.is_some_and(|sign| {
        head.signature.as_ref() != Some(&sign(&AuditHead::signed_text(&head.at)))
    }) {
        return Ok(unproven("the head was not signed by this device"));
    }
    if let Some(broken) = find_broken_link(&chained, &head.at)? {
        drop(chained);
        chain.set_last_link(broken);
    }
    Ok(None)
}

/// Returns the link that the next row must follow for the gap to show; `None` if the head's row is there.
fn find_broken_link(chained: &LockedAuditFile, head: &ChainLink) -> io::Result<Option<ChainLink>> {
    if head.seq > chained.last.seq {
        return Ok(Some(head.clone()));
    }
    let there = find_row_hash(&chained.file, chained.length, head.seq)?;
    Ok(there.filter(|hash| *hash != head.hash).map(|_| ChainLink {
        seq: chained.last.seq,
        hash: head.hash.clone(),
    }))
}
