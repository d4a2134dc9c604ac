//! Small state files of the home as JSON, with a checksum and a copy of the version before. A missing file is told from
//! a damaged one, and a damaged one is never overwritten.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::error::HomeError;
use super::private_files::replace_private_file;
use punie_core::durable::allow_missing;
use punie_core::ids::to_hex;

/// A state file with content of one type.
#[derive(Debug, Clone)]
pub(super) struct StateFile<T> {
    path: PathBuf,
    content: PhantomData<fn() -> T>,
}

/// The file as it is written: the checksum is that of the exact text of `data`.
#[derive(Serialize, Deserialize)]
struct Envelope {
    sha256: String,
    data: Box<RawValue>,
}

impl<T: Serialize + DeserializeOwned> StateFile<T> {
    /// Returns the state file at this path.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            content: PhantomData,
        }
    }

    /// Reads the content; `None` if there is no file. Content without a checksum, from versions that wrote none, is read
    /// too.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be read or is damaged.
    pub(super) fn read(&self) -> Result<Option<T>, HomeError> {
        let Some(bytes) = self.read_bytes()? else {
            return Ok(None);
        };
        parse_content(&bytes)
            .map(Some)
            .map_err(|why| self.damaged(why))
    }

    /// Replaces the content in one step. The version before stays beside it.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written, or when the present file is damaged: then nothing is written.
    pub(super) fn write(&self, content: &T) -> Result<(), HomeError> {
        if let Some(present) = self.read_bytes()? {
            parse_content::<T>(&present).map_err(|why| self.damaged(why))?;
            replace_private_file(&self.previous_path(), &present)?;
        }
        let data = serde_json::value::to_raw_value(content).expect("state is always JSON");
        let envelope = Envelope {
            sha256: checksum(&data),
            data,
        };
        let text = serde_json::to_vec(&envelope).expect("texts are always JSON");
        replace_private_file(&self.path, &text)
    }

    fn read_bytes(&self) -> Result<Option<Vec<u8>>, HomeError> {
        allow_missing(std::fs::read(&self.path)).map_err(HomeError::unreadable(&self.path))
    }

    fn previous_path(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".previous");
        name.into()
    }

    fn damaged(&self, why: String) -> HomeError {
        let previous = self.previous_path();
        let mend = if is_readable_state::<T>(&previous) {
            let from = previous.display();
            let to = self.path.display();
            format!("The version before it is whole. To use that: mv '{from}' '{to}'")
        } else {
            "Move it aside, or restore it from a backup".to_owned()
        };
        HomeError::Damaged {
            path: self.path.clone(),
            why,
            mend,
        }
    }
}

fn is_readable_state<T: DeserializeOwned>(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| parse_content::<T>(&bytes).is_ok())
}

fn parse_content<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let text = |error: serde_json::Error| error.to_string();
    match serde_json::from_slice::<Envelope>(bytes) {
        Ok(envelope) if envelope.sha256 == checksum(&envelope.data) => {
            serde_json::from_str(envelope.data.get()).map_err(text)
        }
        Ok(_) => Err("its checksum is wrong".to_owned()),
        Err(_) => serde_json::from_slice(bytes).map_err(text),
    }
}

fn checksum(data: &RawValue) -> String {
    to_hex(&Sha256::digest(data.get().as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;

    type Counts = BTreeMap<String, u32>;

    fn counts(apples: u32) -> Counts {
        Counts::from([("apples".to_owned(), apples)])
    }

    #[test]
    fn a_missing_file_is_told_from_a_damaged_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("counts.json");
        let file = StateFile::<Counts>::new(path.clone());
        assert_eq!(file.read().expect("none is no error"), None);
        file.write(&counts(1)).expect("written");
        file.write(&counts(2)).expect("written");
        assert_eq!(file.read().expect("read"), Some(counts(2)));
        let whole = fs::read(&path).expect("the file");
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).expect("torn");
            let error = file.read().expect_err("a torn file is damaged");
            assert!(matches!(error, HomeError::Damaged { .. }), "{error}");
        }
        let flipped = String::from_utf8(whole)
            .expect("text")
            .replace(":2}", ":7}");
        fs::write(&path, flipped).expect("changed");
        let text = file.read().expect_err("a changed file").to_string();
        assert!(text.contains("its checksum is wrong"), "{text}");
        assert!(text.contains("mv "), "{text}");
    }

    #[test]
    fn a_damaged_file_is_not_overwritten_and_the_version_before_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("counts.json");
        let file = StateFile::<Counts>::new(path.clone());
        file.write(&counts(1)).expect("written");
        file.write(&counts(2)).expect("written");
        fs::write(&path, b"{\"sha").expect("torn");
        file.write(&counts(3)).expect_err("refused");
        assert_eq!(fs::read(&path).expect("the file"), b"{\"sha");
        fs::rename(folder.path().join("counts.json.previous"), &path).expect("as advised");
        assert_eq!(file.read().expect("read"), Some(counts(1)));
    }

    #[test]
    fn content_without_a_checksum_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("counts.json");
        fs::write(&path, b"{\"apples\":4}").expect("an older version's file");
        let file = StateFile::<Counts>::new(path);
        assert_eq!(file.read().expect("read"), Some(counts(4)));
    }
}
