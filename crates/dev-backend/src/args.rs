//! Arguments: their shapes, validated like in Convex, and their limits.
//! A wrong shape is a refusal without data; a value out of range is `INVALID_ARGUMENT` or `TOO_LARGE`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::failure::{FunctionFailure, FunctionResult};

/// The most bytes of UTF-8 in one payload.
pub(super) const PAYLOAD_LIMIT: usize = 900 * 1024;

/// The largest integer that a float represents exactly.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

/// Reads a function's arguments. Unknown, missing and mistyped fields are refused.
pub(super) fn read_args<T: DeserializeOwned>(args: &RawValue) -> FunctionResult<T> {
    let mut reader = serde_json::Deserializer::from_str(args.get());
    serde_path_to_error::deserialize(&mut reader)
        .map_err(|bad| FunctionFailure::Refused(format!("ArgumentValidationError: {bad}")))
}

/// A deserializer for `#[serde(default, deserialize_with)]`: an optional argument may be absent, but not null.
pub(super) fn optional<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(from).map(Some)
}

/// A deserializer for `#[serde(deserialize_with)]`: a required argument that may be null.
pub(super) fn nullable<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(from)
}

/// Checks the length of a text that is no payload: a name, a label or a signature.
pub(super) fn check_text_length<'t>(
    field: &str,
    text: &'t str,
    max: usize,
) -> FunctionResult<&'t str> {
    if text.len() <= max {
        return Ok(text);
    }
    Err(FunctionFailure::invalid_argument(format!(
        "{field} must be at most {max} bytes"
    )))
}

/// Checks the length of an optional text.
pub(super) fn check_optional_length(
    field: &str,
    text: Option<&str>,
    max: usize,
) -> FunctionResult<()> {
    text.map_or(Ok(()), |text| check_text_length(field, text, max).map(drop))
}

/// Checks the size of a payload. The sender must shrink a larger one.
pub(super) fn check_payload_size(field: &str, text: &str, limit: usize) -> FunctionResult<()> {
    if text.len() <= limit {
        Ok(())
    } else {
        Err(FunctionFailure::payload_too_large(field, limit))
    }
}

/// A number in any encoding: plain JSON, or wrapped as official clients wrap integers and special floats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WireNumber(f64);

impl WireNumber {
    pub fn finite_value(self, field: &str) -> FunctionResult<f64> {
        if self.0.is_finite() {
            Ok(self.0)
        } else {
            Err(FunctionFailure::invalid_argument(format!(
                "{field} must be finite"
            )))
        }
    }

    /// Returns the number as the `waitMs` of a query that waits, in milliseconds: finite and not negative.
    pub fn wait_ms_value(self) -> FunctionResult<f64> {
        let wait = self.finite_value("waitMs")?;
        if wait < 0.0 {
            return Err(FunctionFailure::invalid_argument(
                "waitMs must not be negative",
            ));
        }
        Ok(wait)
    }

    /// Returns the number if it is a non-negative integer.
    pub fn whole_value(self, field: &str) -> FunctionResult<i64> {
        if self.0.is_finite() && self.0.fract() == 0.0 && (0.0..=MAX_WHOLE).contains(&self.0) {
            #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
            return Ok(self.0 as i64);
        }
        Err(FunctionFailure::invalid_argument(format!(
            "{field} must be a whole number from 0 to 2^53"
        )))
    }
}

impl<'de> Deserialize<'de> for WireNumber {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

#[expect(
    clippy::cast_precision_loss,
    reason = "every number of the contract is a float"
)]
impl<'de> Visitor<'de> for NumberVisitor {
    type Value = WireNumber;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E>(self, number: f64) -> Result<WireNumber, E> {
        Ok(WireNumber(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<WireNumber, E> {
        Ok(WireNumber(number as f64))
    }

    fn visit_u64<E>(self, number: u64) -> Result<WireNumber, E> {
        Ok(WireNumber(number as f64))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WireNumber, A::Error> {
        let Some((tag, encoded)) = map.next_entry::<String, String>()? else {
            return Err(de::Error::custom("expected a number, not an object"));
        };
        if map.next_key::<String>()?.is_some() {
            return Err(de::Error::custom("a wrapped number has one key"));
        }
        let bytes: [u8; 8] = STANDARD
            .decode(encoded)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(|| de::Error::custom("a wrapped number is 8 bytes in base64"))?;
        match tag.as_str() {
            "$integer" => Ok(WireNumber(i64::from_le_bytes(bytes) as f64)),
            "$float" => wrapped_float(f64::from_le_bytes(bytes)),
            _ => Err(de::Error::custom("expected a number, not an object")),
        }
    }
}

/// Accepts only floats that JSON cannot represent.
fn wrapped_float<E: de::Error>(number: f64) -> Result<WireNumber, E> {
    if number.is_finite() && !(number == 0.0 && number.is_sign_negative()) {
        return Err(de::Error::custom("an ordinary float must not be wrapped"));
    }
    Ok(WireNumber(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        n: WireNumber,
        #[serde(default, deserialize_with = "optional")]
        maybe: Option<String>,
        #[serde(deserialize_with = "nullable")]
        cursor: Option<String>,
    }

    fn sample(text: &str) -> FunctionResult<Sample> {
        read_args(&RawValue::from_string(text.into()).expect("JSON"))
    }

    #[test]
    fn numbers_come_in_three_spellings() {
        for text in ["3", "3.0", r#"{"$integer":"AwAAAAAAAAA="}"#] {
            let sample = sample(&format!(r#"{{"n":{text},"cursor":null}}"#)).expect(text);
            assert_eq!(sample.n.whole_value("n").expect("whole"), 3, "{text}");
            assert!(sample.maybe.is_none() && sample.cursor.is_none());
        }
        let nan =
            sample(r#"{"n":{"$float":"AAAAAAAA+H8="},"cursor":null}"#).expect("NaN is a float");
        assert!(matches!(
            nan.n.finite_value("n"),
            Err(FunctionFailure::Thrown(_))
        ));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "\"3\"",
            "{}",
            r#"{"$bytes":"AwAAAAAAAAA="}"#,
            r#"{"$float":"AAAAAAAACEA="}"#,
            r#"{"$float":3}"#,
        ] {
            let refused = sample(&format!(r#"{{"n":{text},"cursor":null}}"#));
            assert!(
                matches!(refused, Err(FunctionFailure::Refused(_))),
                "{text}: {refused:?}"
            );
        }
    }

    #[test]
    fn optional_is_absent_and_a_cursor_is_there() {
        assert!(sample(r#"{"n":1,"maybe":null,"cursor":null}"#).is_err());
        assert!(sample(r#"{"n":1}"#).is_err());
        assert!(sample(r#"{"n":1,"cursor":null,"more":1}"#).is_err());
    }
}
