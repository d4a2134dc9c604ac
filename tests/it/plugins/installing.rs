//! Installing and updating plugins, and the skills and agents that they bring.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{call_tool, listed_plugins, server_script, text_of};
use crate::harness::caller::ToolCall;
use crate::harness::on_terminal::OnTerminal;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_for_some;

const MANIFEST: &str = "id = \"probe\"\nversion = \"1.2.3\"\ndescription = \"It probes.\"\n\
    command = [\"bash\", \"server.sh\"]\npaths = \"read\"\nnetwork = \"ask\"\n";

/// Writes a plugin outside of the home.
fn write_source(setup: &RunnerFixture, text: &str) -> PathBuf {
    let folder = setup.setting.logs.join("from/some-name");
    write_file(&folder.join("plugin.toml"), MANIFEST);
    write_file(
        &folder.join("server.sh"),
        &server_script(&["probe"], &format!("text {text}")),
    );
    folder
}

fn write_file(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(path, text).expect("written");
}

fn file_stem(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_is_installed_after_its_owner_saw_what_it_asks_for() {
    let setup = RunnerFixture::new().await;
    let source = write_source(&setup, "one");
    let installed = setup.setting.home.join("plugins/probe");
    let refused = setup
        .command(&["plugins", "install", file_stem(&source)])
        .await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_contains!(refused.log, "add --yes");
    let dry = ["plugins", "install", file_stem(&source), "--dry-run"];
    let dry = setup.command(&dry).await;
    assert_eq!(dry.code, Some(0), "{dry:?}");
    assert!(!installed.exists(), "{dry:?}");

    for answer in ["n\n", "y\n"] {
        let mut screen =
            OnTerminal::start(&setup.setting, &["plugins", "install", file_stem(&source)]);
        screen.shows("Install it? [y/N]").await;
        let shown = screen.shown();
        assert_contains!(
            shown,
            "probe 1.2.3",
            "It probes.",
            "runs: bash server.sh",
            "reads files, asks for hosts"
        );
        screen.types(answer);
        screen.shows("1 plugin:").await;
        assert_eq!(installed.exists(), answer == "y\n", "{}", screen.shown());
    }
    assert_eq!(listed_plugins(&setup).await["probe"]["state"], "ok");
    assert_eq!(call_tool(&setup, "probe").await["result"], "one");
    // A program in the plugin's folder is shown by its path in that folder.
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/plugins/count-lines");
    let mut screen =
        OnTerminal::start(&setup.setting, &["plugins", "install", file_stem(&example)]);
    screen.shows("runs: ./server.sh\n").await;
    screen.types("n\n");
    screen.shows("1 plugin:").await;

    write_source(&setup, "two");
    let mut screen = OnTerminal::start(&setup.setting, &["plugins", "update"]);
    screen.shows("Replace the installed one? [y/N]").await;
    screen.types("y\n");
    screen.shows("1 updated").await;
    assert_eq!(call_tool(&setup, "probe").await["result"], "two");
    let same = setup
        .command(&["--json", "plugins", "update", "--yes"])
        .await;
    assert_eq!(same.json()["result"], "unchanged", "{same:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_whose_files_lead_out_is_not_installed() {
    let setup = RunnerFixture::new().await;
    let source = write_source(&setup, "one");
    for (manifest, words) in cases! {
        ("command = [\"bash\", \"../server.sh\"]", "leads out of the plugin's folder"),
        ("command = [\"./not-there\"]", "is not there"),
        ("paths = 3", "line 1"),
        ("name = \"x\"", "it names no command"),
    } {
        write_file(&source.join("plugin.toml"), manifest);
        let ended = setup
            .command(&["--json", "plugins", "install", "--yes", file_stem(&source)])
            .await;
        assert_eq!(ended.code, Some(1), "{manifest}: {ended:?}");
        assert_contains!(ended.out, words; "{manifest}");
    }
    write_source(&setup, "one");
    std::os::unix::fs::symlink("/etc/passwd", source.join("data")).expect("a link");
    let ended = setup
        .command(&["--json", "plugins", "install", "--yes", file_stem(&source)])
        .await;
    assert!(
        ended.out.contains("data is a link to /etc/passwd"),
        "{ended:?}"
    );
    let plugins = std::fs::read_dir(setup.setting.home.join("plugins"));
    assert_eq!(plugins.expect("a folder").count(), 0);
}

/// The entry of this kind and key in the catalog of the backend.
async fn published_entry(setup: &RunnerFixture, kind: &str, key: &str) -> Option<Value> {
    let all = setup.caller.catalog(kind).await;
    all.into_iter()
        .find(|(known, _)| known == key)
        .map(|(_, body)| body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn skills_and_agents_of_a_plugin_are_loaded_behind_the_owners() {
    let setup = RunnerFixture::new().await;
    let home = setup.setting.home.clone();
    let plugin = home.join("plugins/bundle");
    write_file(
        &plugin.join("plugin.toml"),
        "description = \"Two skills and an agent.\"",
    );
    write_file(
        &plugin.join("skills/brought/SKILL.md"),
        "---\nname: brought\n---\nFirst.\n",
    );
    write_file(&plugin.join("skills/brought/say.sh"), "echo it ran");
    write_file(
        &plugin.join("skills/mine/SKILL.md"),
        "---\nname: mine\n---\nThe plugin's.\n",
    );
    write_file(
        &plugin.join("agents/helper/AGENT.md"),
        "---\nname: helper\n---\nHelp.\n",
    );
    write_file(
        &home.join("skills/mine/SKILL.md"),
        "---\nname: mine\n---\nThe owner's.\n",
    );
    let report = &listed_plugins(&setup).await["bundle"];
    assert_fields!(report, {"state": "ok", "tools": []});
    let skills = setup.command(&["--json", "skills"]).await.out;
    assert_contains!(
        skills,
        r#""from":"plugin bundle""#,
        "you have one of your own with this id"
    );
    let mine = setup.command(&["skills", "show", "mine"]).await.out;
    assert_eq!(mine.trim(), "The owner's.");

    let runner = setup.run();
    let has = async |kind: &str, key: &str, words: &str| {
        wait_for_some(&format!("{words:?} of {key}"), async || {
            let entry = published_entry(&setup, kind, key).await?;
            entry.to_string().contains(words).then_some(())
        })
        .await;
    };
    has("skill", "brought", "First.").await;
    has("skill", "mine", "The owner's.").await;
    has("agent", "helper", "Help.").await;
    let args = json!({"skill_id": "brought", "command": "bash say.sh"});
    let ask = ToolCall::new("SkillBash", &args);
    let answer = setup.call(ask).await;
    assert_contains!(text_of(&answer), "it ran");
    write_file(
        &plugin.join("skills/brought/SKILL.md"),
        "---\nname: brought\n---\nSecond.\n",
    );
    has("skill", "brought", "Second.").await;
    write_file(
        &plugin.join("skills/brought/SKILL.md"),
        "---\nname: [\n---\nBroken.\n",
    );
    wait_for_some("the problem", async || {
        let skills = setup.command(&["--json", "skills"]).await.out;
        skills.contains("earlier_version").then_some(())
    })
    .await;
    has("skill", "brought", "Second.").await;
    write_file(
        &plugin.join("agents/new/AGENT.md"),
        "---\nname: new\n---\nNew one.\n",
    );
    has("agent", "new", "New one.").await;
    runner.terminate();
    runner.end().await;
}
