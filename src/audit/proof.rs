//! Checks the rows that a runner finds when it starts. Its own signature will soon cover all of them. So rows that
//! the last process's head does not confirm are marked first. Not here: later checks (`verify`).

use std::io;

use super::chain::{Chain, Held, row_at, rows};
use super::log::Sign;
use super::row::Link;
use super::{Entry, Event, Head, Who};

/// Returns the entry to write before any other; `None` if the head confirms the rows.
///
/// # Errors
/// The files cannot be read now.
pub(super) fn look(chain: &mut Chain, sign: Option<&Sign>, now_ms: i64) -> io::Result<Option<Entry>> {
    let chained = chain.hold()?;
    let unproven = |why: &str| Some(Entry::new(Event::Unproven, Who::Runner, now_ms).saying(why));
    let head = match Head::read(&chain.places.head) {
        Ok(head) => head,
        Err(error) if matches!(error.kind(), io::ErrorKind::Other | io::ErrorKind::InvalidData) => {
            return Ok(unproven("the head was none"));
        }
        Err(error) => return Err(error),
    };
    let Some(head) = head else {
        if rows(&chained.file)?.any(|row| row.is_ok_and(|row| !row.is_owners())) {
            return Ok(unproven("the head was missing"));
        }
        // From here on a head exists before any row of a runner.
        let signature = sign.map(|sign| sign(&Head::text(&chained.last)));
        let head = Head { at: chained.last, signature };
        head.write(&chain.places.head)?;
        crate::durable::open_private_file(&chain.places.head, |options| options.read(true))?.sync_all()?;
        crate::durable::sync_parent_folder(&chain.places.head)?;
        return Ok(None);
    };
    // The same key signs the same text with the same signature.
    if sign.is_some_and(|sign| head.signature.as_ref() != Some(&sign(&Head::text(&head.at)))) {
        return Ok(unproven("the head was not signed by this device"));
    }
    if let Some(broken) = break_at(&chained, &head.at)? {
        drop(chained);
        chain.follows(broken);
    }
    Ok(None)
}

/// Returns the link that the next row must follow for the gap to show; `None` if the head's row is there.
fn break_at(chained: &Held, head: &Link) -> io::Result<Option<Link>> {
    if head.seq > chained.last.seq {
        return Ok(Some(head.clone()));
    }
    let there = row_at(&chained.file, chained.length, head.seq)?;
    Ok(there
        .filter(|hash| *hash != head.hash)
        .map(|_| Link { seq: chained.last.seq, hash: head.hash.clone() }))
}
