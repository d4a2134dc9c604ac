//! The file tools where a worker process reads for them. Their other tests are in src/handlers/tests/it/file.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its files has failed"
)]

#[path = "../../../src/handlers/tests/it/file/bench.rs"]
mod bench;
#[cfg(feature = "documents")]
mod pdf_packing;
mod read;
#[cfg(feature = "documents")]
mod read_archives;
#[cfg(feature = "documents")]
mod read_documents;
#[cfg(feature = "documents")]
mod read_formats;
#[cfg(feature = "documents")]
mod read_images;
#[cfg(feature = "documents")]
mod read_workers;

pub use bench::{Bench, counted};
