//! Verifies the chain from its first row to its last, and names the first row at which it breaks.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::Path;

use super::audit_report::{AuditFault, AuditFlaw, AuditReport, HeadSignature};
use super::chain_head::is_validly_signed;
use super::line_reader::{AuditLineReader, MAX_LINE_BYTES};
use super::row::{AuditRow, ChainLink, checkpoint_signed_text};
use super::{AuditEvent, AuditHead, AuditPaths};
use punie_core::durable::allow_missing;

/// Verifies the whole audit. `known` are heads known from elsewhere; `public_key` is the device's, as base64.
///
/// # Errors
/// A file cannot be read.
pub fn verify_chain(
    places: &AuditPaths,
    known: &[ChainLink],
    public_key: Option<&str>,
) -> io::Result<AuditReport> {
    let head = AuditHead::read_head(&places.head);
    let kept = head.as_ref().ok().and_then(Option::as_ref);
    let mut heads: Vec<&ChainLink> = known.iter().collect();
    heads.extend(kept.map(|head| &head.at));
    let mut verifier = ChainVerifier::new(&heads, public_key);
    if let Some(file) = allow_missing(File::open(&places.rows))? {
        verifier.verify_rows(file)?;
    }
    verifier.check_end(&places.rows)?;
    let head_signed = match (kept, public_key) {
        (None, _) => HeadSignature::NoHead,
        (Some(_), None) => HeadSignature::Unchecked,
        (Some(head), Some(key)) if head.is_signed_by(key) => HeadSignature::ByThisDevice,
        (Some(_), Some(_)) => HeadSignature::No,
    };
    // A fault of the head has no row.
    verifier.line = 0;
    if head.is_err() || head_signed == HeadSignature::No {
        let text =
            "the head beside the audit is not signed by this device's key: somebody else wrote it";
        verifier.record_fault(AuditFlaw::ForgedHead, None, text.to_owned());
    }
    if head_signed == HeadSignature::NoHead && verifier.needs_head {
        let text = "the head beside the audit is missing, and a runner keeps one from its first row on: nothing \
                    vouches for these rows";
        verifier.record_fault(AuditFlaw::MissingHead, None, text.to_owned());
    }
    Ok(AuditReport {
        sound: verifier.fault.is_none(),
        rows: verifier.rows,
        first_seq: verifier.first,
        last: verifier.last.unwrap_or_else(ChainLink::before_first),
        torn_bytes: verifier.torn,
        head: kept.map(|head| head.at.clone()),
        head_signed,
        fault: verifier.fault,
    })
}

/// Calls `with` for the text of each row, in order, until it returns false. Rows are not verified.
///
/// # Errors
/// The file cannot be read.
pub fn for_each_row(places: &AuditPaths, mut with: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    let Some(file) = allow_missing(File::open(&places.rows))? else {
        return Ok(());
    };
    for line in AuditLineReader::from_file(file) {
        let line = line?;
        if line.is_complete && !with(&line.bytes) {
            break;
        }
    }
    Ok(())
}

#[derive(Default)]
struct ChainVerifier<'a> {
    heads: &'a [&'a ChainLink],
    public_key: Option<&'a str>,
    /// There are rows that only a runner writes, which stores a head.
    needs_head: bool,
    last: Option<ChainLink>,
    first: Option<u64>,
    rows: u64,
    torn: u64,
    /// The last removed row, according to the checkpoint; `reported_removals` has it according to the later rows.
    gone: Option<u64>,
    reported_removals: HashSet<u64>,
    fault: Option<AuditFault>,
    line: u64,
}

impl<'a> ChainVerifier<'a> {
    fn new(heads: &'a [&'a ChainLink], public_key: Option<&'a str>) -> Self {
        Self {
            heads,
            public_key,
            ..Self::default()
        }
    }

    fn verify_rows(&mut self, file: File) -> io::Result<()> {
        for line in AuditLineReader::from_file(file) {
            let line = line?;
            self.line += 1;
            let length = line.bytes.len() as u64;
            if !line.is_complete && length < MAX_LINE_BYTES {
                self.torn = length;
                break;
            }
            self.rows += 1;
            let Some(row) = AuditRow::parse(&line.bytes) else {
                let after = self.last.as_ref().map_or(0, |last| last.seq);
                let text = format!(
                    "line {} is no row; row {} should stand there",
                    self.line,
                    after + 1
                );
                self.record_fault(AuditFlaw::Unreadable, Some(after + 1), text);
                continue;
            };
            self.verify_row(&row);
        }
        Ok(())
    }

    fn verify_row(&mut self, row: &AuditRow) {
        if self.fault.is_none() {
            self.check_row(row);
        }
        self.needs_head |= !row.is_by_owner();
        let link = row.chain_link();
        if self
            .heads
            .iter()
            .any(|head| head.seq == link.seq && head.hash != link.hash)
        {
            let text = format!(
                "row {} is not the row that was known under this number: it, or a row before it, was written anew",
                row.seq
            );
            self.record_fault(AuditFlaw::Edited, Some(row.seq), text);
        }
        self.reported_removals.extend(
            row.through
                .filter(|_| row.event == Some(AuditEvent::Expired)),
        );
        if row.event == Some(AuditEvent::Unproven) {
            let text = format!(
                "row {} says that the head was missing or not this device's when a runner started: nothing vouches \
                 for the rows before it",
                row.seq
            );
            self.record_fault(AuditFlaw::MissingHead, Some(row.seq), text);
        }
        if row.is_checkpoint() {
            self.rows -= 1;
        } else {
            self.first.get_or_insert(row.seq);
        }
        self.last = Some(link);
    }

    fn check_row(&mut self, row: &AuditRow) {
        let seq = row.seq;
        if !row.is_sound {
            let text = format!("row {seq} was edited: its hash is not that of its text");
            return self.record_fault(AuditFlaw::Edited, Some(seq), text);
        }
        let Some(last) = self.last.clone() else {
            return self.check_first_row(row);
        };
        if seq == last.seq + 1 && row.prev == last.hash {
            return;
        }
        if seq == last.seq + 1 {
            let text = format!(
                "row {} was edited and given a hash anew: row {seq} was written after another one",
                last.seq
            );
            self.record_fault(AuditFlaw::Edited, Some(last.seq), text);
        } else if seq > last.seq + 1 {
            let text = format!(
                "{} missing: row {seq} follows row {}",
                describe_row_range(last.seq + 1, seq - 1),
                last.seq
            );
            self.record_fault(AuditFlaw::Missing, Some(last.seq + 1), text);
        } else if seq == last.seq {
            let text = format!("there are two rows {seq}: one of them was put in");
            self.record_fault(AuditFlaw::Inserted, Some(seq), text);
        } else {
            let text = format!("row {seq} stands behind row {}", last.seq);
            self.record_fault(AuditFlaw::OutOfOrder, Some(seq), text);
        }
    }

    fn check_first_row(&mut self, row: &AuditRow) {
        if row.is_checkpoint() {
            self.gone = Some(row.seq);
            let text = checkpoint_signed_text(&row.chain_link());
            if self
                .public_key
                .is_some_and(|key| !is_validly_signed(&text, row.signature.as_deref(), key))
            {
                let text = format!(
                    "{} missing: what stands in their place is not signed by this device's key",
                    describe_row_range(1, row.seq)
                );
                self.record_fault(AuditFlaw::ForgedCheckpoint, Some(row.seq), text);
            }
        } else if row.seq != 1 {
            let text = format!(
                "{} missing: the audit begins with row {}",
                describe_row_range(1, row.seq - 1),
                row.seq
            );
            self.record_fault(AuditFlaw::Missing, Some(1), text);
        } else if row.prev != ChainLink::before_first().hash {
            let text =
                "row 1 was written after another row: the audit's beginning is missing".to_owned();
            self.record_fault(AuditFlaw::Missing, Some(1), text);
        }
    }

    /// Checks for faults that only the whole file shows.
    fn check_end(&mut self, path: &Path) -> io::Result<()> {
        if let Some(gone) = self.gone
            && !self.reported_removals.contains(&gone)
            && self.fault.is_none()
        {
            let text = format!(
                "{} missing: no row says that the program let them go",
                describe_row_range(1, gone)
            );
            self.line = 1;
            self.record_fault(AuditFlaw::Missing, Some(1), text);
        }
        let last = self.last.as_ref().map_or(0, |last| last.seq);
        if let Some(head) = self
            .heads
            .iter()
            .filter(|head| head.seq > last)
            .max_by_key(|head| head.seq)
        {
            let text = format!(
                "{} missing: they were cut off at the end",
                describe_row_range(last + 1, head.seq)
            );
            self.line += 1;
            self.record_fault(AuditFlaw::Missing, Some(last + 1), text);
        }
        if self
            .fault
            .as_ref()
            .is_some_and(|fault| fault.flaw == AuditFlaw::Missing)
        {
            self.find_moved_row(path)?;
        }
        Ok(())
    }

    /// Reports a missing row that is elsewhere in the file as moved.
    fn find_moved_row(&mut self, path: &Path) -> io::Result<()> {
        let Some(fault) = &mut self.fault else {
            return Ok(());
        };
        let (Some(seq), Ok(file)) = (fault.seq, File::open(path)) else {
            return Ok(());
        };
        for (number, line) in (1u64..).zip(AuditLineReader::from_file(file)) {
            let found = AuditRow::parse(&line?.bytes)
                .is_some_and(|row| row.seq == seq && !row.is_checkpoint());
            if found {
                fault.flaw = AuditFlaw::OutOfOrder;
                fault.text = format!("row {seq} is out of order: it stands in line {number}");
                break;
            }
        }
        Ok(())
    }

    fn record_fault(&mut self, flaw: AuditFlaw, seq: Option<u64>, text: String) {
        self.fault.get_or_insert(AuditFault {
            flaw,
            seq,
            line: self.line,
            text,
        });
    }
}

fn describe_row_range(from: u64, to: u64) -> String {
    if from == to {
        format!("row {from} is")
    } else {
        format!("rows {from} to {to} are")
    }
}
