//! The list of hostile inputs, the tests of each, and their table in docs/hostile-inputs.md. A test's name begins with
//! the number of its input, as in `h01_`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// The number of hostile inputs.
const COUNT: u8 = 105;

const VERDICTS: [&str; 4] = ["refused", "contained", "served", "gap"];
const BEGINS: &str =
    "<!-- The hostile inputs: `UPDATE_DOCS=1 cargo test --test it table` writes what follows. -->";
const ENDS: &str = "<!-- The end of the hostile inputs. -->";

/// One line of `inputs.txt`.
struct HostileInput {
    number: u8,
    verdicts: Vec<&'static str>,
    tried: &'static str,
    note: &'static str,
}

fn read_inputs() -> Vec<HostileInput> {
    let lines = include_str!("inputs.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [number, verdicts, tried, note] = cells[..] else {
                panic!("not four cells: {line}")
            };
            let verdicts: Vec<&str> = verdicts.split(", ").collect();
            for verdict in &verdicts {
                assert!(
                    VERDICTS.contains(verdict),
                    "{verdict} is no verdict: {line}"
                );
            }
            HostileInput {
                number: number.parse().expect("a number"),
                verdicts,
                tried,
                note,
            }
        })
        .collect()
}

fn project_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Parses the number in a test's name, as in `h01_...`.
fn number_of(name: &str) -> Option<u8> {
    let (digits, _) = name.strip_prefix('h')?.split_once('_')?;
    let is_number = digits.len() >= 2 && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

/// Returns the numbered tests of a file, except those that are run by name only.
fn tests_in(text: &str) -> Vec<(u8, String)> {
    let mut found = Vec::new();
    let mut is_test = false;
    let mut is_left_out = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[") || line.starts_with("//") {
            is_test |= line == "#[test]" || line.starts_with("#[tokio::test");
            is_left_out |= line.starts_with("#[ignore") && !line.contains("slow:");
            continue;
        }
        let name = line
            .trim_start_matches("async ")
            .strip_prefix("fn ")
            .and_then(|rest| rest.split('(').next());
        if let Some((number, name)) = name.and_then(|name| Some((number_of(name)?, name)))
            && is_test
            && !is_left_out
        {
            found.push((number, name.to_owned()));
        }
        (is_test, is_left_out) = (false, false);
    }
    found
}

/// Collects all numbered tests, by their numbers.
fn collect_tests() -> BTreeMap<u8, BTreeSet<String>> {
    let mut found: BTreeMap<u8, BTreeSet<String>> = BTreeMap::new();
    let mut folders = ["tests/it", "src", "crates"]
        .map(|folder| project_root().join(folder))
        .to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                for (number, name) in tests_in(&fs::read_to_string(&path).expect("readable")) {
                    found.entry(number).or_default().insert(name);
                }
            }
        }
    }
    found
}

/// Renders the table for the page.
fn render_table(inputs: &[HostileInput], tests: &BTreeMap<u8, BTreeSet<String>>) -> String {
    let mut text = String::from("| | what is tried | here | tests |\n|---|---|---|---|\n");
    for HostileInput {
        number,
        verdicts,
        tried,
        note,
    } in inputs
    {
        let verdict = verdicts.join(", ");
        let note = if note.is_empty() {
            String::new()
        } else {
            format!(". {note}")
        };
        let names: Vec<String> = tests
            .get(number)
            .into_iter()
            .flatten()
            .map(|name| format!("`{name}`"))
            .collect();
        let names = names.join(", ");
        writeln!(
            text,
            "| H{number:02} | {tried} | {verdict}{note} | {names} |"
        )
        .expect("a text");
    }
    text
}

#[test]
fn a_test_is_found_by_its_attribute_and_its_number() {
    let text = "#[tokio::test]\nasync fn h07_served() {\n}\n\nfn h08_helper() {}\n#[test]\n// Why.\n#[ignore = \"long\"]\n\
                fn h09_left_out() {}\n#[test]\nfn h105_last() {}\n#[test]\nfn hostile() {}\n";
    assert_eq!(
        tests_in(text),
        [(7, "h07_served".to_owned()), (105, "h105_last".to_owned())]
    );
}

#[test]
fn every_hostile_input_is_on_the_list_once_and_has_a_test() {
    let inputs = read_inputs();
    let tests = collect_tests();
    let numbers: Vec<u8> = inputs.iter().map(|input| input.number).collect();
    assert_eq!(
        numbers,
        (1..=COUNT).collect::<Vec<_>>(),
        "each number must be listed once, in order"
    );
    let strange: Vec<_> = tests
        .keys()
        .filter(|number| !(1..=COUNT).contains(*number))
        .collect();
    assert!(
        strange.is_empty(),
        "tests of inputs that are not on the list: {strange:?}"
    );
    let missing: Vec<u8> = numbers
        .into_iter()
        .filter(|number| !tests.contains_key(number))
        .collect();
    assert!(missing.is_empty(), "no test `hNN_...` for {missing:?}");
}

#[test]
fn a_gap_is_told_and_shown_and_nothing_else_is_called_one() {
    let tests = collect_tests();
    for HostileInput {
        number,
        verdicts,
        note,
        ..
    } in read_inputs()
    {
        let is_gap = verdicts.contains(&"gap");
        let shown = tests
            .get(&number)
            .into_iter()
            .flatten()
            .any(|name| name.contains("gap"));
        assert_eq!(
            is_gap, shown,
            "H{number:02}: the list and the names of its tests do not agree"
        );
        assert!(
            !is_gap || note.len() > 40,
            "H{number:02}: say what gets through"
        );
    }
}

#[test]
fn the_table_on_the_page_is_of_these_tests() {
    let page = project_root().join("docs/hostile-inputs.md");
    let text = fs::read_to_string(&page).expect("the page");
    let (before, rest) = text.split_once(BEGINS).expect("the mark before the table");
    let (written, after) = rest.split_once(ENDS).expect("the mark behind the table");
    let table = format!("\n\n{}\n", render_table(&read_inputs(), &collect_tests()));
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::write(&page, [before, BEGINS, &table, ENDS, after].concat())
            .expect("the page is written");
        return;
    }
    let differs = written
        .lines()
        .zip(table.lines())
        .find(|(old, new)| old != new);
    assert!(
        written == table,
        "docs/hostile-inputs.md has another table; `UPDATE_DOCS=1 cargo test --test it table` writes it: {differs:?}"
    );
}

#[test]
fn the_list_has_no_cell_that_breaks_the_table() {
    for HostileInput {
        number,
        tried,
        note,
        ..
    } in read_inputs()
    {
        assert_eq!(tried.matches('`').count() % 2, 0, "H{number:02}: {tried}");
        assert!(
            note.is_empty() || note.ends_with('.'),
            "H{number:02}: {note}"
        );
    }
}
