//! The problems of a runner, as heartbeats, the journal and `status` name them.

use serde::Serialize;

/// A problem of the runner or of its home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "&'static str")]
pub enum HealthProblem {
    /// The disk is too full for new work.
    Disk,
    /// Something else answers at the backend's address.
    Intercepted,
    /// This machine's clock is far from the backend's.
    ClockSkew,
    /// The owner's secrets cannot be read.
    Secrets,
    /// The list of people whose names are replaced cannot be read.
    People,
    /// The owner paused new calls.
    Paused,
    /// The runner crashed several times, and starts no call.
    SafeMode,
    /// The audit rows cannot be written.
    Audit,
    /// Another process with this device's identity runs, as with a copy of this home.
    OtherProcess,
    /// The runner's own attempt to read, write or run a command failed.
    Canary,
    /// The rules for calls cannot be read.
    Policy,
    /// A change of a protected path was put back, and the owner has not acknowledged it.
    ProtectedPaths,
    /// The journal lost something, and the owner has not acknowledged it.
    Journal,
}

impl HealthProblem {
    const ALL: [Self; 13] = [
        Self::Disk,
        Self::Intercepted,
        Self::ClockSkew,
        Self::Secrets,
        Self::People,
        Self::Paused,
        Self::SafeMode,
        Self::Audit,
        Self::OtherProcess,
        Self::Canary,
        Self::Policy,
        Self::ProtectedPaths,
        Self::Journal,
    ];

    /// Returns its word, which is stable.
    pub fn word(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Intercepted => "intercepted",
            Self::ClockSkew => "clock_skew",
            Self::Secrets => "secrets",
            Self::People => "people",
            Self::Paused => "paused",
            Self::SafeMode => "safe_mode",
            Self::Audit => "audit",
            Self::OtherProcess => "other_process",
            Self::Canary => "canary",
            Self::Policy => "policy",
            Self::ProtectedPaths => "protected_paths",
            Self::Journal => "journal",
        }
    }

    /// Returns those that are so, in the given order.
    pub fn filter_current(all: impl IntoIterator<Item = (bool, Self)>) -> Vec<Self> {
        let all = all.into_iter();
        all.filter_map(|(is_so, problem)| is_so.then_some(problem))
            .collect()
    }

    /// Returns the text of some in the journal.
    pub(crate) fn to_fact(problems: &[Self]) -> String {
        let words: Vec<&str> = problems.iter().map(|problem| problem.word()).collect();
        words.join(",")
    }

    /// Parses the text of the journal. Words of another version are left out.
    pub fn from_fact(text: &str) -> Vec<Self> {
        let of_word = |word: &str| Self::ALL.into_iter().find(|one| one.word() == word);
        text.split(',').filter_map(of_word).collect()
    }
}

impl From<HealthProblem> for &'static str {
    fn from(problem: HealthProblem) -> Self {
        problem.word()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journals_text_is_read_as_it_was_written() {
        let text = HealthProblem::to_fact(&HealthProblem::ALL);
        assert_eq!(HealthProblem::from_fact(&text), HealthProblem::ALL);
        assert_eq!(
            HealthProblem::from_fact("later,disk"),
            [HealthProblem::Disk]
        );
        assert_eq!(HealthProblem::from_fact(""), []);
    }
}
