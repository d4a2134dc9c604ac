//! The integration tests: real sockets, real SQLite, real processes, real git.

#![expect(
    clippy::disallowed_methods,
    reason = "tests touch the real world: files, processes, the environment"
)]
#![expect(
    clippy::too_many_lines,
    reason = "a test tells one course of events, or lists cases"
)]
#![cfg_attr(
    not(all(feature = "packages", feature = "signals", feature = "websocket")),
    allow(
        unused,
        reason = "some helpers serve the tests of a part that was left out"
    )
)]

#[macro_use]
mod harness;

mod acp;
mod acp_discovery;
mod acp_peers;
mod agent_arguments;
mod architecture;
mod audit;
#[cfg(feature = "bridges")]
mod bridges;
mod catalog;
mod cli;
mod config;
mod conformance;
mod contract;
mod costs;
mod dev_backend;
mod editor;
mod faults;
mod file;
#[cfg(debug_assertions)]
mod fuzz_seeds;
mod generated_pages;
mod hostile;
mod mcp;
mod output;
mod packaging;
mod pages;
#[cfg(feature = "people")]
mod people;
mod plugins;
mod policy;
mod runner;
mod search;
#[cfg(feature = "packages")]
mod self_mod;
#[cfg(feature = "signals")]
mod signals;
mod sqlite;
mod state;
#[cfg(feature = "packages")]
mod store;
#[cfg(feature = "websocket")]
mod synapse;
mod tool;
mod trash;
mod user;
mod wakeup;
#[cfg(feature = "websocket")]
mod websocket;
