//! The types of values that a key can have: how each is read, bounded and written.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::{RangeFull, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

use super::public_key::PublicKey;
use super::toml_document::TomlValue;
use super::url::BackendUrl;

/// The reason why a value was rejected.
pub(super) enum ValueError {
    WrongType,
    /// It has the right type and is wrong for this reason.
    Invalid(String),
}

/// A type of value.
pub(super) trait ConfigValue: Sized {
    /// The expected form, for errors.
    const WANTED: &'static str;
    /// The example in the generated file where there is no default.
    const EXAMPLE: &'static str = "";

    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError>;

    /// Formats the value as in the file; `None` if it is not set.
    fn to_toml(&self) -> Option<String>;
}

/// The allowed values of a type.
pub(super) trait ValueBounds<T> {
    fn allows_value(&self, value: &T) -> bool;
    /// The text after "must be ...".
    fn describe_bounds(&self) -> String;
}

impl<T> ValueBounds<T> for RangeFull {
    fn allows_value(&self, _: &T) -> bool {
        true
    }
    fn describe_bounds(&self) -> String {
        String::new()
    }
}

impl<T: PartialOrd + ConfigValue> ValueBounds<T> for RangeInclusive<T> {
    fn allows_value(&self, value: &T) -> bool {
        self.contains(value)
    }
    fn describe_bounds(&self) -> String {
        let [low, high] = [self.start(), self.end()].map(|end| end.to_toml().unwrap_or_default());
        format!(" between {low} and {high}")
    }
}

fn read_integer<T: TryFrom<i64>>(plain: &TomlValue) -> Result<T, ValueError> {
    match plain {
        TomlValue::Integer(Some(whole)) => T::try_from(*whole).map_err(|_| ValueError::WrongType),
        _ => Err(ValueError::WrongType),
    }
}

pub(super) fn read_text(plain: &TomlValue) -> Result<&str, ValueError> {
    match plain {
        TomlValue::Text(text) => Ok(text),
        _ => Err(ValueError::WrongType),
    }
}

pub(super) fn read_list<T>(
    plain: &TomlValue,
    item: impl Fn(&TomlValue) -> Result<T, ValueError>,
) -> Result<Vec<T>, ValueError> {
    match plain {
        TomlValue::List(list) => list.iter().map(item).collect(),
        _ => Err(ValueError::WrongType),
    }
}

pub(super) fn quote_list<T>(list: &[T], text: impl Fn(&T) -> Cow<'_, str>) -> String {
    let words: Vec<String> = list.iter().map(|item| quote_toml(&text(item))).collect();
    format!("[{}]", words.join(", "))
}

impl ConfigValue for usize {
    const WANTED: &'static str = "a whole number";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        read_integer(plain)
    }
    fn to_toml(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// Given in milliseconds, as the keys' names say.
impl ConfigValue for Duration {
    const WANTED: &'static str = "a whole number of milliseconds";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        read_integer(plain).map(Duration::from_millis)
    }
    fn to_toml(&self) -> Option<String> {
        Some(self.as_millis().to_string())
    }
}

impl ConfigValue for f64 {
    const WANTED: &'static str = "a number";
    #[expect(
        clippy::cast_precision_loss,
        reason = "bounded afterwards to a small range"
    )]
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        match plain {
            TomlValue::Float(Some(fraction)) => Ok(*fraction),
            TomlValue::Integer(Some(whole)) => Ok(*whole as f64),
            _ => Err(ValueError::WrongType),
        }
    }
    fn to_toml(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }
}

impl ConfigValue for bool {
    const WANTED: &'static str = "true or false";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        if let TomlValue::Boolean(truth) = plain {
            Ok(*truth)
        } else {
            Err(ValueError::WrongType)
        }
    }
    fn to_toml(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl ConfigValue for Option<String> {
    const WANTED: &'static str = "a text";
    const EXAMPLE: &'static str = r#""decide yourself""#;
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        read_text(plain).map(|text| Some(text.to_owned()))
    }
    fn to_toml(&self) -> Option<String> {
        self.as_deref().map(quote_toml)
    }
}

impl ConfigValue for Option<BackendUrl> {
    const WANTED: &'static str = "an address in quotes";
    const EXAMPLE: &'static str = "\"https://your-deployment.convex.cloud\"";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        let parsed = BackendUrl::parse(read_text(plain)?);
        parsed.map(Some).map_err(ValueError::Invalid)
    }
    fn to_toml(&self) -> Option<String> {
        self.as_ref().map(|url| quote_toml(url.as_str()))
    }
}

impl ConfigValue for Option<PublicKey> {
    const WANTED: &'static str = "an Ed25519 public key in quotes, as base64 or in hex";
    // No private key for this exists: it is a hash.
    const EXAMPLE: &'static str = "\"T64rUJbvmpXUmjxh1Cxn14gSXLrRhWVhxm31pHvctcU=\"";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        let parsed = PublicKey::parse(read_text(plain)?);
        parsed.map(Some).map_err(ValueError::Invalid)
    }
    fn to_toml(&self) -> Option<String> {
        self.as_ref().map(|key| quote_toml(&key.encode_base64()))
    }
}

impl ConfigValue for Option<PathBuf> {
    const WANTED: &'static str = "a path in quotes";
    const EXAMPLE: &'static str = "\"~/work/app\"";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        match read_text(plain)? {
            "" => Err(ValueError::Invalid("the path is empty".to_owned())),
            path => Ok(Some(PathBuf::from(path))),
        }
    }
    fn to_toml(&self) -> Option<String> {
        self.as_ref()
            .map(|path| quote_toml(&path.to_string_lossy()))
    }
}

impl ConfigValue for Vec<PathBuf> {
    const WANTED: &'static str = "a list of paths in quotes";
    const EXAMPLE: &'static str = r#"["~/work/app"]"#;
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        read_list(plain, |path| match read_text(path)? {
            "" => Err(ValueError::Invalid("a path in it is empty".to_owned())),
            path => Ok(PathBuf::from(path)),
        })
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote_list(self, |path| path.to_string_lossy()))
    }
}

impl ConfigValue for Vec<u16> {
    const WANTED: &'static str = "a list of ports between 1 and 65535";
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        read_list(plain, |port| {
            let port = Some(read_integer::<u16>(port)?).filter(|port| *port > 0);
            port.ok_or(ValueError::WrongType)
        })
    }
    fn to_toml(&self) -> Option<String> {
        let ports: Vec<String> = self.iter().map(u16::to_string).collect();
        Some(format!("[{}]", ports.join(", ")))
    }
}

/// A list that differs from an empty one if it is not set.
impl<T> ConfigValue for Option<Vec<T>>
where
    Vec<T>: ConfigValue,
{
    const WANTED: &'static str = <Vec<T>>::WANTED;
    const EXAMPLE: &'static str = <Vec<T>>::EXAMPLE;
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        <Vec<T>>::from_toml(plain).map(Some)
    }
    fn to_toml(&self) -> Option<String> {
        self.as_ref().and_then(ConfigValue::to_toml)
    }
}

impl ConfigValue for Vec<String> {
    const WANTED: &'static str = "a list of words in quotes";
    const EXAMPLE: &'static str = r#"["reads", "Edit"]"#;
    fn from_toml(plain: &TomlValue) -> Result<Self, ValueError> {
        read_list(plain, |word| read_text(word).map(str::to_owned))
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote_list(self, |word| word.into()))
    }
}

pub(super) fn quote_toml(text: &str) -> String {
    // JSON escapes everything that TOML requires except for this character.
    serde_json::Value::from(text)
        .to_string()
        .replace('\u{7f}', "\\u007F")
}

/// Formats "must be a whole number between 1 and 64, not 99".
pub(super) fn expected_text<T: ConfigValue>(
    bounds: &dyn ValueBounds<T>,
    found: &(impl Display + ?Sized),
) -> String {
    format!("must be {}, not {found}", allowed_text(bounds))
}

/// Formats "a whole number between 1 and 64".
pub(super) fn allowed_text<T: ConfigValue>(bounds: &dyn ValueBounds<T>) -> String {
    format!("{}{}", T::WANTED, bounds.describe_bounds())
}
