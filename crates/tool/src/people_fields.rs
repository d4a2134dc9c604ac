//! Aliases of people in arguments. An alias means the person only in the fields that a tool declares; everywhere else,
//! as in commands and paths, it stays as it is.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{ToolSpec, decode};
use punie_text::redact::Redactor;

/// The kinds of argument fields in which aliases of people are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeopleField {
    /// Text, also within lists and objects.
    Text(&'static str),
    /// A regular expression, in which a person's name stands for itself; plain text where the second field is true.
    Pattern(&'static str, &'static str),
    /// A patch. Its lines that name files stay as they are.
    Patch(&'static str),
}

impl PeopleField {
    fn name(self) -> &'static str {
        match self {
            Self::Text(name) | Self::Pattern(name, _) | Self::Patch(name) => name,
        }
    }
}

/// Returns the arguments with the aliases resolved in the tool's declared fields.
pub(super) fn resolve_arguments<'t>(
    spec: &ToolSpec,
    args: &'t str,
    redactor: &Redactor,
) -> Cow<'t, str> {
    if spec.people_fields.is_empty() || !redactor.may_have_alias(args) {
        return Cow::Borrowed(args);
    }
    // Arguments that cannot be decoded are refused later, with the reason.
    let Ok(mut map) =
        decode::parse_object(spec, args).and_then(|given| decode::canonical_arguments(spec, given))
    else {
        return Cow::Borrowed(args);
    };
    for field in spec.people_fields {
        resolve_field(&mut map, *field, redactor);
    }
    Cow::Owned(Value::Object(map).to_string())
}

fn resolve_field(map: &mut Map<String, Value>, field: PeopleField, redactor: &Redactor) {
    let is_literal = match field {
        PeopleField::Pattern(_, literal) => map.get(literal) == Some(&Value::Bool(true)),
        PeopleField::Text(_) | PeopleField::Patch(_) => false,
    };
    let Some(value) = map.get_mut(field.name()) else {
        return;
    };
    let plain = |text: &str| redactor.resolve_aliases(text).into_owned();
    match field {
        PeopleField::Text(_) => change_texts(value, &plain),
        PeopleField::Pattern(..) if is_literal => change_texts(value, &plain),
        PeopleField::Pattern(..) => {
            change_texts(value, &|text| {
                redactor.resolve_in_pattern(text).into_owned()
            });
        }
        PeopleField::Patch(_) => change_texts(value, &|text| resolve_patch(text, &plain)),
    }
}

/// Resolves aliases in the lines of a patch that name no file.
fn resolve_patch(patch: &str, resolve: &dyn Fn(&str) -> String) -> String {
    let is_unified = !patch.trim_start().starts_with("*** ");
    let lines: Vec<&str> = patch.split_inclusive('\n').collect();
    let starts = |at: usize, start: &str| lines.get(at).is_some_and(|line| line.starts_with(start));
    let names_file = |at: usize| {
        if !is_unified {
            return starts(at, "*** ");
        }
        // One of the two lines alone is a removed or an added line.
        let is_old = starts(at, "--- ") && starts(at + 1, "+++ ");
        let is_new = at > 0 && starts(at - 1, "--- ") && starts(at, "+++ ");
        let others = ["diff ", "rename ", "copy "];
        is_old || is_new || others.iter().any(|start| starts(at, start))
    };
    let resolved = lines.iter().enumerate().map(|(at, line)| {
        if names_file(at) {
            (*line).to_owned()
        } else {
            resolve(line)
        }
    });
    resolved.collect()
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

#[cfg(test)]
mod tests {
    use super::resolve_patch;

    #[test]
    fn only_the_heads_of_a_patch_stay() {
        let resolve = |line: &str| line.replace('@', "Anna");
        for (patch, expected) in [
            (
                "*** Begin Patch\n*** Update File: @.sql\n@@\n--- @ wrote\n+++ @\n*** End Patch\n",
                "*** Begin Patch\n*** Update File: @.sql\nAnnaAnna\n--- Anna wrote\n+++ Anna\n*** End Patch\n",
            ),
            (
                "--- a/@\n+++ b/@\n-x\n--- @ wrote\n y @\n",
                "--- a/@\n+++ b/@\n-x\n--- Anna wrote\n y Anna\n",
            ),
        ] {
            assert_eq!(resolve_patch(patch, &resolve), expected);
        }
    }
}
