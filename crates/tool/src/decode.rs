//! Decodes argument text to a tool's typed arguments, with errors that a model can act on. All leniency that tools
//! share is here: aliases, camelCase, null as absent, numbers and booleans as strings.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::key_synonyms::{IGNORED_KEYS, synonymous_key};
use super::schema_words::{
    accepts_type, describe_value, expected_types, invalid_args_error, json_kind, known_keys,
    schema_variants,
};
use super::strict_json::{self, StrictError};
use super::{ToolError, ToolSpec};

/// The largest integer that every JSON reader reads exactly; many read numbers as floats.
const EXACT: u64 = 1 << 53;

/// The size limit of the argument text. The contract's own limit is 900 KiB.
const MAX_ARGUMENT_BYTES: usize = 12 << 20;

/// Keys around the arguments, where a model wraps them once more.
const WRAPPER_KEYS: [&str; 5] = ["args", "arguments", "input", "parameters", "params"];

pub(super) fn decode_arguments<T: DeserializeOwned>(
    spec: &ToolSpec,
    text: &str,
) -> Result<T, ToolError> {
    let map = canonical_arguments(spec, parse_object(spec, text)?)?;
    serde_path_to_error::deserialize(Value::Object(map)).map_err(|error| {
        let path = error.path().to_string();
        let cause = error.inner();
        invalid_args_error(
            spec,
            &if path == "." {
                without_type_names(&cause.to_string())
            } else {
                format!("`{path}`: {}", without_type_names(&cause.to_string()))
            },
        )
    })
}

/// Replaces what serde says of the program's own types by what the caller knows.
fn without_type_names(cause: &str) -> String {
    let Some((before, _)) = cause.split_once("expected struct ") else {
        return cause.to_owned();
    };
    format!("{before}expected an object")
}

/// Parses the arguments: one JSON object that all readers interpret alike.
pub(super) fn parse_object(spec: &ToolSpec, text: &str) -> Result<Map<String, Value>, ToolError> {
    let cause = if text.len() > MAX_ARGUMENT_BYTES {
        format!(
            "the arguments are {} bytes; the limit is {MAX_ARGUMENT_BYTES}",
            text.len()
        )
    } else {
        let text = if text.trim().is_empty() { "{}" } else { text };
        match strict_json::parse_strict(text) {
            Ok(Value::Object(map)) => return Ok(map),
            Ok(other) => format!(
                "the arguments must be a JSON object, not {}",
                json_kind(&other)
            ),
            Err(StrictError(cause)) => format!("the arguments are not usable JSON: {cause}"),
        }
    };
    Err(invalid_args_error(spec, &cause))
}

/// Brings arguments to canonical form: the tool's own keys, no nulls, and strings converted to the numbers and booleans
/// of the schema.
pub(super) fn canonical_arguments(
    spec: &ToolSpec,
    given: Map<String, Value>,
) -> Result<Map<String, Value>, ToolError> {
    let empty = Map::new();
    let schema = spec.schema.to_value();
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let mut map = Map::new();
    for (key, value) in unwrap_arguments(properties, given) {
        if value.is_null() {
            continue;
        }
        let name = canonical_key(spec, properties, &key)?;
        let value = match properties.get(&name) {
            Some(schema) => coerce_value(schema, value),
            None => value,
        };
        if map.insert(name.clone(), value).is_some() {
            return Err(invalid_args_error(
                spec,
                &format!("`{name}` is given twice (once as `{key}`)"),
            ));
        }
    }
    (spec.normalize)(&mut map);
    for key in spec
        .accepted
        .iter()
        .chain(IGNORED_KEYS)
        .filter(|key| !properties.contains_key(**key))
    {
        map.remove(*key);
    }
    for (name, value) in &map {
        if let Some(schema) = properties.get(name) {
            check_type(spec, name, schema, value)?;
        }
    }
    Ok(map)
}

/// Takes the arguments out of one more object around them.
fn unwrap_arguments(
    properties: &Map<String, Value>,
    mut given: Map<String, Value>,
) -> Map<String, Value> {
    let wrapper = given
        .iter()
        .find(|(key, value)| {
            WRAPPER_KEYS.contains(&key.as_str())
                && value.is_object()
                && !properties.contains_key(*key)
        })
        .map(|(key, _)| key.clone());
    match wrapper
        .filter(|_| given.len() == 1)
        .and_then(|key| given.remove(&key))
    {
        Some(Value::Object(inner)) => inner,
        _ => given,
    }
}

fn canonical_key(
    spec: &ToolSpec,
    properties: &Map<String, Value>,
    key: &str,
) -> Result<String, ToolError> {
    if properties.contains_key(key) {
        return Ok(key.to_owned());
    }
    let snake = to_snake_case(key);
    for candidate in [key, snake.as_str()] {
        if let Some((_, name)) = spec.aliases.iter().find(|(alias, _)| *alias == candidate) {
            return Ok((*name).to_owned());
        }
    }
    if properties.contains_key(&snake) {
        return Ok(snake);
    }
    let is_key = |key: &str| properties.contains_key(key);
    if let Some(key) = [key, snake.as_str()]
        .iter()
        .find_map(|name| synonymous_key(name, is_key))
    {
        return Ok(key.to_owned());
    }
    for candidate in [key, snake.as_str()] {
        if spec
            .accepted
            .iter()
            .chain(IGNORED_KEYS)
            .any(|accepted| *accepted == candidate)
        {
            return Ok(candidate.to_owned());
        }
    }
    let near = nearest_names(key, properties.keys().map(String::as_str));
    if near.is_empty() {
        let cause = format!("unknown key `{key}`. {}", known_keys(spec));
        return Err(invalid_args_error(spec, &cause));
    }
    let cause = format!(
        "unknown key `{key}`. Did you mean `{}`?",
        near.join("` or `")
    );
    Err(ToolError::invalid_args(format!("{}: {cause}", spec.name)))
}

fn to_snake_case(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
            out.push(c.to_ascii_lowercase());
        } else {
            out.push(if c == '-' { '_' } else { c });
        }
    }
    out
}

/// Refuses a value of another type, in the schema's terms instead of Rust's type names.
fn check_type(spec: &ToolSpec, name: &str, schema: &Value, value: &Value) -> Result<(), ToolError> {
    let anything = schema.get("type").is_none() && schema_variants(schema).next().is_none();
    let fits = anything
        || match value {
            Value::Null => accepts_type(schema, "null"),
            Value::Bool(_) => accepts_type(schema, "boolean"),
            Value::Number(number) => {
                accepts_type(schema, "number")
                    || (accepts_type(schema, "integer") && !number.is_f64())
            }
            Value::String(_) => accepts_type(schema, "string"),
            Value::Array(_) => accepts_type(schema, "array"),
            Value::Object(_) => accepts_type(schema, "object"),
        };
    if !fits {
        let cause = format!(
            "`{name}` must be {}, not {}",
            expected_types(schema),
            describe_value(value)
        );
        return Err(invalid_args_error(spec, &cause));
    }
    if value.as_u64().is_some_and(|n| n > EXACT)
        || value.as_i64().is_some_and(|n| n.unsigned_abs() > EXACT)
    {
        let cause = format!(
            "`{name}` must be {EXACT} (2^53) at most, not {value}: not every JSON reader reads a larger one as it is"
        );
        return Err(invalid_args_error(spec, &cause));
    }
    let least = schema.get("minimum").and_then(Value::as_u64);
    if let (Some(least), Some(..0)) = (least, value.as_i64()) {
        return Err(invalid_args_error(
            spec,
            &format!("`{name}` must be {least} or more, not {value}"),
        ));
    }
    Ok(())
}

fn coerce_value(schema: &Value, value: Value) -> Value {
    let wants = |name: &str| accepts_type(schema, name);
    if let Value::String(text) = &value {
        if wants("string") {
            return value;
        }
        let text = text.trim();
        if wants("integer")
            && let Ok(number) = text.parse::<i64>()
        {
            return Value::from(number);
        }
        if wants("number")
            && let Some(number) = text.parse::<f64>().ok().filter(|number| number.is_finite())
        {
            return Value::from(number);
        }
        if wants("boolean")
            && let Ok(flag) = text.to_ascii_lowercase().parse()
        {
            return Value::Bool(flag);
        }
        let written_out = || strict_json::parse_strict(text).ok();
        if wants("array") && text.starts_with('[') || wants("object") && text.starts_with('{') {
            return written_out().unwrap_or(value);
        }
        let of_texts = schema
            .pointer("/items/type")
            .is_some_and(|kind| kind == "string");
        // A text with white space may be meant as several items.
        if wants("array") && of_texts && !text.is_empty() && !text.contains(char::is_whitespace) {
            return Value::Array(vec![value]);
        }
    }
    // One item without the list around it.
    let of_objects = schema
        .pointer("/items/type")
        .is_some_and(|kind| kind == "object");
    if value.is_object() && wants("array") && of_objects {
        return Value::Array(vec![value]);
    }
    let of_texts = schema
        .pointer("/additionalProperties/type")
        .is_some_and(|kind| kind == "string");
    if let Value::Object(map) = value {
        return Value::Object(
            map.into_iter()
                .map(|(key, one)| (key, if of_texts { scalar_to_text(one) } else { one }))
                .collect(),
        );
    }
    if wants("integer")
        && let Some(number) = value
            .as_f64()
            .filter(|n| n.fract() == 0.0 && n.abs() < 9e15)
        && value.as_i64().is_none()
        && value.as_u64().is_none()
    {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "integral and below 2^53, checked above"
        )]
        return Value::from(number as i64);
    }
    value
}

/// Converts a number or a boolean to text, for a key that accepts only texts.
fn scalar_to_text(value: Value) -> Value {
    match value {
        Value::Number(_) | Value::Bool(_) => Value::String(value.to_string()),
        value => value,
    }
}

/// Returns up to two similar names, the nearest first.
pub(super) fn nearest_names<'a>(asked: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let flat = |text: &str| text.to_ascii_lowercase().replace(['_', '-'], "");
    let wanted = flat(asked);
    let mut scored: Vec<(f64, &str)> = names
        .map(|name| (strsim::jaro_winkler(&wanted, &flat(name)), name))
        .filter(|(score, _)| *score > 0.82)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(2).map(|(_, name)| name).collect()
}
