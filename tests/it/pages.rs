//! Checks that the pages of docs/ are true of the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use punie_policy::PolicyRules;
use punie_runner::config::{Config, GlobalFlags, ProcessEnvironment, WorkspaceRule};

use crate::harness::whole::whole_switched_on;

fn repository_file(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect("the file")
}

fn read_page(name: &str) -> String {
    repository_file(&format!("docs/{name}"))
}

/// The names of all functions in the folders that contain tests.
fn all_tests() -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    for folder in ["tests/it", "src", "crates"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        tests_of(&folder, &mut tests);
    }
    tests
}

/// Collects the names of all functions in this folder.
fn tests_of(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            tests_of(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("the file can be read");
            let names = text
                .split("fn ")
                .skip(1)
                .filter_map(|rest| rest.split_once('('));
            found.extend(names.map(|(name, _)| name.to_owned()));
        }
    }
}

#[cfg(feature = "default")]
#[test]
fn the_page_of_tools_is_what_the_program_writes() {
    let whole = whole_switched_on();
    let written = read_page("tools.md");
    let page = punie_tool::render_catalog_markdown(whole.registry.device_specs());
    let differs = written
        .lines()
        .zip(page.lines())
        .find(|(old, new)| old != new);
    assert!(
        written == page,
        "docs/tools.md differs from this program; `cargo run -- tools --markdown > docs/tools.md` writes it: {differs:?}"
    );
}

#[test]
fn every_tool_on_the_page_has_limits_and_two_examples() {
    let whole = whole_switched_on();
    for spec in whole.registry.device_specs() {
        assert!(!spec.limits.is_empty(), "{} names no limits", spec.name);
        assert!(
            spec.examples.len() >= 2,
            "{} has {} examples",
            spec.name,
            spec.examples.len()
        );
    }
}

#[test]
fn what_the_page_of_capabilities_claims_is_shown_by_tests_that_are_there() {
    let tests = all_tests();
    let text = read_page("capabilities.md");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| feature"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() > 30, "{} rows", rows.len());
    for row in rows {
        let [feature, here, shown] = row.as_slice() else {
            panic!("{row:?} has not three cells")
        };
        let named: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        assert!(
            *here != "yes" || !named.is_empty(),
            "{feature}: nothing shows it"
        );
        for test in named {
            assert!(tests.contains(test), "{feature}: there is no test {test}");
        }
    }
}

#[test]
fn every_promise_of_the_page_has_tests_that_are_there() {
    let tests = all_tests();
    let text = read_page("contributing/promises.md");
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<&str> = rows.filter(|row| !row.starts_with("| promise |")).collect();
    assert!(rows.len() > 70, "{rows:?}");
    for row in rows {
        let shown = row.split('|').nth(2).unwrap_or_default();
        let named: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{row} has no test");
        for test in named {
            assert!(tests.contains(test), "{test} is no test");
        }
    }
}

#[test]
fn every_fault_of_the_page_is_a_test_and_every_such_test_is_on_the_page() {
    let tests = all_tests();
    let text = read_page("contributing/faults.md");
    let mut named = BTreeSet::new();
    for number in 1..=68 {
        let start = format!("| F{number:02} |");
        let row = text
            .lines()
            .find(|line| line.starts_with(&start))
            .unwrap_or_else(|| panic!("{start} is missing"));
        let here: Vec<&str> = row
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|name| name.starts_with('f'))
            .collect();
        assert!(!here.is_empty(), "F{number:02} has no test");
        for test in here {
            assert_starts_with!(test, &format!("f{number:02}_"); "does not belong to F{number:02}");
            assert!(tests.contains(test), "{test} is no test");
            named.insert(test.to_owned());
        }
    }
    let is_numbered = |name: &&String| {
        let bytes = name.as_bytes();
        bytes.len() > 4
            && bytes[0] == b'f'
            && bytes[1..3].iter().all(u8::is_ascii_digit)
            && bytes[3] == b'_'
    };
    let unnamed: Vec<&String> = tests
        .iter()
        .filter(is_numbered)
        .filter(|name| !named.contains(*name))
        .collect();
    assert!(unnamed.is_empty(), "not on the page: {unnamed:?}");
}

#[test]
fn the_readme_is_short_and_its_agent_is_the_example() {
    let readme = repository_file("README.md");
    assert!(readme.lines().count() <= 120, "the README is too long");
    assert!(readme.contains(&repository_file("examples/agent.py")));
}

/// The texts of all sources, with strings that go over several lines joined.
fn read_sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            text += &read_sources(&path);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let file = fs::read_to_string(&path).expect("the file can be read");
            let mut pieces = file.split("\\\n");
            text += pieces.next().unwrap_or_default();
            text.extend(pieces.map(str::trim_start));
        }
    }
    text
}

#[test]
fn every_message_on_the_page_about_trouble_is_one_of_the_programs() {
    let program: String = ["src", "crates"]
        .iter()
        .map(|folder| read_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)))
        .collect();
    let page = read_page("troubleshooting.md");
    let messages: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'))
        .collect();
    assert!(messages.len() > 20, "{messages:?}");
    for message in messages {
        assert!(program.contains(message), "no such message: {message}");
    }
}

#[test]
fn every_recipe_of_the_page_about_rules_is_sound() {
    let page = read_page("policy.md");
    let recipes = page
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```"));
    let recipes: Vec<&str> = recipes.map(|(recipe, _)| recipe).collect();
    assert_eq!(recipes.len(), 11);
    for recipe in recipes {
        let rules = PolicyRules::parse(recipe, &|_| true);
        assert!(rules.is_ok(), "{recipe}{rules:?}");
    }
}

#[test]
fn every_link_of_the_pages_leads_to_a_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = 0;
    for folder in [root.to_owned(), root.join("docs")] {
        for entry in fs::read_dir(&folder).expect("the folder can be read") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|ending| ending != "md") {
                continue;
            }
            pages += 1;
            let text = fs::read_to_string(&path).expect("the page");
            for link in text
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split([')', '#']).next())
            {
                let is_here = link.starts_with("http") || folder.join(link).exists();
                assert!(is_here, "{}: {link} is not there", path.display());
            }
        }
    }
    assert!(pages > 20);
}

/// The names in a text that look like environment variables of the program.
fn variables_in(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let words = text
        .split(|c: char| !is_part(c))
        .filter(|word| word.starts_with("PUNIE_"));
    words.map(str::to_owned).collect()
}

#[test]
fn every_variable_of_the_readme_and_the_configuration_is_known_to_the_program() {
    let readme = repository_file("README.md");
    let named = variables_in(&[readme, read_page("configuration.md")].concat());
    assert!(named.len() >= 5, "{named:?}");
    let home = tempfile::tempdir().expect("a folder");
    let work = tempfile::tempdir().expect("a folder");
    let home_text = home.path().to_str().expect("a plain path");
    let file = home.path().join("config.toml");
    fs::write(&file, "").expect("written");
    let value = |name: &str| match name {
        "PUNIE_BACKEND_URL" => "https://a.example",
        "PUNIE_LOG" => "info",
        "PUNIE_LOG_FORMAT" => "json",
        "PUNIE_CONFIG" => file.to_str().expect("a plain path"),
        "PUNIE_HOME" => home_text,
        "PUNIE_WORKSPACE" => work.path().to_str().expect("a plain path"),
        _ => "a-value",
    };
    let variables = named.iter().map(|name| (name.into(), value(name).into()));
    let environment = ProcessEnvironment::new(variables, None, None);
    let config = Config::load(
        &GlobalFlags::default(),
        &environment,
        WorkspaceRule::NotNeeded,
    )
    .expect("sound");
    assert_eq!(config.warnings, [] as [String; 0]);
}
