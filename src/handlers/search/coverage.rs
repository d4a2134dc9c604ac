//! The parts that a search skipped, and the note about them. Not here: the search.

use std::fmt::Write as _;

use super::folder_entries::WalkEntryKind;
use super::folder_walk::WalkStart;
use crate::output::number_format::{format_count, group_digits};

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
        self.unreadable += other.unreadable;
        self.links += other.links;
        self.special += other.special;
        self.too_large += other.too_large;
        self.utf32 += other.utf32;
        self.not_utf8 += other.not_utf8;
        self.searched += other.searched;
        self.other_case += other.other_case;
    }

    /// Formats the last lines of an answer; empty if nothing was skipped.
    pub(super) fn format_footer(&self) -> String {
        let mut parts = Vec::new();
        let mut ignored = |count: u64, folders: bool, one: &str, many: &str| {
            if count > 0 {
                let names = self.list_ignored(folders, count);
                parts.push(format!(
                    "{} {} ({names})",
                    group_digits(count),
                    if count == 1 { one } else { many }
                ));
            }
        };
        ignored(
            self.ignored_folders,
            true,
            "ignored directory",
            "ignored directories",
        );
        ignored(self.ignored_files, false, "ignored file", "ignored files");
        if self.unreadable > 0 {
            parts.push(format!("{} unreadable", group_digits(self.unreadable)));
        }
        if self.too_large > 0 {
            parts.push(format!(
                "{} over max_filesize",
                format_count(self.too_large, "file")
            ));
        }
        if self.utf32 > 0 {
            parts.push(format!("{} in UTF-32", format_count(self.utf32, "file")));
        }
        if self.links > 0 {
            parts.push(format_count(self.links, "symbolic link"));
        }
        if self.special > 0 {
            parts.push(format!(
                "{} that is no regular file",
                format_count(self.special, "name")
            ));
        }
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
        if self.timed_out {
            text.push_str(
                "\n[timed out: this is what was found so far; narrow `path` or raise `timeout_ms`]",
            );
        }
        text
    }

    /// Lists ignored paths, those closest to the top first.
    fn list_ignored(&self, folders: bool, count: u64) -> String {
        let mut nearest: Vec<_> = self
            .ignored
            .iter()
            .filter(|start| (start.kind == WalkEntryKind::Folder) == folders)
            .collect();
        nearest.sort_by_cached_key(|start| (start.rel.components().count(), start.rel.clone()));
        let mut names: Vec<String> = nearest
            .iter()
            .take(MAX_NAMED)
            .map(|start| {
                super::search_scope::workspace_path_text(&start.root, &start.root.join(&start.rel))
            })
            .collect();
        if count > names.len() as u64 {
            names.push("...".to_owned());
        }
        names.join(", ")
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
