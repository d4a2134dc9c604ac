//! The discovery tiers: which editors are asked for their tools, and the tier that follows from the answer.

use punie_editor::protocol::Error;
use punie_editor::{
    DiscoveryMode, EditorService, EditorSettings, EditorTier, EditorToolDiscovery,
    discover_editor_tools,
};
use serde_json::{Value, json};

use super::editor::{
    ConnectedEditor, DISCOVER, DeviceTools, EditorReply, connect_editor, connect_with,
    discovery_capability, tool_description, tool_listing,
};

async fn discover_tools(setup: &DeviceTools, editor: &ConnectedEditor) -> EditorToolDiscovery {
    discover_editor_tools(&editor.session, setup.registry(), &setup.editors).await
}

fn with_capability(mut capabilities: Value) -> Value {
    capabilities["fs"] = json!({"readTextFile": true, "writeTextFile": true});
    capabilities["terminal"] = json!(true);
    capabilities
}

#[tokio::test]
async fn the_first_tier_is_the_editors_own_catalog() {
    let setup = DeviceTools::new();
    let tools = [
        tool_description("ide_rename_symbol", "edit"),
        tool_description("read_file", "read"),
    ];
    let editor = connect_editor(
        "one",
        with_capability(discovery_capability()),
        &[tool_listing(&tools)],
    )
    .await;
    let found = discover_tools(&setup, &editor).await;
    assert_eq!(found.tier, EditorTier::Catalog);
    assert_eq!(
        (found.own.as_slice(), found.known.as_slice()),
        (
            &["ide_rename_symbol".to_owned()][..],
            &["read_file".to_owned()][..]
        )
    );
    assert_eq!(
        setup
            .registry()
            .find("ide_rename_symbol")
            .expect("a guest")
            .tool_spec()
            .origin,
        "editor: Pad one"
    );
    assert_eq!(
        setup
            .registry()
            .find("read_file")
            .expect("a tool of this device")
            .tool_spec()
            .origin,
        "device",
        "the device's own tool stays"
    );
    let shown = found.to_string();
    assert_contains!(
        shown,
        "Tier 1: Pad one has a catalog",
        "Run by Pad one: ide_rename_symbol.",
        "In its catalog and run here: read_file.",
        "In place of this machine it reads text files, writes text files."
    );
}

#[tokio::test]
async fn the_second_tier_is_what_the_editor_declared() {
    let setup = DeviceTools::new();
    for says in [
        tool_listing(&[]),
        (DISCOVER, EditorReply::Fails(Error::internal_error())),
        tool_listing(&[json!(1)]),
    ] {
        let editor = connect_editor("one", with_capability(discovery_capability()), &[says]).await;
        let found = discover_tools(&setup, &editor).await;
        assert_eq!(found.tier, EditorTier::Capabilities);
        assert_eq!(
            found.serves,
            [EditorService::ReadsFiles, EditorService::WritesFiles]
        );
        assert_eq!(editor.log.methods(), [DISCOVER]);
    }
    let wants_terminals = EditorSettings {
        terminals: true,
        files: false,
        ..EditorSettings::default()
    };
    let editor = connect_with("two", with_capability(json!({})), &[], wants_terminals).await;
    assert_eq!(
        discover_tools(&setup, &editor).await.serves,
        [EditorService::RunsCommands],
        "the owner's settings decide"
    );
    let reads = connect_editor("three", json!({"fs": {"readTextFile": true}}), &[]).await;
    assert_eq!(
        discover_tools(&setup, &reads).await.serves,
        [EditorService::ReadsFiles]
    );
}

#[tokio::test]
async fn the_third_tier_is_this_machine_and_the_editor_gets_no_call() {
    let setup = DeviceTools::new();
    let before = setup.registry().callable_entries().len();
    for capabilities in [
        json!({}),
        json!({"fs": {"writeTextFile": true}}),
        json!({"terminal": true}),
    ] {
        let editor = connect_editor(
            "one",
            capabilities,
            &[tool_listing(&[tool_description("ide_x", "read")])],
        )
        .await;
        let found = discover_tools(&setup, &editor).await;
        assert_eq!(
            (found.tier, found.serves.as_slice()),
            (EditorTier::Local, &[][..])
        );
        assert_eq!(
            editor.log.methods(),
            [""; 0],
            "nothing was asked of an editor that announced nothing"
        );
        assert_eq!(setup.registry().callable_entries().len(), before);
        assert_starts_with!(found.to_string(), "Tier 3: Pad one serves nothing");
    }
}

#[tokio::test]
async fn an_editor_is_asked_where_it_announced_it_or_the_owner_says_so() {
    let setup = DeviceTools::new();
    for (capabilities, discover, asked) in cases! {
        (discovery_capability(), DiscoveryMode::Announced, true),
        (json!({"_meta": {"punie.discoverTools": true}}), DiscoveryMode::Announced, true),
        (json!({"_meta": {"punie": {"discoverTools": "yes"}}}), DiscoveryMode::Announced, false),
        (json!({"_meta": {"punie": {"discoverTools": false}}}), DiscoveryMode::Announced, false),
        (json!({"_meta": {"punie": 1}}), DiscoveryMode::Announced, false),
        (json!({}), DiscoveryMode::Always, true),
        (discovery_capability(), DiscoveryMode::Never, false),
    } {
        let settings = EditorSettings {
            discover,
            ..EditorSettings::default()
        };
        let editor = connect_with(
            "one",
            capabilities.clone(),
            &[tool_listing(&[tool_description("ide_x", "read")])],
            settings,
        )
        .await;
        let tier = discover_tools(&setup, &editor).await.tier;
        assert_eq!(
            tier == EditorTier::Catalog,
            asked,
            "{capabilities} {discover:?}"
        );
        assert_eq!(editor.log.asked(DISCOVER).len(), usize::from(asked));
    }
}

#[tokio::test]
async fn an_editor_is_asked_once_whatever_it_said_and_told_which_session() {
    let setup = DeviceTools::new();
    for says in [
        tool_listing(&[tool_description("ide_x", "read")]),
        (DISCOVER, EditorReply::Fails(Error::internal_error())),
    ] {
        let editor = connect_editor("one", discovery_capability(), &[says]).await;
        assert!(editor.session.discovered_tools().is_none());
        let (first, second) = tokio::join!(
            discover_tools(&setup, &editor),
            discover_tools(&setup, &editor)
        );
        let third = discover_tools(&setup, &editor).await;
        assert_eq!(first.tier, third.tier);
        assert_eq!(second.tier, third.tier);
        assert_eq!(editor.log.asked(DISCOVER), [json!({"sessionId": "one"})]);
        assert!(editor.session.discovered_tools().is_some());
    }
}

#[tokio::test]
async fn each_session_has_a_catalog_of_its_own() {
    let setup = DeviceTools::new();
    let one = connect_editor(
        "one",
        discovery_capability(),
        &[tool_listing(&[tool_description("ide_one", "read")])],
    )
    .await;
    let two = connect_editor(
        "two",
        discovery_capability(),
        &[tool_listing(&[tool_description("ide_two", "read")])],
    )
    .await;
    let first = discover_tools(&setup, &one).await;
    let second = discover_tools(&setup, &two).await;
    assert_eq!(first.own, vec!["ide_one".to_owned()]);
    assert_eq!(second.own, vec!["ide_two".to_owned()]);
}

#[tokio::test(start_paused = true)]
async fn an_editor_that_says_nothing_holds_nobody_up() {
    let setup = DeviceTools::new();
    let mut capabilities = discovery_capability();
    capabilities["fs"] = json!({"readTextFile": true});
    let editor = connect_editor("one", capabilities, &[(DISCOVER, EditorReply::Nothing)]).await;
    let found = discover_tools(&setup, &editor).await;
    assert_eq!(found.tier, EditorTier::Capabilities);
    assert_eq!(
        found.problems[0].to_string(),
        "discovery: no answer within 2 s"
    );
    assert_contains!(
        found.to_string(),
        "Left out: discovery: no answer within 2 s."
    );
}

#[tokio::test]
async fn a_tool_whose_schema_is_none_is_left_out_and_told() {
    let setup = DeviceTools::new();
    let mut bad = tool_description("ide_bad", "read");
    bad["parameters"] = json!({"type": "object", "properties": {"a": {"type": "strnig"}}});
    let mut reads = tool_description("ide_reads", "read");
    reads["parameters"] =
        json!({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}});
    let editor = connect_editor(
        "one",
        discovery_capability(),
        &[tool_listing(&[
            bad,
            reads,
            tool_description("ide_good", "read"),
        ])],
    )
    .await;
    let found = discover_tools(&setup, &editor).await;
    assert_eq!(found.own, ["ide_good"]);
    assert_eq!(found.problems.len(), 2, "{found}");
    assert_starts_with!(
        found.problems[0].to_string(),
        "ide_bad: `parameters` is no usable JSON schema"
    );
    assert_contains!(
        found.problems[1].reason,
        "must not refer to other documents"
    );
}
