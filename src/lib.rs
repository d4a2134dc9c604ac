//! `punie-runner`: runs the tool calls of a remote AI agent on a developer's machine.
//!
//! The modules, in reading order:
//!
//! - [`failpoint`]: points at which a test can end the process; nothing in a normal build.
//! - [`durable`]: files that a crash leaves whole.
//! - [`heap_memory`]: the memory that the C library holds for the heap.
//! - [`record_locks`]: the locks of SQLite.
//! - [`runner_home`]: the mark of a home of this program.
//! - [`request_session`]: the client and the folders of the session that a request belongs to.
//! - [`ids`], [`request`]: a request and its outcome.
//! - [`output`], [`redact`]: the text of results, and its masking.
//! - [`tool`]: the contract between engine and tools.
//! - [`sandbox`]: the kernel limits on commands.
//! - [`policy`]: the rules of the owner about calls.
//! - [`acp`]: access to files and processes.
//! - [`signals`]: what the device can tell about its owner.
//! - [`worker`]: this program as a confined process that reads hostile input.
//! - [`handlers`]: the tools, one file each.
//! - [`bridges`]: the owner's programs that the runner keeps running.
//! - [`journal`]: the state that survives a crash.
//! - [`backend`]: the client of the event backend; [`dev_backend`]: the embedded one.
//! - [`home`]: everything under `~/.punie`; [`trash`]: the content before calls changed it; [`audit`]: requests and
//!   decisions, in rows that are chained by hashes.
//! - [`mcp`]: the tools for clients of the Model Context Protocol.
//! - [`runner`]: the engine; [`service`]: its start by the system.
//! - [`config`], [`cli`]: the configuration and the command line.

pub use punie_core::{
    approval_answer, durable, failpoint, heap_memory, host_traffic, ids, record_locks,
    request_session, runner_home, tool_effect,
};
pub use {
    punie_dev_backend as dev_backend, punie_policy as policy, punie_sandbox as sandbox,
    punie_signals as signals,
};

pub mod request;

pub mod output;
pub mod redact;

pub mod tool;

pub mod acp;

pub mod worker;

pub mod bridges;
pub mod handlers;

pub mod journal;

pub mod backend;

pub mod audit;
pub mod home;
pub mod trash;

pub mod runner;
pub mod service;

pub mod mcp;

pub mod cli;
pub mod config;

#[cfg(any(fuzzing, test))]
pub mod fuzzing;
