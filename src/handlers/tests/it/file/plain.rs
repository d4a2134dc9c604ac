//! What holds for all the file tools.

use punie_core::ids::RequestId;
use punie_tool::ToolContext;
use serde_json::json;

use super::Bench;
use crate::harness::tools::call_with;

// Cancel.

#[tokio::test]
async fn a_cancelled_call_does_nothing() {
    let bench = Bench::new();
    bench.put("f", "a\n");
    for (tool, args) in cases! {
        ("Read", json!({"file_path": "f"})),
        ("Write", json!({"file_path": "f", "content": "b"})),
        ("Edit", json!({"file_path": "f", "old_string": "a", "new_string": "b"})),
        ("read_file", json!({"path": "f"})),
        ("write_file", json!({"path": "f", "content": "b"})),
        ("list_files", json!({"recursive": true})),
    } {
        let cx = ToolContext::for_detached_call(RequestId::new());
        cx.cancel.cancel();
        let error = call_with(&bench.tools, tool, args, cx)
            .await
            .expect_err(tool);
        assert_error!(error, Cancelled; "{tool}");
    }
    assert_eq!(bench.get("f"), "a\n");
}

#[tokio::test]
async fn the_catalog_shows_each_tool_with_its_keys() {
    let bench = Bench::new();
    let names: Vec<&str> = bench
        .tools
        .device_specs()
        .map(|spec| spec.name.as_ref())
        .collect();
    for name in [
        "Edit",
        "Read",
        "Write",
        "list_files",
        "read_file",
        "write_file",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    for spec in bench.tools.device_specs() {
        assert!(spec.description.len() > 40, "{}", spec.name);
        for (alias, key) in spec.aliases {
            assert!(
                spec.schema.to_value()["properties"].get(key).is_some(),
                "{}: {alias} -> {key}",
                spec.name
            );
        }
        for example in spec.examples {
            assert!(
                bench
                    .tools
                    .find(&spec.name)
                    .unwrap()
                    .decode_call(example)
                    .is_ok(),
                "{}: {example}",
                spec.name
            );
        }
    }
}
