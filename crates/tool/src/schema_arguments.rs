//! The arguments of a tool as its JSON schema describes them, for people.

use std::fmt::Write as _;

use serde_json::Value;

/// An argument, or a key of a list's items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaArgument {
    /// Its key; of a list's items `list[].key`.
    pub key: String,
    /// Its type and bounds. Fixed words are in backticks.
    pub type_text: String,
    /// True if a call must have it.
    pub is_required: bool,
    /// Its value in a call without it, if the schema says so.
    pub default: Option<String>,
    /// Its description.
    pub meaning: String,
}

/// Lists the arguments, required ones first. The keys of a list's items follow the list.
pub fn list_arguments(schema: &Value) -> Vec<SchemaArgument> {
    let mut arguments = Vec::new();
    collect_arguments(schema, "", &mut arguments);
    arguments
}

fn collect_arguments(schema: &Value, prefix: &str, into: &mut Vec<SchemaArgument>) {
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
        let default = &about["default"];
        into.push(SchemaArgument {
            key: format!("{prefix}{key}"),
            type_text: type_text(about),
            is_required: required.contains(&key.as_str()),
            default: (!default.is_null()).then(|| plain_value(default)),
            meaning: meaning.to_owned(),
        });
        if about["items"]["properties"].is_object() {
            collect_arguments(&about["items"], &format!("{prefix}{key}[]."), into);
        }
    }
}

/// Returns a type such as `integer from 1 to 10000`.
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
    text
}

fn plain_value(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
