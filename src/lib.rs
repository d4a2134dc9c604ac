//! `punie-runner`: runs the tool calls of a remote AI agent on a developer's machine.
//!
//! The modules, in reading order:
//!
//! - `bridges`: the owner's programs that the runner keeps running.
//! - [`mcp`]: the tools for clients of the Model Context Protocol.
//! - [`service`]: the start by the system.
//! - [`config`], [`cli`]: the configuration and the command line.

#[cfg(feature = "bridges")]
pub mod bridges;

pub mod service;

pub mod mcp;

pub mod cli;
pub mod config;
