//! Values for a statement's placeholders. Not here: the statement.

use std::collections::BTreeMap;

use rusqlite::Statement;
use rusqlite::types::Value as Cell;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::tool::ToolError;

/// Values in order, or by name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Parameters {
    // For `?`, in order.
    Ordered(Vec<Value>),
    // For `:name`, `@name` and `$name`.
    Named(BTreeMap<String, Value>),
}

/// Binds every placeholder; a missing or a superfluous value is refused, because SQLite would take it for NULL or
/// leave it out.
pub(super) fn bind(statement: &mut Statement<'_>, given: Option<&Parameters>) -> Result<(), ToolError> {
    let wanted = statement.parameter_count();
    match given {
        None if wanted == 0 => Ok(()),
        None => Err(ToolError::invalid_args(format!(
            "The query has {wanted} placeholders and no `params` were given: an array for `?`, an object for `:name`."
        ))),
        Some(Parameters::Ordered(values)) => {
            if values.len() != wanted {
                return Err(ToolError::invalid_args(format!(
                    "The query has {wanted} placeholders and `params` holds {} values.",
                    values.len()
                )));
            }
            for (i, value) in values.iter().enumerate() {
                put(statement, i + 1, value)?;
            }
            Ok(())
        }
        Some(Parameters::Named(values)) => named(statement, wanted, values),
    }
}

fn named(
    statement: &mut Statement<'_>,
    wanted: usize,
    values: &BTreeMap<String, Value>,
) -> Result<(), ToolError> {
    let mut used = 0;
    for i in 1..=wanted {
        let Some(name) = statement.parameter_name(i).map(str::to_owned) else {
            return Err(ToolError::invalid_args(
                "The query has a placeholder without a name (`?`): give `params` as an array.",
            ));
        };
        let value = values.get(&name).or_else(|| values.get(&name[1..])).ok_or_else(|| {
            ToolError::invalid_args(format!("`params` has no value for the placeholder {name}."))
        })?;
        put(statement, i, value)?;
        used += 1;
    }
    if used < values.len() {
        return Err(ToolError::invalid_args(format!(
            "`params` holds {} values and the query has {wanted} placeholders: {}.",
            values.len(),
            values.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
        )));
    }
    Ok(())
}

fn put(statement: &mut Statement<'_>, at: usize, value: &Value) -> Result<(), ToolError> {
    let cell = match value {
        Value::Null => Cell::Null,
        Value::Bool(flag) => Cell::Integer(i64::from(*flag)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Cell::Integer(integer),
            (None, Some(real)) if !number.is_u64() => Cell::Real(real),
            _ => {
                return Err(ToolError::invalid_args(format!(
                    "The parameter {at} ({number}) is beyond SQLite's 64-bit integers. Give it as a string."
                )));
            }
        },
        Value::String(text) => Cell::Text(text.clone()),
        Value::Array(_) | Value::Object(_) => {
            return Err(ToolError::invalid_args(format!(
                "The parameter {at} is a JSON array or object. Give a string, a number, a boolean or null; for several \
                 values write several placeholders, or use json_each(?) with the JSON as a string."
            )));
        }
    };
    statement
        .raw_bind_parameter(at, cell)
        .map_err(|error| ToolError::invalid_args(format!("The parameter {at} cannot be bound: {error}.")))
}
