//! A rule about paths applies to every path argument of every tool, under any name of the argument.

use std::sync::Arc;

use punie_core::ids::RequestId;
use punie_home::Home;
use punie_host::active_rules::ActiveRules;
use punie_host::local::child_log::NoChildLog;
use punie_host::local::confinement::Confinement;
use punie_host::local::local_terminals::{LocalTerminalSetup, LocalTerminals};
use punie_host::permission::{GatePolicy, PermissionGate};
use punie_host::{RawPath, Workspace};
use punie_text::output::OutputStore;
use punie_text::redact::Redactor;
use punie_tool::{
    CallGate, DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolRegistry, ToolSet,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::write_rules;
use crate::harness::whole::all_tools;

/// A tool as a contributor may add it: its path argument has a name that no other tool uses.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TouchTool {
    /// The file.
    target: RawPath,
}

impl Tool for TouchTool {
    const NAME: &'static str = "Touch";
    const EFFECT: ToolEffect = ToolEffect::Writes;
    type Deps = ();
    type Output = String;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::writing_paths([self.target.as_str()])
    }

    async fn run(self, _cx: &ToolContext, (): &()) -> Result<String, ToolError> {
        Ok(String::new())
    }
}

#[tokio::test]
async fn a_tool_with_an_odd_path_argument_is_denied_by_a_rule_about_paths() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("a resolved path");
    std::fs::create_dir(root.join("work")).expect("made");
    let home = Home::open_home(&root.join("home")).expect("a home");
    let rule = "[[rule]]\nname = \"keys\"\ndecision = \"deny\"\npaths = [\"keys/**\"]\n";
    write_rules(&root.join("home"), rule);
    let workspace = Workspace::open_roots(&[root.join("work")]).expect("a workspace");
    let terminals = LocalTerminals::new(LocalTerminalSetup {
        base_env: Vec::new(),
        store: OutputStore::open_output_folder(&home.outputs_dir()).expect("a store"),
        redactor: Redactor::default(),
        log: Arc::new(NoChildLog),
        confinement: Confinement::default(),
    })
    .expect("a thread");
    let registry = ToolRegistry::new([ToolSet::new("odd", ())
        .with_tool::<TouchTool>()
        .into_entries()])
    .expect("one tool");
    let standing = ActiveRules::load_from_home(
        &home,
        vec![root.join("work")],
        Arc::new(|name: &str| name == "Touch"),
    );
    let policy = GatePolicy {
        active_rules: Arc::new(standing.expect("a good file")),
        workspace,
        terminals,
    };
    let gate = PermissionGate::default().with_policy(policy);
    let entry = registry.find("Touch").expect("the tool is registered");
    let permit = async |path: &str| {
        let args = json!({"target": path}).to_string();
        let ready = entry.decode_call(&args).expect("it is taken");
        gate.permit_call(
            &ToolContext::for_detached_call(RequestId::new()),
            entry.tool_spec(),
            ready.as_gate_input(&args),
        )
        .await
        .map(drop)
    };
    assert_error!(permit("keys/a.pem").await.expect_err("a denial"), PolicyDenied: "keys");
    permit("notes.txt").await.expect("no rule is about it");
}

#[test]
fn every_path_argument_of_every_tool_is_in_its_access() {
    let whole = all_tools();
    let mut checked = 0;
    for spec in whole.registry.device_specs() {
        let entry = whole.registry.find(&spec.name).expect("it is listed");
        let schema = spec.schema.to_value();
        for (key, about) in schema["properties"].as_object().into_iter().flatten() {
            if !about.to_string().contains(r#""format":"path""#) {
                continue;
            }
            let marker = format!("marked/{key}");
            let is_list = about["type"] == "array";
            let value = if is_list {
                json!([marker])
            } else {
                json!(marker)
            };
            let named = spec.examples.iter().any(|example| {
                let mut args: Value = serde_json::from_str(example).expect("JSON");
                args[key] = value.clone();
                let ready = entry.decode_call(&args.to_string()).expect("it is taken");
                format!("{:?}", ready.declared_access()).contains(&marker)
            });
            assert!(
                named,
                "{}: the path in {key} is not in its access",
                spec.name
            );
            checked += 1;
        }
    }
    assert!(checked >= 25, "{checked} path arguments");
}
