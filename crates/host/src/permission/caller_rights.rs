//! The owner's rights of callers, by the name that the backend gives with a request: tools, folders, calls a minute.
//! They only narrow what the rules and the workspaces allow every caller.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use crate::blocking::run_blocking;
use crate::{RawPath, Workspace};
use punie_core::caller_name::ALL_OTHERS;
use punie_tool::{
    DEVICE_ORIGIN, DecodedCall, DefaultLocation, ErrorCode, ResultMeta, ToolContext, ToolEffect,
    ToolError, ToolProfile, ToolSpec,
};

/// The time within which the calls of a caller are counted.
const RATE_WINDOW: Duration = Duration::from_mins(1);

/// The rights of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerRights {
    /// The caller's name.
    pub name: String,
    /// Names of tools, `guest:NAME`, and effects; `None` for all tools.
    pub tools: Option<Vec<String>>,
    /// The profile whose tools it may call.
    pub profile: ToolProfile,
    /// The workspaces that its calls may reach, without links; `None` for all.
    pub workspaces: Option<Vec<PathBuf>>,
    /// The most calls within a minute; 0 for any number.
    pub rate: usize,
}

impl CallerRights {
    /// Finds the rights of a caller. A request without a caller's name has the rights of the others.
    pub fn find_for<'r>(all: &'r [Self], caller: Option<&str>) -> Option<&'r Self> {
        let named = |name: &str| all.iter().find(|rights| rights.name == name);
        caller.and_then(named).or_else(|| named(ALL_OTHERS))
    }

    /// Returns whether the caller may call this tool.
    pub fn allows_tool(&self, tool: &ToolSpec) -> bool {
        let is_meant = |word: &String| {
            *word == tool.name
                || word == tool.effect.as_str()
                || word.strip_prefix("guest:") == Some(&tool.name)
        };
        let is_listed = |words: &Vec<String>| words.iter().any(is_meant);
        tool.is_in_profile(self.profile) && self.tools.as_ref().is_none_or(is_listed)
    }

    /// Returns whether the caller may call this tool, as far as that can be said before a call.
    pub fn offers_tool(&self, tool: &ToolSpec) -> bool {
        self.allows_tool(tool)
            && (self.workspaces.is_none() || !reaches_all_files(tool, tool.effect))
    }

    /// Returns the table of `config.toml` that has these rights.
    pub fn table_name(&self) -> String {
        let is_bare = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
        if self.name.chars().all(is_bare) {
            format!("callers.{}", self.name)
        } else {
            format!("callers.{:?}", self.name)
        }
    }

    /// Describes the rights in words.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        if let Some(words) = &self.tools {
            parts.push(format!("tools: {}", list_or_none(words)));
        }
        if self.profile != ToolProfile::All {
            parts.push(format!("profile: {}", self.profile.as_str()));
        }
        if let Some(folders) = &self.workspaces {
            let shown = folders.iter().map(|folder| folder.display().to_string());
            let shown: Vec<String> = shown.collect();
            parts.push(format!("workspaces: {}; no commands", list_or_none(&shown)));
        }
        if self.rate > 0 {
            parts.push(format!("{} calls a minute", self.rate));
        }
        if parts.is_empty() {
            return "everything".to_owned();
        }
        parts.join("; ")
    }

    fn refusal(&self, code: ErrorCode, tool: &ToolSpec, why: &str, key: &str) -> ToolError {
        let table = self.table_name();
        let text = format!(
            "{} was not run: {why}. This caller's rights: {}. The owner of the device sets them: {key} under [{table}] \
             in its config.toml.",
            tool.name,
            self.describe()
        );
        ToolError::new(code, text).with_meta(ResultMeta {
            rule: Some(table),
            ..ResultMeta::default()
        })
    }
}

/// Returns whether calls of a tool reach more than the files that they declare.
fn reaches_all_files(tool: &ToolSpec, effect: ToolEffect) -> bool {
    tool.origin != DEVICE_ORIGIN || (effect == ToolEffect::Executes && !tool.only_ends)
}

fn list_or_none(words: &[String]) -> String {
    if words.is_empty() {
        return "none".to_owned();
    }
    words.join(", ")
}

/// Holds calls to the rights of their callers.
pub struct CallerLimits {
    workspace: Workspace,
    rights: RwLock<Vec<CallerRights>>,
    /// The times of the last calls of each caller, in memory only: a restart counts anew.
    recent: Mutex<HashMap<String, VecDeque<Instant>>>,
}

impl CallerLimits {
    /// Creates limits in these workspaces, for now without rights: every caller may do everything.
    pub fn in_workspace(workspace: Workspace) -> Self {
        Self {
            workspace,
            rights: RwLock::default(),
            recent: Mutex::default(),
        }
    }

    /// Replaces the rights.
    pub fn set_rights(&self, rights: Vec<CallerRights>) {
        *self.rights.write() = rights;
    }

    /// Checks a call against the rights of its caller, and counts it.
    ///
    /// # Errors
    /// `policy_denied` for a tool, `outside_workspace` for a file, `busy` for too many calls.
    pub async fn check_call(
        &self,
        cx: &ToolContext,
        tool: &ToolSpec,
        call: DecodedCall<'_>,
    ) -> Result<(), ToolError> {
        let caller = cx.caller.as_deref();
        let rights = {
            let all = self.rights.read();
            if all.is_empty() {
                return Ok(());
            }
            CallerRights::find_for(&all, caller).cloned()
        };
        let Some(rights) = rights else {
            return caller.map(drop).ok_or_else(|| unnamed_caller_error(tool));
        };
        if !rights.allows_tool(tool) {
            let why = "its caller may not call this tool";
            let code = ErrorCode::PolicyDenied;
            return Err(rights.refusal(code, tool, why, "`tools` and `profile`"));
        }
        if let Some(folders) = &rights.workspaces {
            let workspace = self.workspace.for_session(cx.session.as_ref())?;
            check_folders(workspace, &rights, folders, tool, call).await?;
        }
        self.count_call(caller.unwrap_or_default(), &rights, tool)
    }

    /// Counts a call, unless its caller has made all calls of this minute.
    fn count_call(
        &self,
        caller: &str,
        rights: &CallerRights,
        tool: &ToolSpec,
    ) -> Result<(), ToolError> {
        if rights.rate == 0 {
            return Ok(());
        }
        let now = Instant::now();
        let is_recent = |at: &Instant| now.duration_since(*at) < RATE_WINDOW;
        let mut recent = self.recent.lock();
        recent.retain(|_, calls| calls.back().is_some_and(is_recent));
        let calls = recent.entry(caller.to_owned()).or_default();
        while calls.front().is_some_and(|at| !is_recent(at)) {
            calls.pop_front();
        }
        // The call before which the next one is one too many.
        let blocking = calls.len().checked_sub(rights.rate);
        let Some(at) = blocking.and_then(|index| calls.get(index)) else {
            calls.push_back(now);
            return Ok(());
        };
        let wait = RATE_WINDOW.saturating_sub(now.duration_since(*at));
        let why = format!(
            "its caller has made all calls of this minute; try again in {} s",
            wait.as_secs() + 1
        );
        Err(rights.refusal(ErrorCode::Busy, tool, &why, "`rate`"))
    }
}

/// Checks that a call reaches these workspaces alone.
async fn check_folders(
    workspace: Workspace,
    rights: &CallerRights,
    folders: &[PathBuf],
    tool: &ToolSpec,
    call: DecodedCall<'_>,
) -> Result<(), ToolError> {
    let access = call.access;
    let refused = |why: &str| {
        let code = ErrorCode::OutsideWorkspace;
        Err(rights.refusal(code, tool, why, "`workspaces`"))
    };
    // The call that a task runs is checked as a request of its own.
    if access.starts_call.is_some() {
        return Ok(());
    }
    let reaches_more = reaches_all_files(tool, call.effect)
        || access.starts_programs
        || access.command.is_some()
        || access.file_or_program.is_some()
        || access.unnamed.is_some();
    if reaches_more {
        return refused("it can reach files outside of its caller's workspaces");
    }
    let mut paths: Vec<String> = access.all_paths().map(str::to_owned).collect();
    if paths.is_empty() {
        let count = match access.default_location {
            DefaultLocation::Nowhere => 0,
            DefaultLocation::FirstWorkspace => 1,
            DefaultLocation::AllWorkspaces(_) => usize::MAX,
        };
        let roots = workspace.root_paths();
        paths.extend(roots.take(count).map(|root| root.display().to_string()));
    }
    let folders = folders.to_vec();
    let outside = run_blocking(move || -> Result<Option<String>, ToolError> {
        for path in paths {
            let found = workspace.resolve_inside(&RawPath::from(path.as_str()))?;
            let real = found.absolute_path();
            if !folders.iter().any(|folder| real.starts_with(folder)) {
                return Ok(Some(real.display().to_string()));
            }
        }
        Ok(None)
    })
    .await??;
    match outside {
        None => Ok(()),
        Some(path) => refused(&format!(
            "{path} is outside of its caller's workspaces; name a path in one of them, in full"
        )),
    }
}

fn unnamed_caller_error(tool: &ToolSpec) -> ToolError {
    let text = format!(
        "{} was not run: the device has rights by caller, and the backend does not name the caller of this request. \
         The backend is to be updated, or the owner of the device adds the rights of such requests: [callers.default] \
         in its config.toml.",
        tool.name
    );
    ToolError::new(ErrorCode::PolicyDenied, text).with_meta(ResultMeta {
        rule: Some("callers".to_owned()),
        ..ResultMeta::default()
    })
}
