//! The result of one source.

use serde::Serialize;

use super::{Budget, SignalPlaces};

/// The importance of a section to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// What the owner works on.
    Work,
    /// What the owner is interested in.
    Interest,
    /// The rest.
    Background,
}

/// A part of the text, under a heading of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Section {
    /// The heading, without `##`.
    pub title: String,
    /// Its importance.
    pub tier: Tier,
    /// The text below the heading, as Markdown.
    pub markdown: String,
}

/// A person whom a source met. The caller gives the person an alias before any text leaves the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The name.
    pub name: String,
    /// Addresses of mail, telephone numbers, names of accounts.
    pub identifiers: Vec<String>,
}

/// How the reading of a source ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state", content = "reason")]
pub enum SourceState {
    /// It was read, at least in part.
    Read,
    /// This device does not have it.
    Absent,
    /// It is there and could not be read.
    Failed(String),
}

/// A source: its name, and the function that reads it.
pub(crate) type Source = (&'static str, fn(&SignalPlaces, &Budget) -> SourceReport);

/// The result of one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceReport {
    /// The name of the source.
    pub source: &'static str,
    /// How its reading ended.
    #[serde(flatten)]
    pub state: SourceState,
    /// The text.
    pub sections: Vec<Section>,
    /// What could not be read of it, or was left out.
    pub problems: Vec<String>,
    /// The people whom it met. They are never written with the report.
    #[serde(skip)]
    pub people: Vec<Person>,
}

impl SourceReport {
    /// A source that was read.
    pub fn read(source: &'static str, sections: Vec<Section>) -> Self {
        Self {
            source,
            state: SourceState::Read,
            sections,
            problems: Vec::new(),
            people: Vec::new(),
        }
    }

    /// A source that this device does not have.
    pub fn absent(source: &'static str) -> Self {
        Self {
            state: SourceState::Absent,
            ..Self::read(source, Vec::new())
        }
    }

    /// A source that could not be read.
    pub fn failed(source: &'static str, reason: impl Into<String>) -> Self {
        Self {
            state: SourceState::Failed(reason.into()),
            ..Self::read(source, Vec::new())
        }
    }
}
