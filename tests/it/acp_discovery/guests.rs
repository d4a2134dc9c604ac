//! Dynamic tools: the registry adds an editor's tools, notifies the backend, and removes them when the editor leaves.

use std::sync::Arc;

use punie_editor::{AttachedEditors, discover_editor_tools};
use punie_engine::runner::RunnerSettings;
use punie_tool::ToolRegistry;

use super::editor::{
    DeviceTools, connect_editor, discovery_capability, tool_description, tool_listing,
};
use crate::harness::inside::RunnerInProcess;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_for_some;

#[tokio::test]
async fn guests_come_and_go_and_leave_the_tools_of_this_device_as_they_were() {
    let setup = DeviceTools::new();
    let own = |setup: &DeviceTools| {
        setup
            .registry()
            .device_specs()
            .map(|spec| spec.catalog_body().to_string())
            .collect::<Vec<_>>()
    };
    let before = own(&setup);
    let mut changes = setup.registry().subscribe_changes();
    let editor = connect_editor(
        "one",
        discovery_capability(),
        &[tool_listing(&[
            tool_description("ide_find", "search"),
            tool_description("ide/rename", "edit"),
        ])],
    )
    .await;
    let found = discover_editor_tools(&editor.session, setup.registry(), &setup.editors).await;
    assert_eq!(found.own, ["ide_find", "ide.rename"]);
    assert!(changes.has_changed().expect("the registry lives"));
    changes.mark_unchanged();
    let all = setup.registry().callable_entries();
    let names: Vec<&str> = all
        .iter()
        .map(|entry| entry.tool_spec().name.as_ref())
        .collect();
    assert!(
        names.is_sorted() && names.contains(&"ide_find") && names.contains(&"Read"),
        "{names:?}"
    );
    assert_eq!((all.len(), own(&setup)), (before.len() + 2, before.clone()));

    let error = setup
        .registry()
        .find("ide_fnd")
        .map(drop)
        .expect_err("a misspelled name");
    assert_contains!(error.model_text(), "Did you mean ide_find?");

    drop(found);
    assert!(changes.has_changed().expect("the registry lives"));
    assert_eq!(setup.registry().callable_entries().len(), before.len());
    assert_eq!(own(&setup), before);
    let error = setup
        .registry()
        .find("ide_find")
        .map(drop)
        .expect_err("gone");
    assert_error!(error, UnknownTool: "It was offered by editor: Pad one, which has gone.");

    // A tool that is offered again is found like any other.
    let back = discover_editor_tools(&editor.session, setup.registry(), &setup.editors).await;
    assert!(setup.registry().find("ide_find").is_ok());
    drop(back);
}

#[tokio::test]
async fn a_guest_hides_no_tool_of_this_device() {
    let setup = DeviceTools::new();
    let editor = connect_editor(
        "one",
        discovery_capability(),
        &[tool_listing(&[
            tool_description("Bash", "read"),
            tool_description("Write", "read"),
        ])],
    )
    .await;
    let found = discover_editor_tools(&editor.session, setup.registry(), &setup.editors).await;
    assert_eq!(found.known, ["Bash", "Write"]);
    assert!(
        !setup
            .registry()
            .subscribe_changes()
            .has_changed()
            .expect("the registry lives")
    );
    for name in ["Bash", "Write"] {
        let entry = setup.registry().find(name).expect("a tool of this device");
        assert_eq!(entry.tool_spec().origin, "device");
        assert!(
            entry.tool_spec().effect.runs_at_most_once(),
            "{name} does not become read-only"
        );
    }
}

#[tokio::test]
async fn one_of_two_that_goes_leaves_the_other() {
    let setup = DeviceTools::new();
    let says = [tool_listing(&[tool_description("ide_find", "search")])];
    let one = connect_editor("one", discovery_capability(), &says).await;
    let two = connect_editor("two", discovery_capability(), &says).await;
    let first = discover_editor_tools(&one.session, setup.registry(), &setup.editors).await;
    let second = discover_editor_tools(&two.session, setup.registry(), &setup.editors).await;
    let origin = || {
        setup
            .registry()
            .find("ide_find")
            .map(|entry| entry.tool_spec().origin.to_string())
    };
    assert_eq!(origin().expect("there"), "editor: Pad one");
    drop(first);
    assert_eq!(origin().expect("there still"), "editor: Pad two");
    drop(second);
    assert_error!(origin().expect_err("gone"), UnknownTool);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_backend_is_told_when_guests_come_and_go() {
    let setup = RunnerFixture::new().await;
    let mut held = None;
    let none = ToolRegistry::new([Vec::new()]).expect("an empty registry");
    let runner = RunnerInProcess::with_tools(&setup, none, RunnerSettings::default(), |parts| {
        held = Some(Arc::clone(&parts.registry));
    });
    let registry = held.expect("the runner's registry");
    let names = async || {
        setup
            .caller
            .tools()
            .await
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };

    let editor = connect_editor(
        "one",
        discovery_capability(),
        &[tool_listing(&[
            tool_description("ide_find", "search"),
            tool_description("ide_rename", "edit"),
        ])],
    )
    .await;
    let found =
        discover_editor_tools(&editor.session, &registry, &AttachedEditors::default()).await;
    wait_for_some("both tools to be published", async || {
        (names().await == ["ide_find", "ide_rename"]).then_some(())
    })
    .await;
    let (_, body) = setup.caller.tools().await.swap_remove(0);
    assert_fields!(body, {"origin": "editor: Pad one", "/schema/required": ["symbol"]});

    drop(found);
    wait_for_some("both tools to be gone", async || {
        names().await.is_empty().then_some(())
    })
    .await;
    runner.stop().await;
}
