//! The git tools on real repositories, friendly and hostile: a file a tool.
#![expect(
    clippy::disallowed_methods,
    reason = "tests make their own files and processes"
)]
#![cfg(unix)]

mod add;
mod bench;
mod blame;
mod commit;
mod diff;
mod get_diff;
mod get_git_status;
mod git_add_commit;
mod git_diff;
mod git_log;
mod git_status;
mod hook_environment;
mod hostile;
mod linked;
mod log;
mod masking;
mod repositories;
mod show;
mod status;
mod stopping;
mod submodules;
mod vectors;
