//! The description of a process to start.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::child_tracking::ChildTracking;
use crate::terminals::WindowSize;
use punie_sandbox::SandboxProfile;

/// The process to start.
pub(super) struct SpawnPlan {
    pub program: PathBuf,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    pub stdin: Option<String>,
    /// Gives the process a pipe for its input that stays open, and one for its standard error alone.
    pub serves: bool,
    /// The size of a terminal that replaces input and output.
    pub tty: Option<WindowSize>,
    pub tracking: ChildTracking,
    /// The confinement of the process.
    pub profile: Option<SandboxProfile>,
}

impl SpawnPlan {
    /// Plans a program with these arguments in the root folder: unconfined, without environment, input and tracking.
    pub fn new(program: PathBuf, args: Vec<String>) -> Self {
        Self {
            program,
            args,
            env: BTreeMap::new(),
            cwd: PathBuf::from("/"),
            stdin: None,
            serves: false,
            tty: None,
            tracking: ChildTracking::default(),
            profile: None,
        }
    }
}
