//! Profiles: parts of the catalog, for models that should read less of it.

use serde_json::{Value, json};

use super::tool_spec::{DEVICE_ORIGIN, ToolSpec};

pub use punie_core::owner_choices::ToolProfile;

/// The tools of the smallest profile: enough to look around, to change files and to run commands.
const MINIMAL_TOOLS: &[&str] = &[
    "Bash",
    "Edit",
    "Glob",
    "Grep",
    "Read",
    "ReadOutput",
    "Write",
];
/// The domains that programming needs.
const CODING_DOMAINS: &[&str] = &["file", "search", "shell", "terminal", "git", "state"];

/// Returns whether a profile lists the tool of this catalog entry. It lists no names for compatibility.
pub fn is_entry_in_profile(entry: &Value, profile: ToolProfile) -> bool {
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let is_own = entry["origin"] == DEVICE_ORIGIN;
    let name = text(&entry["name"]);
    let domain = text(&entry["categories"][0]);
    entry["compat"] != true && includes_named(profile, is_own, &name, &domain)
}

impl ToolSpec {
    /// Returns whether calls of this tool belong to the profile. Names for compatibility belong only to the whole.
    pub fn is_in_profile(&self, profile: ToolProfile) -> bool {
        let is_own = self.origin == DEVICE_ORIGIN;
        profile == ToolProfile::All
            || (self.same_as.is_none() && includes_named(profile, is_own, &self.name, self.domain))
    }
}

fn includes_named(profile: ToolProfile, is_own: bool, name: &str, domain: &str) -> bool {
    match profile {
        ToolProfile::Minimal => is_own && MINIMAL_TOOLS.contains(&name),
        ToolProfile::Coding => !is_own || CODING_DOMAINS.contains(&domain),
        ToolProfile::All => true,
    }
}

/// The form in which the API of a model wants its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelFormat {
    /// The Messages API of Anthropic.
    Anthropic,
    /// The Responses API of OpenAI.
    OpenAi,
    /// The Chat Completions API of OpenAI, and of many others.
    OpenAiChat,
    /// The function declarations of Gemini.
    Gemini,
    /// The Model Context Protocol.
    Mcp,
}

impl ModelFormat {
    /// All forms by their names.
    pub const NAMES: [(&str, Self); 5] = [
        ("anthropic", Self::Anthropic),
        ("openai", Self::OpenAi),
        ("openai-chat", Self::OpenAiChat),
        ("gemini", Self::Gemini),
        ("mcp", Self::Mcp),
    ];

    /// Converts a catalog entry.
    pub fn format_tool(self, entry: &Value) -> Value {
        let name = &entry["name"];
        let text = &entry["description"];
        let schema = &entry["schema"];
        match self {
            Self::Anthropic => json!({"name": name, "description": text, "input_schema": schema}),
            Self::OpenAi => json!({
                "type": "function", "name": name, "description": text, "parameters": schema, "strict": false
            }),
            Self::OpenAiChat => {
                let function = json!({"name": name, "description": text, "parameters": schema});
                json!({"type": "function", "function": function})
            }
            Self::Gemini => {
                json!({"name": name, "description": text, "parametersJsonSchema": schema})
            }
            Self::Mcp => {
                let is_read_only = entry["effect"] == "reads" || entry["effect"] == "asks_user";
                let hints = json!({"readOnlyHint": is_read_only});
                json!({"name": name, "description": text, "inputSchema": schema, "annotations": hints})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_a_part_of_the_next() {
        let entry = |name: &str, domain: &str, origin: &str| json!({"name": name, "categories": [domain], "origin": origin});
        let profiles = |entry: &Value| {
            ToolProfile::NAMES.map(|(_, profile)| is_entry_in_profile(entry, profile))
        };
        assert_eq!(
            profiles(&entry("Read", "file", "device")),
            [true, true, true]
        );
        assert_eq!(
            profiles(&entry("GitLog", "git", "device")),
            [false, true, true]
        );
        assert_eq!(
            profiles(&entry("SqliteQuery", "sqlite", "device")),
            [false, false, true]
        );
        assert_eq!(
            profiles(&entry("Read", "plugin", "word-stats")),
            [false, true, true]
        );
        let mut twin = entry("Read", "file", "device");
        twin["compat"] = json!(true);
        assert_eq!(profiles(&twin), [false; 3]);
    }
}
