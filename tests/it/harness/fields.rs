//! An assertion about fields of a JSON value.

use std::fmt::Arguments;

use serde_json::Value;

/// Fails unless these fields of a JSON value have these values. A key that begins with a slash is a JSON pointer, and a
/// missing field is null: `assert_fields!(status, {"running": true, "/backend/trouble": null})`.
macro_rules! assert_fields {
    ($value:expr, $fields:tt) => {
        assert_fields!($value, $fields; "the value")
    };
    ($value:expr, $fields:tt; $($case:tt)+) => {
        $crate::harness::fields::check(
            &::serde_json::json!($value),
            &::serde_json::json!($fields),
            format_args!($($case)+),
        )
    };
}

#[track_caller]
pub fn check(value: &Value, expected: &Value, case: Arguments<'_>) {
    for (key, expected) in expected.as_object().expect("fields") {
        let found = if key.starts_with('/') {
            value.pointer(key)
        } else {
            value.get(key)
        };
        let found = found.unwrap_or(&Value::Null);
        assert_eq!(found, expected, "{case}: {key} of {value}");
    }
}
