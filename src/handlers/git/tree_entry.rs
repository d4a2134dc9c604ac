//! One line of `git ls-tree -z -l`: an entry of a folder at a commit.

use super::resolve_revision::short_id;
use punie_text::output::number_format::format_size;
use punie_text::output::path_text::path_text_from_bytes;

/// One entry of a folder.
pub(super) struct TreeEntry {
    pub(super) mode: String,
    pub(super) kind: String,
    pub(super) id: String,
    pub(super) size: Option<u64>,
    name: String,
}

impl TreeEntry {
    /// Parses `100644 blob 3f2a      12`, a tab and a name.
    pub(super) fn parse_record(record: &[u8]) -> Option<Self> {
        let tab = record.iter().position(|byte| *byte == b'\t')?;
        let head = String::from_utf8_lossy(&record[..tab]);
        let mut fields = head.split_whitespace();
        Some(Self {
            mode: fields.next()?.to_owned(),
            kind: fields.next()?.to_owned(),
            id: fields.next()?.to_owned(),
            size: fields.next().and_then(|text| text.parse().ok()),
            name: path_text_from_bytes(&record[tab + 1..]),
        })
    }

    /// Formats the entry as a line of a folder's list.
    pub(super) fn format_line(&self) -> String {
        let name = &self.name;
        match (self.kind.as_str(), self.size) {
            ("tree", _) => format!("  {name}/\n"),
            ("commit", _) => format!("  {name} (submodule at {})\n", short_id(&self.id)),
            (_, bytes) => format!("  {name} ({})\n", format_size(bytes.unwrap_or(0))),
        }
    }
}
