//! The parts that a search skipped, and the note about them.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::folder_entries::WalkEntryKind;
use super::result_text::workspace_path_text;
use super::walk_entry::WalkStart;
use punie_text::output::number_format::{format_count, group_digits};

/// The largest number of skipped paths to remember for a second search.
const MAX_REMEMBERED: usize = 10_000;
/// The largest number of them to name.
const MAX_NAMED: usize = 8;

/// The skipped parts, with the reasons.
#[derive(Debug, Default)]
pub(super) struct SearchCoverage {
    /// The first ignored and hidden folders, and those files among them that were of interest.
    pub(super) skipped: Vec<WalkStart>,
    /// The ignored entries among them.
    ignored: Vec<WalkStart>,
    ignored_folders: u64,
    ignored_files: u64,
    /// More was skipped than is remembered.
    pub(super) more_skipped: bool,
    /// The workspaces that are missing.
    pub(super) missing: Vec<PathBuf>,
    /// Directories and files that could not be opened.
    pub(super) unreadable: u64,
    /// Symbolic links; none is followed.
    pub(super) links: u64,
    /// FIFOs, sockets and devices; none is opened.
    pub(super) special: u64,
    /// Files over the size limit.
    pub(super) too_large: u64,
    /// Files in UTF-32, which are not searched.
    pub(super) utf32: u64,
    /// Large files without a match that begin as UTF-8 but are not: they were searched as bytes.
    pub(super) not_utf8: u64,
    /// PDF and office documents without a match, which hold their text in packed form.
    pub(super) documents: u64,
    /// Files that were searched.
    pub(super) searched: u64,
    /// Files without a match that would match in another case, as far as that was checked.
    pub(super) other_case: u64,
    /// The search ran out of time.
    pub(super) timed_out: bool,
}

impl SearchCoverage {
    /// Records a skipped entry.
    pub(super) fn record_skipped(&mut self, start: WalkStart, hidden: bool) {
        if !hidden {
            let folder = start.kind == WalkEntryKind::Folder;
            self.ignored_folders += u64::from(folder);
            self.ignored_files += u64::from(!folder);
            if self.ignored.len() < MAX_REMEMBERED {
                self.ignored.push(start.clone());
            }
        }
        if self.skipped.len() < MAX_REMEMBERED {
            self.skipped.push(start);
        } else {
            self.more_skipped = true;
        }
    }

    pub(super) fn merge_counts(&mut self, other: Self) {
        self.more_skipped |=
            other.more_skipped || self.skipped.len() + other.skipped.len() > MAX_REMEMBERED;
        self.skipped.extend(other.skipped);
        self.skipped.truncate(MAX_REMEMBERED);
        self.ignored.extend(other.ignored);
        self.ignored_folders += other.ignored_folders;
        self.ignored_files += other.ignored_files;
        self.missing.extend(other.missing);
        self.unreadable += other.unreadable;
        self.links += other.links;
        self.special += other.special;
        self.too_large += other.too_large;
        self.utf32 += other.utf32;
        self.not_utf8 += other.not_utf8;
        self.documents += other.documents;
        self.searched += other.searched;
        self.other_case += other.other_case;
    }

    /// Formats the last lines of an answer; empty if nothing was skipped.
    pub(super) fn format_footer(&self) -> String {
        let skipped = [
            (
                self.ignored_folders,
                self.ignored_text(true, ["ignored directory", "ignored directories"]),
            ),
            (
                self.ignored_files,
                self.ignored_text(false, ["ignored file", "ignored files"]),
            ),
            (
                self.unreadable,
                group_digits(self.unreadable) + " unreadable",
            ),
            (
                self.too_large,
                format_count(self.too_large, "file") + " over max_filesize",
            ),
            (self.utf32, format_count(self.utf32, "file") + " in UTF-32"),
            (self.links, format_count(self.links, "symbolic link")),
            (
                self.special,
                format_count(self.special, "name") + " that is no regular file",
            ),
        ];
        let present = skipped.into_iter().filter(|(count, _)| *count > 0);
        let missing = self.missing.iter();
        let parts: Vec<String> = missing
            .map(|root| format!("{}, a workspace that is missing", root.display()))
            .chain(present.map(|(_, text)| text))
            .collect();
        let mut text = String::new();
        if !parts.is_empty() {
            let _ = write!(text, "\n[skipped: {}]", parts.join(", "));
        }
        if self.not_utf8 > 0 {
            let files = format_count(self.not_utf8, "large file");
            let _ = write!(
                text,
                "\n[not UTF-8: {files} without a match searched as bytes, as the encoding does not show at the \
                 beginning; `encoding` decodes]"
            );
        }
        if self.documents > 0 {
            let documents = format_count(self.documents, "document");
            let advice = if cfg!(feature = "documents") {
                "; Read shows their text"
            } else {
                ""
            };
            let _ = write!(
                text,
                "\n[not looked into: {documents} (PDF, office){advice}]"
            );
        }
        if self.timed_out {
            text.push_str(
                "\n[timed out: this is what was found so far; narrow `path` or raise `timeout_ms`]",
            );
        }
        text
    }

    /// Counts and lists ignored paths, those closest to the top first.
    fn ignored_text(&self, folders: bool, [one, many]: [&str; 2]) -> String {
        let count = if folders {
            self.ignored_folders
        } else {
            self.ignored_files
        };
        let is_listed = |start: &&WalkStart| (start.kind == WalkEntryKind::Folder) == folders;
        let mut nearest: Vec<_> = self.ignored.iter().filter(is_listed).collect();
        nearest.sort_by_cached_key(|start| (start.rel.components().count(), start.rel.clone()));
        nearest.truncate(MAX_NAMED);
        let mut names: Vec<String> = nearest
            .iter()
            .map(|start| workspace_path_text(&start.root, &start.root.join(&start.rel)))
            .collect();
        if count > names.len() as u64 {
            names.push("...".to_owned());
        }
        let noun = if count == 1 { one } else { many };
        format!("{} {noun} ({})", group_digits(count), names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn start(rel: &str, kind: WalkEntryKind) -> WalkStart {
        WalkStart {
            root: Path::new("/w").into(),
            rel: rel.into(),
            kind,
            rules: None,
        }
    }

    #[test]
    fn a_full_search_has_no_footer() {
        assert_eq!(SearchCoverage::default().format_footer(), "");
    }

    #[test]
    fn the_footer_names_what_was_skipped_nearest_first() {
        let mut coverage = SearchCoverage {
            unreadable: 2,
            timed_out: true,
            ..SearchCoverage::default()
        };
        coverage.record_skipped(start("deep/er/target", WalkEntryKind::Folder), false);
        coverage.record_skipped(start("node_modules", WalkEntryKind::Folder), false);
        coverage.record_skipped(start(".env", WalkEntryKind::File), false);
        coverage.record_skipped(start(".hidden", WalkEntryKind::Folder), true);
        let footer = coverage.format_footer();
        assert!(
            footer.contains(
                "[skipped: 2 ignored directories (node_modules, deep/er/target), 1 ignored file (.env), 2 unreadable]"
            ),
            "{footer}"
        );
        assert!(footer.contains("timed out"), "{footer}");
        assert_eq!(coverage.skipped.len(), 4);
    }
}
