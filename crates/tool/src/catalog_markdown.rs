//! The catalog as a Markdown page. A test compares docs/tools.md with it.

use std::fmt::Write as _;

use serde_json::Value;

use super::schema_arguments::{SchemaArgument, list_arguments};
use super::{CallLane, ToolSpec};

/// The domains in the page's order, and what their tools are for. Other domains follow.
const DOMAINS: [(&str, &str); 9] = [
    ("file", "Read and change files"),
    ("search", "Find files and text"),
    ("shell", "Run commands"),
    ("git", "Git repositories"),
    ("sqlite", "SQLite files"),
    ("state", "Outputs and background tasks"),
    ("terminal", "Terminals that stay open"),
    ("store", "Packages, with `enabled = true` under `[store]`"),
    (
        "self_mod",
        "Self-modification, with `root` under `[self_mod]`",
    ),
];

/// Returns the place of a domain in a list: the common ones first, those of connected editors last.
pub fn domain_rank(domain: &str) -> usize {
    DOMAINS
        .iter()
        .position(|(known, _)| *known == domain)
        .unwrap_or(DOMAINS.len())
}

/// Returns the page: every tool with its arguments, limits and examples, by domain.
pub fn render_catalog_markdown<'a>(specs: impl Iterator<Item = &'a ToolSpec>) -> String {
    let mut specs: Vec<&ToolSpec> = specs.collect();
    // Within a domain the order stays, but compatibility names are last.
    specs.sort_by_key(|spec| {
        (
            domain_rank(spec.domain),
            spec.domain,
            spec.same_as.is_some(),
        )
    });
    let mut text = "# The tools\n\nThis page is written by `punie-runner tools --markdown`; a test compares it with \
                    the program.\nEvery call is a JSON object. Keys are also understood in camelCase and by the \
                    names that other agents' tools\ngive them (`path` for `file_path`, `cmd` for `command`), numbers also as \
                    text, and null means absent.\n"
        .to_owned();
    for tools in specs.chunk_by(|a, b| a.domain == b.domain) {
        write_domain(&mut text, tools);
        for spec in tools {
            write_section(&mut text, spec);
        }
    }
    text
}

/// Writes the table of a domain's tools, and its compatibility names in one sentence.
fn write_domain(text: &mut String, tools: &[&ToolSpec]) {
    let domain = tools.first().map_or("", |spec| spec.domain);
    let known = DOMAINS.iter().find(|(known, _)| *known == domain);
    let title = known.map_or(domain, |(_, title)| title);
    let _ = writeln!(text, "\n## {title} ({domain})\n");
    let (same, own): (Vec<&ToolSpec>, Vec<&ToolSpec>) =
        tools.iter().partition(|spec| spec.same_as.is_some());
    if !own.is_empty() {
        text.push_str("| tool | effect | what it is for |\n|---|---|---|\n");
    }
    for spec in own {
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            section_link(spec.name.as_ref()),
            spec.effect.as_str(),
            table_cell(&spec.summary())
        );
    }
    if same.is_empty() {
        return;
    }
    let names = same.iter().filter_map(|spec| {
        let name = section_link(spec.name.as_ref());
        Some(format!("{name} for {}", section_link(spec.same_as?)))
    });
    let _ = writeln!(
        text,
        "\nCompatibility names, for agents that were written for other programs' tools: {}.",
        names.collect::<Vec<String>>().join(", ")
    );
}

fn section_link(name: &str) -> String {
    format!("[{name}](#{})", name.to_lowercase())
}

fn write_section(text: &mut String, spec: &ToolSpec) {
    let beside = if spec.lane == CallLane::Control {
        "; runs beside every other call"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "\n### {}\n\n*{}, {}{beside}*\n\n{}\n",
        spec.name,
        spec.domain,
        spec.effect.as_str(),
        spec.description
    );
    let arguments = argument_rows(&spec.schema.to_value());
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
