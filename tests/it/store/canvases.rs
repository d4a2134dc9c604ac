//! Canvases: the tool checks everything before it writes them from the template.

use serde_json::{Value, json};

use super::StoreFixture;

const INSTALL: &str = "InstallCanvasPackage";

#[tokio::test]
async fn a_canvas_is_written_from_the_template() {
    let store = StoreFixture::new();
    let args = json!({"packageId": "pack", "workspaceId": "chart", "source": "export default () => null;\n",
        "dependencies": {"d3": "^7.9.0", "@visx/axis": "3.12.0"}});
    let said = store.call(INSTALL, &args).await.expect("installed");
    assert_eq!(said["path"], json!(store.home.join("apps/chart")));
    assert_eq!(
        store.read("apps/chart/src/App.tsx"),
        "export default () => null;\n"
    );
    let package: Value =
        serde_json::from_str(&store.read("apps/chart/package.json")).expect("JSON");
    assert_eq!(package["name"], "chart");
    assert_eq!(package["dependencies"]["d3"], "^7.9.0");
    assert!(package["dependencies"]["react"].is_string());
    assert!(
        store
            .read("apps/chart/index.html")
            .contains("<title>chart</title>")
    );
    let written = super::read_files(&store.home.join("apps"));
    assert!(
        !written.keys().any(|name| name.contains("node_modules")),
        "the installation must run nothing"
    );

    // Without an id of its own, the canvas gets the name or the package's id.
    assert_eq!(
        store
            .install(INSTALL, &json!({"packageId": "pack", "name": "plain"}))
            .await,
        "installed"
    );
    assert!(store.read("apps/plain/src/App.tsx").contains("plain"));
    let named = json!({"packageId": "other", "name": "For People"});
    assert_eq!(store.install(INSTALL, &named).await, "installed");
    assert!(store.home.join("apps/other").is_dir());
}

#[tokio::test]
async fn a_canvas_with_a_fault_leaves_nothing_and_an_existing_app_stays() {
    let store = StoreFixture::new();
    let many: serde_json::Map<String, Value> =
        (0..65).map(|n| (format!("p{n}"), json!("1.0.0"))).collect();
    for (key, value, words) in [
        ("source", json!("x".repeat(250_001)), "250000 are allowed"),
        ("dependencies", Value::Object(many), "64 are allowed"),
        (
            "dependencies",
            json!({"../x": "1.0.0"}),
            "not the name of an npm package",
        ),
        (
            "dependencies",
            json!({"x": "git+ssh://host/x"}),
            "neither an exact version",
        ),
        (
            "dependencies",
            json!({"x": "latest"}),
            "neither an exact version",
        ),
        ("version", json!("latest"), "is not a version"),
    ] {
        let mut args = json!({"packageId": "pack", "workspaceId": "chart"});
        args[key] = value;
        let (code, text) = store.refused(INSTALL, &args).await;
        assert_eq!(code, "invalid_args", "{text}");
        assert!(text.contains(words), "{words}: {text}");
        assert!(!store.home.join("apps/chart").exists());
    }
    store.write("apps/chart/src/App.tsx", "Mine.\n");
    let (_, text) = store.refused(INSTALL, &json!({"packageId": "chart"})).await;
    assert!(text.contains("which no package installed"), "{text}");
}
