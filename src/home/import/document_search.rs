//! Finds the documents in a folder, at any depth.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::super::frontmatter;
use super::super::home_document::{DocumentKind, is_document_id};
use super::super::plugins;
use punie_core::bounded_file::{FinalLink, open_nonblocking};

/// The deepest folder that is looked into.
const MAX_DEPTH: usize = 12;
/// The most folders that are looked into.
const MAX_FOLDERS: usize = 20_000;
/// The most bytes of a head that are read to find its name.
const MAX_HEAD_BYTES: u64 = 64 << 10;

/// A document in a source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FoundDocument {
    /// The number of folders above it: the less deep one is taken where two have one id.
    depth: usize,
    /// Its path in the source; empty for the source itself.
    pub(super) within: String,
    /// Its folder, or its file if it has no folder of its own.
    pub(super) root: PathBuf,
    /// The id that it gets, or the reason why it cannot have one.
    pub(super) id: Result<String, String>,
}

pub(super) struct SearchRoot<'a> {
    pub(super) kind: DocumentKind,
    pub(super) folder: &'a Path,
    /// The name of the source, for a document at its root.
    pub(super) name: &'a str,
    /// Symlinks to folders are followed, as in the owner's own folders.
    pub(super) follows_links: bool,
}

/// Returns the documents below a folder, the least deep first.
pub(super) fn find_documents(root: &SearchRoot<'_>) -> Result<Vec<FoundDocument>, String> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut waiting = vec![(root.folder.to_owned(), 0)];
    while let Some((folder, depth)) = waiting.pop() {
        // A folder that a link leads to is one of those already seen, or a loop.
        if !fs::canonicalize(&folder).is_ok_and(|real| seen.insert(real)) {
            continue;
        }
        if seen.len() > MAX_FOLDERS {
            return Err(format!(
                "it has more than {MAX_FOLDERS} folders. Name the one with the {}",
                root.kind.plural()
            ));
        }
        let own_file = folder.join(root.kind.file_name());
        let is_document = fs::metadata(&own_file).is_ok_and(|meta| meta.is_file());
        if is_document {
            found.push(root.describe_document(&folder, &own_file, depth));
        }
        // What lies below a document belongs to it; a whole repository may be one, too.
        if is_document && depth > 0 || depth >= MAX_DEPTH {
            continue;
        }
        let entries =
            fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries.filter_map(Result::ok) {
            let path = entry.path();
            if root.is_searched(&path) {
                waiting.push((path, depth + 1));
            } else if root.is_flat_agent(&path) {
                found.push(root.describe_document(&path, &path, depth + 1));
            }
        }
    }
    found.sort();
    Ok(found)
}

impl SearchRoot<'_> {
    fn is_searched(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        let meta = if self.follows_links {
            fs::metadata(path)
        } else {
            fs::symlink_metadata(path)
        };
        meta.is_ok_and(|meta| meta.is_dir()) && name != ".git" && name != "node_modules"
    }

    /// Returns whether a file is an agent without a folder of its own, as some programs keep them: a file with a head in
    /// a folder `agents`.
    fn is_flat_agent(&self, path: &Path) -> bool {
        let parent = path.parent().and_then(Path::file_name).unwrap_or_default();
        self.kind == DocumentKind::Agent
            && (parent == "agents" || path.parent() == Some(self.folder))
            && path.extension().is_some_and(|ending| ending == "md")
            && path
                .file_name()
                .is_some_and(|name| name != self.kind.file_name())
            && fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file())
            && read_head(path).starts_with("---")
    }

    fn describe_document(&self, root: &Path, file: &Path, depth: usize) -> FoundDocument {
        let within = root.strip_prefix(self.folder).unwrap_or(Path::new(""));
        let stem = if root == file {
            root.file_stem()
        } else {
            root.file_name()
        };
        let own_name = if root == self.folder {
            self.name.to_owned()
        } else {
            stem.unwrap_or_default().to_string_lossy().into_owned()
        };
        FoundDocument {
            depth,
            within: within.display().to_string(),
            root: root.to_owned(),
            id: match self.kind {
                DocumentKind::Skill | DocumentKind::Agent => {
                    choose_id(&own_name, &frontmatter_name(&read_head(file)))
                }
                DocumentKind::Plugin => {
                    let written = plugins::read_manifest_id(&read_head(file));
                    choose_id(&own_name, &written.unwrap_or_default())
                }
            },
        }
    }
}

/// Returns the name in the head of a Markdown file; empty if there is none.
fn frontmatter_name(text: &str) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct NameOnly {
        name: Option<String>,
    }
    let head = frontmatter::parse_frontmatter::<NameOnly>(text).ok();
    head.and_then(|head| head.fields.name).unwrap_or_default()
}

/// Returns the name that is written in the file if it is one of the convention, else that of the folder.
fn choose_id(own_name: &str, written: &str) -> Result<String, String> {
    let is_lower = !written.bytes().any(|b| b.is_ascii_uppercase());
    if is_document_id(written) && is_lower {
        return Ok(written.to_owned());
    }
    if is_document_id(own_name) {
        return Ok(own_name.to_owned());
    }
    Err(format!(
        "neither its folder's name {own_name:?} nor the name {written:?} in its file is an id. Rename one: 1 to 64 of \
         a-z 0-9 -"
    ))
}

fn read_head(file: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(opened) = open_nonblocking(file, FinalLink::Follow)
        && opened.metadata().is_ok_and(|meta| meta.is_file())
    {
        // A file that cannot be read has no name in its head; copying it reports why.
        let _ = opened.take(MAX_HEAD_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_convention_is_the_id_else_that_of_the_folder() {
        for (folder, text, id) in [
            ("x", "---\nname: pdf-tools\n---\n", Some("pdf-tools")),
            ("Tools", "---\nname: PDF Tools\n---\n", Some("Tools")),
            ("x", "---\nname: ../..\n---\n", Some("x")),
            ("x", "---\nname: [\n---\n", Some("x")),
            ("x", "no head", Some("x")),
            ("été", "---\nname: ete\n---\n", Some("ete")),
            ("كتابة", "---\nname: كتابة\n---\n", None),
            ("..", "---\nname: ../..\n---\n", None),
        ] {
            assert_eq!(
                choose_id(folder, &frontmatter_name(text)).ok().as_deref(),
                id,
                "{folder} {text:?}"
            );
        }
    }
}
