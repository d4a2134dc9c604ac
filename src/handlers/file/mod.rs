//! Files: read a window of text or what else can be shown, write a whole, edit a place, apply a patch, list a folder.
//! Not here: who touches the disk (`acp::local`) and which paths may be touched (`acp::workspace`).

mod apply_patch;
mod archive;
mod block_search;
mod change;
mod difference;
mod documents;
mod edit;
mod edit_report;
mod excerpt;
mod first_difference;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing;
mod image;
mod image_structure;
mod keeping;
mod list_files;
mod listing;
mod long_edit;
mod mask;
mod match_tier;
mod matcher;
mod miss;
mod multi_edit;
mod notebook;
mod numbered;
mod patch;
mod pdf;
mod pdf_font;
mod pdf_pages;
mod pdf_text;
mod read;
mod read_file;
mod reindent;
mod rendered;
mod revision;
mod scan;
mod seen_files;
mod sheet;
mod tar_headers;
mod transcoded;
mod unified_diff;
mod write;
mod write_file;
mod zip_directory;

use std::fmt;
use std::sync::Arc;

use seen_files::SeenFiles;

use crate::acp::files::Written;
use crate::acp::{FileClient, Workspace};
use crate::tool::{Entry, FileChange, Meta, ToolSet};
use crate::worker::WorkerProgram;

pub use pdf_pages::{JOB as PDF_JOB, run_worker as run_pdf_worker};

/// What the file tools work with.
#[derive(Clone)]
pub struct FileDeps {
    /// Reads and writes.
    pub client: Arc<dyn FileClient>,
    /// Says where.
    pub workspace: Workspace,
    /// Starts the process that reads PDF documents.
    pub worker: WorkerProgram,
    /// What each conversation has seen of files.
    seen: SeenFiles,
}

impl FileDeps {
    /// With no file seen yet.
    pub fn new(client: Arc<dyn FileClient>, workspace: Workspace, worker: WorkerProgram) -> Self {
        Self { client, workspace, worker, seen: SeenFiles::default() }
    }
}

impl fmt::Debug for FileDeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileDeps").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

/// The file tools.
pub fn tools(deps: FileDeps) -> Vec<Entry> {
    ToolSet::new("file", deps)
        .with::<read::Read>()
        .with::<write::Write>()
        .with::<edit::Edit>()
        .with::<multi_edit::MultiEdit>()
        .with::<apply_patch::ApplyPatch>()
        .with::<read_file::ReadFile>()
        .with::<write_file::WriteFile>()
        .with::<list_files::ListFiles>()
        .into_entries()
}

/// The facts of a write: the file with its hashes before and after.
fn changed(shown: String, written: Written) -> Meta {
    let mut meta = Meta {
        sha256: Some(written.after.clone()),
        source: written.by.fact(),
        warnings: written.warnings,
        ..Meta::default()
    };
    if !written.unchanged {
        meta.files = vec![FileChange { path: shown, before: written.before, after: Some(written.after) }];
    }
    meta
}
