//! The file tools where a worker process reads for them. Their other tests are in src/handlers/tests/it/file.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its files has failed"
)]

#[path = "../../../src/handlers/tests/it/file/bench.rs"]
mod bench;
mod pdf_packing;
mod read;
mod read_archives;
mod read_documents;
mod read_formats;
mod read_images;
mod read_workers;

pub use bench::{Bench, counted};
