//! The catalog as a Markdown page. A test compares docs/tools.md with it.
//! Not here: the catalog as JSON.

use std::fmt::Write as _;

use serde_json::Value;

use super::{CallLane, ToolSpec};

/// Returns the page: every tool with its arguments, limits and examples.
pub fn render_catalog_markdown<'a>(specs: impl Iterator<Item = &'a ToolSpec>) -> String {
    let specs: Vec<&ToolSpec> = specs.collect();
    let mut text = "# The tools\n\nThis page is written by `punie-runner tools --markdown`; a test compares it with \
                    the program.\nEvery call is a JSON object. Keys are also understood in camelCase, numbers also as \
                    text, and null means absent.\n\n| tool | domain | effect | what it is for |\n|---|---|---|---|\n"
        .to_owned();
    for spec in &specs {
        let first = spec
            .description
            .split_inclusive(". ")
            .next()
            .unwrap_or_default();
        let first = first
            .split("\n\n")
            .next()
            .unwrap_or_default()
            .replace('\n', " ");
        let _ = writeln!(
            text,
            "| [{0}](#{1}) | {2} | {3} | {4} |",
            spec.name,
            spec.name.to_lowercase(),
            spec.domain,
            spec.effect.as_str(),
            table_cell(first.trim())
        );
    }
    for spec in specs {
        write_section(&mut text, spec);
    }
    text
}

fn write_section(text: &mut String, spec: &ToolSpec) {
    let beside = if spec.lane == CallLane::Control {
        "; runs beside every other call"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "\n## {}\n\n*{}, {}{beside}*\n\n{}\n",
        spec.name,
        spec.domain,
        spec.effect.as_str(),
        spec.description
    );
    let arguments = argument_rows(&spec.schema);
    if arguments.is_empty() {
        text.push_str("It takes no arguments.\n");
    } else {
        text.push_str("| argument | type | meaning |\n|---|---|---|\n");
        text.push_str(&arguments.concat());
    }
    if !spec.aliases.is_empty() {
        let also: Vec<String> = spec
            .aliases
            .iter()
            .map(|(alias, key)| format!("`{alias}` for `{key}`"))
            .collect();
        let _ = writeln!(text, "\nAlso understood: {}.", also.join(", "));
    }
    if !spec.limits.is_empty() {
        text.push_str("\nLimits:\n\n");
        for limit in spec.limits {
            let _ = writeln!(text, "- {limit}");
        }
    }
    text.push_str("\nExamples:\n\n```json\n");
    for example in spec.examples {
        let _ = writeln!(text, "{example}");
    }
    text.push_str("```\n");
}

/// Returns a table row for each key, required ones first. The keys of a list's items follow the list.
fn argument_rows(schema: &Value) -> Vec<String> {
    let mut rows = Vec::new();
    collect_rows(schema, "", &mut rows);
    rows
}

fn collect_rows(schema: &Value, prefix: &str, rows: &mut Vec<String>) {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut keys: Vec<(&String, &Value)> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .collect();
    keys.sort_by_key(|(key, _)| !required.contains(&key.as_str()));
    for (key, about) in keys {
        let meaning = about["description"].as_str().unwrap_or_default();
        let must = if required.contains(&key.as_str()) {
            ", required"
        } else {
            ""
        };
        rows.push(format!(
            "| `{prefix}{key}` | {}{must} | {} |\n",
            type_text(about),
            table_cell(meaning)
        ));
        if about["items"]["properties"].is_object() {
            collect_rows(&about["items"], &format!("{prefix}{key}[]."), rows);
        }
    }
}

/// Returns a type such as `integer from 1 to 10000, default 2`.
fn type_text(about: &Value) -> String {
    let mut text = match (&about["type"], &about["enum"]) {
        (_, Value::Array(words)) => {
            let words: Vec<String> = words
                .iter()
                .map(|word| format!("`{}`", plain_value(word)))
                .collect();
            words.join(" or ")
        }
        (Value::String(name), _) if name == "array" => {
            format!(
                "list of {}",
                about["items"]["type"].as_str().unwrap_or("values")
            )
        }
        (Value::String(name), _) => name.clone(),
        (Value::Array(names), _) => names
            .iter()
            .map(plain_value)
            .collect::<Vec<String>>()
            .join(" or "),
        _ => "any".to_owned(),
    };
    match (&about["minimum"], &about["maximum"]) {
        (Value::Null | Value::Number(_), Value::Number(most))
            if about["minimum"].as_i64().unwrap_or(0) == 0 =>
        {
            let _ = write!(text, " up to {most}");
        }
        (Value::Number(least), Value::Number(most)) => {
            let _ = write!(text, " from {least} to {most}");
        }
        (Value::Number(least), Value::Null) if least.as_i64() != Some(0) => {
            let _ = write!(text, " from {least}");
        }
        _ => {}
    }
    if !about["default"].is_null() {
        let _ = write!(text, ", default {}", plain_value(&about["default"]));
    }
    text
}

fn plain_value(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn table_cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_is_a_row_with_its_type_bounds_and_default() {
        let schema = json!({
            "required": ["path"],
            "properties": {
                "path": {"type": "string", "description": "Where | what."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 9, "default": 2, "description": "How many."},
                "edits": {"type": "array", "description": "Edits.", "items": {"type": "object", "properties": {
                    "old": {"enum": ["a", "b"], "description": "Old."}}}},
            }
        });
        assert_eq!(
            argument_rows(&schema),
            [
                "| `path` | string, required | Where \\| what. |\n",
                "| `limit` | integer from 1 to 9, default 2 | How many. |\n",
                "| `edits` | list of object | Edits. |\n",
                "| `edits[].old` | `a` or `b` | Old. |\n",
            ]
        );
    }
}
