//! Read as a call: a source file, a page deep in a big file, its next page and its end. `cargo bench --bench read`.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up is none"
)]

use std::sync::Arc;

use divan::{Bencher, black_box};
use punie_core::ids::RequestId;
use punie_handlers::file::{FileDeps, tools};
use punie_host::Workspace;
use punie_host::local::local_files::LocalFiles;
use punie_tool::{ToolContext, ToolRegistry};
use tempfile::TempDir;

fn main() {
    divan::main();
}

struct Stage {
    _dir: TempDir,
    tools: ToolRegistry,
    runtime: tokio::runtime::Runtime,
}

impl Stage {
    /// A file of so many bytes, in lines of 64.
    fn new(bytes: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let lines: String = (0..bytes / 64)
            .flat_map(|n| [format!("{n:>10} {}\n", "x".repeat(52))])
            .collect();
        std::fs::write(dir.path().join("f"), lines).unwrap();
        let workspace = Workspace::open_roots(&[dir.path().to_owned()]).unwrap();
        let deps = FileDeps::new(Arc::new(LocalFiles::new()), workspace, no_worker());
        let tools = ToolRegistry::new([tools(deps)]).unwrap();
        Self {
            _dir: dir,
            tools,
            runtime: tokio::runtime::Runtime::new().unwrap(),
        }
    }

    fn read(&self, args: &str) {
        let call = self.tools.find("Read").unwrap().decode_call(args).unwrap();
        let reply = self
            .runtime
            .block_on(call.run_call(ToolContext::for_detached_call(RequestId::new())));
        black_box(reply.unwrap());
    }
}

#[divan::bench]
fn whole_40_kb(bencher: Bencher<'_, '_>) {
    let stage = Stage::new(40 << 10);
    bencher.bench_local(|| stage.read(r#"{"file_path":"f","max_chars":200000}"#));
}

#[divan::bench]
fn next_page_of_64_mb(bencher: Bencher<'_, '_>) {
    let stage = Stage::new(64 << 20);
    stage.read(r#"{"file_path":"f","offset":900000,"limit":200}"#);
    bencher.bench_local(|| stage.read(r#"{"file_path":"f","offset":900200,"limit":200}"#));
}

#[divan::bench]
fn end_of_64_mb(bencher: Bencher<'_, '_>) {
    let stage = Stage::new(64 << 20);
    bencher.bench_local(|| stage.read(r#"{"file_path":"f","offset":-200}"#));
}

/// No document is read here.
fn no_worker() -> punie_host::worker::WorkerProgram {
    punie_host::worker::WorkerProgram {
        program: "no-worker".into(),
        temp_root: std::env::temp_dir(),
        time_zone: None,
    }
}
