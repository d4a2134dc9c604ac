//! Parser for `git status --porcelain=v2 -z`.

use super::display_text::renamed_path;

/// The state of the branch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BranchStatus {
    /// `None` before the first commit.
    pub(super) commit: Option<String>,
    /// `None` if HEAD is detached.
    pub(super) name: Option<String>,
    pub(super) upstream: Option<String>,
    /// `None` if the upstream branch no longer exists.
    pub(super) ahead_behind: Option<(u64, u64)>,
    pub(super) stashes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ChangeState {
    Conflicted,
    Staged,
    Unstaged,
    Untracked,
}

/// One change of one file. A file that is changed both in the index and in the working tree has two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GitFileChange {
    pub(super) place: ChangeState,
    /// Git's letter, or two letters for a conflict.
    pub(super) letters: String,
    pub(super) path: Vec<u8>,
    /// The path before a rename or copy.
    pub(super) from: Option<Vec<u8>>,
}

impl GitFileChange {
    /// Returns the change in words: `modified`, `renamed`, `deleted by them`.
    pub(super) fn kind(&self) -> &'static str {
        match self.letters.as_str() {
            "M" => "modified",
            "A" => "added",
            "D" => "deleted",
            "R" => "renamed",
            "C" => "copied",
            "T" => "type changed",
            "?" if self.place == ChangeState::Unstaged => "new files inside the submodule",
            "?" => "untracked",
            "DD" => "both deleted",
            "AU" => "added by us",
            "UD" => "deleted by them",
            "UA" => "added by them",
            "DU" => "deleted by us",
            "AA" => "both added",
            "UU" => "both modified",
            "m" => "files changed inside the submodule",
            _ => "changed",
        }
    }

    /// Formats the path, with the previous path if it was renamed.
    pub(super) fn display_path(&self) -> String {
        renamed_path(self.from.as_deref(), &self.path)
    }
}

/// The parsed status.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RepoStatus {
    pub(super) branch: BranchStatus,
    /// Sorted by importance.
    pub(super) changes: Vec<GitFileChange>,
    /// The list was longer than the runner reads.
    pub(super) cut: bool,
}

impl RepoStatus {
    /// Parses the output and skips unknown records, because newer versions of git may add some.
    pub(super) fn parse_porcelain(output: &[u8]) -> Self {
        let mut status = Self::default();
        let mut records = output.split(|byte| *byte == 0);
        while let Some(record) = records.next() {
            match record.first() {
                Some(b'#') => status.branch.read_header(&String::from_utf8_lossy(record)),
                Some(b'1') => status.push_tracked(record, 8, None),
                Some(b'2') => {
                    let from = records.next();
                    status.push_tracked(record, 9, from);
                }
                Some(b'u') => {
                    if let Some((letters, path)) = split_record(record, 10) {
                        status.push_change(ChangeState::Conflicted, letters, path, None);
                    }
                }
                Some(b'?') => {
                    if let Some(path) = record.get(2..) {
                        status.push_change(ChangeState::Untracked, "?".to_owned(), path, None);
                    }
                }
                _ => {}
            }
        }
        status.changes.sort_by_key(|change| change.place);
        status
    }

    fn push_tracked(&mut self, record: &[u8], before: usize, from: Option<&[u8]>) {
        let Some((letters, path)) = split_record(record, before) else {
            return;
        };
        let mut letters = letters.chars();
        for place in [ChangeState::Staged, ChangeState::Unstaged] {
            if let Some(letter) = letters.next().filter(|letter| *letter != '.') {
                let from = from.filter(|_| matches!(letter, 'R' | 'C'));
                self.push_change(place, letter.to_string(), path, from);
            }
        }
    }

    fn push_change(
        &mut self,
        place: ChangeState,
        letters: String,
        path: &[u8],
        from: Option<&[u8]>,
    ) {
        self.changes.push(GitFileChange {
            place,
            letters,
            path: path.to_vec(),
            from: from.map(<[u8]>::to_vec),
        });
    }

    /// Adds a change that git did not list.
    pub(super) fn add_change(&mut self, place: ChangeState, letters: &str, path: &[u8]) {
        self.push_change(place, letters.to_owned(), path, None);
        self.changes.sort_by_key(|change| change.place);
    }

    pub(super) fn in_state(&self, place: ChangeState) -> impl Iterator<Item = &GitFileChange> {
        let changes = self.changes.iter();
        changes.filter(move |change| change.place == place)
    }

    /// Counts the changes in a state.
    pub(super) fn count_in_state(&self, place: ChangeState) -> u64 {
        self.in_state(place).count() as u64
    }
}

/// Returns the two letters and the path of a record with `before` fields before the path.
fn split_record(record: &[u8], before: usize) -> Option<(String, &[u8])> {
    let mut fields = record.splitn(before + 1, |byte| *byte == b' ');
    let letters = String::from_utf8_lossy(fields.nth(1)?).into_owned();
    let path = fields.nth(before - 2)?;
    Some((letters, path))
}

impl BranchStatus {
    fn read_header(&mut self, header: &str) {
        let Some((key, value)) = header
            .strip_prefix("# ")
            .and_then(|rest| rest.split_once(' '))
        else {
            return;
        };
        match key {
            "branch.oid" if value != "(initial)" => self.commit = Some(value.to_owned()),
            "branch.head" if value != "(detached)" => self.name = Some(value.to_owned()),
            "branch.upstream" => self.upstream = Some(value.to_owned()),
            "branch.ab" => self.ahead_behind = parse_ahead_behind(value),
            "stash" => self.stashes = value.parse().unwrap_or(0),
            _ => {}
        }
    }
}

/// Parses `+2 -1`.
fn parse_ahead_behind(text: &str) -> Option<(u64, u64)> {
    let (ahead, behind) = text.split_once(' ')?;
    Some((
        ahead.strip_prefix('+')?.parse().ok()?,
        behind.strip_prefix('-')?.parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_kind_of_record_is_read() {
        let text = "# branch.oid abc\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +2 -1\0# stash 3\0\
                    1 MM N... 100644 100644 100644 aa bb two words.txt\0\
                    2 R. N... 100644 100644 100644 aa bb R100 new -> name\0old\0\
                    u UU N... 100644 100644 100644 100644 aa bb cc c.txt\0? new\nline\0! ignored\0";
        let status = RepoStatus::parse_porcelain(text.as_bytes());
        let branch = &status.branch;
        assert_eq!(
            (branch.name.as_deref(), branch.ahead_behind, branch.stashes),
            (Some("main"), Some((2, 1)), 3)
        );
        let shown: Vec<(ChangeState, &str, String)> = status
            .changes
            .iter()
            .map(|change| (change.place, change.kind(), change.display_path()))
            .collect();
        assert_eq!(
            shown,
            [
                (ChangeState::Conflicted, "both modified", "c.txt".to_owned()),
                (ChangeState::Staged, "modified", "two words.txt".to_owned()),
                (
                    ChangeState::Staged,
                    "renamed",
                    "old -> new -> name".to_owned()
                ),
                (
                    ChangeState::Unstaged,
                    "modified",
                    "two words.txt".to_owned()
                ),
                (
                    ChangeState::Untracked,
                    "untracked",
                    "\"new\\nline\"".to_owned()
                ),
            ]
        );
    }

    #[test]
    fn a_branch_without_commits_and_none_at_all() {
        let status =
            RepoStatus::parse_porcelain(b"# branch.oid (initial)\0# branch.head (detached)\0");
        assert_eq!(status.branch, BranchStatus::default());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = RepoStatus::parse_porcelain(&bytes);
        }
    }
}
