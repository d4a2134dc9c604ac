//! `punie-runner`: the hands of a remote AI agent on a developer's machine.
//!
//! The floor plan, in reading order:
//!
//! - [`failpoint`]: where a test can end the process; nothing in a normal build.
//! - [`durable`]: files that a crash leaves whole.
//! - [`record_locks`]: how SQLite locks its files.
//! - [`ids`], [`request`]: what travels and what comes of it.
//! - [`output`], [`redact`]: text on its way out.
//! - [`tool`]: the contract between engine and tools.
//! - [`sandbox`]: what the kernel lets commands touch.
//! - [`policy`]: which calls the owner's rules let run.
//! - [`acp`]: who really touches files and processes.
//! - [`worker`]: this program as a confined process that reads hostile input.
//! - [`handlers`]: the tools, one file each.
//! - [`journal`]: what must survive a crash.
//! - [`backend`]: the wire to the event backend; [`dev_backend`]: one of our own that speaks it.
//! - [`home`]: everything under `~/.punie`; [`trash`]: the way back from what calls changed; [`audit`]: what was asked
//!   and decided, in rows that follow from each other.
//! - [`runner`]: the one loop.
//! - [`config`], [`cli`]: how it is set up and started.

pub mod approval_answer;
pub mod durable;
pub mod failpoint;
pub mod ids;
pub mod record_locks;
pub mod request;

pub mod output;
pub mod redact;

pub mod tool;

pub mod policy;
pub mod sandbox;

pub mod acp;

pub mod worker;

pub mod handlers;

pub mod journal;

pub mod backend;
pub mod dev_backend;

pub mod audit;
pub mod home;
pub mod trash;

pub mod runner;

pub mod cli;
pub mod config;

#[cfg(any(fuzzing, test))]
pub mod fuzzing;
