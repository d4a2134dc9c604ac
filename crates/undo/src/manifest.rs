//! The record of a request, line by line, before it happens: JSON, appended and made durable. A line that a crash cut
//! off is passed over; what it would have said did not happen.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::snapshot::{PathChange, SnapshotEnd};
use punie_core::durable::{allow_missing, parse_json_lines};
use punie_core::ids::RequestId;
use punie_text::output::path_text::os_string_from_bytes;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum ManifestLine {
    /// Whose lines follow.
    Begun {
        request: RequestId,
        tool: String,
        at_ms: i64,
    },
    /// A file is changed, made or taken away.
    File {
        path: ManifestPath,
        /// Its state before; none where there was no file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<FileBefore>,
        /// The hash of its new content; `None` if it is to be removed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
        /// True if its right to be run is a part of the change.
        #[serde(default)]
        mode_changes: bool,
    },
    /// A file gets another path.
    Move {
        from: ManifestPath,
        to: ManifestPath,
        sha256: String,
    },
    /// An undo moves something into the trash.
    Removed {
        path: ManifestPath,
        /// Its name beside the manifest.
        item: String,
    },
    /// A snapshot of a folder was taken before and after the call; the paths that differ follow.
    Snapshot(SnapshotEnd),
    /// A path that differs between the two.
    Changed(PathChange),
}

/// The state of a file before a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileBefore {
    pub sha256: String,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// True if the content is kept.
    pub kept: bool,
}

/// A path, whatever its bytes: as text where it is text, else in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "WrittenPath", into = "WrittenPath")]
pub(super) struct ManifestPath(pub PathBuf);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenPath {
    Text(String),
    Bytes { hex: String },
}

impl From<WrittenPath> for ManifestPath {
    fn from(written: WrittenPath) -> Self {
        Self(match written {
            WrittenPath::Text(text) => PathBuf::from(text),
            WrittenPath::Bytes { hex } => PathBuf::from(os_string_from_bytes(decode_hex(&hex))),
        })
    }
}

impl From<ManifestPath> for WrittenPath {
    fn from(name: ManifestPath) -> Self {
        match name.0.into_os_string().into_string() {
            Ok(text) => Self::Text(text),
            Err(name) => Self::Bytes {
                hex: punie_core::ids::to_hex(name.as_encoded_bytes()),
            },
        }
    }
}

fn decode_hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits
        .chars()
        .filter_map(|c| c.to_digit(16))
        .filter_map(|d| u8::try_from(d).ok())
        .collect();
    digits
        .chunks_exact(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

/// Reads every line that can be read; none if there is no such file.
pub(super) fn read_lines<T: DeserializeOwned>(path: &Path) -> io::Result<Vec<T>> {
    let bytes = allow_missing(fs::read(path))?.unwrap_or_default();
    Ok(parse_json_lines(&bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_path_of_any_bytes_is_read_as_it_was_written() {
        for bytes in [
            &b"/a/plain"[..],
            b"/a/new\nline",
            b"/a/\xff\xfe",
            "/ä".as_bytes(),
        ] {
            let name = ManifestPath(PathBuf::from(os_string_from_bytes(bytes.to_vec())));
            let text = serde_json::to_string(&name).expect("JSON");
            assert_eq!(
                serde_json::from_str::<ManifestPath>(&text).expect(&text),
                name
            );
        }
    }
}
