//! A call as the policy sees it: its tool, the files it names, the commands it would run.

use super::command_line::CommandLine;
use punie_core::tool_effect::ToolEffect;

/// A call, before anything is done about it.
#[derive(Debug, Clone, Default)]
pub struct PolicyCall {
    /// The tool's name.
    pub tool: String,
    /// The most that it may do.
    pub effect: ToolEffect,
    /// It can do nothing but end what was begun before: no question is asked about such a call unless a rule names it.
    pub only_ends: bool,
    /// The files and folders that it names.
    pub places: Vec<TouchedPath>,
    /// The commands that it runs, if it runs any.
    pub script: Option<CommandLine>,
}

/// A file or folder that a call touches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TouchedPath {
    /// As an answer shows it.
    pub shown: String,
    /// Its path from its workspace folder, first the one that links lead to; none outside of all.
    pub relative: Vec<String>,
    /// Its whole path, likewise.
    pub absolute: Vec<String>,
    /// True if that is known before the call runs.
    pub known: bool,
    /// True if it is a folder whose entries are touched too.
    pub is_folder: bool,
}
