//! A tool and its arguments as `send` and `call` take them: JSON, `key=value`, one plain word, or a command line behind
//! `--`.

use std::io::Read as _;

use clap::Args;
use serde_json::{Map, Value};

use super::exit::{CommandError, Exit};
use punie_home::command_to_type;
use punie_policy::command_line::quote_word;

/// A tool and its arguments.
#[derive(Debug, Args)]
pub struct ToolCallArgs {
    /// The tool, such as Read
    pub tool: String,
    /// Its arguments: key=value, one plain word where the tool needs one text only, or a JSON object; - reads JSON from
    /// standard input
    #[arg(value_name = "ARGUMENTS")]
    arguments: Vec<String>,
    /// The command line for Bash, word by word
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl ToolCallArgs {
    /// Returns whether the tool's schema says how to read the arguments.
    pub fn needs_schema(&self) -> bool {
        match self.arguments.as_slice() {
            [] => false,
            [only] => only != "-" && !is_json_object(only),
            _ => true,
        }
    }

    /// Returns the arguments as JSON text, read by the tool's schema if it is known. The device checks them.
    pub fn read_arguments(&self, schema: Option<&Value>) -> anyhow::Result<String> {
        match self.arguments.as_slice() {
            [] if self.command.is_empty() => Ok("{}".to_owned()),
            [only] if self.command.is_empty() && only == "-" => {
                let mut text = String::new();
                std::io::stdin()
                    .read_to_string(&mut text)
                    .map_err(|cause| usage(format!("standard input: {cause}")))?;
                Ok(text)
            }
            [only] if self.command.is_empty() && is_json_object(only) => Ok(only.clone()),
            words => self.read_words(words, schema.unwrap_or(&Value::Null)),
        }
    }

    fn read_words(&self, words: &[String], schema: &Value) -> anyhow::Result<String> {
        let mut arguments = Map::new();
        for word in words {
            let (key, value) = if let Some((key, text)) = split_pair(word) {
                (
                    key.to_owned(),
                    typed_value(text, &schema["properties"][key]),
                )
            } else {
                let key = only_required_text(schema).ok_or_else(|| self.unclear(word))?;
                (key.to_owned(), Value::from(word.as_str()))
            };
            if arguments.insert(key.clone(), value).is_some() {
                return Err(usage(format!("{key} is given twice")));
            }
        }
        if !self.command.is_empty() {
            arguments.insert(
                "command".to_owned(),
                join_command_line(&self.command).into(),
            );
        }
        Ok(Value::Object(arguments).to_string())
    }

    fn unclear(&self, word: &str) -> anyhow::Error {
        let tool = &self.tool;
        usage(format!(
            "{word:?} is no argument of {tool}: give key=value, a JSON object, or a command line behind --. \
             `{}` lists the arguments",
            command_to_type(&format!("tools {tool}"))
        ))
    }
}

fn usage(text: String) -> anyhow::Error {
    CommandError::with_exit(Exit::Usage, text)
}

fn is_json_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Returns the command line of these words. A single word is a whole line.
pub fn join_command_line(words: &[String]) -> String {
    match words {
        [line] => line.clone(),
        words => {
            let quoted: Vec<String> = words.iter().map(|word| quote_word(word)).collect();
            quoted.join(" ")
        }
    }
}

/// Splits `key=value`. A key is a name as tools have them.
fn split_pair(word: &str) -> Option<(&str, &str)> {
    let (key, value) = word.split_once('=')?;
    let is_name = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((key, value))
}

/// Reads a value by its property's schema. A text that is not of its type stays a text, which the device refuses with
/// its reason.
fn typed_value(text: &str, property: &Value) -> Value {
    let has_type = |name: &str| match &property["type"] {
        Value::String(one) => one == name,
        Value::Array(several) => several.iter().any(|one| one == name),
        _ => false,
    };
    // Without a type it is JSON only where it cannot be meant as a text.
    let is_text = has_type("string") || property["type"].is_null() && !text.starts_with(['{', '[']);
    let read = if is_text {
        None
    } else {
        serde_json::from_str(text).ok()
    };
    read.unwrap_or_else(|| Value::from(text))
}

/// Returns the only required argument, if it is a text.
fn only_required_text(schema: &Value) -> Option<&str> {
    let [only] = schema["required"].as_array()?.as_slice() else {
        return None;
    };
    let key = only.as_str()?;
    (schema["properties"][key]["type"] == "string").then_some(key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(arguments: &[&str], command: &[&str]) -> Result<Value, String> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let given = ToolCallArgs {
            tool: "Grep".to_owned(),
            arguments: owned(arguments),
            command: owned(command),
        };
        let schema = json!({"required": ["pattern"], "properties": {
            "pattern": {"type": "string"}, "limit": {"type": ["integer", "null"]}, "all": {"type": "boolean"},
            "env": {"type": "object"}, "any": {},
        }});
        let text = given
            .read_arguments(Some(&schema))
            .map_err(|error| error.to_string())?;
        Ok(serde_json::from_str(&text).expect("JSON"))
    }

    #[test]
    fn words_become_arguments_of_the_schema_s_types() {
        for (arguments, expected) in [
            (&[][..], json!({})),
            (&[r#" {"a": 1}"#], json!({"a": 1})),
            (&["pattern=*.md"], json!({"pattern": "*.md"})),
            (
                &["pattern=5", "limit=5"],
                json!({"pattern": "5", "limit": 5}),
            ),
            (
                &["all=true", "env={\"A\":\"b=c\"}"],
                json!({"all": true, "env": {"A": "b=c"}}),
            ),
            (
                &["limit=many", "new=7"],
                json!({"limit": "many", "new": "7"}),
            ),
            (
                &["any=[1]", "pattern=[1]"],
                json!({"any": [1], "pattern": "[1]"}),
            ),
            (&["a b", "limit=1"], json!({"pattern": "a b", "limit": 1})),
            (&["src/a=b"], json!({"pattern": "src/a=b"})),
        ] {
            assert_eq!(read(arguments, &[]), Ok(expected), "{arguments:?}");
        }
        for (arguments, words) in [
            (&["a", "b"][..], "pattern is given twice"),
            (&["limit=1", "limit=2"], "limit is given twice"),
        ] {
            assert_eq!(read(arguments, &[]), Err(words.to_owned()));
        }
    }

    #[test]
    fn a_command_line_is_quoted_as_it_was_typed() {
        let git = read(&[], &["git", "log", "--format=%an %ae", "it's"]);
        assert_eq!(
            git,
            Ok(json!({"command": r"git log '--format=%an %ae' 'it'\''s'"}))
        );
        let line = read(&["limit=3"], &["git log | head"]);
        assert_eq!(line, Ok(json!({"limit": 3, "command": "git log | head"})));
    }

    #[test]
    fn a_plain_word_without_a_schema_is_refused_with_the_ways_to_write_it() {
        let given = ToolCallArgs {
            tool: "Bash".to_owned(),
            arguments: vec!["ls".to_owned()],
            command: Vec::new(),
        };
        let refused = given.read_arguments(None).expect_err("unclear");
        assert!(refused.to_string().contains("behind --"), "{refused}");
        assert_eq!(Exit::from_error(&refused), Exit::Usage);
    }
}
