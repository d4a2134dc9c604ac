//! What is believed of a client's answer.

use punie_editor::{ToolCatalog, ToolDescriptor};
use serde_json::{Value, json};

use super::editor::tool;

fn read(tools: &Value) -> ToolCatalog {
    ToolCatalog::parse_catalog(&json!({ "tools": tools }))
}

fn names(catalog: &ToolCatalog) -> Vec<&str> {
    catalog
        .tool_descriptors()
        .iter()
        .map(|tool| tool.name.as_str())
        .collect()
}

fn told(catalog: &ToolCatalog) -> String {
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
    let catalog = read(&json!([whole, least]));
    assert_eq!(told(&catalog), "");
    let expected = ToolDescriptor {
        name: "ide_rename_symbol".into(),
        kind: "edit".into(),
        description: "Renames.".into(),
        parameters: json!({"type": "object"}),
        requires_permission: true,
        categories: vec!["refactoring".into(), "python".into()],
    };
    assert_eq!(catalog.by_name("ide_rename_symbol"), Some(&expected));
    let least = catalog.by_name("a").expect("it is there");
    assert_eq!(
        (
            least.kind.as_str(),
            least.requires_permission,
            least.categories.len()
        ),
        ("other", false, 0)
    );
}

#[test]
fn tools_are_found_by_name_kind_and_category() {
    let mut one = tool("one", "search");
    one["categories"] = json!(["python", "navigation"]);
    let mut two = tool("two", "search");
    two["categories"] = json!(["python"]);
    let catalog = read(&json!([one, two, tool("three", "edit")]));
    let of = |found: Vec<&ToolDescriptor>| {
        found
            .into_iter()
            .map(|tool| tool.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(of(catalog.by_kind("search")), ["one", "two"]);
    assert_eq!(of(catalog.by_kind("delete")), [""; 0]);
    assert_eq!(of(catalog.by_category("python")), ["one", "two"]);
    assert_eq!(of(catalog.by_category("navigation")), ["one"]);
    assert!(catalog.by_name("four").is_none());
}

#[test]
fn keys_in_camel_case_are_understood_and_an_unknown_kind_is_other() {
    let mut asks = tool("asks", "refactor");
    asks["requiresPermission"] = json!(true);
    let mut both = tool("both", "read");
    (both["requires_permission"], both["requiresPermission"]) = (json!(false), json!(true));
    let catalog = read(&json!([asks, both]));
    assert!(
        catalog
            .tool_descriptors()
            .iter()
            .all(|tool| tool.requires_permission),
        "a yes anywhere is a yes"
    );
    assert_eq!(catalog.tool_descriptors()[0].kind, "other");
}

#[test]
fn a_bad_descriptor_is_told_and_takes_no_other_with_it() {
    let with = |key: &str, value: Value| {
        let mut bad = tool("bad", "read");
        bad[key] = value;
        bad
    };
    let without = |key: &str| {
        let mut bad = tool("bad", "read");
        bad.as_object_mut().expect("an object").remove(key);
        bad
    };
    for (bad, words) in [
        (json!(7), "tools[1]: it is not an object"),
        (without("name"), "tools[1]: `name` is missing"),
        (
            without("description"),
            "tools[1] \"bad\": `description` is missing",
        ),
        (without("parameters"), "`parameters` is missing"),
        (with("name", json!("")), "`name` must be 1 to 64 characters"),
        (
            with("name", json!("a b")),
            "`name` must be 1 to 64 characters",
        ),
        (
            with("name", json!("é")),
            "`name` must be 1 to 64 characters",
        ),
        (
            with("name", json!("x".repeat(65))),
            "`name` must be 1 to 64 characters",
        ),
        (with("name", json!(["a"])), "`name` must be a string"),
        (
            with("description", json!(null)),
            "`description` must be a string",
        ),
        (
            with("parameters", json!([])),
            "must be the JSON schema of an object",
        ),
        (
            with("parameters", json!(true)),
            "must be the JSON schema of an object",
        ),
        (
            with("parameters", json!({"type": "string"})),
            "must be the JSON schema of an object",
        ),
        (
            with("requires_permission", json!("no")),
            "`requires_permission` must be true or false",
        ),
        (
            with("categories", json!("python")),
            "`categories` must be a list of words",
        ),
        (
            with("description", json!("x".repeat(70_000))),
            "a descriptor has 65536 at most",
        ),
    ] {
        let catalog = read(&json!([tool("first", "read"), bad, tool("last", "read")]));
        assert_eq!(names(&catalog), ["first", "last"], "{words}");
        assert!(
            told(&catalog).contains(words),
            "{words}: {}",
            told(&catalog)
        );
    }
}

#[test]
fn of_two_tools_of_one_name_the_first_counts() {
    let catalog = read(&json!([
        tool("a/b", "read"),
        tool("a/b", "edit"),
        tool("a.b", "edit")
    ]));
    assert_eq!(names(&catalog), ["a/b"]);
    assert_eq!(catalog.tool_descriptors()[0].kind, "read");
    assert_eq!(
        catalog.tool_descriptors()[0].tool_name(),
        "a.b",
        "callers have no slash"
    );
    assert_eq!(
        told(&catalog)
            .matches("an earlier tool has this name")
            .count(),
        2
    );
}

#[test]
fn a_flood_of_tools_ends_somewhere() {
    let many: Vec<Value> = (0..300).map(|n| tool(&format!("t{n}"), "read")).collect();
    let catalog = read(&json!(many));
    assert_eq!(catalog.tool_descriptors().len(), 256);
    assert!(
        told(&catalog).contains("the last 44 were not looked at"),
        "{}",
        told(&catalog)
    );

    let bad: Vec<Value> = (0..10_000).map(|n| json!(n)).collect();
    assert_eq!(read(&json!(bad)).problems().len(), 33);

    let long = |n: usize| {
        let mut long = tool(&format!("t{n}"), "read");
        long["description"] = json!("x".repeat(60_000));
        long
    };
    let catalog = read(&json!((0..20).map(long).collect::<Vec<_>>()));
    assert_eq!(
        catalog.tool_descriptors().len(),
        8,
        "half a megabyte in all"
    );
    assert!(
        told(&catalog).contains("the last 12 were not looked at"),
        "{}",
        told(&catalog)
    );
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
        let catalog = ToolCatalog::parse_catalog(&answer);
        assert_eq!(catalog.tool_descriptors(), []);
        assert_eq!(
            told(&catalog),
            "discovery: the answer has no list `tools`\n",
            "{answer}"
        );
    }
    assert_eq!(told(&read(&json!([]))), "", "an empty list is no mistake");
}
