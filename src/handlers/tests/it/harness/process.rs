//! The program that the tools start as their worker. Only the program's own tests have one.

use punie_host::worker::WorkerProgram;

/// A worker that does not exist: whatever needs it fails.
pub fn worker_program() -> WorkerProgram {
    WorkerProgram {
        program: "/no/worker/here".into(),
        temp_root: std::env::temp_dir().join("punie-runner-test-workers"),
        time_zone: None,
    }
}
