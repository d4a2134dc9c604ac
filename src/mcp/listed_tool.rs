//! A tool as the protocol lists it, from its catalog entry.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::Value;

/// Converts a catalog entry; `None` for one that cannot be read.
pub(super) fn listed_tool(entry: &Value) -> Option<Tool> {
    let name = entry["name"].as_str()?;
    let schema = entry["schema"].as_object()?.clone();
    let description = entry["description"].as_str().unwrap_or_default();
    let title = tool_title(name);
    let mut hints = effect_hints(entry["effect"].as_str().unwrap_or_default());
    hints.title = Some(title.clone());
    let mut tool = Tool::new(name.to_owned(), description.to_owned(), Arc::new(schema));
    tool.annotations = Some(hints);
    tool.title = Some(title);
    Some(tool)
}

/// Returns the hints that follow from the most that a tool may do. An unknown effect may do everything.
fn effect_hints(effect: &str) -> ToolAnnotations {
    let hints = ToolAnnotations::new();
    match effect {
        "reads" | "asks_user" => hints.read_only(true).open_world(false),
        "writes" => hints.read_only(false).destructive(true).open_world(false),
        _ => hints.read_only(false).destructive(true).open_world(true),
    }
}

/// Returns a name in words: `Git status` for `GitStatus`, `Word stats` for `word_stats`.
fn tool_title(name: &str) -> String {
    let mut title = String::new();
    let mut before = None::<char>;
    for letter in name.chars() {
        let starts_word = letter.is_uppercase() && before.is_some_and(char::is_lowercase);
        match letter {
            '_' | '-' => title.push(' '),
            _ if title.is_empty() => title.extend(letter.to_uppercase()),
            _ if starts_word => {
                title.push(' ');
                title.extend(letter.to_lowercase());
            }
            _ => title.push(letter),
        }
        before = Some(letter);
    }
    title
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hints_and_title_follow_from_the_catalog_entry() {
        let listed = |name: &str, effect: &str| {
            let entry = json!({"name": name, "effect": effect, "schema": {"type": "object"}});
            let tool = listed_tool(&entry).expect("listed");
            let hints = tool.annotations.expect("hints");
            let hints = (
                hints.read_only_hint,
                hints.destructive_hint,
                hints.open_world_hint,
            );
            (tool.title.expect("a title"), hints)
        };
        let reads = (Some(true), None, Some(false));
        let writes = (Some(false), Some(true), Some(false));
        let executes = (Some(false), Some(true), Some(true));
        assert_eq!(
            listed("GitStatus", "reads"),
            ("Git status".to_owned(), reads)
        );
        assert_eq!(listed("Write", "writes"), ("Write".to_owned(), writes));
        assert_eq!(
            listed("word_stats", "executes"),
            ("Word stats".to_owned(), executes)
        );
        assert_eq!(listed("later", "explodes"), ("Later".to_owned(), executes));
        assert!(listed_tool(&json!({"name": "no_schema"})).is_none());
    }
}
