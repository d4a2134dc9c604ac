//! The types of a schema and the values of a call, in words for the errors of refused arguments.

use serde_json::Value;

use super::{ToolError, ToolSpec};

/// Returns whether a schema accepts values of this JSON type.
pub(super) fn accepts_type(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(many)) => many.iter().any(|one| one == name),
        _ => schema_variants(schema).any(|one| accepts_type(one, name)),
    }
}

pub(super) fn schema_variants(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["oneOf", "anyOf"]
        .into_iter()
        .filter_map(|key| schema.get(key).and_then(Value::as_array));
    lists.flatten()
}

/// Describes the accepted types in words.
pub(super) fn expected_types(schema: &Value) -> String {
    const WORDS: [(&str, &str); 6] = [
        ("string", "a string"),
        ("integer", "an integer"),
        ("number", "a number"),
        ("boolean", "true or false"),
        ("array", "an array"),
        ("object", "an object"),
    ];
    let chosen = schema_type_name(schema);
    if chosen.contains('"') {
        return format!("one of {}", chosen.replace('|', ", "));
    }
    let words: Vec<&str> = WORDS
        .iter()
        .filter(|(name, _)| accepts_type(schema, name))
        .map(|(_, words)| *words)
        .collect();
    words.join(" or ")
}

/// Describes a value for an error: its type, and the value itself if it is short.
pub(super) fn describe_value(value: &Value) -> String {
    const SHORT: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= SHORT {
        format!("{} {text}", json_kind(value))
    } else {
        json_kind(value).to_owned()
    }
}

/// Creates the error for refused arguments.
pub(super) fn invalid_args_error(spec: &ToolSpec, cause: &str) -> ToolError {
    let cause = cause.trim_end_matches('.');
    ToolError::invalid_args(format!("{}: {cause}.", spec.name))
}

/// `It takes file_path, offset and 5 more`, required keys first.
pub(super) fn known_keys(spec: &ToolSpec) -> String {
    const MAX_LISTED: usize = 8;
    let schema = spec.schema.to_value();
    let required = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let mut keys: Vec<&str> = required.collect();
    let all = schema["properties"].as_object().into_iter().flatten();
    for (key, _) in all {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    if keys.is_empty() {
        return "It takes no arguments".to_owned();
    }
    let listed = keys[..keys.len().min(MAX_LISTED)].join(", ");
    match keys.len().saturating_sub(MAX_LISTED) {
        0 => format!("It takes {listed}"),
        more => format!("It takes {listed} and {more} more"),
    }
}

fn schema_type_name(schema: &Value) -> String {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values = values.iter().filter(|value| !value.is_null());
        return values.map(Value::to_string).collect::<Vec<_>>().join("|");
    }
    match schema.get("type") {
        Some(Value::String(one)) => one.clone(),
        Some(Value::Array(many)) => many
            .iter()
            .filter_map(Value::as_str)
            .filter(|one| *one != "null")
            .collect::<Vec<_>>()
            .join("|"),
        _ => variant_type_names(schema),
    }
}

fn variant_type_names(schema: &Value) -> String {
    let names: Vec<String> = schema_variants(schema)
        .filter(|one| one.get("type").is_none_or(|kind| kind != "null"))
        .map(|one| {
            one.get("const")
                .map_or_else(|| schema_type_name(one), Value::to_string)
        })
        .collect();
    if names.is_empty() {
        "any".to_owned()
    } else {
        names.join("|")
    }
}

pub(super) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
