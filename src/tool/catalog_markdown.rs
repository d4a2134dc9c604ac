//! The catalog as a Markdown page. A test compares docs/tools.md with it.
//! Not here: the catalog as JSON.

use std::fmt::Write as _;

use serde_json::Value;

use super::schema_arguments::{SchemaArgument, list_arguments};
use super::{CallLane, ToolSpec};

/// Returns the page: every tool with its arguments, limits and examples.
pub fn render_catalog_markdown<'a>(specs: impl Iterator<Item = &'a ToolSpec>) -> String {
    let specs: Vec<&ToolSpec> = specs.collect();
    let mut text = "# The tools\n\nThis page is written by `punie-runner tools --markdown`; a test compares it with \
                    the program.\nEvery call is a JSON object. Keys are also understood in camelCase, numbers also as \
                    text, and null means absent.\n\n| tool | domain | effect | what it is for |\n|---|---|---|---|\n"
        .to_owned();
    for spec in &specs {
        let _ = writeln!(
            text,
            "| [{0}](#{1}) | {2} | {3} | {4} |",
            spec.name,
            spec.name.to_lowercase(),
            spec.domain,
            spec.effect.as_str(),
            table_cell(&spec.summary())
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

/// Returns a table row for each argument.
fn argument_rows(schema: &Value) -> Vec<String> {
    let row = |argument: SchemaArgument| {
        let must = if argument.is_required {
            ", required"
        } else {
            ""
        };
        let default = argument
            .default
            .map_or_else(String::new, |default| format!(", default {default}"));
        format!(
            "| `{}` | {}{default}{must} | {} |\n",
            argument.key,
            argument.type_text,
            table_cell(&argument.meaning)
        )
    };
    list_arguments(schema).into_iter().map(row).collect()
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
