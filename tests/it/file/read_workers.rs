//! Read with a worker that does not start or dies: files that need no worker are still read.

use std::path::Path;
use std::sync::Arc;

use punie_host::local::local_files::LocalFiles;
use punie_host::worker::WorkerProgram;
use punie_tool::request::ReplyBody;
use serde_json::json;

use super::Bench;
use super::read_documents::make_png;
use crate::harness::process::worker_program;
use crate::harness::tools::reply_text;

fn bench_with_worker(worker: WorkerProgram) -> Bench {
    let client = Arc::new(LocalFiles::new());
    Bench::with_worker(tempfile::tempdir().unwrap(), client, worker)
}

/// Returns workspaces whose worker does not start, or ends without an answer.
fn broken_workers() -> impl Iterator<Item = (Bench, &'static str)> {
    ["/nowhere/worker", "/bin/false"]
        .into_iter()
        .map(|program| {
            let worker = WorkerProgram {
                program: program.into(),
                ..worker_program()
            };
            (bench_with_worker(worker), program)
        })
}

#[tokio::test]
async fn an_image_without_a_worker_keeps_its_dimensions() {
    for (bench, program) in broken_workers() {
        // Too large for an answer, although its dimensions are known before it is unpacked.
        let big = make_png(1_024, 512, 700 << 10);
        bench.put("a.png", &big);
        let reply = bench.call("Read", json!({"file_path": "a.png"})).await;
        let reply = reply.unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(reply.meta.truncated);
        let ReplyBody::Json(value) = reply.body else {
            panic!("{program}: no JSON");
        };
        assert_fields!(value, {"width": 1_024, "height": 512, "size": big.len()});
        let note = value["note"].as_str().unwrap();
        assert!(
            value["data"].is_null() && note.contains("magick"),
            "{program}: {note}"
        );
    }
}

const NOTEBOOK: &str = r#"{"cells": [{"cell_type": "code", "source": "1 + 1", "outputs": []}], "nbformat": 4}
"#;

#[tokio::test]
async fn a_notebook_without_a_worker_is_shown_as_text() {
    for (bench, program) in broken_workers() {
        bench.put("a.ipynb", NOTEBOOK);
        let reply = bench.call("Read", json!({"file_path": "a.ipynb"})).await;
        let reply = reply.unwrap_or_else(|error| panic!("{program}: {error}"));
        assert_contains!(reply_text(&reply), "     1\t{\"cells\"");
        let warnings = &reply.meta.warnings;
        assert!(
            warnings
                .iter()
                .any(|text| text.contains("not as a notebook")),
            "{program}: {warnings:?}"
        );
    }
}

#[tokio::test]
async fn a_document_needs_no_folder_for_temporary_files() {
    let worker = WorkerProgram {
        temp_root: Path::new("/dev/null/scratch").into(),
        ..worker_program()
    };
    let bench = bench_with_worker(worker);
    bench.put("a.zip", super::read_documents::make_zip(&[("a", 1)]));
    let shown = bench.read(json!({"file_path": "a.zip"})).await;
    assert_contains!(shown, ", 1 entry, ");
}
