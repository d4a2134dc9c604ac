//! The file tools, called as the engine calls them, on real files.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot set up its files has failed"
)]

mod apply_patch;
mod bench;
mod corpus;
mod edit;
mod edit_encodings;
mod edit_places;
mod list_files;
mod long_edit;
mod masking;
mod multi_edit;
mod patch_laws;
mod paths;
mod plain;
mod read_encodings;
mod read_file;
mod rights;
mod seen_files;
mod slips;
mod write;

use punie_core::ids::RequestId;
use punie_host::files::LoadedFile;
use punie_host::local::local_files::LocalFiles;
use punie_host::{FileClient, RawPath};
use punie_tool::ToolContext;
use serde_json::Value;

use bench::{Bench, counted};

impl Bench {
    /// The numbered lines of an answer.
    pub async fn lines(&self, args: Value) -> Vec<(i64, String)> {
        let shown = self.read(args).await;
        let numbered = shown.lines().filter_map(|line| {
            let (number, body) = line.split_once('\t')?;
            Some((number.trim().parse().ok()?, body.to_owned()))
        });
        numbered.collect()
    }

    /// A file as an edit loads it.
    pub async fn load(&self, name: &str) -> LoadedFile {
        let path = self.workspace.resolve_inside(&RawPath::from(name)).unwrap();
        let cx = ToolContext::for_detached_call(RequestId::new());
        LocalFiles::new()
            .load_file(&cx, path, 64 << 20)
            .await
            .unwrap()
    }
}
