//! Skills and agents as the owner writes them, and the signal that they changed.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use punie_home::{CatalogWatch, CopyTexts, Home, load_agents, load_skills};
use serde_json::Value;

use super::home;

fn skill(home: &Home, id: &str, text: &str) {
    let dir = home.skills_dir().join(id);
    fs::create_dir_all(&dir).expect("a skill's folder");
    fs::write(dir.join("SKILL.md"), text).expect("a skill's file");
}

#[test]
fn skills_are_read_in_order_with_what_their_heads_say() {
    let (_dir, home) = home();
    skill(
        &home,
        "deploy",
        "---\nname: Deploy\ndescription: Ships it\nagent_types: general, coder\ntoolsAllowlist: [Read, Bash]\n\
         tags: [ops]\nversion: 1.10\nenabled: false\nlicense: MIT\n---\n# Deploy\nSteps.\n",
    );
    skill(&home, "bare", "# Bare\n\nDoes one thing.\nmore\n");
    fs::write(home.skills_dir().join("README.md"), "not a skill").expect("written");
    fs::create_dir(home.skills_dir().join(".git")).expect("made");
    let (skills, problems) = load_skills(&home, CopyTexts::No);
    assert_eq!(problems, []);
    let [bare, deploy] = skills.as_slice() else {
        panic!("two skills: {skills:?}")
    };
    assert_eq!((bare.id.as_str(), bare.name.as_str()), ("bare", "bare"));
    assert_eq!(bare.description, "Does one thing.");
    assert_eq!((bare.enabled, bare.tools.clone()), (true, None));
    assert_eq!(
        (deploy.name.as_str(), deploy.description.as_str()),
        ("Deploy", "Ships it")
    );
    assert_eq!(deploy.agent_types, ["general", "coder"]);
    assert_eq!(
        deploy.tools.as_deref(),
        Some(&["Read".to_owned(), "Bash".to_owned()][..])
    );
    assert_eq!(
        (deploy.version.as_deref(), deploy.enabled),
        (Some("1.10"), false)
    );
    assert_eq!(deploy.body, "# Deploy\nSteps.\n");
}

#[test]
fn one_bad_skill_never_hides_the_others() {
    let (dir, home) = home();
    skill(&home, "good", "Body");
    skill(&home, "unclosed", "---\nname: x\n");
    skill(&home, "broken", "---\nname: [\n---\n");
    skill(&home, "wrong-type", "---\nenabled: [maybe]\n---\n");
    skill(&home, "huge", &"x".repeat(1024 * 1024 + 1));
    skill(&home, "bad name", "Body");
    skill(&home, "-dash", "Body");
    fs::create_dir(home.skills_dir().join("empty")).expect("made");
    fs::create_dir_all(home.skills_dir().join("folder/SKILL.md")).expect("made");
    fs::create_dir(home.skills_dir().join("latin")).expect("made");
    fs::write(home.skills_dir().join("latin/SKILL.md"), b"caf\xe9").expect("written");
    let secret = dir.path().join("secret");
    fs::write(&secret, "the owner's secret").expect("written");
    fs::create_dir(home.skills_dir().join("leak")).expect("made");
    symlink(&secret, home.skills_dir().join("leak/SKILL.md")).expect("a link");
    symlink("/nowhere", home.skills_dir().join("dangling")).expect("a link");

    let (skills, problems) = load_skills(&home, CopyTexts::No);
    let ids: Vec<&str> = skills.iter().map(|skill| skill.id.as_str()).collect();
    assert_eq!(ids, ["good"]);
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    for (id, why) in [
        ("unclosed", "no later line closes"),
        ("broken", "cannot be read"),
        ("wrong-type", "cannot be read"),
        ("huge", "longer than 1024 KiB"),
        ("bad name", "is not an id"),
        ("-dash", "is not an id"),
        ("empty", "has no SKILL.md"),
        ("folder", "not a plain file"),
        ("latin", "not UTF-8"),
        ("leak", "leads out of the home"),
        ("dangling", "has no SKILL.md"),
    ] {
        assert!(
            all.iter()
                .any(|p| p.contains(&format!("/{id}/")) && p.contains(why)),
            "{id} should say {why:?}: {all:#?}"
        );
    }
    assert_eq!(problems.len(), 11, "{all:#?}");
    assert!(!all.iter().any(|p| p.contains("the owner's secret")));
}

#[test]
fn links_within_the_home_are_followed() {
    let (_dir, home) = home();
    skill(&home, "real", "Body");
    symlink(
        home.skills_dir().join("real"),
        home.skills_dir().join("alias"),
    )
    .expect("a link");
    let (skills, problems) = load_skills(&home, CopyTexts::No);
    assert_eq!(problems, []);
    assert_eq!(
        skills
            .iter()
            .map(|skill| skill.id.as_str())
            .collect::<Vec<_>>(),
        ["alias", "real"]
    );
}

#[test]
fn an_id_in_the_head_that_differs_is_reported_and_the_folder_counts() {
    let (_dir, home) = home();
    skill(&home, "mine", "---\nid: other\n---\nBody");
    let (skills, problems) = load_skills(&home, CopyTexts::No);
    assert_eq!(skills[0].id, "mine");
    assert!(problems[0].message.contains("other"), "{}", problems[0]);
}

#[test]
fn agents_are_read_and_published_without_paths() {
    let (_dir, home) = home();
    let dir = home.agents_dir().join("reviewer");
    fs::create_dir(&dir).expect("made");
    let text = "---\r\nname: Reviewer\r\nmodel: large\r\nskills: a, b\r\nmaxTaskDepth: 2\r\n---\r\nYou review.\r\n";
    fs::write(dir.join("AGENT.md"), text).expect("written");
    let (agents, problems) = load_agents(&home, CopyTexts::No);
    assert_eq!(problems, []);
    let item = agents[0].catalog_item();
    assert_eq!(item.key, "reviewer");
    assert_eq!(item.hash.len(), 64);
    let body: Value = serde_json::from_str(&item.body).expect("JSON");
    let wanted = serde_json::json!({
        "id": "reviewer", "name": "Reviewer", "description": "You review.", "agentTypes": [],
        "defaultSkills": ["a", "b"], "model": "large", "maxTaskDepth": 2, "tags": [], "enabled": true,
        "body": "You review.\n",
    });
    assert_eq!(body, wanted);

    fs::write(dir.join("AGENT.md"), text.replace("\r\n", "\n")).expect("written");
    assert_eq!(
        load_agents(&home, CopyTexts::No).0[0].catalog_item(),
        item,
        "line ends do not change it"
    );
    fs::write(dir.join("AGENT.md"), text.replace("large", "small")).expect("written");
    assert_ne!(
        load_agents(&home, CopyTexts::No).0[0].catalog_item().hash,
        item.hash
    );
    fs::write(dir.join("AGENT.md"), "---\nmaxTaskDepth: 0\n---\n").expect("written");
    assert_eq!(
        load_agents(&home, CopyTexts::No).1.len(),
        1,
        "no depth of 0"
    );
}

// The signal

/// Far longer than any change takes to be reported; only a signal that never comes runs into it.
const NEVER: Duration = Duration::from_secs(90);

#[tokio::test]
async fn a_change_is_reported_whether_file_new_folder_or_removal() {
    let (_dir, home) = home();
    skill(&home, "first", "one");
    let (mut watch, problems) = CatalogWatch::open(&home);
    assert_eq!(problems, []);
    let steps: [&dyn Fn(); 5] = [
        &|| skill(&home, "first", "two"),
        &|| fs::create_dir(home.agents_dir().join("new")).expect("made"),
        &|| fs::write(home.agents_dir().join("new/AGENT.md"), "in a new folder").expect("written"),
        &|| fs::remove_dir_all(home.skills_dir().join("first")).expect("removed"),
        &|| skill(&home, "first", "back under the old name"),
    ];
    for (n, step) in steps.iter().enumerate() {
        step();
        tokio::time::timeout(NEVER, watch.wait_for_change())
            .await
            .unwrap_or_else(|_| panic!("step {n} was not reported"));
    }
    skill(&home, "first", "the folder that came back is watched");
    tokio::time::timeout(NEVER, watch.wait_for_change())
        .await
        .expect("reported");
}

#[tokio::test]
async fn a_wait_that_is_dropped_loses_no_change() {
    let (_dir, home) = home();
    skill(&home, "first", "one");
    let (mut watch, _) = CatalogWatch::open(&home);
    skill(&home, "first", "two");
    // Short waits, dropped while they wait for the change or for quiet.
    for _ in 0..5 {
        if tokio::time::timeout(Duration::from_millis(20), watch.wait_for_change())
            .await
            .is_ok()
        {
            return;
        }
    }
    tokio::time::timeout(NEVER, watch.wait_for_change())
        .await
        .expect("still reported");
}
