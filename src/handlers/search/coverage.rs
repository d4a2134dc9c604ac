//! What a search did not look at, and how that is told. Not here: the search.

use std::fmt::Write as _;

use crate::output::figures::{counted, grouped};

/// What was left out and why.
#[derive(Debug, Default, Clone)]
pub(super) struct Coverage {
    /// Names of ignored directories near the top of the searched folder.
    pub(super) ignored: Vec<String>,
    /// There may be more ignored directories than are named.
    pub(super) more_ignored: bool,
    /// Directories and files that could not be opened.
    pub(super) unreadable: u64,
    /// Symbolic links; none is followed.
    pub(super) links: u64,
    /// Files with a NUL byte.
    pub(super) binary: u64,
    /// Files with a NUL byte that were asked for by their own path, and so searched to their end.
    pub(super) whole_binary: u64,
    /// Files over the size limit.
    pub(super) too_large: u64,
    /// The time was up.
    pub(super) timed_out: bool,
}

impl Coverage {
    pub(super) fn add(&mut self, other: &Self) {
        self.unreadable += other.unreadable;
        self.links += other.links;
        self.binary += other.binary;
        self.whole_binary += other.whole_binary;
        self.too_large += other.too_large;
    }

    /// The last lines of an answer; empty when everything was looked at.
    pub(super) fn footer(&self) -> String {
        let mut parts = Vec::new();
        if !self.ignored.is_empty() {
            let shown: Vec<&str> = self.ignored.iter().take(8).map(String::as_str).collect();
            let dots = if self.ignored.len() > shown.len() || self.more_ignored { ", ..." } else { "" };
            let at_least = if self.more_ignored { "at least " } else { "" };
            let directories =
                if self.ignored.len() == 1 { "ignored directory" } else { "ignored directories" };
            parts.push(format!(
                "{at_least}{} {directories} ({}{dots})",
                self.ignored.len(),
                shown.join(", ")
            ));
        }
        if self.unreadable > 0 {
            parts.push(format!("{} unreadable", grouped(self.unreadable)));
        }
        if self.binary > 0 {
            parts.push(counted(self.binary, "binary file"));
        }
        if self.too_large > 0 {
            parts.push(format!("{} over max_filesize", counted(self.too_large, "file")));
        }
        if self.links > 0 {
            parts.push(counted(self.links, "symbolic link"));
        }
        let mut text = String::new();
        if !parts.is_empty() {
            let _ = write!(text, "\n[skipped: {}]", parts.join(", "));
        }
        if self.timed_out {
            text.push_str(
                "\n[timed out: this is what was found so far; narrow `path` or raise `timeout_ms`]",
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_search_has_no_footer() {
        assert_eq!(Coverage::default().footer(), "");
    }

    #[test]
    fn the_footer_names_what_was_skipped() {
        let coverage = Coverage {
            ignored: vec!["node_modules".to_owned(), "target".to_owned()],
            unreadable: 2,
            timed_out: true,
            ..Coverage::default()
        };
        let footer = coverage.footer();
        assert!(
            footer.contains("[skipped: 2 ignored directories (node_modules, target), 2 unreadable]"),
            "{footer}"
        );
        assert!(footer.contains("timed out"), "{footer}");
    }
}
