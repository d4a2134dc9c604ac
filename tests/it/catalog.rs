//! The catalog as a model reads it. A change of a name, a description or a schema shows here as a difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use punie_tool::ToolSpec;
use serde_json::{Map, Value};

use crate::harness::whole::{all_tools, whole_switched_on};

/// The specs of all tools of the device.
fn tool_specs() -> Vec<ToolSpec> {
    all_tools().registry.device_specs().cloned().collect()
}

fn schema_properties(spec: &ToolSpec) -> Map<String, Value> {
    match spec.schema.to_value()["properties"].take() {
        Value::Object(properties) => properties,
        _ => Map::new(),
    }
}

/// Sorts the keys of a value at every depth, because their order is not part of the agreed catalog.
fn sort_keys(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let in_order: BTreeMap<&String, Value> = map
                .iter()
                .map(|(key, value)| (key, sort_keys(value)))
                .collect();
            in_order
                .into_iter()
                .map(|(key, value)| (key.clone(), value))
                .collect()
        }
        Value::Array(items) => items.iter().map(sort_keys).collect(),
        other => other.clone(),
    }
}

#[cfg(feature = "default")]
#[test]
fn the_catalog_is_as_it_was_agreed() {
    let mut domains: BTreeMap<&str, String> = BTreeMap::new();
    for spec in whole_switched_on().registry.device_specs() {
        let catalog = domains.entry(spec.domain).or_default();
        let lane = serde_json::to_value(spec.lane).expect("a word");
        let head = [
            &spec.name,
            spec.domain,
            spec.effect.as_str(),
            lane.as_str().expect("a word"),
        ]
        .join(" | ");
        write!(
            catalog,
            "== {head}\n\n{:#}\n\n",
            sort_keys(&Value::Object(spec.model_view()))
        )
        .expect("a text");
    }
    for (domain, catalog) in domains {
        insta::assert_snapshot!(domain, catalog);
    }
}

#[test]
fn every_description_says_what_the_tool_does_and_something_more() {
    for spec in tool_specs() {
        let text = format!("{} ", spec.description.replace('\n', " "));
        assert!(
            text.matches([':', '.', ';']).count() >= 2,
            "{}: {}",
            spec.name,
            spec.description
        );
        assert_ends_with!(text.trim_end(), "."; "{} ends in the middle", spec.name);
        let schema = spec.schema.to_value();
        assert_eq!(
            schema["additionalProperties"], false,
            "{} takes unknown keys",
            spec.name
        );
        for key in schema["required"].as_array().into_iter().flatten() {
            let key = key.as_str().expect("a name");
            assert!(
                schema["properties"].get(key).is_some(),
                "{}: {key}",
                spec.name
            );
        }
    }
}

/// Checks the size of the catalog as a model reads it, without tools that the owner must enable. Four bytes count as a
/// token.
#[test]
fn the_catalog_costs_a_model_29_500_bytes_at_most() {
    let bytes: usize = tool_specs()
        .iter()
        .filter(|spec| spec.offered)
        .map(|spec| Value::Object(spec.model_view()).to_string().len())
        .sum();
    assert!(bytes <= 29_500, "{bytes} bytes");
}

#[test]
fn twins_are_marked_and_say_whose_they_are() {
    let specs = tool_specs();
    let twins: Vec<&ToolSpec> = specs.iter().filter(|spec| spec.same_as.is_some()).collect();
    assert_eq!(twins.len(), 14);
    for twin in twins {
        let first = twin.same_as.expect("a twin");
        assert!(
            specs
                .iter()
                .any(|spec| spec.name == first && spec.same_as.is_none()),
            "{}",
            twin.name
        );
        assert_contains!(twin.description, "Same as"; "{}", twin.name);
        assert_eq!(twin.catalog_body()["compat"], true);
    }
}

#[test]
fn a_schema_says_nothing_that_goes_without_saying() {
    for spec in tool_specs() {
        let text = spec.catalog_body()["schema"].to_string();
        for empty in [
            r#""minimum":0"#,
            r#""default":false"#,
            r#""default":0"#,
            "additionalProperties\":false",
        ] {
            assert_lacks!(text, &format!("{empty},"), &format!("{empty}}}"));
        }
    }
    let body = |name: &str| {
        tool_specs()
            .iter()
            .find(|spec| spec.name == name)
            .expect("known")
            .catalog_body()
    };
    assert_eq!(body("SqliteQuery")["effect_depends_on"], "mode");
    assert_contains!(
        body("SkillBash")["description"].as_str().expect("a text"),
        "Bash's other arguments"
    );
    assert_eq!(
        body("Read")["aliases"]["offset"]
            .as_str()
            .expect("a text")
            .split(' ')
            .next(),
        Some("line")
    );
}

#[test]
fn every_key_has_a_description_and_every_alias_a_key() {
    for spec in tool_specs() {
        let properties = schema_properties(&spec);
        let keys: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
        for (key, schema) in properties
            .iter()
            .filter(|(key, _)| spec.name != "SkillBash" || *key == "skill_id")
        {
            let about = schema["description"].as_str().unwrap_or_default();
            assert!(
                about.len() > 8 && about.ends_with('.'),
                "{}.{key}: {about:?}",
                spec.name
            );
        }
        for (alias, key) in spec.aliases {
            assert!(
                keys.contains(key),
                "{}: {alias} is an alias of {key}, which is no key",
                spec.name
            );
            assert!(
                !keys.contains(alias),
                "{}: {alias} is a key itself",
                spec.name
            );
        }
    }
}

#[test]
fn keys_of_one_meaning_have_one_description() {
    let mut seen: Vec<(String, String, String)> = Vec::new();
    for spec in tool_specs() {
        for (key, schema) in schema_properties(&spec)
            .into_iter()
            .filter(|(_, schema)| schema.get("description").is_some())
        {
            if matches!(
                key.as_str(),
                "max_chars" | "include_ignored" | "hidden" | "expected_sha256"
            ) {
                let about = schema["description"]
                    .as_str()
                    .expect("checked above")
                    .to_owned();
                if let Some((_, other, tool)) = seen.iter().find(|(known, ..)| *known == key) {
                    assert_eq!(&about, other, "{key} of {} and of {tool}", spec.name);
                }
                seen.push((key.clone(), about, spec.name.to_string()));
            }
        }
    }
    assert!(seen.len() > 8, "{seen:?}");
}

#[test]
fn every_tool_has_two_examples_that_it_takes() {
    let whole = all_tools();
    for spec in whole.registry.device_specs() {
        assert!(
            spec.examples.len() >= 2,
            "{} has {} examples",
            spec.name,
            spec.examples.len()
        );
        let entry = whole.registry.find(&spec.name).expect("it is listed");
        for example in spec.examples {
            if let Err(error) = entry.decode_call(example) {
                panic!("{}: {error}", spec.name);
            }
        }
    }
}

#[test]
fn a_tool_that_another_names_is_there() {
    let specs = tool_specs();
    let names: BTreeSet<&str> = specs.iter().map(|spec| spec.name.as_ref()).collect();
    let words = |spec: &ToolSpec| {
        let text = format!("{} {}", spec.description, spec.schema.to_value());
        text.split(|c: char| !c.is_alphanumeric() && c != '_')
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for spec in &specs {
        for word in words(spec) {
            // Words with a capital inside are names of tools here, except these three.
            let inside =
                word.chars().skip(1).any(char::is_uppercase) && word.contains(char::is_lowercase);
            let is_name = inside
                && !["KiB", "SQLite", "PRAGMAs"].contains(&word.as_str())
                && word.starts_with(char::is_uppercase);
            assert!(
                !is_name || names.contains(word.as_str()),
                "{}: {word}",
                spec.name
            );
        }
    }
}
