//! The content of the state files below `mods/`. Paths are relative to the root, with `/` between names.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// A regular file: its content, which is stored by this hash, and its permission bits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// SHA-256 of the content, in hex.
    pub sha256: String,
    /// Size in bytes.
    pub size: u64,
    /// The permission bits, where the system has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
}

/// A feature: a group of changes of one conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureRecord {
    /// Its id.
    pub id: String,
    /// The name that the agent gave it.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// The folder that its paths are relative to.
    pub root: String,
    /// The conversation that started it.
    pub conversation: String,
    /// The request that started it. A request that runs again finds its feature.
    pub request: String,
    /// Its state.
    pub status: FeatureStatus,
    /// Milliseconds since 1970.
    pub created_at_ms: u64,
    /// Milliseconds since 1970.
    pub updated_at_ms: u64,
    /// The id of the next batch. It only grows, so that no id is used twice.
    pub next_batch: u64,
    /// The batches that are applied and not reverted, oldest first.
    #[serde(default)]
    pub batches: Vec<AppliedBatch>,
    /// The request that reverted last. One that runs again reverts no further batch.
    #[serde(default)]
    pub reverted_by: Option<String>,
}

/// The state of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum FeatureStatus {
    Active,
    Applied,
    Reverted,
    Packaged,
}

impl FeatureStatus {
    /// Returns the word for answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Applied => "applied",
            Self::Reverted => "reverted",
            Self::Packaged => "packaged",
        }
    }
}

/// The changes that one apply made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedBatch {
    /// Its id in the feature.
    pub id: u64,
    /// The agent's message.
    #[serde(default)]
    pub message: String,
    /// Milliseconds since 1970.
    pub applied_at_ms: u64,
    /// The files.
    pub files: Vec<AppliedFile>,
}

/// One file of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedFile {
    /// Its path.
    pub path: String,
    /// The file before; absent if there was none.
    #[serde(default)]
    pub before: Option<FileState>,
    /// The file after; absent if it was removed.
    #[serde(default)]
    pub after: Option<FileState>,
    /// The folders that were made for it, inner ones first.
    #[serde(default)]
    pub made_folders: Vec<String>,
}

/// The staged files of a feature.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedFiles {
    /// By path.
    pub files: BTreeMap<String, StagedFile>,
}

/// A staged file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedFile {
    /// The real file when the path was first staged; absent if there was none.
    #[serde(default)]
    pub base: Option<FileState>,
    /// The staged file; absent if it is removed.
    #[serde(default)]
    pub content: Option<FileState>,
    /// The request that staged it last. A request that a crash cut off runs again, on the state that it found.
    pub request: String,
    /// The staged state that this request found; absent if the path was not staged.
    #[serde(default)]
    pub found: Option<Box<FoundState>>,
}

/// The staged state of a path before a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundState {
    base: Option<FileState>,
    content: Option<FileState>,
    request: String,
}

impl FoundState {
    pub(super) fn contents(&self) -> impl Iterator<Item = &FileState> {
        self.base.iter().chain(&self.content)
    }
}

impl StagedFiles {
    /// Stages a file, or its removal. The base is that of the first time.
    pub fn stage_file(
        &mut self,
        path: &str,
        base: Option<FileState>,
        content: Option<FileState>,
        request: &str,
    ) {
        let (base, found) = match self.files.remove(path) {
            None => (base, None),
            Some(same) if same.request == request => (same.base, same.found),
            Some(other) => {
                let found = FoundState {
                    base: other.base.clone(),
                    content: other.content,
                    request: other.request,
                };
                (other.base, Some(Box::new(found)))
            }
        };
        let staged = StagedFile {
            base,
            content,
            request: request.to_owned(),
            found,
        };
        self.files.insert(path.to_owned(), staged);
    }

    /// Takes back all that this request has staged. Returns whether there was something.
    pub fn take_back_request(&mut self, request: &str) -> bool {
        let by_request: Vec<String> = self
            .files
            .iter()
            .filter(|(_, staged)| staged.request == request)
            .map(|(path, _)| path.clone())
            .collect();
        for path in &by_request {
            let found = self.files.remove(path).and_then(|staged| staged.found);
            if let Some(found) = found {
                let staged = StagedFile {
                    base: found.base,
                    content: found.content,
                    request: found.request,
                    found: None,
                };
                self.files.insert(path.clone(), staged);
            }
        }
        !by_request.is_empty()
    }

    /// Drops what other requests staged and is as it was.
    pub fn drop_unchanged(&mut self, request: &str) {
        self.files
            .retain(|_, staged| staged.request == request || staged.base != staged.content);
    }

    /// Returns the staged files that differ from the real ones of their first staging.
    pub fn changed(&self) -> impl Iterator<Item = (&String, &StagedFile)> {
        self.files
            .iter()
            .filter(|(_, staged)| staged.base != staged.content)
    }
}

/// A change of files below the root that has begun. It is written before the first effect and removed after the last
/// one, so that the next process can finish it or take it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingChange {
    /// The root.
    pub root: String,
    /// The feature.
    pub feature: String,
    /// The progress.
    pub phase: ChangePhase,
    /// The changes of files.
    pub steps: Vec<PendingStep>,
    /// The change of the feature's record that ends it.
    pub finish: PendingFinish,
}

/// The progress of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangePhase {
    /// New contents are being written beside their targets; no target has changed.
    Staging,
    /// All new contents are there; targets are being replaced. It is to be finished.
    Committed,
    /// A target could not be replaced; the others are being restored.
    TakingBack,
}

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingStep {
    /// The change.
    pub file: AppliedFile,
    /// The name of the new content beside the target.
    pub temp: String,
}

/// The change of a feature's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PendingFinish {
    /// Appends this batch and clears what was staged.
    Append(AppliedBatch),
    /// Removes the batches from this id on, for this request.
    RemoveFrom {
        /// The id of the oldest batch that is removed.
        first: u64,
        /// The request.
        request: String,
    },
}

impl FeatureRecord {
    /// Changes the record as a finished change says. A second time changes nothing.
    pub fn finish_change(&mut self, finish: &PendingFinish, now_ms: u64) {
        match finish {
            PendingFinish::Append(batch) => {
                if !self.batches.iter().any(|known| known.id == batch.id) {
                    self.batches.push(batch.clone());
                }
                self.next_batch = self.next_batch.max(batch.id + 1);
                self.status = FeatureStatus::Applied;
            }
            PendingFinish::RemoveFrom { first, request } => {
                self.reverted_by = Some(request.clone());
                self.batches.retain(|batch| batch.id < *first);
                self.status = if self.batches.is_empty() {
                    FeatureStatus::Reverted
                } else {
                    FeatureStatus::Applied
                };
            }
        }
        self.updated_at_ms = now_ms;
    }

    /// Returns the net change of each file over all batches from this id on, and the files that somebody else changed
    /// between two of them.
    pub fn net_changes_from(
        &self,
        first: u64,
    ) -> (BTreeMap<String, AppliedFile>, BTreeSet<String>) {
        let content = |state: &Option<FileState>| state.as_ref().map(|state| state.sha256.clone());
        let mut net = BTreeMap::<String, AppliedFile>::new();
        let mut interrupted = BTreeSet::new();
        for file in self
            .batches
            .iter()
            .filter(|batch| batch.id >= first)
            .flat_map(|batch| &batch.files)
        {
            match net.get_mut(&file.path) {
                None => drop(net.insert(file.path.clone(), file.clone())),
                Some(known) => {
                    if content(&known.after) != content(&file.before) {
                        interrupted.insert(file.path.clone());
                    }
                    known.after.clone_from(&file.after);
                    known.made_folders.extend(file.made_folders.clone());
                }
            }
        }
        (net, interrupted)
    }

    /// Returns the hashes of all contents that the record names.
    pub fn named_contents(&self) -> BTreeSet<String> {
        let files = self.batches.iter().flat_map(|batch| &batch.files);
        let states = files.flat_map(|file| file.before.iter().chain(&file.after));
        states.map(|state| state.sha256.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(sha256: &str) -> FileState {
        FileState {
            sha256: sha256.to_owned(),
            size: 1,
            mode: None,
        }
    }

    #[test]
    fn a_request_that_is_taken_back_leaves_the_state_that_it_found() {
        let mut staged = StagedFiles::default();
        staged.stage_file("a", Some(state("0")), Some(state("1")), "first");
        let before = staged.files["a"].content.clone();
        staged.stage_file("a", None, Some(state("2")), "second");
        staged.stage_file("a", None, Some(state("3")), "second");
        staged.stage_file("b", None, Some(state("4")), "second");
        assert!(staged.take_back_request("second"));
        assert_eq!(staged.files.len(), 1);
        assert_eq!(staged.files["a"].content, before);
        assert_eq!(staged.files["a"].base, Some(state("0")));
        assert!(!staged.take_back_request("second"));
    }
}
