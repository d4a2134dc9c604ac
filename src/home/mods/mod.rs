//! The features of self-modification below `mods/`: their records, their staged files, applied batches, and the contents
//! of files by hash. Not here: the files below the root, which the handlers change.

mod mod_records;
mod mod_store;

pub use mod_records::{
    AppliedBatch, AppliedFile, ChangePhase, FeatureRecord, FeatureStatus, FileState, PendingChange,
    PendingFinish, PendingStep, StagedFile, StagedFiles,
};
pub use mod_store::{ModLock, ModStore};
