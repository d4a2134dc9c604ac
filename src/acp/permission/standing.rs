//! The owner's rules and grants in force: loaded again when they change, with a safe state while they cannot be read.
//! Not here: their decision about a call.
//!
//! If the file becomes invalid while the runner runs, an error is logged, and no call that changes anything starts
//! until it is fixed. The reason: the owner wrote a new rule that is unknown. Calls that only read continue under the
//! previous rules.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::home::{GrantFiles, Home, HomeError, PolicyFile, PolicyStamp};
use crate::ids::RequestId;
use crate::policy::{Broken, Decision, Grant, NewRule, Rules, Target};

type IsTool = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The owner's rules, kept up to date.
pub struct StandingRules {
    file: PolicyFile,
    grants: GrantFiles,
    is_tool: IsTool,
    seen: Mutex<Seen>,
}

struct Seen {
    stamp: PolicyStamp,
    standing: Standing,
}

/// The rules in force at one moment.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// The last rules that could be read.
    pub rules: Arc<Rules>,
    /// The reason why the current file cannot be read.
    pub broken: Option<String>,
}

impl StandingRules {
    /// Loads the rules of a home. The file must not lie in any of these workspaces. `is_tool` recognizes this device's
    /// own tools.
    ///
    /// # Errors
    /// The fault in the file: a runner does not start with rules that it cannot read.
    pub fn load(home: &Home, workspaces: Vec<PathBuf>, is_tool: IsTool) -> Result<Self, Broken> {
        let file = PolicyFile::of(home).outside(workspaces);
        let unread = |error: std::io::Error| Broken { line: None, text: error.to_string() };
        let stamp = file.stamp().map_err(unread)?;
        let text = file.read().map_err(unread)?.unwrap_or_default();
        let rules = Arc::new(Rules::parse(&text, &*is_tool)?);
        let seen = Seen { stamp, standing: Standing { rules, broken: None } };
        Ok(Self { file, grants: GrantFiles::of(home), is_tool, seen: Mutex::new(seen) })
    }

    /// Returns whether there are rules to check a call against, from the file's metadata only. Runs for every call.
    pub(super) fn say_something(&self) -> bool {
        // Called on the event loop, so it must not wait for another thread that reads the file.
        let Ok(seen) = self.seen.try_lock() else { return true };
        let is_same = self.file.stamp().is_ok_and(|stamp| stamp == seen.stamp);
        !is_same || seen.standing.broken.is_some() || !seen.standing.rules.is_empty()
    }

    /// Returns the rules in force. Reads the file if it changed, which takes a moment.
    pub fn now(&self) -> Standing {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if self.file.stamp().is_ok_and(|stamp| stamp == seen.stamp) {
            return seen.standing.clone();
        }
        let read = self.file.settled().map_err(|error| (format!("policy.toml: {error}"), None));
        let parsed = read.and_then(|(text, stamp)| {
            let rules = Rules::parse(&text.unwrap_or_default(), &*self.is_tool);
            rules.map(|rules| (rules, stamp)).map_err(|broken| (broken.to_string(), Some(stamp)))
        });
        match parsed {
            Ok((rules, stamp)) => {
                tracing::info!(
                    rules = rules.rules.len(),
                    default = rules.default.as_str(),
                    "the owner's rules were read anew"
                );
                *seen = Seen { stamp, standing: Standing { rules: Arc::new(rules), broken: None } };
            }
            Err((why, stamp)) => {
                if seen.standing.broken.as_ref() != Some(&why) {
                    tracing::error!(
                        why,
                        "the owner's rules cannot be read; nothing that changes anything begins"
                    );
                }
                seen.standing.broken = Some(why);
                // A file that could not be read at all is tried again at the next call.
                if let Some(stamp) = stamp {
                    seen.stamp = stamp;
                }
            }
        }
        seen.standing.clone()
    }

    /// Returns the grants in force that this request may use, or that any new request may use.
    pub fn grants_for(&self, request: Option<&RequestId>) -> Vec<Grant> {
        let now = now_ms();
        let all = self.grants.all();
        let read = all.iter().filter_map(|text| serde_json::from_slice::<Grant>(text).ok());
        let is_free = |grant: &Grant| {
            let used = self.grants.used_by(&grant.id).filter(|_| grant.once);
            used.is_none_or(|by| request.is_some_and(|request| by == request.as_str()))
        };
        read.filter(|grant| grant.is_in_force(now) && is_free(grant)).collect()
    }

    /// Adds a grant that holds from now on, and removes expired ones.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    pub fn grant(&self, target: Target, once: bool, lasts: Duration) -> Result<Grant, HomeError> {
        let now = now_ms();
        let lasts_ms = i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX);
        // Version 7 ids sort by the time at which they were given.
        let id = Uuid::now_v7().simple().to_string();
        let grant = Grant { id, target, once, made_ms: now, until_ms: now.saturating_add(lasts_ms) };
        for old in self.grants.all().iter().filter_map(|text| serde_json::from_slice::<Grant>(text).ok()) {
            if old.until_ms <= now {
                self.grants.remove(&old.id);
            }
        }
        let text = serde_json::to_vec(&grant).unwrap_or_default();
        self.grants.put(&grant.id, &text)?;
        Ok(grant)
    }

    /// Removes a grant.
    pub fn revoke(&self, id: &str) {
        self.grants.remove(id);
    }

    /// Adds a rule to the file as it is on disk. Returns the rule's name.
    ///
    /// # Errors
    /// [`Broken`] if the file is invalid before or after the change; else the system's error.
    pub fn add(&self, rule: &NewRule, decision: Decision) -> Result<Result<String, Broken>, HomeError> {
        let text = match self.file.read() {
            Ok(text) => text.unwrap_or_default(),
            Err(error) => return Ok(Err(Broken { line: None, text: error.to_string() })),
        };
        match rule.added_to(&text, decision, &*self.is_tool) {
            Ok((text, name)) => self.file.write(&text).map(|()| Ok(name)),
            Err(broken) => Ok(Err(broken)),
        }
    }

    /// Uses up a grant that is for one request only. Returns whether it belongs to this request.
    pub(super) fn use_up(&self, grants: &[Grant], id: &str, request: &RequestId) -> bool {
        grants
            .iter()
            .find(|grant| grant.id == id)
            .is_none_or(|grant| !grant.once || self.grants.use_up(id, request))
    }
}

/// Returns the wall clock in milliseconds since 1970; grants expire by it.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
