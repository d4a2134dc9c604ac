//! Rows of a database whose tables cannot be found any more, from the pages on which rows stand: for damage that took
//! the page which says where they are. What is found may be older than what was lost (a page that is not in use any
//! more keeps its rows), so that a caller must not take it for the last word. Not here: what is made of the rows.
//!
//! The layout of pages, cells and records is that of SQLite's file format, sqlite.org/fileformat2.html.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use rusqlite::types::Value;

/// A page of a table on which rows stand.
const TABLE_LEAF: u8 = 0x0d;
/// The longest row that is put together, in bytes: more than any that the journal writes.
const LONGEST: usize = 8 << 20;

/// The pages of a file.
struct Pages {
    file: File,
    size: usize,
    count: u64,
}

/// Hands on every row of the file that can be read, with as many columns as it has.
pub(super) fn rows(path: &Path, take: &mut dyn FnMut(Vec<Value>)) -> io::Result<()> {
    // The journal is never made with another size, and the head that would say so may be what is damaged.
    let size = 4096;
    let file = File::open(path)?;
    let count = file.metadata()?.len() / size as u64;
    let mut pages = Pages { file, size, count };
    for number in 1..=pages.count {
        let page = pages.read(number)?;
        let head = if number == 1 { 100 } else { 0 };
        if page[head] != TABLE_LEAF {
            continue;
        }
        let cells = usize::from(be16(&page, head + 3).unwrap_or(0));
        for cell in 0..cells {
            let at = be16(&page, head + 8 + 2 * cell).map(usize::from);
            if let Some(row) = at.and_then(|at| pages.payload(&page, at)).and_then(|payload| record(&payload))
            {
                take(row);
            }
        }
    }
    Ok(())
}

impl Pages {
    fn read(&mut self, number: u64) -> io::Result<Vec<u8>> {
        let mut page = vec![0; self.size];
        self.file.seek(SeekFrom::Start((number - 1) * self.size as u64))?;
        self.file.read_exact(&mut page)?;
        Ok(page)
    }

    /// The record that begins at this cell of a page, with what of it stands on pages of its own.
    fn payload(&mut self, page: &[u8], cell: usize) -> Option<Vec<u8>> {
        let (length, after_length) = varint(page, cell)?;
        let (_rowid, start) = varint(page, after_length)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= LONGEST)?;
        let most = self.size - 35;
        if length <= most {
            return page.get(start..start + length).map(<[u8]>::to_vec);
        }
        let least = (self.size - 12) * 32 / 255 - 23;
        let spread = least + (length - least) % (self.size - 4);
        let here = if spread <= most { spread } else { least };
        let mut payload = page.get(start..start + here)?.to_vec();
        let mut next = be32(page, start + here)?;
        while payload.len() < length {
            if next == 0 || u64::from(next) > self.count {
                return None;
            }
            let page = self.read(u64::from(next)).ok()?;
            let rest = (length - payload.len()).min(self.size - 4);
            payload.extend_from_slice(&page[4..4 + rest]);
            next = be32(&page, 0)?;
        }
        Some(payload)
    }
}

/// The values of a record.
fn record(payload: &[u8]) -> Option<Vec<Value>> {
    let (head, mut at) = varint(payload, 0)?;
    let head = usize::try_from(head).ok().filter(|head| *head <= payload.len())?;
    let (mut body, mut values) = (head, Vec::new());
    while at < head {
        let (kind, after) = varint(payload, at)?;
        at = after;
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => usize::try_from(kind).ok()?,
            5 => 6,
            6 | 7 => 8,
            10 | 11 => return None,
            _ => usize::try_from((kind - 12) / 2).ok()?,
        };
        let bytes = payload.get(body..body.checked_add(length)?)?;
        body += length;
        values.push(value(kind, bytes)?);
    }
    Some(values)
}

fn value(kind: u64, bytes: &[u8]) -> Option<Value> {
    let integer = || {
        let negative = bytes.first().is_some_and(|first| *first >= 0x80);
        bytes.iter().fold(if negative { -1_i64 } else { 0 }, |sum, byte| (sum << 8) | i64::from(*byte))
    };
    Some(match kind {
        0 => Value::Null,
        1..=6 => Value::Integer(integer()),
        7 => Value::Real(f64::from_be_bytes(bytes.try_into().ok()?)),
        8 | 9 => Value::Integer(i64::from(kind == 9)),
        even if even % 2 == 0 => Value::Blob(bytes.to_vec()),
        _ => Value::Text(String::from_utf8(bytes.to_vec()).ok()?),
    })
}

/// A number of one to nine bytes, and where the next thing begins.
fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut number = 0_u64;
    for n in 0..8 {
        let byte = *bytes.get(at + n)?;
        number = (number << 7) | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((number, at + n + 1));
        }
    }
    Some(((number << 8) | u64::from(*bytes.get(at + 8)?), at + 9))
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_every_kind_are_read_as_sqlite_wrote_them() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("db");
        let db = rusqlite::Connection::open(&path).expect("opens");
        db.execute_batch(
            "create table t (a, b); \
             with recursive n(x) as (select 1 union all select x + 1 from n where x < 500) \
             insert into t select x * 7919 * x * x - 40000, case x % 4 when 0 then null when 1 then x / 3.0 \
             when 2 then replace(hex(zeroblob(x * 40)), '0', 'é') else zeroblob(x) end from n",
        )
        .expect("made");
        let mut wanted = Vec::new();
        let mut statement = db.prepare("select a, b from t").expect("sound");
        let mut rows_there = statement.query([]).expect("read");
        while let Some(row) = rows_there.next().expect("read") {
            wanted.push(vec![row.get(0).expect("a"), row.get(1).expect("b")]);
        }
        let mut found = Vec::new();
        rows(&path, &mut |row| found.push(row)).expect("read");
        // The table of tables has five columns.
        found.retain(|row: &Vec<Value>| row.len() == 2);
        let key = |row: &Vec<Value>| format!("{row:?}");
        wanted.sort_by_key(key);
        found.sort_by_key(key);
        assert!(found == wanted, "{} of {}", found.len(), wanted.len());
        assert_eq!(found.len(), 500);
    }

    proptest::proptest! {
        /// Damage of any kind costs rows, never more.
        #[test]
        fn no_bytes_are_too_broken(noise in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..9000)) {
            let dir = tempfile::tempdir().expect("a folder");
            let path = dir.path().join("db");
            let mut bytes = noise;
            bytes.resize(8192, 0x0d);
            bytes[4096] = TABLE_LEAF;
            std::fs::write(&path, &bytes).expect("written");
            rows(&path, &mut |_| {}).expect("read");
        }
    }
}
