//! The owner's documents: `<folder>/<id>/<FILE>.md`, each with a head and a body. A document that cannot be used
//! becomes a [`HomeProblem`] and does not affect the others. Not here: the fields of a skill or an agent.
#![expect(
    clippy::disallowed_methods,
    reason = "this file owns the reading of skills and agents"
)]

use std::fmt;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::file_modes;
use super::frontmatter;
use super::layout::Home;
use crate::ids::to_hex;

/// The most bytes of a skill or an agent.
const MAX_BYTES: u64 = 1024 * 1024;
/// The most documents of one folder.
const MAX_DOCUMENTS: usize = 1000;
/// The longest name of a document's folder.
const MAX_ID: usize = 64;

/// A fault in the owner's files that was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeProblem {
    /// The file or folder.
    pub path: PathBuf,
    /// The fault and its effect.
    pub message: String,
}

impl fmt::Display for HomeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.message)
    }
}

/// One entry of the catalog, as it is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeCatalogItem {
    /// The id.
    pub key: String,
    /// The SHA-256 of the body text, in hex: it changes exactly when the body does.
    pub hash: String,
    /// The entry as JSON text.
    pub body: String,
}

impl HomeCatalogItem {
    /// Creates the entry of a value that serializes to JSON with a fixed order of fields.
    ///
    /// # Panics
    /// The value has no form in JSON.
    pub fn from_serializable(key: &str, value: &impl Serialize) -> Self {
        let body = serde_json::to_string(value).expect("plain texts and lists are always JSON");
        Self {
            key: key.to_owned(),
            hash: to_hex(&Sha256::digest(body.as_bytes())),
            body,
        }
    }
}

/// A document that was read.
#[derive(Debug)]
pub(super) struct HomeDocument<T> {
    pub(super) id: String,
    pub(super) file: PathBuf,
    pub(super) fields: T,
    pub(super) body: String,
}

/// Reads `<dir>/<id>/<file_name>` for every folder in `dir`, sorted by id.
pub(super) fn read_documents<T: DeserializeOwned + Default>(
    home: &Home,
    dir: &Path,
    file_name: &str,
) -> (Vec<HomeDocument<T>>, Vec<HomeProblem>) {
    let (mut documents, mut problems) = (Vec::new(), Vec::new());
    for entry in document_folders(dir, &mut problems) {
        match read_document(home, &entry, file_name) {
            Ok(document) => documents.push(document),
            Err(what) => problems.push(HomeProblem {
                path: entry.join(file_name),
                message: what,
            }),
        }
    }
    (documents, problems)
}

/// Lists the folders in `dir`, including symlinks to folders, sorted by name. Plain and hidden files are ignored.
pub(super) fn document_folders(dir: &Path, problems: &mut Vec<HomeProblem>) -> Vec<PathBuf> {
    let mut problem = |what: String| {
        problems.push(HomeProblem {
            path: dir.to_owned(),
            message: what,
        });
    };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            problem(format!("cannot be listed: {error}"));
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) if entry.file_name().as_encoded_bytes().starts_with(b".") => {}
            Ok(entry) if entry.file_type().is_ok_and(|kind| kind.is_file()) => {}
            Ok(entry) => found.push(entry.path()),
            Err(error) => problem(format!("cannot be listed to its end: {error}")),
        }
    }
    found.sort();
    if found.len() > MAX_DOCUMENTS {
        problem(format!(
            "has {} folders; only the first {MAX_DOCUMENTS} were read",
            found.len()
        ));
        found.truncate(MAX_DOCUMENTS);
    }
    found
}

fn read_document<T: DeserializeOwned + Default>(
    home: &Home,
    folder: &Path,
    file_name: &str,
) -> Result<HomeDocument<T>, String> {
    let id = parse_document_id(folder)?;
    let file = folder.join(file_name);
    let text = read_file_in_home(home, &file, file_name)?;
    let (fields, body) = frontmatter::parse_frontmatter(&text).map_err(|bad| bad.to_string())?;
    Ok(HomeDocument {
        id,
        file,
        fields,
        body,
    })
}

pub(super) fn parse_document_id(folder: &Path) -> Result<String, String> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let fits = (1..=MAX_ID).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        && name
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric());
    if fits {
        return Ok(name.into_owned());
    }
    Err(format!(
        "the folder's name {name:?} is not an id. Rename it: 1 to {MAX_ID} of A-Z a-z 0-9 _ -, a letter or digit first"
    ))
}

/// Reads a plain file that lies in the home after all symlinks are resolved. A symlink that leads out of the home is
/// refused, because it could publish any file.
pub(super) fn read_file_in_home(
    home: &Home,
    file: &Path,
    file_name: &str,
) -> Result<String, String> {
    let real = match fs::canonicalize(file) {
        Ok(real) => real,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(format!(
                "the folder has no {file_name}, so there is nothing to load"
            ));
        }
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    let root = fs::canonicalize(home.root_dir())
        .map_err(|error| format!("the home cannot be read: {error}"))?;
    if !real.starts_with(&root) {
        return Err(format!(
            "a link leads out of the home, to {}. Copy the file instead",
            real.display()
        ));
    }
    let opened = file_modes::open_nonblocking(&real, false)
        .map_err(|error| format!("cannot be read: {error}"))?;
    let meta = opened
        .metadata()
        .map_err(|error| format!("cannot be read: {error}"))?;
    if !meta.is_file() {
        return Err("is not a plain file".to_owned());
    }
    let mut bytes = Vec::new();
    opened
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!(
            "is longer than {} KiB. Shorten it, or split it",
            MAX_BYTES / 1024
        ));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned())
}

/// Returns the purpose of a document without one in its head: the first line of its body that is neither blank nor a
/// heading.
pub(super) fn first_text_line(body: &str) -> String {
    let line = body
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'));
    line.unwrap_or_default().chars().take(200).collect()
}

/// Reports a head that names another id than its folder.
pub(super) fn mismatched_id_problem(
    document_id: &str,
    written: Option<&str>,
    file: &Path,
) -> Option<HomeProblem> {
    let written = written.filter(|written| *written != document_id)?;
    Some(HomeProblem {
        path: file.to_owned(),
        message: format!(
            "its head says id {written:?}; it is loaded as {document_id:?}, the name of its folder"
        ),
    })
}
