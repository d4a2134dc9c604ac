//! What a search did not look at, and how that is told. Not here: the search.

use std::fmt::Write as _;

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
        self.too_large += other.too_large;
    }

    /// The last lines of an answer; empty when everything was looked at.
    pub(super) fn footer(&self) -> String {
        let mut parts = Vec::new();
        if !self.ignored.is_empty() {
            let shown: Vec<&str> = self.ignored.iter().take(8).map(String::as_str).collect();
            let dots = if self.ignored.len() > shown.len() || self.more_ignored { ", ..." } else { "" };
            let at_least = if self.more_ignored { "at least " } else { "" };
            let count = counted(self.ignored.len() as u64, "ignored directory", "ignored directories");
            parts.push(format!("{at_least}{count} ({}{dots})", shown.join(", ")));
        }
        if self.unreadable > 0 {
            parts.push(format!("{} unreadable", grouped(self.unreadable)));
        }
        if self.binary > 0 {
            parts.push(counted(self.binary, "binary file", "binary files"));
        }
        if self.too_large > 0 {
            parts.push(counted(self.too_large, "file over max_filesize", "files over max_filesize"));
        }
        if self.links > 0 {
            parts.push(counted(self.links, "symbolic link", "symbolic links"));
        }
        let mut text = String::new();
        if !parts.is_empty() {
            let _ = write!(text, "\n[skipped: {}]", parts.join(", "));
        }
        if self.timed_out {
            text.push_str("\n[timed out: this is what was found so far; narrow `path` or raise `timeout_ms`]");
        }
        text
    }
}

/// `1 file`, `1,240 files`.
pub(super) fn counted(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {many}", grouped(n)) }
}

/// `1240` as `1,240`.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1240), "1,240");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

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
        assert!(footer.contains("[skipped: 2 ignored directories (node_modules, target), 2 unreadable]"), "{footer}");
        assert!(footer.contains("timed out"), "{footer}");
    }
}
