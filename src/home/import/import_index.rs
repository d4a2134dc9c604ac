//! The index of imported documents: the source of each, and its hash as it was imported. It lies in the home's state
//! and not beside the documents, because it has paths of this machine, and owners keep their skills in repositories.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::error::HomeError;
use super::super::home_document::DocumentKind;
use super::super::layout::Home;
use super::super::state_file::StateFile;

/// One imported document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImportRecord {
    /// The source as it was named.
    pub(super) source: String,
    /// The path in the source.
    pub(super) path: String,
    /// The hash of its files as they were imported.
    pub(super) hash: String,
}

/// The imported documents by kind and id.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ImportIndex {
    skills: BTreeMap<String, ImportRecord>,
    agents: BTreeMap<String, ImportRecord>,
    plugins: BTreeMap<String, ImportRecord>,
}

impl ImportIndex {
    /// Reads the index; an empty one if there is none.
    pub(super) fn read(home: &Home) -> Result<Self, HomeError> {
        let file = StateFile::new(home.import_index_file());
        file.read().map(Option::unwrap_or_default)
    }

    /// Replaces the index in one step.
    pub(super) fn write(&self, home: &Home) -> Result<(), HomeError> {
        StateFile::new(home.import_index_file()).write(self)
    }

    /// Returns the imported documents of a kind.
    pub(super) fn records(&mut self, kind: DocumentKind) -> &mut BTreeMap<String, ImportRecord> {
        match kind {
            DocumentKind::Skill => &mut self.skills,
            DocumentKind::Agent => &mut self.agents,
            DocumentKind::Plugin => &mut self.plugins,
        }
    }
}

/// Returns the sources of the imported documents by id, for lists. An index that cannot be read has none.
pub fn list_import_sources(home: &Home, kind: DocumentKind) -> BTreeMap<String, String> {
    let mut index = ImportIndex::read(home).unwrap_or_default();
    let records = std::mem::take(index.records(kind));
    let source = |(id, record): (String, ImportRecord)| (id, record.source);
    records.into_iter().map(source).collect()
}
