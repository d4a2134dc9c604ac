//! Verifies the chain from its first row to its last, and names the first row at which it breaks.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::Path;

use serde::Serialize;

use super::head::is_signed;
use super::lines::Lines;
use super::row::{Link, Row, checkpoint_text};
use super::{Event, Head, Places};

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// No fault was found.
    pub sound: bool,
    /// The number of rows.
    pub rows: u64,
    /// The number of the first row.
    pub first_seq: Option<u64>,
    /// The chain's last link.
    pub last: Link,
    /// The bytes after the last row that belong to no row: a crash leaves them, and the next row cuts them off.
    pub torn_bytes: u64,
    /// The head that is stored beside the rows.
    pub head: Option<Link>,
    /// The head's signature.
    pub head_signed: Signed,
    /// The first fault, from the beginning.
    pub fault: Option<Fault>,
}

/// The state of the stored head's signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Signed {
    /// There is no head.
    NoHead,
    /// By this device's key.
    ByThisDevice,
    /// Not signed, or signed with another key.
    No,
    /// The key to check it with is unknown.
    Unchecked,
}

/// A fault and its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// The kind of fault.
    pub flaw: Flaw,
    /// The row's number.
    pub seq: Option<u64>,
    /// The line of the file, from 1.
    pub line: u64,
    /// A sentence for people.
    pub text: String,
}

/// The ways in which a row or the head can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Flaw {
    /// The row was changed after it was written.
    Edited,
    /// The row should be there.
    Missing,
    /// The row is in another position than it was written to.
    OutOfOrder,
    /// The row was inserted later.
    Inserted,
    /// The line is not a row.
    Unreadable,
    /// The head was not signed by this device.
    ForgedHead,
    /// There is no head though a runner wrote rows, or there was none when one started.
    MissingHead,
    /// The checkpoint in place of removed rows was not signed by this device.
    ForgedCheckpoint,
}

/// Verifies the whole audit. `known` are heads known from elsewhere; `public_key` is the device's, as base64.
///
/// # Errors
/// A file cannot be read.
pub fn verify(places: &Places, known: &[Link], public_key: Option<&str>) -> io::Result<Report> {
    let head = Head::read(&places.head);
    let kept = head.as_ref().ok().and_then(Option::as_ref);
    let mut heads: Vec<&Link> = known.iter().collect();
    heads.extend(kept.map(|head| &head.at));
    let file = match File::open(&places.rows) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut following = Following::new(&heads, public_key);
    if let Some(file) = file {
        following.all(file)?;
    }
    following.end(&places.rows)?;
    let head_signed = match (kept, public_key) {
        (None, _) => Signed::NoHead,
        (Some(_), None) => Signed::Unchecked,
        (Some(head), Some(key)) if head.is_signed_by(key) => Signed::ByThisDevice,
        (Some(_), Some(_)) => Signed::No,
    };
    let mut fault = following.fault;
    let forged = head.is_err() || head_signed == Signed::No;
    if forged && fault.is_none() {
        let text = "the head beside the audit is not signed by this device's key: somebody else wrote it";
        fault = Some(Fault { flaw: Flaw::ForgedHead, seq: None, line: 0, text: text.to_owned() });
    }
    if head_signed == Signed::NoHead && following.needs_head && fault.is_none() {
        let text = "the head beside the audit is missing, and a runner keeps one from its first row on: nothing \
                    vouches for these rows";
        fault = Some(Fault { flaw: Flaw::MissingHead, seq: None, line: 0, text: text.to_owned() });
    }
    Ok(Report {
        sound: fault.is_none(),
        rows: following.rows,
        first_seq: following.first,
        last: following.last.unwrap_or_else(Link::none),
        torn_bytes: following.torn,
        head: kept.map(|head| head.at.clone()),
        head_signed,
        fault,
    })
}

/// Calls `with` for the text of each row, in order, until it returns false. Rows are not verified.
///
/// # Errors
/// The file cannot be read.
pub fn walk(places: &Places, mut with: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    let file = match File::open(&places.rows) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for line in Lines::of(file) {
        let line = line?;
        if line.is_whole && !with(&line.bytes) {
            break;
        }
    }
    Ok(())
}

struct Following<'a> {
    heads: &'a [&'a Link],
    public_key: Option<&'a str>,
    /// There are rows that only a runner writes, which stores a head.
    needs_head: bool,
    last: Option<Link>,
    first: Option<u64>,
    rows: u64,
    torn: u64,
    /// The last removed row, according to the checkpoint; `told_gone` has it according to the later rows.
    gone: Option<u64>,
    told_gone: HashSet<u64>,
    fault: Option<Fault>,
    line: u64,
}

impl<'a> Following<'a> {
    fn new(heads: &'a [&'a Link], public_key: Option<&'a str>) -> Self {
        Self {
            heads,
            public_key,
            needs_head: false,
            last: None,
            first: None,
            rows: 0,
            torn: 0,
            gone: None,
            told_gone: HashSet::new(),
            fault: None,
            line: 0,
        }
    }

    fn all(&mut self, file: File) -> io::Result<()> {
        for line in Lines::of(file) {
            let line = line?;
            self.line += 1;
            if !line.is_whole
                && line.bytes.len() < usize::try_from(super::lines::LONGEST).unwrap_or(usize::MAX)
            {
                self.torn = line.bytes.len() as u64;
                break;
            }
            self.rows += 1;
            let Some(row) = Row::read(&line.bytes) else {
                let after = self.last.as_ref().map_or(0, |last| last.seq);
                let text = format!("line {} is no row; row {} should stand there", self.line, after + 1);
                self.found(Flaw::Unreadable, Some(after + 1), text);
                continue;
            };
            self.row(&row);
        }
        Ok(())
    }

    fn row(&mut self, row: &Row) {
        if self.fault.is_none() {
            self.judge(row);
        }
        self.needs_head |= !row.is_owners();
        let link = row.link();
        if self.heads.iter().any(|head| head.seq == link.seq && head.hash != link.hash) {
            let text = format!(
                "row {} is not the row that was known under this number: it, or a row before it, was written anew",
                row.seq
            );
            self.found(Flaw::Edited, Some(row.seq), text);
        }
        self.told_gone.extend(row.through.filter(|_| row.event == Some(Event::Expired)));
        if row.event == Some(Event::Unproven) {
            let text = format!(
                "row {} says that the head was missing or not this device's when a runner started: nothing vouches \
                 for the rows before it",
                row.seq
            );
            self.found(Flaw::MissingHead, Some(row.seq), text);
        }
        if row.is_checkpoint() {
            self.rows -= 1;
        } else {
            self.first.get_or_insert(row.seq);
        }
        self.last = Some(link);
    }

    fn judge(&mut self, row: &Row) {
        let seq = row.seq;
        if !row.is_sound {
            let text = format!("row {seq} was edited: its hash is not that of its text");
            return self.found(Flaw::Edited, Some(seq), text);
        }
        let Some(last) = self.last.clone() else { return self.judge_first(row) };
        if seq == last.seq + 1 && row.prev == last.hash {
            return;
        }
        if seq == last.seq + 1 {
            let text = format!(
                "row {} was edited and given a hash anew: row {seq} was written after another one",
                last.seq
            );
            self.found(Flaw::Edited, Some(last.seq), text);
        } else if seq > last.seq + 1 {
            let text = format!("{} missing: row {seq} follows row {}", rows(last.seq + 1, seq - 1), last.seq);
            self.found(Flaw::Missing, Some(last.seq + 1), text);
        } else if seq == last.seq {
            let text = format!("there are two rows {seq}: one of them was put in");
            self.found(Flaw::Inserted, Some(seq), text);
        } else {
            let text = format!("row {seq} stands behind row {}", last.seq);
            self.found(Flaw::OutOfOrder, Some(seq), text);
        }
    }

    fn judge_first(&mut self, row: &Row) {
        if row.is_checkpoint() {
            self.gone = Some(row.seq);
            let text = checkpoint_text(&row.link());
            if self.public_key.is_some_and(|key| !is_signed(&text, row.signature.as_deref(), key)) {
                let text = format!(
                    "{} missing: what stands in their place is not signed by this device's key",
                    rows(1, row.seq)
                );
                self.found(Flaw::ForgedCheckpoint, Some(row.seq), text);
            }
        } else if row.seq != 1 {
            let text = format!("{} missing: the audit begins with row {}", rows(1, row.seq - 1), row.seq);
            self.found(Flaw::Missing, Some(1), text);
        } else if row.prev != Link::none().hash {
            let text = "row 1 was written after another row: the audit's beginning is missing".to_owned();
            self.found(Flaw::Missing, Some(1), text);
        }
    }

    /// Checks for faults that only the whole file shows.
    fn end(&mut self, path: &Path) -> io::Result<()> {
        if let Some(gone) = self.gone
            && !self.told_gone.contains(&gone)
            && self.fault.is_none()
        {
            let text = format!("{} missing: no row says that the program let them go", rows(1, gone));
            self.line = 1;
            self.found(Flaw::Missing, Some(1), text);
        }
        let last = self.last.as_ref().map_or(0, |last| last.seq);
        if let Some(head) = self.heads.iter().filter(|head| head.seq > last).max_by_key(|head| head.seq) {
            let text = format!("{} missing: they were cut off at the end", rows(last + 1, head.seq));
            self.line += 1;
            self.found(Flaw::Missing, Some(last + 1), text);
        }
        if self.fault.as_ref().is_some_and(|fault| fault.flaw == Flaw::Missing) {
            self.look_for_the_missing(path)?;
        }
        Ok(())
    }

    /// Reports a missing row that is elsewhere in the file as moved.
    fn look_for_the_missing(&mut self, path: &Path) -> io::Result<()> {
        let Some(fault) = &mut self.fault else { return Ok(()) };
        let Some(seq) = fault.seq else { return Ok(()) };
        let Ok(file) = File::open(path) else { return Ok(()) };
        for (number, line) in (1u64..).zip(Lines::of(file)) {
            let found = Row::read(&line?.bytes).is_some_and(|row| row.seq == seq && !row.is_checkpoint());
            if found {
                fault.flaw = Flaw::OutOfOrder;
                fault.text = format!("row {seq} is out of order: it stands in line {number}");
                break;
            }
        }
        Ok(())
    }

    fn found(&mut self, flaw: Flaw, seq: Option<u64>, text: String) {
        let line = self.line;
        self.fault.get_or_insert(Fault { flaw, seq, line, text });
    }
}

fn rows(from: u64, to: u64) -> String {
    if from == to { format!("row {from} is") } else { format!("rows {from} to {to} are") }
}
