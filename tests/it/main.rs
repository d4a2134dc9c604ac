//! The integration tests: real sockets, real SQLite, real processes, real git.

mod harness;

mod config;
mod dev_backend;
mod file;
mod git;
mod home;
mod output;
mod search;
mod shell;
mod sqlite;
