//! What a scenario's file may say, and reading all of them. Not here: playing them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Map, Value};

/// One file of `scenarios/`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// The file's name without its ending.
    #[serde(skip)]
    pub name: String,
    /// What it is about, in one line.
    pub about: String,
    /// The agent type of its requests, if they have one.
    pub agent_type: Option<String>,
    /// The requests, one after the other, in one conversation.
    pub steps: Vec<Step>,
}

/// One request and what should come of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// What it shows, in a few words.
    pub what: String,
    /// The tool.
    pub tool: String,
    /// Its arguments; `${name}` in a string stands for a saved value.
    #[serde(default)]
    pub args: Value,
    /// What the answer must be like.
    pub expect: Expect,
    /// What later steps need of the answer.
    #[serde(default)]
    pub save: BTreeMap<String, Save>,
    /// How the request is taken back, if it is.
    pub cancel: Option<Cancel>,
    /// Ask again, under a new id, until the answer is as expected.
    pub again: Option<Again>,
    /// How long to wait for the answer.
    #[serde(default = "a_minute")]
    pub wait_secs: u64,
}

fn a_minute() -> u64 {
    60
}

/// What an answer must be like.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expect {
    /// `ok`, `error` or `cancelled`.
    pub outcome: String,
    /// What its text must contain.
    #[serde(default)]
    pub text: Vec<String>,
    /// What its text must not contain.
    #[serde(default)]
    pub no_text: Vec<String>,
    /// What `meta` must hold, beside whatever else it holds.
    #[serde(default)]
    pub meta: Map<String, Value>,
}

/// Where a value to save is found.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Save {
    /// In the payload, by JSON pointer.
    Pointer {
        /// Such as `/meta/handle`.
        pointer: String,
    },
    /// In the answer's text, between two others.
    Between {
        /// What stands before it.
        after: String,
        /// What stands behind it.
        before: String,
    },
}

/// How a request is taken back.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cancel {
    /// By this program, so many milliseconds after it was asked.
    AfterMs(u64),
    /// By the person at the terminal, who is told what to type. By this program where there is no terminal.
    ByHand,
}

/// How often to ask again.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Again {
    /// At most so often.
    pub times: u32,
    /// With so many milliseconds between.
    pub every_ms: u64,
}

impl Scenario {
    /// All scenarios, in order of their names.
    pub fn load_all() -> anyhow::Result<Vec<Self>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("manual-tests/scenarios");
        let mut scenarios = Vec::new();
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "json") {
                scenarios.push(Self::load(&path).with_context(|| path.display().to_string())?);
            }
        }
        scenarios.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(scenarios)
    }

    fn load(path: &Path) -> anyhow::Result<Self> {
        let mut scenario: Self = serde_json::from_str(&std::fs::read_to_string(path)?)?;
        scenario.name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Ok(scenario)
    }
}
