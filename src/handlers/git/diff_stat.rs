//! Parser for `git diff --raw --numstat -z`: the changed files with line counts.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::display_text::renamed_path;
use punie_text::output::number_format::{format_count, group_digits};

/// Lines added and removed; `None` for a binary file.
type LineCounts = Option<(u64, u64)>;

/// One file of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileStat {
    /// Git's letter: A, D, M, R, C, T, U.
    pub(super) letter: char,
    /// Lines added and removed; `None` for a binary file.
    pub(super) lines: LineCounts,
    pub(super) path: Vec<u8>,
    pub(super) from: Option<Vec<u8>>,
}

impl FileStat {
    /// Formats the path, with the previous path if it was renamed.
    pub(super) fn display_path(&self) -> String {
        renamed_path(self.from.as_deref(), &self.path)
    }

    /// Formats the counts: `+12 -3` or `binary`.
    pub(super) fn format_counts(&self) -> String {
        match self.lines {
            Some((added, removed)) => {
                format!("+{} -{}", group_digits(added), group_digits(removed))
            }
            None => "binary".to_owned(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct DiffStat {
    pub(super) files: Vec<FileStat>,
    /// The list was cut.
    pub(super) cut: bool,
}

impl DiffStat {
    /// Parses git's output.
    pub(super) fn parse(output: &[u8], cut: bool) -> Self {
        let mut letters: HashMap<&[u8], char> = HashMap::new();
        let mut files = Vec::new();
        let mut tokens = output
            .split(|byte| *byte == 0)
            .filter(|token| !token.is_empty());
        while let Some(token) = tokens.next() {
            if token.first() == Some(&b':') {
                let letter = parse_status_letter(token);
                if matches!(letter, 'R' | 'C') {
                    tokens.next();
                }
                let Some(path) = tokens.next() else { break };
                // A conflict is listed first as such, then by its change.
                letters
                    .entry(path)
                    .and_modify(|known| *known = if *known == 'U' { 'U' } else { letter })
                    .or_insert(letter);
                continue;
            }
            let Some((lines, path)) = parse_numstat(token) else {
                continue;
            };
            let (from, path) = if path.is_empty() {
                let (Some(from), Some(path)) = (tokens.next(), tokens.next()) else {
                    break;
                };
                (Some(from.to_vec()), path)
            } else {
                (None, path)
            };
            let letter = letters.get(path).copied().unwrap_or('M');
            files.push(FileStat {
                letter,
                lines,
                path: path.to_vec(),
                from,
            });
        }
        // A conflict has two entries.
        files.dedup_by(|second, first| second.path == first.path && first.letter == 'U');
        Self { files, cut }
    }

    /// Sums up the lines added and removed.
    pub(super) fn total_lines(&self) -> (u64, u64) {
        let sum = |(added, removed): (u64, u64), (a, r): (u64, u64)| (added + a, removed + r);
        self.files
            .iter()
            .filter_map(|file| file.lines)
            .fold((0, 0), sum)
    }

    /// Formats `3 files changed, +12 -4`.
    pub(super) fn format_summary(&self) -> String {
        let (added, removed) = self.total_lines();
        let more = if self.cut { "more than " } else { "" };
        format!(
            "{more}{} changed, +{} -{}",
            format_count(self.files.len() as u64, "file"),
            group_digits(added),
            group_digits(removed)
        )
    }

    /// Lists one file per line within `room` characters, and counts the rest.
    pub(super) fn format_list(&self, room: usize) -> String {
        let mut text = String::new();
        let mut used = 0;
        let width = self
            .files
            .iter()
            .take(500)
            .map(|file| file.format_counts().len())
            .max()
            .unwrap_or(0);
        for (at, file) in self.files.iter().enumerate() {
            let line = format!(
                "{}  {:>width$}  {}\n",
                file.letter,
                file.format_counts(),
                file.display_path()
            );
            used += line.chars().count();
            if used > room {
                let left = format_count((self.files.len() - at) as u64, "more file");
                let _ = writeln!(
                    text,
                    "[{left} not listed; name a folder in `path` to see fewer]"
                );
                break;
            }
            text.push_str(&line);
        }
        text
    }

    /// Returns the entry of a path.
    pub(super) fn find_file(&self, path: &[u8]) -> Option<&FileStat> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// Parses `:100644 100644 aa bb R100` as `R`.
fn parse_status_letter(token: &[u8]) -> char {
    token
        .rsplit(|byte| *byte == b' ')
        .next()
        .and_then(<[u8]>::first)
        .map_or('M', |byte| char::from(*byte))
}

/// Parses `12 3 path`, separated by tabs. The path is empty for a rename, whose two paths follow.
fn parse_numstat(token: &[u8]) -> Option<(LineCounts, &[u8])> {
    let mut fields = token.splitn(3, |byte| *byte == b'\t');
    let added = fields.next()?;
    let removed = fields.next()?;
    let path = fields.next()?;
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
    Some((number(added).zip(number(removed)), path))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn renames_binaries_and_conflicts_are_read() {
        let text = b":100644 100644 a b R100\0a.txt\0c d.txt\0:000000 100644 0 b A\0n.bin\0:000000 100644 0 0 U\0u\0\
                     :100644 100644 a 0 M\0u\0\x31\t2\t\0a.txt\0c d.txt\0-\t-\tn.bin\0\x30\t0\tu\0\x34\t0\tu\0";
        let stat = DiffStat::parse(text, false);
        assert_eq!(stat.format_summary(), "3 files changed, +1 -2");
        assert_eq!(
            stat.format_list(1_000),
            "R   +1 -2  a.txt -> c d.txt\nA  binary  n.bin\nU   +0 -0  u\n"
        );
        assert_eq!(
            stat.format_list(30),
            "R   +1 -2  a.txt -> c d.txt\n[2 more files not listed; name a folder in `path` to see fewer]\n"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = DiffStat::parse(&bytes, true).format_list(500);
        }
    }
}
