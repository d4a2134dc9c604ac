//! Aliases of people in arguments. An alias means the person only in the fields that a tool declares; everywhere else, as
//! in commands and paths, it stays as it is. Not here: the identity map.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{ToolSpec, decode};

/// The kinds of argument fields in which aliases of people are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeopleField {
    /// Text, also within lists and objects.
    Text(&'static str),
    /// A regular expression, in which a person's name stands for itself.
    Pattern(&'static str),
    /// A patch. Its lines that name files stay as they are.
    Patch(&'static str),
}

impl PeopleField {
    fn name(self) -> &'static str {
        match self {
            Self::Text(name) | Self::Pattern(name) | Self::Patch(name) => name,
        }
    }
}

/// Resolves aliases of people by the owner's identity map.
pub trait AliasResolver: Send + Sync {
    /// Loads the map if it changed. An error is a text for the model: there is a map, and it cannot be read.
    ///
    /// # Errors
    /// As above.
    fn check_map(&self) -> Result<(), String>;
    /// Replaces aliases by what the owner wrote, each written by `write`.
    fn resolve<'t>(&self, text: &'t str, write: fn(&str) -> String) -> Cow<'t, str>;
}

/// Returns the arguments with the aliases resolved in the tool's declared fields.
pub(super) fn resolve_arguments<'t>(
    spec: &ToolSpec,
    args: &'t str,
    aliases: &dyn AliasResolver,
) -> Cow<'t, str> {
    let is_unchanged =
        |text: &str| matches!(aliases.resolve(text, ToOwned::to_owned), Cow::Borrowed(_));
    // An alias has no character that JSON must escape, but a caller may escape any.
    if spec.people_fields.is_empty() || (is_unchanged(args) && !args.contains("\\u")) {
        return Cow::Borrowed(args);
    }
    // Arguments that cannot be decoded are refused later, with the reason.
    let Ok(mut map) =
        decode::parse_object(spec, args).and_then(|given| decode::canonical_arguments(spec, given))
    else {
        return Cow::Borrowed(args);
    };
    for field in spec.people_fields {
        resolve_field(&mut map, *field, aliases);
    }
    Cow::Owned(Value::Object(map).to_string())
}

fn resolve_field(map: &mut Map<String, Value>, field: PeopleField, aliases: &dyn AliasResolver) {
    let Some(value) = map.get_mut(field.name()) else {
        return;
    };
    let plain = |text: &str| aliases.resolve(text, ToOwned::to_owned).into_owned();
    match field {
        PeopleField::Text(_) => change_texts(value, &plain),
        PeopleField::Pattern(_) => change_texts(value, &|text| {
            aliases.resolve(text, regex::escape).into_owned()
        }),
        PeopleField::Patch(_) => change_texts(value, &|text| {
            let lines = text.split_inclusive('\n');
            lines
                .map(|line| {
                    if names_file(line) {
                        line.to_owned()
                    } else {
                        plain(line)
                    }
                })
                .collect()
        }),
    }
}

/// Returns whether a line of a patch names a file.
fn names_file(line: &str) -> bool {
    ["*** ", "--- ", "+++ ", "diff ", "rename ", "copy "]
        .iter()
        .any(|start| line.starts_with(start))
}

fn change_texts(value: &mut Value, change: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| change_texts(item, change)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|value| change_texts(value, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
