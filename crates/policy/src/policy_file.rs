//! policy.toml: read, checked, and added to.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::decision::PolicyDecision;
use super::host::HostPattern;
use super::rule::{PathGlob, PolicyRule};
use super::rule_examples;
use punie_core::tool_effect::ToolEffect;

/// The rules in force.
#[derive(Debug, Clone)]
pub struct PolicyRules {
    /// The decision for calls that no rule names.
    pub default: PolicyDecision,
    /// The rules, as they stand in the file.
    pub rules: Vec<PolicyRule>,
}

impl Default for PolicyRules {
    fn default() -> Self {
        Self {
            default: PolicyDecision::Allow,
            rules: Vec::new(),
        }
    }
}

/// The error in the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PolicyFileError {
    /// The line, from 1.
    pub line: Option<usize>,
    /// The error and its correction.
    pub text: String,
}

impl fmt::Display for PolicyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "policy.toml, line {line}: {}", self.text),
            None => write!(f, "policy.toml: {}", self.text),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFileText {
    default: Option<PolicyDecision>,
    #[serde(default)]
    rule: Vec<Spanned<PolicyFileRule>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFileRule {
    name: String,
    decision: PolicyDecision,
    reason: Option<String>,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    command: Vec<WordPattern>,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    folders: Vec<PathBuf>,
    #[serde(default, rename = "match")]
    matches: Vec<String>,
    #[serde(default)]
    no_match: Vec<String>,
}

/// A word of a command, or several that may stand in its place.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a word in quotes, or a list of such words")]
enum WordPattern {
    One(String),
    Any(Vec<String>),
}

impl PolicyRules {
    /// Reads the file's text. `is_tool` knows the names of this device's own tools.
    ///
    /// # Errors
    /// [`PolicyFileError`], with the line: also where a rule's examples are not as it says.
    pub fn parse(text: &str, is_tool: &dyn Fn(&str) -> bool) -> Result<Self, PolicyFileError> {
        let breaks = |part: &str| part.matches('\n').count();
        let line_at = |offset: usize| breaks(&text[..offset.min(text.len())]) + 1;
        let written: PolicyFileText = toml::from_str(text).map_err(|error| PolicyFileError {
            line: error.span().map(|span| line_at(span.start)),
            text: error.message().trim().to_owned(),
        })?;
        let mut rules: Vec<PolicyRule> = Vec::new();
        let mut names = HashSet::new();
        let mut line = 1;
        let mut counted = 0;
        for written in written.rule {
            // They come as they stand in the text, so each line break is counted once.
            let begin = written.span().start.min(text.len());
            line += text.get(counted..begin).map_or(0, breaks);
            counted = counted.max(begin);
            let broken = |text: String| PolicyFileError {
                line: Some(line),
                text,
            };
            let written = written.into_inner();
            let name = written.name.clone();
            if !names.insert(name.clone()) {
                return Err(broken(format!(
                    "two rules are called {name:?}; grants name a rule, so give one another name"
                )));
            }
            let matches = written.matches.clone();
            let no_match = written.no_match.clone();
            let rule = build_rule(written, line, is_tool)
                .and_then(|rule| {
                    rule_examples::check_examples(&rule, &matches, &no_match).map(|()| rule)
                })
                .map_err(|why| broken(format!("the rule {name:?}: {why}")))?;
            rules.push(rule);
        }
        Ok(Self {
            default: written.default.unwrap_or(PolicyDecision::Allow),
            rules,
        })
    }

    /// Returns whether nothing is said at all.
    pub fn is_empty(&self) -> bool {
        self.default == PolicyDecision::Allow && self.rules.is_empty()
    }

    /// The rule of this name.
    pub fn find(&self, name: &str) -> Option<&PolicyRule> {
        self.rules.iter().find(|rule| rule.name == name)
    }

    /// Returns the rules without those that allow this tool among others: with these only a rule that names the tool
    /// allows its calls.
    #[must_use]
    pub fn without_blanket_allows(&self, tool: &str) -> Self {
        let is_kept = |rule: &&PolicyRule| {
            rule.decision != PolicyDecision::Allow || rule.tools.iter().any(|name| name == tool)
        };
        Self {
            rules: self.rules.iter().filter(is_kept).cloned().collect(),
            ..self.clone()
        }
    }

    pub(super) fn about<'a>(
        &'a self,
        tool: &'a str,
        effect: ToolEffect,
    ) -> impl Iterator<Item = &'a PolicyRule> {
        self.rules.iter().filter(move |rule| {
            let is_of_calls = rule.hosts.is_empty() && rule.folders.is_empty();
            is_of_calls && rule.applies_to_tool(tool, effect)
        })
    }

    /// Returns the strictest rule about sessions in this folder, which is absolute and has no links; `None` if none names
    /// it or a folder above.
    pub fn judge_folder(&self, folder: &Path) -> Option<&PolicyRule> {
        let names_it =
            |rule: &&PolicyRule| rule.folders.iter().any(|named| folder.starts_with(named));
        self.rules
            .iter()
            .filter(names_it)
            .max_by_key(|rule| rule.decision)
    }
}

fn build_rule(
    written: PolicyFileRule,
    line: usize,
    is_tool: &dyn Fn(&str) -> bool,
) -> Result<PolicyRule, String> {
    let sign = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if written.name.is_empty() || written.name.len() > 64 || !written.name.chars().all(sign) {
        return Err(
            "its name must be 1 to 64 letters, digits, dashes, dots or underscores".to_owned(),
        );
    }
    let known = |word: &str| {
        matches!(word, "reads" | "writes" | "executes")
            || word.starts_with("guest:")
            || is_tool(word)
    };
    if let Some(other) = written.tools.iter().find(|word| !known(word)) {
        return Err(format!(
            "tools holds {other:?}, which is neither reads, writes, executes nor a tool (`punie-runner tools` lists \
             them); a tool of an editor's or a plugin's is written \"guest:NAME\""
        ));
    }
    let subjects = [
        ("paths", written.paths.is_empty()),
        ("command", written.command.is_empty()),
        ("hosts", written.hosts.is_empty()),
        ("folders", written.folders.is_empty()),
    ];
    let subjects: Vec<&str> = subjects
        .into_iter()
        .filter_map(|(key, is_empty)| (!is_empty).then_some(key))
        .collect();
    match subjects.as_slice() {
        [] if written.tools.is_empty() => {
            let text = "it says neither tools, paths, command, hosts nor folders; `default` is for everything else";
            return Err(text.to_owned());
        }
        [one, two, ..] => {
            return Err(format!(
                "it says both {one} and {two}; make two rules of it"
            ));
        }
        _ => {}
    }
    check_folders(&written)?;
    let command = read_command(written.command)?;
    let paths = written
        .paths
        .iter()
        .map(|text| PathGlob::new(text))
        .collect::<Result<_, _>>()?;
    let hosts = written
        .hosts
        .iter()
        .map(|text| HostPattern::new(text))
        .collect::<Result<_, _>>()?;
    Ok(PolicyRule {
        name: written.name,
        decision: written.decision,
        reason: written
            .reason
            .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")),
        tools: written.tools,
        paths,
        command,
        hosts,
        folders: written.folders,
        line,
    })
}

/// Reads the words of a command, each with its alternatives.
fn read_command(written: Vec<WordPattern>) -> Result<Vec<Vec<String>>, String> {
    let alternatives = |element| match element {
        WordPattern::One(word) => vec![word],
        WordPattern::Any(words) => words,
    };
    let command: Vec<Vec<String>> = written.into_iter().map(alternatives).collect();
    let odd = |word: &String| {
        word.is_empty() || word.chars().any(|c| c.is_whitespace() || c.is_control())
    };
    let is_odd = |element: &Vec<String>| element.is_empty() || element.iter().any(odd);
    if command.iter().any(is_odd) {
        return Err(
            "command is a list of single words, as [\"git\", [\"push\", \"fetch\"]]".to_owned(),
        );
    }
    Ok(command)
}

fn check_folders(written: &PolicyFileRule) -> Result<(), String> {
    let mut folders = written.folders.iter();
    if let Some(relative) = folders.find(|folder| !folder.is_absolute()) {
        let shown = relative.display();
        return Err(format!(
            "the folder {shown} is relative; write its whole path"
        ));
    }
    let is_other = !written.tools.is_empty() || written.decision == PolicyDecision::Ask;
    if !written.folders.is_empty() && is_other {
        let text = "it says whether sessions may work in its folders, so it names no tools, and allows or denies: in other \
                    folders than the workspaces you are asked anyway";
        return Err(text.to_owned());
    }
    Ok(())
}
