//! Values for a statement's placeholders.

use std::collections::BTreeMap;

use rusqlite::Statement;
use rusqlite::types::Value as Cell;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use punie_tool::ToolError;

/// Values in order, or by name.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Parameters {
    // For `?`, in order.
    Ordered(Vec<Value>),
    // For `:name`, `@name` and `$name`.
    Named(BTreeMap<String, Value>),
}

/// Binds every placeholder. A missing or a superfluous value is refused: SQLite would take it for NULL, or ignore it.
pub(super) fn bind_parameters(
    statement: &mut Statement<'_>,
    params: Option<&Parameters>,
) -> Result<(), ToolError> {
    let count = statement.parameter_count();
    let given = match params {
        None if count > 0 => {
            return invalid_parameters(format!(
                "The query has {count} placeholders and no `params` were given: an array for `?`, an object for `:name`."
            ));
        }
        None => 0,
        Some(Parameters::Ordered(values)) => values.len(),
        Some(Parameters::Named(values)) => values.len(),
    };
    if let Some(Parameters::Ordered(_)) = params
        && given != count
    {
        return invalid_parameters(format!(
            "The query has {count} placeholders and `params` holds {given} values."
        ));
    }
    for at in 1..=count {
        let value = match params {
            None => continue,
            Some(Parameters::Ordered(values)) => &values[at - 1],
            Some(Parameters::Named(values)) => find_named_value(statement, at, values)?,
        };
        let cell = to_sqlite_value(at, value)?;
        let bound = statement.raw_bind_parameter(at, cell);
        bound.or_else(|error| {
            invalid_parameters(format!("The parameter {at} cannot be bound: {error}."))
        })?;
    }
    if let Some(Parameters::Named(values)) = params
        && given > count
    {
        let names = values
            .keys()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        return invalid_parameters(format!(
            "`params` holds {given} values and the query has {count} placeholders: {names}."
        ));
    }
    Ok(())
}

fn invalid_parameters<T>(text: impl Into<String>) -> Result<T, ToolError> {
    Err(ToolError::invalid_args(text))
}

fn find_named_value<'v>(
    statement: &Statement<'_>,
    at: usize,
    values: &'v BTreeMap<String, Value>,
) -> Result<&'v Value, ToolError> {
    let Some(name) = statement.parameter_name(at) else {
        return invalid_parameters(
            "The query has a placeholder without a name (`?`): give `params` as an array.",
        );
    };
    let value = values.get(name).or_else(|| values.get(&name[1..]));
    value.map_or_else(
        || invalid_parameters(format!("`params` has no value for the placeholder {name}.")),
        Ok,
    )
}

fn to_sqlite_value(at: usize, value: &Value) -> Result<Cell, ToolError> {
    Ok(match value {
        Value::Null => Cell::Null,
        Value::Bool(flag) => Cell::Integer(i64::from(*flag)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Cell::Integer(integer),
            (None, Some(real)) if !number.is_u64() => Cell::Real(real),
            _ => {
                return invalid_parameters(format!(
                    "The parameter {at} ({number}) is beyond SQLite's 64-bit integers. Give it as a string."
                ));
            }
        },
        Value::String(text) => Cell::Text(text.clone()),
        Value::Array(_) | Value::Object(_) => {
            return invalid_parameters(format!(
                "The parameter {at} is a JSON array or object. Give a string, a number, a boolean or null; for several \
                 values write several placeholders, or use json_each(?) with the JSON as a string."
            ));
        }
    })
}
