//! Compares a value with the expectation of a case. Expected members must match, numbers by value, arrays in full.

use serde_json::{Map, Value};

/// Compares JSON values, with a tolerance for times of the backend's clock.
#[derive(Clone, Copy)]
pub struct JsonMatcher {
    pub leeway_ms: f64,
}

impl JsonMatcher {
    /// Compares two values. The error names the place at which they differ.
    pub fn matches(self, expected: &Value, got: &Value, at: &str) -> Result<(), String> {
        let fits = match (expected, got) {
            (Value::Object(wanted), _) if wanted.contains_key("$any") => {
                is_any(&wanted["$any"], got)?
            }
            (Value::Object(wanted), _) if wanted.contains_key("$now") => {
                self.is_time(&wanted["$now"], got)
            }
            (Value::Object(wanted), Value::Array(items)) if wanted.contains_key("$some") => items
                .iter()
                .any(|item| self.matches(&wanted["$some"], item, at).is_ok()),
            (Value::Object(wanted), Value::Object(members)) => {
                return self.members(wanted, members, at);
            }
            (Value::Array(wanted), Value::Array(items)) if wanted.len() == items.len() => {
                return wanted
                    .iter()
                    .zip(items)
                    .enumerate()
                    .try_for_each(|(i, (wanted, item))| {
                        self.matches(wanted, item, &format!("{at}[{i}]"))
                    });
            }
            (Value::Number(wanted), Value::Number(number)) => wanted.as_f64() == number.as_f64(),
            (wanted, got) => wanted == got,
        };
        if fits {
            Ok(())
        } else {
            Err(format!(
                "{at}: expected {}, got {}",
                shorten_json(expected),
                shorten_json(got)
            ))
        }
    }

    fn members(
        self,
        wanted: &Map<String, Value>,
        got: &Map<String, Value>,
        at: &str,
    ) -> Result<(), String> {
        for (key, wanted) in wanted {
            let at = format!("{at}.{key}");
            match (wanted.get("$absent").is_some(), got.get(key)) {
                (true, None) => {}
                (true, Some(there)) => {
                    return Err(format!("{at}: must be absent, is {}", shorten_json(there)));
                }
                (false, Some(there)) => self.matches(wanted, there, &at)?,
                (false, None) => return Err(format!("{at}: is absent")),
            }
        }
        Ok(())
    }

    fn is_time(self, wanted: &Value, got: &Value) -> bool {
        match (wanted.as_f64(), got.as_f64()) {
            (Some(wanted), Some(got)) => (wanted - got).abs() <= self.leeway_ms,
            _ => false,
        }
    }
}

fn is_any(kind: &Value, got: &Value) -> Result<bool, String> {
    match kind.as_str() {
        Some("string") => Ok(got.is_string()),
        Some("number") => Ok(got.is_number()),
        Some("digits") => Ok(got.as_str().is_some_and(|text| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
        })),
        _ => Err(format!("no such kind {kind}")),
    }
}

/// Formats a value, cut to a length that fits into a message.
pub fn shorten_json(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 300 {
        text
    } else {
        text.chars().take(300).chain("...".chars()).collect()
    }
}
