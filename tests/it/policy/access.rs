//! A rule about paths holds for every path argument of every tool, whatever the argument is called.

use std::sync::Arc;

use punie_runner::acp::local::children::Unlogged;
use punie_runner::acp::local::confinement::Confinement;
use punie_runner::acp::local::terminals::{LocalSetup, LocalTerminals};
use punie_runner::acp::permission::{InsideWorkspace, Policy, StandingRules};
use punie_runner::acp::{RawPath, Workspace};
use punie_runner::home::Home;
use punie_runner::ids::RequestId;
use punie_runner::output::OutputStore;
use punie_runner::output::filter::PassThrough;
use punie_runner::tool::{Access, Effect, ErrorCode, Gate, Registry, Tool, ToolCx, ToolError, ToolSet};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::rules;
use crate::harness::whole::whole;

/// A tool as somebody may add it: its path has a name that no other tool has.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Touch {
    /// The file.
    target: RawPath,
}

impl Tool for Touch {
    const NAME: &'static str = "Touch";
    const EFFECT: Effect = Effect::Writes;
    type Deps = ();
    type Output = String;

    fn access(&self) -> Access {
        Access::writes([self.target.as_str()])
    }

    async fn run(self, _cx: &ToolCx, (): &()) -> Result<String, ToolError> {
        Ok(String::new())
    }
}

#[tokio::test]
async fn a_tool_with_an_odd_path_argument_is_denied_by_a_rule_about_paths() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("a real one");
    std::fs::create_dir(root.join("work")).expect("made");
    let home = Home::open(&root.join("home")).expect("a home");
    let rule = "[[rule]]\nname = \"keys\"\ndecision = \"deny\"\npaths = [\"keys/**\"]\n";
    rules(&root.join("home"), rule);
    let workspace = Workspace::open(&[root.join("work")]).expect("a workspace");
    let terminals = LocalTerminals::new(LocalSetup {
        base_env: Vec::new(),
        store: OutputStore::open(&home.outputs_dir()).expect("a store"),
        filters: Arc::new(|| Box::new(PassThrough)),
        log: Arc::new(Unlogged),
        confinement: Confinement::default(),
    })
    .expect("a thread");
    let registry = Registry::new([ToolSet::new("odd", ()).with::<Touch>().into_entries()]).expect("one tool");
    let standing =
        StandingRules::load(&home, vec![root.join("work")], Arc::new(|name: &str| name == "Touch"));
    let policy = Policy { standing: standing.expect("a good file"), workspace, terminals };
    let gate = InsideWorkspace::default().ruled(policy);
    let entry = registry.find("Touch").expect("it is there");
    let permit = async |path: &str| {
        let args = json!({"target": path}).to_string();
        let ready = entry.decode(&args).expect("it is taken");
        gate.permit(&ToolCx::detached(RequestId::new()), entry.spec(), ready.decoded(&args)).await.map(drop)
    };
    let denied = permit("keys/a.pem").await.expect_err("a denial");
    assert_eq!(denied.code(), ErrorCode::PolicyDenied, "{denied}");
    assert!(denied.text().contains("keys"), "{denied}");
    permit("notes.txt").await.expect("no rule is about it");
}

#[test]
fn every_path_argument_of_every_tool_is_in_its_access() {
    let whole = whole();
    let mut checked = 0;
    for spec in whole.registry.specs() {
        let entry = whole.registry.find(&spec.name).expect("it is listed");
        for (key, about) in spec.schema["properties"].as_object().into_iter().flatten() {
            if !about.to_string().contains(r#""format":"path""#) {
                continue;
            }
            let marker = format!("marked/{key}");
            let is_list = spec.schema["properties"][key]["type"] == "array";
            let value = if is_list { json!([marker]) } else { json!(marker) };
            let named = spec.examples.iter().any(|example| {
                let mut args: Value = serde_json::from_str(example).expect("JSON");
                args[key] = value.clone();
                let ready = entry.decode(&args.to_string()).expect("it is taken");
                format!("{:?}", ready.access()).contains(&marker)
            });
            assert!(named, "{}: what {key} names is not in its access", spec.name);
            checked += 1;
        }
    }
    assert!(checked >= 25, "{checked} path arguments");
}
