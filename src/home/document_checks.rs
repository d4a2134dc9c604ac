//! The checks of a document that was read: whether its head keeps to the Agent Skills convention. A document with a
//! flaw is loaded all the same, because many real collections have some.

use super::frontmatter;
use super::home_problem::{HomeProblem, ProblemEffect};

/// The longest name, description and compatibility of the convention, in characters.
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1024;
const MAX_COMPATIBILITY: usize = 500;

/// The fields of a head that the convention has rules for.
#[derive(Debug, Default)]
pub(super) struct ConventionFields<'a> {
    pub(super) id: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) description: Option<&'a str>,
    pub(super) compatibility: Option<&'a str>,
    /// The head has something else than a map under `metadata`.
    pub(super) is_metadata_wrong: bool,
}

/// Returns the flaws of a document, each with its line and how to mend it.
pub(super) fn find_flaws(
    id: &str,
    text: &str,
    fields: &ConventionFields<'_>,
    unquoted_line: Option<usize>,
) -> Vec<String> {
    let mut flaws = Vec::new();
    let mut add = |key: &str, flaw: String| {
        let line = frontmatter::find_key_line(text, key).unwrap_or(1);
        flaws.push(format!("line {line}: {flaw}"));
    };
    if let Some(written) = fields.id.filter(|written| *written != id) {
        add(
            "id",
            format!("its head says id {written:?}; it is loaded as {id:?}, the name of its folder"),
        );
    }
    if let Some(name) = fields.name.filter(|name| !is_name_of(name, id)) {
        add(
            "name",
            format!("the name {name:?} is not that of its folder; it is loaded as {id:?}"),
        );
    }
    for (key, value, most) in [
        ("name", fields.name, MAX_NAME),
        ("description", fields.description, MAX_DESCRIPTION),
        ("compatibility", fields.compatibility, MAX_COMPATIBILITY),
    ] {
        let length = value.map_or(0, |value| value.chars().count());
        if length > most {
            add(
                key,
                format!(
                    "its {key} has {length} characters. Shorten it to {most}, or agents may cut it"
                ),
            );
        }
    }
    if fields.is_metadata_wrong {
        add(
            "metadata",
            "its metadata is no map, and is left out".to_owned(),
        );
    }
    if let Some(line) = unquoted_line {
        flaws.push(format!(
            "line {line}: this value is not valid YAML without quotes. It was read as text; put it in quotes"
        ));
    }
    flaws
}

/// Returns whether a name is the id, or the id as people write it: `Git Helper` for `git-helper`.
pub(super) fn is_name_of(name: &str, id: &str) -> bool {
    let plain = |text: &str| {
        let folded = text.trim().to_lowercase();
        folded.replace([' ', '_'], "-")
    };
    plain(name) == plain(id)
}

/// Reports documents whose head has the name of an earlier one: an agent that chooses by name cannot tell them apart.
pub(super) fn report_same_names<'a>(
    named: impl Iterator<Item = (&'a str, &'a str, &'a std::path::Path)>,
    problems: &mut Vec<HomeProblem>,
) {
    let mut first_ids = std::collections::BTreeMap::new();
    for (id, name, file) in named {
        if let Some(first) = first_ids.get(name) {
            problems.push(HomeProblem {
                path: file.to_owned(),
                message: format!("it has the name {name:?}, which {first:?} has too. Rename one"),
                effect: ProblemEffect::Warning,
            });
        } else {
            first_ids.insert(name, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flaws(id: &str, text: &str, fields: &ConventionFields<'_>) -> Vec<String> {
        find_flaws(id, text, fields, None)
    }

    #[test]
    fn every_flaw_names_its_line() {
        let text = "---\nid: 42\nname: Something else\ndescription: x\ncompatibility: y\nmetadata: z\n---\n";
        let long = "é".repeat(501);
        let longer = "é".repeat(1025);
        let found = flaws(
            "mine",
            text,
            &ConventionFields {
                id: Some("42"),
                name: Some("Something else"),
                description: Some(&longer),
                compatibility: Some(&long),
                is_metadata_wrong: true,
            },
        );
        let lines: Vec<&str> = found
            .iter()
            .filter_map(|flaw| flaw.split(':').next())
            .collect();
        assert_eq!(
            lines,
            ["line 2", "line 3", "line 4", "line 5", "line 6"],
            "{found:#?}"
        );
        assert!(
            found[2].contains("1025 characters") && found[2].contains("1024"),
            "{found:#?}"
        );
    }

    #[test]
    fn a_name_as_people_write_it_is_no_flaw() {
        for name in ["git-helper", "Git Helper", " git_helper "] {
            let fields = ConventionFields {
                name: Some(name),
                ..ConventionFields::default()
            };
            assert_eq!(
                flaws("git-helper", "---\n---\n", &fields),
                [""; 0],
                "{name}"
            );
        }
        let limits = "x".repeat(1024);
        let fields = ConventionFields {
            description: Some(&limits),
            ..ConventionFields::default()
        };
        assert_eq!(flaws("a", "", &fields), [""; 0]);
    }
}
