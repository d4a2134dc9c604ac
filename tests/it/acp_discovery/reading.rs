//! The checks of a client's answer: which tools are accepted, and which problems are reported.

use punie_editor::{ToolCatalog, ToolDescriptor};
use serde_json::{Value, json};

use super::editor::tool_description;

fn read_catalog(tools: &Value) -> ToolCatalog {
    ToolCatalog::parse(&json!({ "tools": tools }))
}

fn tool_names(catalog: &ToolCatalog) -> Vec<&str> {
    catalog
        .descriptors()
        .iter()
        .map(|tool| tool.name.as_str())
        .collect()
}

fn catalog_problems(catalog: &ToolCatalog) -> String {
    catalog
        .problems()
        .iter()
        .map(|problem| format!("{problem}\n"))
        .collect::<Vec<_>>()
        .concat()
}

#[test]
fn a_whole_descriptor_and_one_with_only_what_it_must_have_are_read() {
    let whole = json!({
        "name": "ide_rename_symbol",
        "kind": "edit",
        "description": " Renames. ",
        "parameters": {"type": "object"},
        "requires_permission": true,
        "categories": ["refactoring", "python"],
        "version": 7,
    });
    let least = json!({"name": "a", "description": "Does a.", "parameters": {}});
    let catalog = read_catalog(&json!([whole, least]));
    assert_eq!(catalog_problems(&catalog), "");
    let expected = ToolDescriptor {
        name: "ide_rename_symbol".into(),
        kind: "edit".into(),
        description: "Renames.".into(),
        parameters: json!({"type": "object"}),
        requires_permission: true,
        categories: vec!["refactoring".into(), "python".into()],
    };
    let [whole, least] = catalog.descriptors() else {
        panic!("two tools: {:?}", tool_names(&catalog));
    };
    assert_eq!(*whole, expected);
    assert_eq!(least.name, "a");
    assert_eq!(least.kind.as_str(), "other");
    assert!(!least.requires_permission);
    assert_eq!(least.categories.len(), 0);
}

#[test]
fn keys_in_camel_case_are_understood_and_an_unknown_kind_is_other() {
    let mut asks = tool_description("asks", "refactor");
    asks["requiresPermission"] = json!(true);
    let mut both = tool_description("both", "read");
    (both["requires_permission"], both["requiresPermission"]) = (json!(false), json!(true));
    let catalog = read_catalog(&json!([asks, both]));
    assert!(
        catalog
            .descriptors()
            .iter()
            .all(|tool| tool.requires_permission),
        "either spelling can require permission"
    );
    assert_eq!(catalog.descriptors()[0].kind, "other");
}

#[test]
fn a_bad_descriptor_is_told_and_takes_no_other_with_it() {
    let with = |key: &str, value: Value| {
        let mut bad = tool_description("bad", "read");
        bad[key] = value;
        bad
    };
    let without = |key: &str| {
        let mut bad = tool_description("bad", "read");
        bad.as_object_mut().expect("an object").remove(key);
        bad
    };
    for (bad, words) in cases! {
        (json!(7), "tools[1]: it is not an object"),
        (without("name"), "tools[1]: `name` is missing"),
        (without("description"), "tools[1] \"bad\": `description` is missing"),
        (without("parameters"), "`parameters` is missing"),
        (with("name", json!("")), "`name` must be 1 to 64 characters"),
        (with("name", json!("a b")), "`name` must be 1 to 64 characters"),
        (with("name", json!("é")), "`name` must be 1 to 64 characters"),
        (with("name", json!("x".repeat(65))), "`name` must be 1 to 64 characters"),
        (with("name", json!(["a"])), "`name` must be a string"),
        (with("description", json!(null)), "`description` must be a string"),
        (with("parameters", json!([])), "must be the JSON schema of an object"),
        (with("parameters", json!(true)), "must be the JSON schema of an object"),
        (with("parameters", json!({"type": "string"})), "must be the JSON schema of an object"),
        (with("requires_permission", json!("no")), "`requires_permission` must be true or false"),
        (with("categories", json!("python")), "`categories` must be a list of words"),
        (with("description", json!("x".repeat(70_000))), "a descriptor has 65536 at most"),
    } {
        let catalog = read_catalog(&json!([
            tool_description("first", "read"),
            bad,
            tool_description("last", "read")
        ]));
        assert_eq!(tool_names(&catalog), ["first", "last"], "{words}");
        assert_contains!(catalog_problems(&catalog), words);
    }
}

#[test]
fn of_two_tools_of_one_name_the_first_counts() {
    let catalog = read_catalog(&json!([
        tool_description("a/b", "read"),
        tool_description("a/b", "edit"),
        tool_description("a.b", "edit")
    ]));
    assert_eq!(tool_names(&catalog), ["a/b"]);
    assert_eq!(catalog.descriptors()[0].kind, "read");
    assert_eq!(
        catalog.descriptors()[0].name(),
        "a.b",
        "the name for callers has no slash"
    );
    assert_eq!(
        catalog_problems(&catalog)
            .matches("an earlier tool has this name")
            .count(),
        2
    );
}

#[test]
fn a_flood_of_tools_ends_somewhere() {
    let many: Vec<Value> = (0..300)
        .map(|n| tool_description(&format!("t{n}"), "read"))
        .collect();
    let catalog = read_catalog(&json!(many));
    assert_eq!(catalog.descriptors().len(), 256);
    assert_contains!(catalog_problems(&catalog), "the last 44 were not looked at");

    let bad: Vec<Value> = (0..10_000).map(|n| json!(n)).collect();
    assert_eq!(read_catalog(&json!(bad)).problems().len(), 33);

    let long = |n: usize| {
        let mut long = tool_description(&format!("t{n}"), "read");
        long["description"] = json!("x".repeat(60_000));
        long
    };
    let catalog = read_catalog(&json!((0..20).map(long).collect::<Vec<_>>()));
    assert_eq!(
        catalog.descriptors().len(),
        8,
        "a catalog is limited to half a megabyte"
    );
    assert_contains!(catalog_problems(&catalog), "the last 12 were not looked at");
}

#[test]
fn an_answer_that_is_no_catalog_is_told() {
    for answer in [
        json!(null),
        json!([]),
        json!({}),
        json!({"tools": {}}),
        json!("tools"),
    ] {
        let catalog = ToolCatalog::parse(&answer);
        assert_eq!(catalog.descriptors(), []);
        assert_eq!(
            catalog_problems(&catalog),
            "discovery: the answer has no list `tools`\n",
            "{answer}"
        );
    }
    assert_eq!(
        catalog_problems(&read_catalog(&json!([]))),
        "",
        "an empty list is no mistake"
    );
}
