//! The tools on real files, real processes and real git. What needs the program itself is tested with it.

#![expect(
    clippy::disallowed_methods,
    reason = "tests touch the real world: files, processes, the environment"
)]
#![expect(
    clippy::too_many_lines,
    reason = "a test tells one course of events, or lists cases"
)]

#[macro_use]
mod harness;

mod file;
mod git;
mod search;
mod shell;
mod terminal;
