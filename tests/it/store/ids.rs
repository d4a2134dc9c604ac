//! Ids and paths that could leave their folder: the tools refuse them, and change nothing.

use serde_json::{Value, json};

use super::{StoreFixture, skill_package};

const BAD_IDS: [&str; 10] = [
    "../../evil",
    "..",
    "/etc",
    "a/b",
    "A",
    "a b",
    "",
    "a.b",
    "a\\b",
    "-a",
];

fn with_id(args: &Value, key: &str, id: &str) -> Value {
    let mut args = args.clone();
    args[key] = json!(id);
    args
}

#[tokio::test]
async fn no_id_leads_out_of_its_folder() {
    let store = StoreFixture::new();
    let calls = [
        (
            "InstallSkillPackage",
            skill_package("1", "Text."),
            vec!["skillId", "packageId"],
        ),
        (
            "InstallThemePackage",
            json!({"packageId": "p", "themeId": "t", "name": "T", "light": {}, "dark": {}}),
            vec!["themeId", "packageId"],
        ),
        (
            "InstallCanvasPackage",
            json!({"packageId": "p", "workspaceId": "w"}),
            vec!["workspaceId", "packageId"],
        ),
        (
            "InstallPluginPackage",
            json!({"packageId": "p", "pluginId": "x", "manifest": {"command": ["bash"]}}),
            vec!["pluginId", "packageId"],
        ),
        (
            "UninstallPackage",
            json!({"packageId": "p", "type": "skill", "localId": "x"}),
            vec!["localId", "packageId"],
        ),
    ];
    for (tool, args, keys) in &calls {
        for key in keys {
            for id in BAD_IDS {
                let (code, text) = store.refused(tool, &with_id(args, key, id)).await;
                assert_eq!(code, "invalid_args", "{tool} {key} {id:?}: {text}");
                assert!(text.contains("a-z 0-9 - _"), "{tool} {key} {id:?}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn no_path_of_a_plugin_leads_out_of_its_folder() {
    let store = StoreFixture::new();
    for path in [
        "../evil.sh",
        "/tmp/evil",
        "a/../../evil",
        "",
        ".",
        "a//b",
        "a\\..\\b",
        "C:x",
        "a/",
        "a\u{0}",
    ] {
        let args = json!({"pluginId": "x", "manifest": {"command": ["bash"]}, "files": {path: "", "ok.sh": ""}});
        let (code, text) = store.refused("InstallPluginPackage", &args).await;
        assert_eq!(code, "invalid_args", "{path:?}: {text}");
        assert!(text.contains("is refused"), "{path:?}: {text}");
    }
}

#[tokio::test]
async fn a_link_on_the_way_is_not_followed() {
    let store = StoreFixture::new();
    let elsewhere = tempfile::tempdir().expect("a folder");
    std::fs::write(elsewhere.path().join("SKILL.md"), "mine").expect("written");
    std::os::unix::fs::symlink(elsewhere.path(), store.home.join("skills/notes")).expect("linked");
    let (code, text) = store
        .refused("InstallSkillPackage", &skill_package("1", "Text."))
        .await;
    assert_eq!(code, "stale", "{text}");
    assert!(text.contains("is a link"), "{text}");
    let gone = json!({"type": "skill", "localId": "notes"});
    let (_, text) = store.refused("UninstallPackage", &gone).await;
    assert!(text.contains("is a link"), "{text}");

    std::fs::remove_dir(store.home.join("plugins")).expect("empty");
    std::os::unix::fs::symlink(elsewhere.path(), store.home.join("plugins")).expect("linked");
    let plugin = json!({"pluginId": "x", "manifest": {"command": ["bash"]}});
    let (_, text) = store.refused("InstallPluginPackage", &plugin).await;
    assert!(text.contains("is a link"), "{text}");
    let left: Vec<_> = std::fs::read_dir(elsewhere.path())
        .expect("a folder")
        .collect();
    assert_eq!(left.len(), 1, "only the owner's file may be there");
}
