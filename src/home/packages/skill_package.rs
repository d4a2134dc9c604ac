//! A skill as a package: its Markdown, with a head if it has none.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::package_conflicts::PackageError;
use super::package_content::PackageContent;
use super::package_kind::{PackageKind, check_package_id};
use super::package_store::NewPackage;
use super::package_version::check_version;
use crate::document_checks::is_name_of;
use crate::{frontmatter, home_document, skills};

/// The most bytes of the Markdown.
const MAX_MARKDOWN: usize = 1_000_000;
/// The most agent types and tags, and characters of each.
const MAX_WORDS: usize = 50;
const MAX_WORD_CHARS: usize = 100;
const MAX_NAME_CHARS: usize = 200;

/// A skill as it is given.
#[derive(Debug, Clone)]
pub struct SkillPackage {
    /// The package's id.
    pub package: String,
    /// The skill's id.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// The content of `SKILL.md`.
    pub markdown: String,
    /// The kinds of agent that it is for.
    pub agent_types: Vec<String>,
    /// Search terms for it.
    pub tags: Vec<String>,
    /// The version.
    pub version: Option<String>,
}

impl SkillPackage {
    /// Checks the skill and returns its files.
    ///
    /// # Errors
    /// An id, a version or a limit is wrong.
    pub fn into_package(self) -> Result<NewPackage, PackageError> {
        self.build_package().map_err(PackageError::Invalid)
    }

    fn build_package(self) -> Result<NewPackage, String> {
        check_package_id("packageId", &self.package)?;
        check_package_id("skillId", &self.id)?;
        self.version.as_deref().map_or(Ok(()), check_version)?;
        if self.markdown.len() > MAX_MARKDOWN {
            return Err(format!(
                "the markdown has {} bytes, and {MAX_MARKDOWN} are allowed",
                self.markdown.len()
            ));
        }
        if self.name.trim().is_empty() || self.name.chars().count() > MAX_NAME_CHARS {
            return Err(format!("name must have 1 to {MAX_NAME_CHARS} characters"));
        }
        for words in [&self.agent_types, &self.tags] {
            let is_long = |word: &String| word.chars().count() > MAX_WORD_CHARS;
            if words.len() > MAX_WORDS || words.iter().any(is_long) {
                return Err(format!(
                    "agentTypes and tags may have {MAX_WORDS} words of {MAX_WORD_CHARS} characters"
                ));
            }
        }
        let text = if frontmatter::has_head(&self.markdown) {
            if !self.agent_types.is_empty() || !self.tags.is_empty() {
                return Err(
                    "the markdown has a head of its own, so write agentTypes and tags there and leave them out here"
                        .to_owned(),
                );
            }
            self.markdown
        } else {
            self.write_head() + &self.markdown
        };
        let mut content = PackageContent::default();
        content.add_file("SKILL.md", text)?;
        Ok(NewPackage {
            kind: PackageKind::Skill,
            id: self.id,
            package: self.package,
            version: self.version,
            content,
        })
    }

    /// Writes the head. JSON texts and lists are YAML too, so no value can add a key.
    fn write_head(&self) -> String {
        let line = home_document::first_text_line(&self.markdown);
        let description = if line.is_empty() { &self.name } else { &line };
        let is_own_name = is_name_of(&self.name, &self.id);
        let mut metadata = Map::new();
        metadata.insert("package".to_owned(), json!(self.package));
        if !is_own_name {
            metadata.insert("title".to_owned(), json!(self.name));
        }
        let name = if is_own_name { &self.name } else { &self.id };
        let agent_types = match self.agent_types.as_slice() {
            [] => json!(["general"]),
            given => json!(given),
        };
        let fields: [(&str, Value); 6] = [
            ("name", json!(name)),
            ("description", json!(description)),
            ("version", json!(self.version)),
            ("agentTypes", agent_types),
            ("tags", json!(self.tags)),
            ("metadata", Value::Object(metadata)),
        ];
        let lines = fields.iter().filter(|(_, value)| !value.is_null());
        let lines: Vec<String> = lines
            .map(|(key, value)| format!("{key}: {}", to_yaml(value)))
            .collect();
        format!("---\n{}\n---\n", lines.join("\n"))
    }
}

/// Writes a value as JSON, which is YAML too once the characters are escaped that JSON takes as they are and YAML does not.
fn to_yaml(value: &Value) -> String {
    let is_refused = |c: char| {
        matches!(
            c,
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
    };
    value
        .to_string()
        .chars()
        .fold(String::new(), |mut text, c| {
            if is_refused(c) {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            } else {
                text.push(c);
            }
            text
        })
}

/// Returns the names of the secrets that the head of a skill requests for its commands. A head that cannot be read has
/// none, and is not installed either.
pub fn list_skill_secrets(markdown: &str) -> Vec<String> {
    let mounts = skills::read_secret_mounts(markdown).unwrap_or_default();
    mounts.into_iter().map(|mount| mount.provider).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_of_a_written_head_adds_a_key() {
        for name in [
            "plain",
            "x\nenabled: false",
            "\"quoted\" # not a comment",
            "---",
            "- [a, b]: {c}",
            "é 漢字 😀 \u{2028} \u{7f} \u{85} \u{feff} \u{ffff}",
        ] {
            let skill = SkillPackage {
                package: "pack".to_owned(),
                id: "notes".to_owned(),
                name: name.to_owned(),
                markdown: "# Notes\n\nTake: notes\n".to_owned(),
                agent_types: vec!["a: b".to_owned(), name.to_owned()],
                tags: vec!["], secretMounts: {".to_owned()],
                version: Some("1.0.0".to_owned()),
            };
            let text = skill.write_head() + &skill.markdown;
            let read = frontmatter::parse_frontmatter::<Map<String, Value>>(&text).expect(name);
            let keys: Vec<&str> = read.fields.keys().map(String::as_str).collect();
            let written = [
                "name",
                "description",
                "version",
                "agentTypes",
                "tags",
                "metadata",
            ];
            assert_eq!(keys, written, "{text}");
            assert_eq!(read.fields["agentTypes"], json!(["a: b", name]));
            assert_eq!(read.fields["tags"], json!(["], secretMounts: {"]));
            assert_eq!(read.body, skill.markdown);
        }
    }
}
