//! What the backend is told of the device's tools, skills, agents and plugins.

use crate::harness::relay::Relay;
use crate::harness::stage::Stage;

/// The kinds of catalogs that were posted, in order.
fn posted(relay: &Relay) -> Vec<String> {
    let kind = |args: &serde_json::Value| args["kind"].as_str().expect("a kind").to_owned();
    relay
        .calls("catalog:upsertMany")
        .iter()
        .map(|call| kind(&call.args))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_backend_has_is_not_posted_again_at_the_next_start() {
    let stage = Stage::new().await;
    let relay = Relay::before(&stage.setting.url).await;
    let start_and_stop = async || {
        let runner = stage.run_at(&relay.url);
        runner.logs("the catalog is published").await;
        runner.terminate();
        runner.end().await;
    };
    start_and_stop().await;
    let all = posted(&relay);
    assert!(
        ["tool", "skill", "agent", "plugin"]
            .iter()
            .all(|kind| all.iter().any(|posted| posted == kind)),
        "{all:?}"
    );
    start_and_stop().await;
    assert_eq!(posted(&relay), all);

    let skill = stage.setting.home.join("skills/mailer");
    std::fs::create_dir_all(&skill).expect("a folder");
    std::fs::write(
        skill.join("SKILL.md"),
        "---\ndescription: Sends mail.\n---\nDo it.\n",
    )
    .expect("written");
    start_and_stop().await;
    assert_eq!(posted(&relay)[all.len()..], ["skill"]);
}
