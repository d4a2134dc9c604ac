//! The features of self-modification below `mods/`: their records, their staged files, applied batches, and the
//! contents of files by hash.

mod mod_records;
mod mod_store;

pub use mod_records::{
    AppliedBatch, AppliedFile, ChangePhase, FeatureRecord, FeatureStatus, FileState, PendingChange,
    PendingFinish, PendingStep, StagedFile, StagedFiles,
};
pub use mod_store::{ModLock, ModStore};
