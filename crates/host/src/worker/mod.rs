//! The worker process: this program started again to read input that can hang or exhaust a library.
//!
//! For example SQLite: it cannot be interrupted within one step, and a hostile database can take any amount of memory.
//! The runner asks one question as a JSON line on stdin and reads the answer from stdout. The worker confines itself
//! before it reads the input, which may come as an open file. The runner kills it when its time is up.

mod temp_folder;
mod worker_client;
mod worker_limits;
mod worker_server;

pub use temp_folder::TempFolder;
pub use worker_client::{WorkerCall, WorkerFailure, WorkerProgram};
pub use worker_limits::WorkerLimits;
pub use worker_server::{CallerLink, serve_question};

/// The first argument that makes this program a worker; the second names the job.
pub const WORKER_ARGUMENT: &str = "worker";
