//! The worker process: this program started again to read input that can hang or exhaust a library.
//!
//! For example SQLite: it cannot be interrupted within one step, and a hostile database can take any amount of memory.
//! The runner asks one question as a JSON line on stdin and reads the answer from stdout. The worker confines itself
//! before it opens the input, and the runner kills it when its time is up. Not here: the questions, which belong to
//! the handlers.

mod client;
mod limits;
mod server;
mod temp_folder;

pub use client::{WorkerCall, WorkerFailure, WorkerProgram};
pub use limits::WorkerLimits;
pub use server::{CallerLink, serve};
pub use temp_folder::TempFolder;

/// The first argument that makes this program a worker; the second names the job.
pub const ARGUMENT: &str = "worker";
