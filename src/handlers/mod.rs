//! The tools, one folder a domain, one file a tool. This file is the only list of domains.

pub mod file;
pub mod git;
pub mod search;
pub mod shell;
pub mod sqlite;
pub mod state;
pub mod terminal;
