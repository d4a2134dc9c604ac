//! The owner's work: projects, the history of shells, and tools for development.

mod command_words;
mod environment;
mod git_config;
mod history_files;
mod history_secrets;
mod projects;
mod shell_history;

use super::report::Source;

pub(crate) const SOURCES: &[Source] = &[
    (projects::NAME, projects::read_projects),
    (shell_history::NAME, shell_history::read_shell_history),
    (environment::NAME, environment::read_environment),
];
