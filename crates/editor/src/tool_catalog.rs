//! The tools that a client offers: when the client is asked for them, and which of its descriptors are accepted.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

use super::session::EditorSession;
use punie_tool::time_limit::run_within_limit;

pub use punie_core::owner_choices::DiscoveryMode;

/// A client that takes longer to list its tools counts as one that has none.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(2);
/// The most tools of one client.
const MOST_TOOLS: usize = 256;
/// The most bytes of one descriptor, as compact JSON.
const MOST_BYTES: usize = 64 << 10;
/// The most bytes of all descriptors together.
const MOST_BYTES_IN_ALL: usize = 512 << 10;
/// The most problems that are reported one by one.
const MOST_PROBLEMS: usize = 32;
/// The most categories of one tool.
const MOST_CATEGORIES: usize = 16;
const LONGEST_NAME: usize = 64;
/// The tool kinds that ACP defines.
const KINDS: &[&str] = &[
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    OTHER,
];
const OTHER: &str = "other";

/// A tool that a client offers.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDescriptor {
    /// Its name, unique within the catalog.
    pub name: String,
    /// Its ACP kind: `read`, `edit`, `execute` and so on.
    pub kind: String,
    /// The description for a model.
    pub description: String,
    /// The arguments' JSON schema.
    pub parameters: Value,
    /// A person is asked before it runs.
    pub requires_permission: bool,
    /// The categories that it belongs to.
    pub categories: Vec<String>,
}

impl ToolDescriptor {
    /// Returns the name that callers use, which has no slash because a request cannot name a tool with one.
    pub fn name(&self) -> String {
        self.name.replace('/', ".")
    }

    fn parse(entry: &Value) -> Result<Self, String> {
        let entry = entry.as_object().ok_or("it is not an object")?;
        let name = string_field(entry, "name")?;
        let fits = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(fits) {
            return Err(format!(
                "`name` must be 1 to {LONGEST_NAME} characters of A-Z a-z 0-9 _ . / -"
            ));
        }
        let parameters = entry.get("parameters").ok_or("`parameters` is missing")?;
        let of_objects =
            |schema: &Map<String, Value>| schema.get("type").is_none_or(|name| name == "object");
        if !parameters.as_object().is_some_and(of_objects) {
            return Err("`parameters` must be the JSON schema of an object".into());
        }
        let kind = entry
            .get("kind")
            .and_then(Value::as_str)
            .filter(|kind| KINDS.contains(kind));
        Ok(Self {
            name: name.to_owned(),
            kind: kind.unwrap_or(OTHER).to_owned(),
            description: string_field(entry, "description")?.trim().to_owned(),
            parameters: parameters.clone(),
            requires_permission: bool_field(entry, "requires_permission")?
                || bool_field(entry, "requiresPermission")?,
            categories: word_list_field(entry, "categories")?,
        })
    }
}

fn string_field<'a>(entry: &'a Map<String, Value>, key: &str) -> Result<&'a str, String> {
    let value = entry
        .get(key)
        .ok_or_else(|| format!("`{key}` is missing"))?;
    value
        .as_str()
        .ok_or_else(|| format!("`{key}` must be a string"))
}

/// Any value but true, false and null is an error: it may have been meant as true.
fn bool_field(entry: &Map<String, Value>, key: &str) -> Result<bool, String> {
    match entry.get(key) {
        None | Some(Value::Null) => Ok(false),
        Some(value) => value
            .as_bool()
            .ok_or_else(|| format!("`{key}` must be true or false")),
    }
}

fn word_list_field(entry: &Map<String, Value>, key: &str) -> Result<Vec<String>, String> {
    let list = match entry.get(key) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(value) => value
            .as_array()
            .ok_or_else(|| format!("`{key}` must be a list of words"))?,
    };
    let words = list
        .iter()
        .filter_map(Value::as_str)
        .filter(|word| word.len() <= LONGEST_NAME);
    Ok(words.take(MOST_CATEGORIES).map(str::to_owned).collect())
}

/// A problem in a client's list of tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCatalogProblem {
    /// The tool's name if it has one, else its place in the list; for a problem with the whole answer, a fixed word.
    pub subject: String,
    /// The problem.
    pub reason: String,
}

impl fmt::Display for ToolCatalogProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.reason)
    }
}

/// The tools that a client offers; never changed once it was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolCatalog {
    tools: Vec<ToolDescriptor>,
    problems: Vec<ToolCatalogProblem>,
}

impl ToolCatalog {
    /// Creates a catalog without tools, with the reason.
    pub fn from_failure(why: impl Into<String>) -> Self {
        Self {
            tools: Vec::new(),
            problems: vec![ToolCatalogProblem {
                subject: "discovery".into(),
                reason: why.into(),
            }],
        }
    }

    /// Parses a client's answer, entry by entry. A bad entry is left out and reported, and does not affect the others.
    pub fn parse(answer: &Value) -> Self {
        let Some(entries) = answer.get("tools").and_then(Value::as_array) else {
            return Self::from_failure("the answer has no list `tools`");
        };
        let mut catalog = Self::default();
        let mut bytes = 0;
        let mut left_out = 0;
        let mut names = HashSet::new();
        for (at, entry) in entries.iter().enumerate() {
            if catalog.tools.len() == MOST_TOOLS || catalog.problems.len() == MOST_PROBLEMS {
                left_out = entries.len() - at;
                break;
            }
            let size = entry.to_string().len();
            let read = if size > MOST_BYTES {
                Err(format!(
                    "it has {size} bytes; a descriptor has {MOST_BYTES} at most"
                ))
            } else if bytes + size > MOST_BYTES_IN_ALL {
                left_out = entries.len() - at;
                break;
            } else {
                ToolDescriptor::parse(entry)
            };
            match read {
                Ok(tool) if names.insert(tool.name()) => {
                    bytes += size;
                    catalog.tools.push(tool);
                }
                Ok(tool) => catalog.record_problem(
                    tool.name,
                    "an earlier tool has this name; the first one counts",
                ),
                Err(why) => catalog.record_problem(entry_label(entry, at), why),
            }
        }
        if left_out > 0 {
            let why = format!(
                "the last {left_out} were not looked at: there are at most {MOST_TOOLS} tools, \
                 {MOST_BYTES_IN_ALL} bytes and {MOST_PROBLEMS} bad ones"
            );
            catalog.record_problem("tools", why);
        }
        catalog
    }

    fn record_problem(&mut self, of: impl Into<String>, why: impl Into<String>) {
        self.problems.push(ToolCatalogProblem {
            subject: of.into(),
            reason: why.into(),
        });
    }

    /// Returns all tools, in the client's order.
    pub fn descriptors(&self) -> &[ToolDescriptor] {
        &self.tools
    }

    /// Returns the entries that were left out, with the reasons.
    pub fn problems(&self) -> &[ToolCatalogProblem] {
        &self.problems
    }
}

/// Returns the label of a bad entry in a report.
fn entry_label(entry: &Value, at: usize) -> String {
    match entry.get("name").and_then(Value::as_str) {
        Some(name) => format!(
            "tools[{at}] {:?}",
            name.chars().take(LONGEST_NAME).collect::<String>()
        ),
        None => format!("tools[{at}]"),
    }
}

/// Returns ACP's name of a kind as a static string.
pub(super) fn static_kind_name(kind: &str) -> &'static str {
    KINDS
        .iter()
        .find(|known| **known == kind)
        .copied()
        .unwrap_or(OTHER)
}

impl EditorSession {
    /// Returns the tools that the client offers. The client is asked once, at the first call. One that must not be
    /// asked, fails or takes too long offers none.
    pub async fn tool_catalog(&self) -> &ToolCatalog {
        self.catalog
            .get_or_init(|| self.request_tool_catalog())
            .await
    }

    /// Returns the tools that the client offers, if it was asked already.
    pub fn discovered_tools(&self) -> Option<&ToolCatalog> {
        self.catalog.get()
    }

    async fn request_tool_catalog(&self) -> ToolCatalog {
        if !self.may_request_tools() {
            return ToolCatalog::default();
        }
        let asked = self.client.discover_tools(self.id.clone());
        match run_within_limit(DISCOVERY_TIMEOUT, asked).await {
            Some(Ok(catalog)) => catalog,
            Some(Err(error)) => {
                ToolCatalog::from_failure(format!("{} answers: {}", self.editor, error.message))
            }
            None => ToolCatalog::from_failure(format!(
                "no answer within {} s",
                DISCOVERY_TIMEOUT.as_secs()
            )),
        }
    }

    fn may_request_tools(&self) -> bool {
        match self.settings.discover {
            DiscoveryMode::Always => true,
            DiscoveryMode::Never => false,
            DiscoveryMode::Announced => self.announces_tools(),
        }
    }

    /// Returns whether the client announced that it can be asked for its tools.
    fn announces_tools(&self) -> bool {
        let Some(meta) = &self.capabilities.meta else {
            return false;
        };
        let nested = meta
            .get("punie")
            .and_then(|punie| punie.get("discoverTools"));
        nested
            .or_else(|| meta.get("punie.discoverTools"))
            .and_then(Value::as_bool)
            == Some(true)
    }
}
