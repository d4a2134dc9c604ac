//! What the tests share with those of the program.

#[macro_use]
#[path = "../../../../../tests/it/harness/expect.rs"]
pub mod expect;
#[path = "../../../../../tests/it/harness/flip.rs"]
pub mod flip;
#[path = "../../../../../tests/it/harness/left_out.rs"]
pub mod left_out;
pub mod process;
#[path = "../../../../../tests/it/harness/program.rs"]
pub mod program;
#[path = "../../../../../tests/it/harness/running.rs"]
pub mod running;
#[path = "../../../../../tests/it/harness/tools.rs"]
pub mod tools;
#[path = "../../../../../tests/it/harness/wait.rs"]
pub mod wait;
