//! Plugins, and skills with secrets: the tools install neither without the owner's yes.
#![cfg(target_os = "linux")]

use serde_json::{Value, json};

use super::{ENABLED, StoreFixture, skill_package};
use crate::harness::caller::ToolCall;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_for_some;

const INSTALL: &str = "InstallPluginPackage";
const SERVER: &str = "#!/usr/bin/env bash\nwhile read -r line; do :; done\n";

fn plugin_package() -> Value {
    json!({"packageId": "pack", "pluginId": "probe", "version": "1.0.0", "description": "It probes.",
        "manifest": {"command": ["./server.sh", "--all"], "paths": "read", "network": "ask",
            "effects": {"look": "reads"}},
        "files": {"server.sh": SERVER, "lib/data.txt": "Data.\n"}})
}

async fn await_question(setup: &RunnerFixture) -> Value {
    wait_for_some("a question", async || {
        let open = setup.caller.questions().await;
        open.into_iter().next()
    })
    .await
}

#[tokio::test]
async fn a_plugin_is_written_with_its_manifest_and_checked_before() {
    let store = StoreFixture::new();
    assert_eq!(store.install(INSTALL, &plugin_package()).await, "installed");
    let manifest = store.read("plugins/probe/plugin.toml");
    let read: toml::Table = manifest.parse().expect("TOML");
    assert_eq!(read["description"].as_str(), Some("It probes."));
    assert_eq!(read["version"].as_str(), Some("1.0.0"));
    assert_eq!(read["effects"]["look"].as_str(), Some("reads"));
    assert_eq!(store.read("plugins/probe/lib/data.txt"), "Data.\n");
    let given = json!({"pluginId": "given", "files": {"plugin.toml": "command = [\"bash\"]\n"}});
    assert_eq!(store.install(INSTALL, &given).await, "installed");
    for (args, words) in [
        (json!({"pluginId": "a"}), "it has no manifest"),
        (
            json!({"pluginId": "a", "manifest": {}, "files": {"plugin.toml": ""}}),
            "give the manifest once",
        ),
        (
            json!({"pluginId": "a", "manifest": {"command": 1}}),
            "line 1",
        ),
        (
            json!({"pluginId": "a", "manifest": {"command": ["../x"]}}),
            "leads out of",
        ),
        (
            json!({"pluginId": "a", "manifest": {"command": ["./x"]}}),
            "is not there",
        ),
        (
            json!({"pluginId": "a", "manifest": {"id": "b", "command": ["x"]}}),
            "its id is \"b\"",
        ),
        (
            json!({"pluginId": "a", "manifest": {"name": "x"}}),
            "it names no command",
        ),
        (
            json!({"pluginId": "a", "manifest": {"command": ["x"], "more": 1}}),
            "unknown field",
        ),
    ] {
        let (code, text) = store.refused(INSTALL, &args).await;
        assert_eq!(code, "invalid_args", "{text}");
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_is_a_question_with_its_declared_access() {
    // A rule that allows all tools that write does not allow programs.
    let setup = RunnerFixture::with_config(ENABLED).await;
    let rules = "[[rule]]\nname = \"all-writes\"\ndecision = \"allow\"\ntools = [\"writes\"]\n";
    std::fs::write(setup.setting.home.join("policy.toml"), rules).expect("written");
    let _runner = setup.run();
    for (option, outcome) in [("reject_once", "error"), ("allow_always", "ok")] {
        let id = setup
            .ask(ToolCall::new(INSTALL, &plugin_package()).in_conversation("talk"))
            .await;
        let asked = await_question(&setup).await;
        let title = asked["title"].as_str().expect("a title");
        for words in [
            "\\\"probe\\\"",
            "./server.sh --all",
            "reads the workspaces",
            "may ask for hosts",
        ] {
            let plain = words.replace('\\', "");
            assert!(
                title.contains(words) || title.contains(&plain),
                "{words}: {title}"
            );
        }
        assert!(!setup.setting.home.join("plugins/probe").exists());
        setup.caller.choose(&asked, option).await;
        assert_eq!(setup.answer(&id).await.outcome, outcome);
    }
    assert!(setup.setting.home.join("plugins/probe/server.sh").exists());
    // A yes for the conversation covers only these arguments.
    let mut other = plugin_package();
    other["files"]["server.sh"] = json!("#!/bin/sh\n");
    let id = setup
        .ask(ToolCall::new(INSTALL, &other).in_conversation("talk"))
        .await;
    let asked = await_question(&setup).await;
    setup.caller.choose(&asked, "reject_once").await;
    assert_eq!(
        setup.answer(&id).await.verdict(),
        ("error", "policy_denied")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_cannot_allow_a_plugin_of_which_it_saw_a_part() {
    let setup = RunnerFixture::with_config(ENABLED).await;
    let _runner = setup.run();
    let mut args = plugin_package();
    args["files"]["lib/data.txt"] = json!("x".repeat(10_000));
    let id = setup.ask(ToolCall::new(INSTALL, &args)).await;
    let asked = await_question(&setup).await;
    setup.caller.choose(&asked, "allow_once").await;
    let answer = setup.answer(&id).await;
    assert_eq!(answer.verdict(), ("error", "policy_denied"), "{answer:?}");
    assert!(!setup.setting.home.join("plugins/probe").exists());
    // The person at the device can read all of it.
    let id = setup.ask(ToolCall::new(INSTALL, &args)).await;
    let listed = setup.listed_question().await;
    for word in ["show", "allow"] {
        let answer = ["approvals", word, listed["id"].as_str().expect("an id")];
        let ended = setup.command(&answer).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    assert_eq!(setup.answer(&id).await.outcome, "ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_names_the_tool_stands_for_the_owners_yes() {
    let setup = RunnerFixture::without_listener(ENABLED).await;
    let policy = setup.setting.home.join("policy.toml");
    let rule = |tools: &str| {
        let text = format!("[[rule]]\nname = \"a\"\ndecision = \"allow\"\ntools = [{tools}]\n");
        std::fs::write(&policy, text).expect("written");
    };
    rule("\"writes\"");
    let first = setup.ask(ToolCall::new(INSTALL, &plugin_package())).await;
    setup.once().await;
    let answer = setup.answer(&first).await;
    assert_eq!(answer.verdict(), ("error", "policy_denied"), "{answer:?}");
    assert!(answer.text().contains("nobody can be asked"), "{answer:?}");
    rule("\"InstallPluginPackage\"");
    let second = setup.ask(ToolCall::new(INSTALL, &plugin_package())).await;
    setup.once().await;
    let answer = setup.answer(&second).await;
    assert_eq!(answer.outcome, "ok", "{answer:?}");
    assert!(
        setup
            .setting
            .home
            .join("plugins/probe/plugin.toml")
            .exists()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skill_asks_only_if_it_requests_secrets() {
    let setup = RunnerFixture::with_config(ENABLED).await;
    let _runner = setup.run();
    let plain = setup
        .caller
        .call_and_wait(ToolCall::new(
            "InstallSkillPackage",
            &skill_package("1", "One."),
        ))
        .await;
    assert_eq!(plain.outcome, "ok", "{plain:?}");
    let markdown =
        "---\nname: deploy\nsecretMounts:\n  env:\n    TOKEN: DEPLOY_TOKEN\n---\nDeploy.\n";
    let args = json!({"skillId": "deploy", "name": "Deploy", "markdown": markdown});
    let id = setup.ask(ToolCall::new("InstallSkillPackage", &args)).await;
    let asked = await_question(&setup).await;
    let title = asked["title"].as_str().expect("a title");
    assert!(
        title.contains("these secrets of yours: DEPLOY_TOKEN"),
        "{title}"
    );
    setup.caller.choose(&asked, "reject_once").await;
    assert_eq!(
        setup.answer(&id).await.verdict(),
        ("error", "policy_denied")
    );
    assert!(!setup.setting.home.join("skills/deploy").exists());
}
