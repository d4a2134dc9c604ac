//! Checks arguments against another program's JSON schema, with the crate `boon`. No document is ever loaded: a schema that
//! refers to another one is refused.

use std::error::Error;
use std::fmt::Write as _;

use boon::{
    CompileError, Compiler, ErrorKind, InstanceToken, SchemaIndex, Schemas, UrlLoader,
    ValidationError,
};
use serde_json::Value;

/// The schema's own URL, for references within it.
const SCHEMA_URL: &str = "punie:///arguments";
/// The most faults that are reported at once.
const MOST_FAULTS: usize = 5;

/// A compiled schema.
pub struct ArgumentSchema {
    schemas: Schemas,
    root: SchemaIndex,
}

struct RefusingLoader;

impl UrlLoader for RefusingLoader {
    fn load(&self, _url: &str) -> Result<Value, Box<dyn Error>> {
        Err("a schema must not refer to other documents".into())
    }
}

impl ArgumentSchema {
    /// Compiles a schema of any usual draft, 2020-12 if it names none. An error is part of a sentence.
    ///
    /// # Errors
    /// It is not usable.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        compiler.use_loader(Box::new(RefusingLoader));
        let no_schema =
            |cause: CompileError| format!("`parameters` is no usable JSON schema: {cause:#}");
        compiler
            .add_resource(SCHEMA_URL, schema.clone())
            .map_err(no_schema)?;
        let root = compiler
            .compile(SCHEMA_URL, &mut schemas)
            .map_err(no_schema)?;
        Ok(Self { schemas, root })
    }

    /// Checks arguments; an error is part of a sentence.
    ///
    /// # Errors
    /// The first faults.
    pub fn validate(&self, arguments: &Value) -> Result<(), String> {
        self.schemas
            .validate(arguments, self.root)
            .map_err(|error| {
                let mut faults = Vec::new();
                collect_faults(&error, &mut faults);
                faults.join("; ")
            })
    }
}

/// Collects the innermost causes.
fn collect_faults(error: &ValidationError<'_, '_>, faults: &mut Vec<String>) {
    if faults.len() == MOST_FAULTS {
        return;
    }
    if error.causes.is_empty() {
        return faults.push(describe_fault(error));
    }
    error
        .causes
        .iter()
        .for_each(|cause| collect_faults(cause, faults));
}

fn describe_fault(error: &ValidationError<'_, '_>) -> String {
    let mut place = String::new();
    for token in &error.instance_location.tokens {
        match token {
            InstanceToken::Prop(name) if place.is_empty() => place.push_str(name),
            InstanceToken::Prop(name) => {
                let _ = write!(place, ".{name}");
            }
            InstanceToken::Item(at) => {
                let _ = write!(place, "[{at}]");
            }
        }
    }
    let of = if place.is_empty() {
        String::new()
    } else {
        format!("`{place}`: ")
    };
    match &error.kind {
        ErrorKind::Required { want } => format!("{of}missing key {}", quote_names(want)),
        ErrorKind::AdditionalProperties { got } => format!("{of}unknown key {}", quote_names(got)),
        other => format!("{of}{other}"),
    }
}

fn quote_names<T: AsRef<str>>(names: &[T]) -> String {
    names
        .iter()
        .map(|name| format!("`{}`", name.as_ref()))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(schema: &Value, arguments: &Value) -> String {
        let schema = ArgumentSchema::new(schema).unwrap_or_else(|why| panic!("{why}"));
        schema.validate(arguments).expect_err("they do not fit")
    }

    #[test]
    fn a_fault_is_named_with_its_place() {
        let schema = json!({
            "type": "object",
            "required": ["symbol"],
            "additionalProperties": false,
            "properties": {
                "symbol": {"type": "string"},
                "scope": {"enum": ["file", "project"]},
                "spots": {"type": "array", "items": {"type": "object", "properties": {"line": {"type": "integer"}}}},
            }
        });
        assert!(
            ArgumentSchema::new(&schema).is_ok_and(|s| s.validate(&json!({"symbol": "a"})).is_ok())
        );
        for (arguments, words) in [
            (json!({}), "missing key `symbol`"),
            (
                json!({"symbol": 1}),
                "`symbol`: want string, but got number",
            ),
            (
                json!({"symbol": "a", "sybmol": "b"}),
                "unknown key `sybmol`",
            ),
            (
                json!({"symbol": "a", "scope": "all"}),
                "`scope`: value must be one of",
            ),
            (
                json!({"symbol": "a", "spots": [{"line": "x"}]}),
                "`spots[0].line`: want integer",
            ),
        ] {
            let said = refused(&schema, &arguments);
            assert!(said.contains(words), "{arguments}: {said}");
        }
        let many = json!({"symbol": "a", "spots": (0..50).map(|_| json!(1)).collect::<Vec<_>>()});
        assert_eq!(
            refused(&schema, &many).matches("want object").count(),
            MOST_FAULTS
        );
    }

    #[test]
    fn a_schema_that_cannot_be_used_says_why() {
        for schema in [
            json!({"type": "objekt"}),
            json!({"properties": {"a": {"pattern": "("}}}),
            json!({"properties": {"a": {"$ref": "#/$defs/none"}}}),
            json!({"$schema": "http://example.com/own"}),
            json!({"properties": {"a": {"$ref": "https://example.com/schema"}}}),
        ] {
            let why = ArgumentSchema::new(&schema)
                .err()
                .unwrap_or_else(|| panic!("{schema} is taken"));
            assert!(
                why.starts_with("`parameters` is no usable JSON schema"),
                "{why}"
            );
        }
    }

    #[test]
    fn a_schema_reads_no_file() {
        // One that is there and is JSON, so that only reading it can be what is refused.
        let file = concat!(
            "file://",
            env!("CARGO_MANIFEST_DIR"),
            "/../../convex/package.json"
        );
        let why = ArgumentSchema::new(&json!({"$ref": file})).err();
        assert!(why.is_some_and(|why| why.contains("must not refer to other documents")));
    }

    #[test]
    fn references_within_a_schema_are_followed() {
        let schema = json!({
            "properties": {"place": {"$ref": "#/$defs/place"}},
            "$defs": {"place": {"type": "object", "required": ["line"], "properties": {"inner": {"$ref": "#/$defs/place"}}}}
        });
        let said = refused(&schema, &json!({"place": {"line": 1, "inner": {}}}));
        assert_eq!(said, "`place.inner`: missing key `line`");
    }
}
