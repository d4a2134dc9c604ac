//! The parts that a search skipped, and the note about them. Not here: the search.

use std::fmt::Write as _;

use super::listing::Kind;
use super::walk::Start;
use crate::output::figures::{counted, grouped};

/// The largest number of skipped paths to remember for a second search.
const MAX_LEFT: usize = 10_000;
/// The largest number of them to name.
const MAX_NAMED: usize = 8;

/// The skipped parts, with the reasons.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    /// The first ignored and hidden folders, and those files among them that were of interest.
    pub(super) left: Vec<Start>,
    /// The ignored entries among them.
    ignored: Vec<Start>,
    ignored_folders: u64,
    ignored_files: u64,
    /// More was skipped than is remembered.
    pub(super) more_left: bool,
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

impl Coverage {
    /// Records a skipped entry.
    pub(super) fn leave(&mut self, start: Start, hidden: bool) {
        if !hidden {
            let folder = start.kind == Kind::Folder;
            self.ignored_folders += u64::from(folder);
            self.ignored_files += u64::from(!folder);
            if self.ignored.len() < MAX_LEFT {
                self.ignored.push(start.clone());
            }
        }
        if self.left.len() < MAX_LEFT {
            self.left.push(start);
        } else {
            self.more_left = true;
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.more_left |= other.more_left || self.left.len() + other.left.len() > MAX_LEFT;
        self.left.extend(other.left);
        self.left.truncate(MAX_LEFT);
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
    pub(super) fn footer(&self) -> String {
        let mut parts = Vec::new();
        let mut ignored = |count: u64, folders: bool, one: &str, many: &str| {
            if count > 0 {
                let names = self.names(folders, count);
                parts.push(format!("{} {} ({names})", grouped(count), if count == 1 { one } else { many }));
            }
        };
        ignored(self.ignored_folders, true, "ignored directory", "ignored directories");
        ignored(self.ignored_files, false, "ignored file", "ignored files");
        if self.unreadable > 0 {
            parts.push(format!("{} unreadable", grouped(self.unreadable)));
        }
        if self.too_large > 0 {
            parts.push(format!("{} over max_filesize", counted(self.too_large, "file")));
        }
        if self.utf32 > 0 {
            parts.push(format!("{} in UTF-32", counted(self.utf32, "file")));
        }
        if self.links > 0 {
            parts.push(counted(self.links, "symbolic link"));
        }
        if self.special > 0 {
            parts.push(format!("{} that is no regular file", counted(self.special, "name")));
        }
        let mut text = String::new();
        if !parts.is_empty() {
            let _ = write!(text, "\n[skipped: {}]", parts.join(", "));
        }
        if self.not_utf8 > 0 {
            let files = counted(self.not_utf8, "large file");
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
    fn names(&self, folders: bool, count: u64) -> String {
        let mut nearest: Vec<_> =
            self.ignored.iter().filter(|start| (start.kind == Kind::Folder) == folders).collect();
        nearest.sort_by_cached_key(|start| (start.rel.components().count(), start.rel.clone()));
        let mut names: Vec<String> = nearest
            .iter()
            .take(MAX_NAMED)
            .map(|start| super::scope::shown(&start.root, &start.root.join(&start.rel)))
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

    fn start(rel: &str, kind: Kind) -> Start {
        Start { root: Path::new("/w").into(), rel: rel.into(), kind, rules: None }
    }

    #[test]
    fn a_full_search_has_no_footer() {
        assert_eq!(Coverage::default().footer(), "");
    }

    #[test]
    fn the_footer_names_what_was_skipped_nearest_first() {
        let mut coverage = Coverage { unreadable: 2, timed_out: true, ..Coverage::default() };
        coverage.leave(start("deep/er/target", Kind::Folder), false);
        coverage.leave(start("node_modules", Kind::Folder), false);
        coverage.leave(start(".env", Kind::File), false);
        coverage.leave(start(".hidden", Kind::Folder), true);
        let footer = coverage.footer();
        assert!(
            footer.contains(
                "[skipped: 2 ignored directories (node_modules, deep/er/target), 1 ignored file (.env), 2 unreadable]"
            ),
            "{footer}"
        );
        assert!(footer.contains("timed out"), "{footer}");
        assert_eq!(coverage.left.len(), 4);
    }
}
