//! What is stored of each bridge: what was deployed, what is wanted, and what became of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name_grammar::{MAX_ID, is_item_id, is_npm_name};
use punie_core::ids::RequestId;
use punie_core::variable_name::is_variable_name;

/// So many ends in a row, none after a healthy time, need the owner's attention.
const MAX_ENDS: u32 = 5;

/// The state that the owner wants a bridge to be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WantedState {
    /// The runner keeps it running.
    Started,
    /// It does not run.
    Stopped,
}

/// A deployed bridge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BridgeRecord {
    /// The hash of its code with its dependencies.
    pub sha256: String,
    /// The file that Node runs, by its path in the code.
    pub main: String,
    /// Its dependencies, each `name@x.y.z`.
    pub dependencies: Vec<String>,
    /// The names of the secrets that it gets, by variable.
    pub secrets: BTreeMap<String, String>,
    /// The hosts that it may reach.
    pub hosts: Vec<String>,
    /// The wanted state.
    pub wanted: WantedState,
    /// The time when it was last wanted to start, in milliseconds since 1970. A newer one starts it anew.
    #[serde(default)]
    pub wanted_at_ms: i64,
    /// The time when it was deployed, in milliseconds since 1970.
    pub deployed_at_ms: i64,
}

/// All bridges, and the changes of them that are under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BridgesState {
    /// The bridges by name.
    pub bridges: BTreeMap<String, BridgeRecord>,
    /// The changes that were decided and are not complete, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pending: BTreeMap<String, PendingChange>,
}

/// A decided change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingChange {
    /// The staging folder with the new code, or for the old one.
    pub staging: String,
    /// The new bridge; `None` if the bridge is removed.
    pub new: Option<BridgeRecord>,
}

/// What became of a bridge since the runner keeps it running.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BridgeRun {
    /// The start that it follows, as the record has it.
    pub wanted_at_ms: i64,
    /// Marks the processes of the copy that may run; written before it is started.
    pub request: Option<RequestId>,
    /// The first process of the copy that runs.
    pub pid: Option<u32>,
    /// The time when it was started, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// The number of starts after the first.
    pub restarts: u32,
    /// The ends since it last ran for a healthy time.
    pub ends_in_row: u32,
    /// How it ended last: `exit code 1`.
    pub last_exit: Option<String>,
    /// The time of that end, in milliseconds since 1970.
    pub last_exit_ms: Option<i64>,
    /// The reason why it was not started.
    pub problem: Option<String>,
}

impl BridgeRun {
    /// Describes what needs the owner's attention, if anything does; part of a sentence.
    pub fn describe_trouble(&self) -> Option<String> {
        if let Some(problem) = &self.problem {
            return Some(format!("was not started: {problem}"));
        }
        let how = self.last_exit.as_ref()?;
        (self.ends_in_row >= MAX_ENDS)
            .then(|| format!("ended {} times in a row, last with {how}", self.ends_in_row))
    }
}

/// Checks the name of a bridge; an error is a part of a sentence.
///
/// # Errors
/// The name has other characters, or is too long.
pub fn check_bridge_name(name: &str) -> Result<(), String> {
    if is_item_id(name) {
        return Ok(());
    }
    Err(format!(
        "{name:?} is not a bridge's name: 1 to {MAX_ID} lower-case letters, digits, - and _, a letter or digit first"
    ))
}

/// Checks a dependency, which names one version of a package of the registry; an error is a part of a sentence.
///
/// # Errors
/// It is a range, an address or a path, or its name is not one.
pub fn check_pin(pin: &str) -> Result<(&str, &str), String> {
    let wrong = || {
        format!(
            "{pin:?} is not one version of a package. Write name@1.2.3; ranges, tags, addresses and paths are refused"
        )
    };
    let (name, version) = pin.rsplit_once('@').ok_or_else(wrong)?;
    if is_npm_name(name) && is_exact_version(version) {
        Ok((name, version))
    } else {
        Err(wrong())
    }
}

fn is_exact_version(version: &str) -> bool {
    let (numbers, rest) = match version.find(['-', '+']) {
        Some(at) => version.split_at(at),
        None => (version, ""),
    };
    let is_number = |part: &str| {
        let is_short = (1..=9).contains(&part.len()) && (part == "0" || !part.starts_with('0'));
        is_short && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let parts: Vec<&str> = numbers.split('.').collect();
    let is_tail = |c: char| c.is_ascii_alphanumeric() || "-.+".contains(c);
    parts.len() == 3
        && parts.into_iter().all(is_number)
        && rest.len() <= 64
        && rest.len() != 1
        && rest.chars().all(is_tail)
}

/// Checks that a text is the name of a variable; an error is a part of a sentence.
///
/// # Errors
/// It is not.
pub fn check_variable_name(name: &str) -> Result<(), String> {
    if is_variable_name(name) {
        return Ok(());
    }
    Err(format!(
        "{name:?} is not a variable's name: letters, digits and _, not beginning with a digit"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_plain_word() {
        let longest = "a".repeat(64);
        for name in ["a", "signal", "0-x_y", &longest] {
            check_bridge_name(name).expect(name);
        }
        let too_long = "a".repeat(65);
        for name in [
            "", "-a", "_a", "A", "a/b", "..", "a.b", "a b", "é", "a\0", &too_long,
        ] {
            check_bridge_name(name).expect_err(name);
        }
    }

    #[test]
    fn a_dependency_is_one_version() {
        for pin in [
            "left-pad@1.3.0",
            "@scope/name@0.0.1",
            "a@1.2.3-rc.1",
            "a@1.2.3+build",
        ] {
            check_pin(pin).expect(pin);
        }
        for pin in [
            "left-pad",
            "left-pad@",
            "left-pad@1",
            "left-pad@^1.2.3",
            "left-pad@~1.2.3",
            "left-pad@1.2.x",
            "left-pad@*",
            "left-pad@latest",
            "left-pad@1.2.3 || 2.0.0",
            "left-pad@01.2.3",
            "left-pad@1.2.3-",
            "left-pad@file:../x",
            "left-pad@git+https://x.org/a.git",
            "left-pad@npm:other@1.2.3",
            "a@https://x.org/a-1.2.3.tgz",
            "../a@1.2.3",
            "@a@1.2.3",
            "@/a@1.2.3",
            "--global@1.2.3",
            "a/b@1.2.3",
            "A@1.2.3",
        ] {
            check_pin(pin).expect_err(pin);
        }
    }

    #[test]
    fn a_bridge_that_ends_again_and_again_needs_attention() {
        let mut run = BridgeRun {
            last_exit: Some("exit code 1".to_owned()),
            ends_in_row: 4,
            ..BridgeRun::default()
        };
        assert_eq!(run.describe_trouble(), None);
        run.ends_in_row = 5;
        let trouble = run.describe_trouble().expect("five in a row");
        assert_eq!(trouble, "ended 5 times in a row, last with exit code 1");
        run.problem = Some("no node".to_owned());
        let trouble = run.describe_trouble().expect("a problem");
        assert_eq!(trouble, "was not started: no node");
    }
}
