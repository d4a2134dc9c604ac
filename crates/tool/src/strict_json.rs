//! A strict JSON parser: no duplicate keys, and no numbers that readers interpret differently.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The reason why a text was refused.
#[derive(Debug)]
pub(super) struct StrictError(pub String);

/// The deepest allowed nesting of arrays and objects.
const DEEPEST: usize = 64;

/// Parses a JSON text; serde_json refuses lone surrogates and huge exponents.
pub(super) fn parse_strict(text: &str) -> Result<Value, StrictError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let parsed = StrictValue { deeper: DEEPEST }.deserialize(&mut reader);
    let parsed = parsed.and_then(|value| reader.end().map(|()| value));
    parsed.map_err(|error| StrictError(error.to_string()))
}

/// A value with at most this many further levels of nesting.
#[derive(Clone, Copy)]
struct StrictValue {
    deeper: usize,
}

impl StrictValue {
    fn one_deeper<E: de::Error>(self) -> Result<Self, E> {
        let deeper = self.deeper.checked_sub(1);
        let deeper = deeper
            .ok_or_else(|| E::custom(format_args!("it is nested more than {DEEPEST} deep")))?;
        Ok(Self { deeper })
    }
}

impl<'de> DeserializeSeed<'de> for StrictValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::from(v))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::from(v))
    }
    fn visit_f64<E: de::Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number is out of range"))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }
    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        let within = self.one_deeper()?;
        while let Some(item) = seq.next_element_seed(within)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        let within = self.one_deeper()?;
        while let Some(key) = access.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(de::Error::custom(format_args!(
                    "the key {key:?} is there twice"
                )));
            }
            map.insert(key, access.next_value_seed(within)?);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_four_lie_in_each_other_and_no_more() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse_strict(&nested(DEEPEST)).is_ok());
        let refused = parse_strict(&nested(DEEPEST + 1)).expect_err("one too many");
        assert!(
            refused.0.starts_with("it is nested more than 64 deep"),
            "{}",
            refused.0
        );
        let objects = format!("{}1{}", "{\"a\":".repeat(65), "}".repeat(65));
        assert!(parse_strict(&objects).is_err() && parse_strict("{} 1").is_err());
    }
}
