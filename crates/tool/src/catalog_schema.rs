//! The JSON schema of a tool's arguments: generated from its struct, and shortened for the catalog.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// The format of an argument that is a path.
pub(super) const PATH_FORMAT: &str = "path";

/// Returns the schema of an argument struct (draft 2020-12).
pub(super) fn derive_schema<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .with_transform(RecursiveTransform(simplify_schema))
        .into_generator();
    generator.into_root_schema_for::<T>().to_value()
}

/// Simplifies a schema for models: removes Rust's number formats and the null variants of optional keys. The format
/// `path` stays, because it marks the arguments that are paths.
fn simplify_schema(schema: &mut Schema) {
    if schema
        .get("format")
        .is_some_and(|format| format != PATH_FORMAT)
    {
        schema.remove("format");
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            schema.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(variants)) = schema.get_mut("anyOf") {
        variants.retain(|variant| variant.get("type").is_none_or(|name| name != "null"));
        if let [Value::Object(one)] = variants.as_slice() {
            let one = one.clone();
            schema.remove("anyOf");
            for (key, value) in one.into_iter().filter(|(key, _)| key != "description") {
                schema.insert(key, value);
            }
        }
    }
    // Alternatives that are all constants become a list of words.
    if let Some(Value::Array(variants)) = schema.get("oneOf") {
        let words: Option<Vec<Value>> = variants
            .iter()
            .map(|variant| variant.get("const").cloned())
            .collect();
        if let Some(words) = words {
            schema.remove("oneOf");
            schema.insert("type".to_owned(), Value::from("string"));
            schema.insert("enum".to_owned(), Value::Array(words));
        }
    }
    // The list's own description also describes its texts.
    if let Some(items) = schema.get_mut("items").and_then(Value::as_object_mut)
        && items.get("type").is_some_and(|kind| kind == "string")
    {
        items.remove("description");
    }
    // Line breaks of a comment mean nothing to a model. The tool's own text keeps them, because people read it
    // unchanged.
    let of_a_key = schema.get("properties").is_none();
    if let Some(Value::String(text)) = schema.get_mut("description").filter(|_| of_a_key) {
        *text = text.replace('\n', " ");
    }
}

/// Returns the schema for the catalog, without parts that tell a caller nothing. A key without a description is
/// documented with another tool, which the text names, and is omitted. A tool that duplicates another (`is_twin`) shows
/// only names and types.
pub(super) fn published_schema(schema: &Value, is_twin: bool) -> Value {
    let mut published = shorten_schema(schema);
    if let Some(Value::Object(properties)) = published.get_mut("properties") {
        if is_twin {
            properties
                .values_mut()
                .filter_map(Value::as_object_mut)
                .for_each(|about| {
                    about.remove("description");
                });
        } else {
            properties.retain(|_, about| about.get("description").is_some());
        }
    }
    published
}

fn shorten_schema(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, value)| is_informative(key, value));
            kept.map(|(key, value)| (key.clone(), shorten_schema(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(shorten_schema).collect(),
        other => other.clone(),
    }
}

fn is_informative(key: &str, value: &Value) -> bool {
    match key {
        "minimum" => value.as_i64() != Some(0),
        "default" => ![json!(false), json!(0), json!(""), json!([]), json!({})].contains(value),
        "format" => value != PATH_FORMAT,
        // Other names of keys are accepted, and the error for an unknown key suggests the right one.
        "items" | "additionalProperties" => !value.is_boolean(),
        _ => true,
    }
}
