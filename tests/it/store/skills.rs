//! Skills and themes: the written files, refusals beside the owner's files, and updates.

use punie_home::{CopyTexts, Home, load_skills};
use serde_json::{Value, json};

use super::{ENABLED, StoreFixture, skill_package, theme_package};
use crate::harness::caller::ToolCall;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_for_some;

const SKILL: &str = "skills/notes/SKILL.md";

#[tokio::test]
async fn a_skill_without_a_head_gets_one_that_adds_no_keys() {
    let store = StoreFixture::new();
    let args = json!({"packageId": "pack", "skillId": "notes", "name": "x\nenabled: false\n---\n",
        "markdown": "# Notes\n\nTake: \"notes\".\n", "agentTypes": ["general", "a: b"], "tags": ["#1", "- x"],
        "version": "1.2.0"});
    assert_eq!(
        store.install("InstallSkillPackage", &args).await,
        "installed"
    );
    let home = Home::open_home(&store.home).expect("a home");
    let (skills, problems) = load_skills(&home, CopyTexts::No);
    assert_eq!(problems, []);
    let [skill] = skills.as_slice() else {
        panic!("{skills:?}");
    };
    assert!(skill.enabled && skill.secrets.is_empty(), "{skill:?}");
    assert_eq!(skill.agent_types, ["general", "a: b"]);
    assert_eq!(skill.tags, ["#1", "- x"]);
    assert_eq!(skill.version.as_deref(), Some("1.2.0"));
    assert_eq!(skill.description, "Take: \"notes\".");
    assert_eq!(skill.metadata["title"], "x\nenabled: false\n---\n");
    assert_eq!(skill.metadata["package"], "pack");
    assert_eq!(skill.body, "# Notes\n\nTake: \"notes\".\n");
}

#[tokio::test]
async fn a_skill_with_a_head_is_written_as_given_and_must_load() {
    let store = StoreFixture::new();
    let markdown = "---\nname: notes\ndescription: Takes notes.\n---\nBody.\n";
    let args = json!({"skillId": "notes", "name": "Notes", "markdown": markdown});
    assert_eq!(
        store.install("InstallSkillPackage", &args).await,
        "installed"
    );
    assert_eq!(store.read(SKILL), markdown);
    for (markdown, words) in [
        ("---\nname: [\n---\nBody.\n", "cannot be read"),
        ("---\nname: x\n", "opens a head"),
        (
            "---\nname: another\n---\nBody.\n",
            "is not that of its folder",
        ),
    ] {
        let args = json!({"skillId": "other", "name": "Other", "markdown": markdown});
        let (code, text) = store.refused("InstallSkillPackage", &args).await;
        assert_eq!(code, "invalid_args", "{text}");
        assert!(text.contains(words), "{markdown:?}: {text}");
    }
    // To an empty text the tool writes a head, so that the skill loads.
    let empty = json!({"skillId": "other", "name": "Other", "markdown": ""});
    assert_eq!(
        store.install("InstallSkillPackage", &empty).await,
        "installed"
    );
    let both = json!({"skillId": "two", "name": "Two", "markdown": markdown, "tags": ["x"]});
    let (_, text) = store.refused("InstallSkillPackage", &both).await;
    assert!(text.contains("head of its own"), "{text}");
    let long = json!({"skillId": "two", "name": "Two", "markdown": "x".repeat(1_000_001)});
    let (_, text) = store.refused("InstallSkillPackage", &long).await;
    assert!(text.contains("1000000 are allowed"), "{text}");
}

#[tokio::test]
async fn the_owners_own_files_and_changes_stay() {
    let store = StoreFixture::new();
    store.write(SKILL, "Mine.\n");
    let (code, text) = store
        .refused("InstallSkillPackage", &skill_package("1.0.0", "One."))
        .await;
    assert_eq!(code, "stale", "{text}");
    for words in [
        "which no package installed",
        "Choose another id",
        "punie-runner packages",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    std::fs::remove_dir_all(store.home.join("skills/notes")).expect("removed");

    let install = "InstallSkillPackage";
    assert_eq!(
        store
            .install(install, &skill_package("1.0.0", "One."))
            .await,
        "installed"
    );
    assert_eq!(
        store
            .install(install, &skill_package("1.0.0", "One."))
            .await,
        "unchanged"
    );
    assert_eq!(
        store
            .install(install, &skill_package("1.1.0", "Two."))
            .await,
        "updated"
    );
    assert!(
        store.read(SKILL).ends_with("Two.\n"),
        "{}",
        store.read(SKILL)
    );
    let (_, text) = store
        .refused(install, &skill_package("1.0.9", "Three."))
        .await;
    assert!(text.contains("1.1.0, which is newer than 1.0.9"), "{text}");

    let mut other = skill_package("2.0.0", "Other.");
    other["packageId"] = json!("other");
    let (_, text) = store.refused(install, &other).await;
    assert!(text.contains("belongs to the package \"pack\""), "{text}");

    store.write("skills/notes/more.md", "Mine.\n");
    store.write(SKILL, "Mine.\n");
    let (_, text) = store
        .refused(install, &skill_package("2.0.0", "Three."))
        .await;
    for words in [
        "changed since it was installed (changed SKILL.md, added more.md)",
        "UninstallPackage",
        "packages restore skill notes",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[tokio::test]
async fn arguments_with_another_hash_are_not_installed() {
    let store = StoreFixture::new();
    let mut args = skill_package("1.0.0", "One.");
    args["sha256"] = json!("0".repeat(64));
    let (code, text) = store.refused("InstallSkillPackage", &args).await;
    assert_eq!(code, "invalid_args");
    assert!(text.contains("is expected"), "{text}");
    // As `jq -jcS 'del(.sha256)' | sha256sum` computes it.
    let canonical = r##"{"markdown":"# Notes\n\nOne.\n","name":"Notes","packageId":"pack","skillId":"notes","version":"1.0.0"}"##;
    let hash = punie_core::ids::to_hex(&<sha2::Sha256 as sha2::Digest>::digest(canonical));
    args["sha256"] = json!(hash);
    let said = store
        .call("InstallSkillPackage", &args)
        .await
        .expect("installed");
    assert_eq!(said["sha256"], json!(hash));
}

#[tokio::test]
async fn a_theme_is_a_file_of_two_maps() {
    let store = StoreFixture::new();
    assert_eq!(
        store
            .install("InstallThemePackage", &theme_package("#fff"))
            .await,
        "installed"
    );
    let written: Value = serde_json::from_str(&store.read("themes/dusk.json")).expect("JSON");
    let expected = json!({"id": "dusk", "name": "Dusk", "light": {"ground": "#fff"}, "dark": {}});
    assert_eq!(written, expected);
    assert_eq!(
        store
            .install("InstallThemePackage", &theme_package("#eee"))
            .await,
        "updated"
    );
    assert_eq!(
        store
            .install("InstallThemePackage", &theme_package("#eee"))
            .await,
        "unchanged"
    );
    store.write("themes/dusk.json", "{}");
    let (_, text) = store
        .refused("InstallThemePackage", &theme_package("#ddd"))
        .await;
    assert!(text.contains("changed dusk.json"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_installed_skill_is_published_as_one_that_the_owner_wrote() {
    let setup = RunnerFixture::with_config(ENABLED).await;
    let _runner = setup.run();
    let answer = setup
        .caller
        .call_and_wait(ToolCall::new(
            "InstallSkillPackage",
            &skill_package("1.0.0", "One."),
        ))
        .await;
    assert_eq!(answer.outcome, "ok", "{answer:?}");
    let body = wait_for_some("the skill in the catalog", async || {
        let skills = setup.caller.catalog("skill").await;
        skills.into_iter().find(|(id, _)| id == "notes")
    })
    .await
    .1;
    assert_eq!(body["version"], "1.0.0");
    assert_eq!(body["body"], "# Notes\n\nOne.\n");
    let gone = json!({"packageId": "pack", "type": "skill", "localId": "notes"});
    let answer = setup
        .caller
        .call_and_wait(ToolCall::new("UninstallPackage", &gone))
        .await;
    assert_eq!(answer.outcome, "ok", "{answer:?}");
    wait_for_some("the catalog without the skill", async || {
        setup.caller.catalog("skill").await.is_empty().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_device_offers_no_tools_for_packages() {
    let setup = RunnerFixture::new().await;
    let answer = setup
        .caller
        .ask(ToolCall::new(
            "InstallSkillPackage",
            &skill_package("1", "One."),
        ))
        .await;
    setup.once().await;
    assert_eq!(
        setup.answer(&answer).await.verdict(),
        ("error", "unknown_tool")
    );
    let listed = setup.command(&["--json", "tools"]).await;
    assert!(!listed.out.contains("Package"), "{listed:?}");
}
