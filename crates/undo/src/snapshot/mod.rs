//! Snapshots of the workspaces before and after calls that execute programs, so that all that such a call changed can
//! be undone. What a call changed is in its manifest; the tree of each workspace as it was last, and the contents, lie
//! beside.

#[cfg(target_os = "linux")]
mod call_end;
mod call_record;
#[cfg(target_os = "linux")]
mod file_reading;
#[cfg(target_os = "linux")]
mod folder_count;
#[cfg(target_os = "linux")]
mod folder_snapshots;
#[cfg(target_os = "linux")]
mod git_index;
#[cfg(target_os = "linux")]
mod ignore_rules;
#[cfg(target_os = "linux")]
mod scan_limits;
mod snapshot_contents;
mod snapshot_quota;
mod tree_node;
#[cfg(target_os = "linux")]
mod tree_scan;
mod uncovered_folders;
#[cfg(target_os = "linux")]
mod watched_folder;

pub(super) use call_record::{CallStart, MovedRef, SnapshotEnd};
#[cfg(target_os = "linux")]
pub use folder_snapshots::FolderSnapshots;
pub(super) use snapshot_contents::SnapshotContents;
pub(super) use snapshot_quota::SnapshotUse;
pub(super) use tree_node::{PathChange, PathContent, UncoveredReason};
pub use uncovered_folders::list_uncovered_folders;
