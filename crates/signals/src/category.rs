//! The categories that the owner consents to, and their sources.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::report::Source;
use super::{Budget, SignalPlaces, SourceReport, apps, browser, dev, personal};

/// A category of sources, with one switch and one consent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Pages that were visited, and bookmarks.
    BrowsingBookmarks,
    /// Projects, the history of shells, and tools for development.
    DevEnvironment,
    /// Programs and their use, and names of folders.
    AppsSystem,
    /// Numbers of messages, notes, reminders and events, never their text.
    MessagesNotes,
}

impl Category {
    /// All categories.
    pub const ALL: [Self; 4] = [
        Self::BrowsingBookmarks,
        Self::DevEnvironment,
        Self::AppsSystem,
        Self::MessagesNotes,
    ];

    /// Returns the name, as in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::BrowsingBookmarks => "browsing_bookmarks",
            Self::DevEnvironment => "dev_environment",
            Self::AppsSystem => "apps_system",
            Self::MessagesNotes => "messages_notes",
        }
    }

    fn sources(self) -> &'static [Source] {
        match self {
            Self::BrowsingBookmarks => browser::SOURCES,
            Self::DevEnvironment => dev::SOURCES,
            Self::AppsSystem => apps::SOURCES,
            Self::MessagesNotes => personal::SOURCES,
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Category {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL
            .into_iter()
            .find(|category| category.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no category {text}; there are {names}")
        })
    }
}

/// Reads all sources of a category, each under a budget of its own. A source that fails does not affect the others.
pub fn collect_category(
    category: Category,
    places: &SignalPlaces,
    mut begin_budget: impl FnMut() -> Budget,
) -> Vec<SourceReport> {
    let read = |&(name, collect): &Source| {
        let budget = begin_budget();
        let read = catch_unwind(AssertUnwindSafe(|| collect(places, &budget)));
        let mut report = read.unwrap_or_else(|_| {
            SourceReport::failed(name, "reading it broke off by a fault of this program")
        });
        if let Some(limit) = budget.exceeded_limit() {
            let rest = format!("{limit}: the rest of this source is left out");
            report.problems.push(rest);
        }
        report
    };
    category.sources().iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::test_places::{TestPlaces, budget};
    use crate::{SourceState, System};

    #[test]
    fn each_source_has_a_report_of_its_own() {
        let test = TestPlaces::new(System::MacOs);
        test.make_folder(".zsh_history");
        test.write(".bashrc", "");
        let reports = collect_category(Category::DevEnvironment, &test.places, budget);
        let states: Vec<_> = reports
            .iter()
            .map(|report| (report.source, &report.state))
            .collect();
        let reason = "~/.zsh_history: it is no regular file".to_owned();
        assert_eq!(
            states,
            [
                ("dev projects", &SourceState::Absent),
                ("shell history", &SourceState::Failed(reason)),
                ("dev environment", &SourceState::Read),
            ]
        );
    }

    #[test]
    fn a_source_that_reached_its_limit_says_so() {
        let test = TestPlaces::new(System::Linux);
        test.write(".bash_history", "git x\ngit y\n");
        let small = || Budget::begin(Duration::from_mins(10), 1, Arc::default());
        let reports = collect_category(Category::DevEnvironment, &test.places, small);
        let rest = "the limit of entries was reached: the rest of this source is left out";
        assert_eq!(reports[1].problems, [rest]);
    }

    #[test]
    fn a_category_is_found_by_its_name() {
        for category in Category::ALL {
            assert_eq!(category.name().parse(), Ok(category));
        }
        let error = "apps".parse::<Category>().expect_err("no category");
        assert!(error.contains("apps_system"), "{error}");
    }
}
