//! The owner's rules and grants in force: loaded again when they change, with a safe state while they cannot be read.
//!
//! If the file becomes invalid while the runner runs, an error is logged, and no call that changes anything starts
//! until it is fixed. The reason: the owner wrote a new rule that is unknown. Calls that only read continue under the
//! previous rules.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use uuid::Uuid;

use punie_core::clock::unix_time_ms;
use punie_core::ids::RequestId;
use punie_home::{GrantFiles, Home, HomeError, PolicyFile, PolicyStamp};
use punie_policy::{
    AddedPolicyRule, GrantTarget, PolicyCall, PolicyDecision, PolicyFileError, PolicyGrant,
    PolicyRules, judge_call,
};

type IsTool = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The owner's rules, kept up to date.
pub struct ActiveRules {
    file: PolicyFile,
    grants: GrantFiles,
    is_tool: IsTool,
    loaded: Mutex<LoadedRules>,
}

struct LoadedRules {
    stamp: PolicyStamp,
    snapshot: RulesSnapshot,
}

/// The rules in force at one moment.
#[derive(Debug, Clone, Default)]
pub struct RulesSnapshot {
    /// The last rules that could be read.
    pub rules: Arc<PolicyRules>,
    /// The reason why the current file cannot be read.
    pub broken: Option<String>,
}

impl ActiveRules {
    /// Loads the rules of a home. The file must not lie in any of these workspaces. `is_tool` recognizes this device's
    /// own tools.
    ///
    /// # Errors
    /// The fault in the file: a runner does not start with rules that it cannot read.
    pub fn load_from_home(
        home: &Home,
        workspaces: Vec<PathBuf>,
        is_tool: IsTool,
    ) -> Result<Self, PolicyFileError> {
        let file = PolicyFile::in_home(home).outside_workspaces(workspaces);
        let unread = |error: std::io::Error| PolicyFileError {
            line: None,
            text: error.to_string(),
        };
        let stamp = file.read_stamp().map_err(unread)?;
        let text = file.read_checked().map_err(unread)?.unwrap_or_default();
        let rules = Arc::new(PolicyRules::parse(&text, &*is_tool)?);
        let seen = LoadedRules {
            stamp,
            snapshot: RulesSnapshot {
                rules,
                broken: None,
            },
        };
        Ok(Self {
            file,
            grants: GrantFiles::in_home(home),
            is_tool,
            loaded: Mutex::new(seen),
        })
    }

    /// Returns whether there are rules to check a call against, from the file's metadata only. Runs for every call.
    pub(super) fn may_have_any(&self) -> bool {
        // Called on the event loop, so it must not wait for another thread that reads the file.
        let Some(seen) = self.loaded.try_lock() else {
            return true;
        };
        let is_same = self
            .file
            .read_stamp()
            .is_ok_and(|stamp| stamp == seen.stamp);
        !is_same || seen.snapshot.broken.is_some() || !seen.snapshot.rules.is_empty()
    }

    /// Returns the rules in force. Reads the file if it changed, which takes a moment.
    pub fn current_rules(&self) -> RulesSnapshot {
        let mut seen = self.loaded.lock();
        if self
            .file
            .read_stamp()
            .is_ok_and(|stamp| stamp == seen.stamp)
        {
            return seen.snapshot.clone();
        }
        let read = self
            .file
            .read_settled()
            .map_err(|error| (format!("policy.toml: {error}"), None));
        let parsed = read.and_then(|(text, stamp)| {
            let rules = PolicyRules::parse(&text.unwrap_or_default(), &*self.is_tool);
            rules
                .map(|rules| (rules, stamp))
                .map_err(|broken| (broken.to_string(), Some(stamp)))
        });
        match parsed {
            Ok((rules, stamp)) => {
                tracing::info!(
                    rules = rules.rules.len(),
                    default = rules.default.as_str(),
                    "the owner's rules were read anew"
                );
                *seen = LoadedRules {
                    stamp,
                    snapshot: RulesSnapshot {
                        rules: Arc::new(rules),
                        broken: None,
                    },
                };
            }
            Err((why, stamp)) => {
                if seen.snapshot.broken.as_ref() != Some(&why) {
                    tracing::error!(
                        why,
                        "the owner's rules cannot be read; nothing that changes anything begins"
                    );
                }
                seen.snapshot.broken = Some(why);
                // A file that could not be read at all is tried again at the next call.
                if let Some(stamp) = stamp {
                    seen.stamp = stamp;
                }
            }
        }
        seen.snapshot.clone()
    }

    /// Returns the grants in force that this request may use, or that any new request may use.
    pub fn grants_for(&self, request: Option<&RequestId>) -> Vec<PolicyGrant> {
        let now = unix_time_ms();
        let all = self.grants.texts();
        let read = all
            .iter()
            .filter_map(|text| serde_json::from_slice::<PolicyGrant>(text).ok());
        let is_free = |grant: &PolicyGrant| {
            let used = self.grants.used_by(&grant.id).filter(|_| grant.once);
            used.is_none_or(|by| request.is_some_and(|request| by == request.as_str()))
        };
        read.filter(|grant| grant.is_in_force(now) && is_free(grant))
            .collect()
    }

    /// Adds a grant that holds from now on, and removes expired ones.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    pub fn add_grant(
        &self,
        target: GrantTarget,
        once: bool,
        lasts: Duration,
    ) -> Result<PolicyGrant, HomeError> {
        let now = unix_time_ms();
        let lasts_ms = i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX);
        // Version 7 ids sort by the time at which they were given.
        let id = Uuid::now_v7().simple().to_string();
        let grant = PolicyGrant {
            id,
            target,
            once,
            made_ms: now,
            until_ms: now.saturating_add(lasts_ms),
        };
        for old in self
            .grants
            .texts()
            .iter()
            .filter_map(|text| serde_json::from_slice::<PolicyGrant>(text).ok())
        {
            if old.until_ms <= now {
                self.grants.remove(&old.id);
            }
        }
        let text = serde_json::to_vec(&grant).unwrap_or_default();
        self.grants.store(&grant.id, &text)?;
        Ok(grant)
    }

    /// Removes a grant.
    pub fn revoke_grant(&self, id: &str) {
        self.grants.remove(id);
    }

    /// Adds a rule to the file as it is on disk. Returns the rule's name.
    ///
    /// # Errors
    /// [`PolicyFileError`] if the file is invalid before or after the change; else the system's error.
    pub fn append(
        &self,
        rule: &AddedPolicyRule,
        decision: PolicyDecision,
    ) -> Result<Result<String, PolicyFileError>, HomeError> {
        self.change_file(|text| rule.append_to_file(text, decision, &*self.is_tool))
    }

    /// Removes a rule from the file as it is on disk.
    ///
    /// # Errors
    /// [`PolicyFileError`] if the file is invalid, or has no such rule; else the system's error.
    pub fn remove(&self, name: &str) -> Result<Result<(), PolicyFileError>, HomeError> {
        self.change_file(|text| {
            let left = PolicyRules::remove_from_text(text, name, &*self.is_tool)?;
            Ok((left, ()))
        })
    }

    fn change_file<T>(
        &self,
        change: impl FnOnce(&str) -> Result<(String, T), PolicyFileError>,
    ) -> Result<Result<T, PolicyFileError>, HomeError> {
        let unread = |error: std::io::Error| PolicyFileError {
            line: None,
            text: error.to_string(),
        };
        let changed = self
            .file
            .read_checked()
            .map_err(unread)
            .and_then(|text| change(&text.unwrap_or_default()));
        match changed {
            Ok((text, made)) => {
                self.file.write(&text)?;
                self.load_own_change();
                Ok(Ok(made))
            }
            Err(broken) => Ok(Err(broken)),
        }
    }

    /// Reads the file after this process changed it, so that the change is not logged as one from elsewhere.
    fn load_own_change(&self) {
        let Ok((text, stamp)) = self.file.read_settled() else {
            return;
        };
        if let Ok(rules) = PolicyRules::parse(&text.unwrap_or_default(), &*self.is_tool) {
            let snapshot = RulesSnapshot {
                rules: Arc::new(rules),
                broken: None,
            };
            *self.loaded.lock() = LoadedRules { stamp, snapshot };
        }
    }

    /// Returns whether this call would be allowed if this rule were added to the file as it is on disk.
    pub(super) fn would_allow(
        &self,
        rule: &AddedPolicyRule,
        asks: bool,
        call: &PolicyCall,
    ) -> bool {
        let Ok(text) = self.file.read_checked() else {
            return false;
        };
        rule.append_to_file(
            &text.unwrap_or_default(),
            PolicyDecision::Allow,
            &*self.is_tool,
        )
        .and_then(|(text, _)| PolicyRules::parse(&text, &*self.is_tool))
        .is_ok_and(|rules| judge_call(&rules, asks, call, &[]).decision == PolicyDecision::Allow)
    }

    /// Uses up a grant that is for one request only. Returns whether it belongs to this request.
    pub(super) fn use_up_grant(
        &self,
        grants: &[PolicyGrant],
        id: &str,
        request: &RequestId,
    ) -> bool {
        grants
            .iter()
            .find(|grant| grant.id == id)
            .is_none_or(|grant| !grant.once || self.grants.claim(id, request))
    }
}
