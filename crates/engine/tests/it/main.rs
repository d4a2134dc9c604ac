//! The journal and the audit on a real disk. What needs the program is tested with it.

#![expect(
    clippy::disallowed_methods,
    reason = "tests touch the real world: files and the clock"
)]

mod audit;
mod journal;
