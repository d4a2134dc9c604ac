//! Heads of skills as their authors write them: the fields of the convention, flaws, and files that are broken for a while.

use std::fs;

use punie_home::{CopyTexts, Home, HomeProblem, ProblemEffect, Skill, load_agents, load_skills};
use serde_json::{Value, json};

use super::home;

fn skill(home: &Home, id: &str, text: &str) {
    let dir = home.skills_dir().join(id);
    fs::create_dir_all(&dir).expect("a skill's folder");
    fs::write(dir.join("SKILL.md"), text).expect("a skill's file");
}

fn load(home: &Home) -> (Vec<Skill>, Vec<HomeProblem>) {
    load_skills(home, CopyTexts::No)
}

fn ids(skills: &[Skill]) -> Vec<&str> {
    skills.iter().map(|skill| skill.id.as_str()).collect()
}

#[test]
fn the_fields_of_the_convention_are_published_beside_ours() {
    let (_dir, home) = home();
    skill(
        &home,
        "pdf",
        "---\nname: pdf\ndescription: Reads PDF\nlicense: MIT\ncompatibility: Needs poppler\nallowed-tools: Read \
         Bash(pdftotext:*)\nmetadata:\n  z: 1\n  author: {name: A, mail: b}\n---\nBody\n",
    );
    let (skills, problems) = load(&home);
    assert_eq!(problems, []);
    let body: Value = serde_json::from_str(&skills[0].catalog_item().body).expect("JSON");
    assert_eq!(body["license"], "MIT");
    assert_eq!(body["compatibility"], "Needs poppler");
    assert_eq!(body["tools"], json!(["Read", "Bash(pdftotext:*)"]));
    assert_eq!(
        body["metadata"],
        json!({"author": {"mail": "b", "name": "A"}, "z": 1})
    );
}

#[test]
fn a_nested_change_changes_the_hash() {
    let (_dir, home) = home();
    let hash = |metadata: &str| {
        skill(
            &home,
            "a",
            &format!("---\nmetadata: {metadata}\n---\nBody\n"),
        );
        load(&home).0[0].catalog_item().hash
    };
    let first = hash("{a: {b: {c: 1, d: [2, {e: 3}]}}}");
    assert_ne!(first, hash("{a: {b: {c: 1, d: [2, {e: 4}]}}}"));
    assert_eq!(
        first,
        hash("{a: {b: {d: [2, {e: 3}], c: 1}}}"),
        "the order is no change"
    );
    let mounted = |variable: &str| {
        let text = format!("---\nsecretMounts: {{env: {{{variable}: x}}}}\n---\nBody\n");
        skill(&home, "a", &text);
        load(&home).0.remove(0)
    };
    assert_ne!(mounted("A").secrets, mounted("B").secrets);
    assert_eq!(
        mounted("A").catalog_item(),
        mounted("B").catalog_item(),
        "mounts are read when a command starts, and stay on this machine"
    );
}

#[test]
fn one_bad_head_is_a_problem_of_that_item_only() {
    let (_dir, home) = home();
    skill(&home, "good", "Body");
    skill(&home, "numeric", "---\nname: numeric\nid: 42\n---\nBody");
    skill(
        &home,
        "outside",
        "---\nid: ../..\nname: ../../etc\n---\nBody",
    );
    skill(
        &home,
        "colon",
        "---\nname: colon\ndescription: Use when: asked\n---\nBody",
    );
    skill(&home, "empty", "\n \n");
    skill(&home, "map", "---\nname: map\nmetadata: [a]\n---\nBody");
    skill(&home, "twice", "---\nname: twice\nname: twice\n---\nBody");
    let (skills, problems) = load(&home);
    assert_eq!(ids(&skills), ["colon", "good", "map", "numeric", "outside"]);
    assert_eq!(skills[0].description, "Use when: asked");
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    for (id, words, effect) in [
        (
            "numeric",
            "line 3: its head says id \"42\"",
            ProblemEffect::Warning,
        ),
        (
            "outside",
            "line 2: its head says id \"../..\"",
            ProblemEffect::Warning,
        ),
        (
            "outside",
            "line 3: the name \"../../etc\"",
            ProblemEffect::Warning,
        ),
        (
            "colon",
            "line 3: this value is not valid YAML",
            ProblemEffect::Warning,
        ),
        (
            "map",
            "line 3: its metadata is no map",
            ProblemEffect::Warning,
        ),
        ("empty", "is empty", ProblemEffect::NotLoaded),
        ("twice", "line 3", ProblemEffect::NotLoaded),
    ] {
        let is_it = |problem: &HomeProblem| {
            let text = problem.to_string();
            text.contains(&format!("/{id}/")) && text.contains(words) && problem.effect == effect
        };
        assert!(
            problems.iter().any(is_it),
            "{id} should say {words:?}: {all:#?}"
        );
    }
    assert_eq!(problems.len(), 7, "{all:#?}");
}

#[test]
fn two_skills_of_one_name_are_both_loaded_and_reported() {
    let (_dir, home) = home();
    for id in ["one", "two"] {
        skill(&home, id, "---\nname: deploy\n---\nBody");
    }
    let (skills, problems) = load(&home);
    assert_eq!(ids(&skills), ["one", "two"]);
    let same = problems
        .iter()
        .find(|problem| problem.message.contains("has too"));
    let same = same.expect("reported");
    assert!(same.path.ends_with("two/SKILL.md"), "{same}");
    assert!(same.message.contains(r#""deploy", which "one""#), "{same}");
}

#[test]
fn names_of_other_scripts_are_data_and_no_paths() {
    let (_dir, home) = home();
    skill(&home, "écrire", "Body");
    skill(&home, "كتابة", "Body");
    skill(
        &home,
        "arabic",
        "---\nname: كتابة \u{202e}x\ndescription: Écrire\n---\nBody",
    );
    let (skills, problems) = load(&home);
    assert_eq!(ids(&skills), ["arabic"]);
    assert_eq!(skills[0].description, "Écrire");
    let not_loaded = problems
        .iter()
        .filter(|one| one.effect == ProblemEffect::NotLoaded);
    assert_eq!(not_loaded.count(), 2, "{problems:?}");
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[test]
fn of_5_000_skills_the_first_1_000_by_name_are_read() {
    let (_dir, home) = home();
    for n in 0..5_000 {
        skill(&home, &format!("s{n:04}"), "Body");
    }
    let (skills, problems) = load(&home);
    assert_eq!(skills.len(), 1_000);
    assert_eq!(skills[999].id, "s0999");
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].message.contains("has 5000 folders"),
        "{problems:?}"
    );
}

#[test]
fn the_version_before_stays_in_force_while_a_file_is_broken() {
    let (_dir, home) = home();
    let good = "---\nname: a\n---\nThe good one.\n";
    skill(&home, "a", good);
    load_skills(&home, CopyTexts::Yes);
    for broken in [
        "---\nname: [\n---\nx",
        "---\nname: a\n",
        "",
        "---\nenabled: maybe\n---\n",
    ] {
        skill(&home, "a", broken);
        for copy in [CopyTexts::No, CopyTexts::Yes] {
            let (skills, problems) = load_skills(&home, copy);
            assert_eq!(skills[0].body, "The good one.\n", "{broken:?}");
            assert_eq!(
                problems[0].effect,
                ProblemEffect::EarlierVersion,
                "{problems:?}"
            );
        }
    }
    // A copy that a power cut damaged is none.
    let copy = home.state_dir().join("loaded/skills/a");
    let whole = fs::read(&copy).expect("a copy");
    fs::write(&copy, &whole[..whole.len() - 3]).expect("damaged");
    assert_eq!(load(&home).1[0].effect, ProblemEffect::NotLoaded);
    fs::write(&copy, &whole).expect("mended");

    skill(&home, "a", "---\nname: a\n---\nBetter.\n");
    let (skills, problems) = load_skills(&home, CopyTexts::Yes);
    assert_eq!((skills[0].body.as_str(), problems), ("Better.\n", vec![]));
    // A file that is removed is not broken.
    fs::remove_file(home.skills_dir().join("a/SKILL.md")).expect("removed");
    assert_eq!(ids(&load_skills(&home, CopyTexts::Yes).0), [""; 0]);
    skill(&home, "a", "---\nname: [\n---\n");
    assert_eq!(ids(&load(&home).0), [""; 0], "its copy went with it");
}

#[test]
fn what_is_published_has_no_path_of_this_machine() {
    let (_dir, home) = home();
    skill(
        &home,
        "a",
        "---\nname: a\nsecretMounts: {files: {TOKEN: x}}\n---\nBody",
    );
    let agents = home.agents_dir().join("b");
    fs::create_dir(&agents).expect("made");
    fs::write(
        agents.join("AGENT.md"),
        "---\nname: b\nmodel: large\n---\nBody",
    )
    .expect("written");
    let here = home.root_dir().to_str().expect("a plain path");
    for body in [
        load(&home).0[0].catalog_item().body,
        load_agents(&home, CopyTexts::No).0[0].catalog_item().body,
    ] {
        assert!(!body.contains(here) && !body.contains("secret"), "{body}");
    }
}
