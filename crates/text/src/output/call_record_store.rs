//! The arguments and outputs of calls, masked and clipped, for the owner: one file a day, so that neither memory nor
//! the number of files grows with the calls.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::number_format::civil_from_days;
use punie_core::durable::{allow_missing, open_private_file};
use punie_core::host_traffic::HostTraffic;

/// The number of days for which records are kept, the current one included.
const KEPT_DAYS: i64 = 7;
/// The most bytes of all records together.
const MAX_BYTES: u64 = 2 << 30;

/// The content of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// The request. It comes first in the line, by which the line is found.
    pub request_id: String,
    /// The arguments, one under the other.
    pub arguments: String,
    /// The head and the tail of the answer.
    pub output: String,
    /// The files that the call reported as changed.
    pub files: Vec<String>,
    /// The traffic of its command with other hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<HostTraffic>,
}

/// The folder of records. Clones share it; one process writes to it.
#[derive(Debug, Clone)]
pub struct CallRecordStore {
    dir: PathBuf,
    writing: Arc<Mutex<()>>,
}

impl CallRecordStore {
    /// Uses this folder, which exists.
    pub fn in_folder(dir: PathBuf) -> Self {
        Self {
            dir,
            writing: Arc::default(),
        }
    }

    /// Appends a record. It is not durable against a power cut.
    ///
    /// # Errors
    /// The system's.
    pub fn append(&self, record: &CallRecord, now_ms: i64) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let _alone = self.writing.lock();
        let path = self.dir.join(day_file_name(now_ms));
        let mut file = open_private_file(&path, |options| {
            options.read(true).append(true).create(true)
        })?;
        if file.metadata()?.len() > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            // A crash cut the last line off.
            if last != *b"\n" {
                line.insert(0, b'\n');
            }
        }
        file.write_all(&line)
    }

    /// Removes the files of days that are over the limits of age and total size. Without a known time, none is too old.
    ///
    /// # Errors
    /// The system's.
    pub fn remove_expired(&self, now_ms: Option<i64>) -> io::Result<()> {
        self.remove_beyond(now_ms, MAX_BYTES)
    }

    fn remove_beyond(&self, now_ms: Option<i64>, max_bytes: u64) -> io::Result<()> {
        let oldest = now_ms.map_or_else(String::new, |now| {
            day_file_name(now - (KEPT_DAYS - 1) * MS_PER_DAY)
        });
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if Path::new(&name)
                .extension()
                .is_some_and(|end| end == EXTENSION)
            {
                files.push((name, entry.metadata()?.len()));
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, size)| size).sum();
        for (name, size) in files {
            if name >= oldest && total <= max_bytes {
                break;
            }
            std::fs::remove_file(self.dir.join(&name))?;
            total -= size;
        }
        Ok(())
    }

    /// Finds the record of a request that ended at this time; `None` if none is kept.
    ///
    /// # Errors
    /// The system's.
    pub fn find(&self, request: &str, ended_at_ms: i64) -> io::Result<Option<CallRecord>> {
        // A call that ends just before midnight may be recorded just after it.
        for day in [ended_at_ms, ended_at_ms + MS_PER_DAY] {
            let found = find_in_file(&self.dir.join(day_file_name(day)), request)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

const MS_PER_DAY: i64 = 86_400_000;
const EXTENSION: &str = "jsonl";

fn day_file_name(at_ms: i64) -> String {
    let (year, month, day) = civil_from_days(at_ms.div_euclid(MS_PER_DAY));
    format!("{year:04}-{month:02}-{day:02}.{EXTENSION}")
}

fn find_in_file(path: &Path, request: &str) -> io::Result<Option<CallRecord>> {
    let Some(file) = allow_missing(File::open(path))? else {
        return Ok(None);
    };
    let mut lines = BufReader::new(file);
    let mut start = serde_json::to_string(request)?;
    start.insert_str(0, "{\"requestId\":");
    let mut line = Vec::new();
    let mut found = None;
    while lines.read_until(b'\n', &mut line)? > 0 {
        if line.starts_with(start.as_bytes())
            && let Ok(record) = serde_json::from_slice(&line)
        {
            found = Some(record);
        }
        line.clear();
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str) -> CallRecord {
        CallRecord {
            request_id: id.to_owned(),
            arguments: "command: ls".to_owned(),
            output: "a\nb".to_owned(),
            files: Vec::new(),
            network: Vec::new(),
        }
    }

    #[test]
    fn a_record_is_found_until_its_day_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = CallRecordStore::in_folder(folder.path().to_owned());
        let day = |n: i64| n * MS_PER_DAY + 5;
        for n in 0..10 {
            store
                .append(&record(&format!("r{n}")), day(n))
                .expect("written");
        }
        let kept = |n: i64| {
            let found = store.find(&format!("r{n}"), day(n)).expect("read");
            found.is_some_and(|found| found == record(&format!("r{n}")))
        };
        assert!((0..10).all(kept) && store.find("r", day(1)).expect("read").is_none());
        store.remove_expired(None).expect("nothing to remove");
        assert!((0..10).all(kept), "nobody knows the time");
        store.remove_expired(Some(day(9))).expect("removed");
        assert_eq!((0..10).filter(|n| kept(*n)).count(), 7);
        assert!(!kept(2) && kept(3));
        let one = std::fs::metadata(folder.path().join(day_file_name(day(9)))).expect("there");
        store
            .remove_beyond(Some(day(9)), one.len() * 2)
            .expect("removed");
        assert!(!kept(7) && kept(8) && kept(9));
    }

    #[test]
    fn a_line_that_a_crash_cut_off_hides_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = CallRecordStore::in_folder(folder.path().to_owned());
        let path = folder.path().join(day_file_name(0));
        std::fs::write(path, "{\"requestId\":\"torn").expect("written");
        store.append(&record("r"), 0).expect("written");
        // Also if it is looked for on the day before.
        let found = store.find("r", -1).expect("read");
        assert_eq!(found, Some(record("r")));
    }
}
