//! Changes of policy.toml as text, so that comments and order stay.

use super::decision::PolicyDecision;
use super::policy_file::{PolicyFileError, PolicyRules};

/// A rule to be added to the file.
#[derive(Debug, Clone, Default)]
pub struct AddedPolicyRule {
    /// Its name; made from the rest if not given.
    pub name: Option<String>,
    /// The reason.
    pub reason: Option<String>,
    /// Its tools.
    pub tools: Vec<String>,
    /// Its paths.
    pub paths: Vec<String>,
    /// Its command.
    pub command: Vec<String>,
    /// Its hosts.
    pub hosts: Vec<String>,
    /// Its folders.
    pub folders: Vec<String>,
}

impl AddedPolicyRule {
    /// Adds it at the end of the file's text, whose comments and order stay; with the name it got.
    ///
    /// # Errors
    /// [`PolicyFileError`] where the text is broken before, or would be after.
    pub fn append_to_file(
        &self,
        text: &str,
        decision: PolicyDecision,
        is_tool: &dyn Fn(&str) -> bool,
    ) -> Result<(String, String), PolicyFileError> {
        let before = PolicyRules::parse(text, is_tool)?;
        let name = self
            .name
            .clone()
            .unwrap_or_else(|| self.choose_name(&before, decision));
        let list = |words: &[String]| {
            let quoted: Vec<String> = words.iter().map(|word| quote_toml(word)).collect();
            (!words.is_empty()).then(|| format!("[{}]", quoted.join(", ")))
        };
        let keys = [
            ("name", Some(quote_toml(&name))),
            ("decision", Some(quote_toml(decision.as_str()))),
            ("reason", self.reason.as_deref().map(quote_toml)),
            ("tools", list(&self.tools)),
            ("paths", list(&self.paths)),
            ("command", list(&self.command)),
            ("hosts", list(&self.hosts)),
            ("folders", list(&self.folders)),
        ];
        let lines = keys
            .into_iter()
            .filter_map(|(key, value)| Some(format!("{key} = {}\n", value?)));
        let added: String = std::iter::once("[[rule]]\n".to_owned())
            .chain(lines)
            .collect();
        let gap = match text {
            "" => "",
            text if text.ends_with("\n\n") => "",
            text if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        let whole = format!("{text}{gap}{added}");
        PolicyRules::parse(&whole, is_tool)?;
        Ok((whole, name))
    }

    /// A name that says what it is about and that no rule has.
    fn choose_name(&self, rules: &PolicyRules, decision: PolicyDecision) -> String {
        let words = self.command.iter().chain(&self.paths).chain(&self.hosts);
        let folders = self.folders.iter().map(|folder| {
            let last = folder.rsplit('/').find(|part| !part.is_empty());
            last.unwrap_or("root")
        });
        let words = words.chain(&self.tools).map(String::as_str);
        let words = words.chain(folders);
        let signs = words.flat_map(|word| word.chars().chain(['-']));
        let plain: String = signs
            .map(|c| {
                if c.is_ascii_alphanumeric() {
                    c.to_ascii_lowercase()
                } else {
                    '-'
                }
            })
            .collect();
        let parts: Vec<&str> = plain
            .split('-')
            .filter(|part| !part.is_empty())
            .take(4)
            .collect();
        let base: String = format!("{}-{}", decision.as_str(), parts.join("-"))
            .chars()
            .take(50)
            .collect();
        let numbered = (2..).map(|n| format!("{base}-{n}"));
        std::iter::once(base.clone())
            .chain(numbered)
            .find(|name| rules.find(name).is_none())
            .unwrap_or(base)
    }
}

/// Quotes a text as JSON, which TOML reads too.
fn quote_toml(text: &str) -> String {
    serde_json::Value::from(text)
        .to_string()
        .replace('\u{7f}', "\\u007f")
}

impl PolicyRules {
    /// Returns the file's text without the rule of this name; what stands around it stays.
    ///
    /// # Errors
    /// [`PolicyFileError`] if the text is broken, or has no such rule.
    pub fn remove_from_text(
        text: &str,
        name: &str,
        is_tool: &dyn Fn(&str) -> bool,
    ) -> Result<String, PolicyFileError> {
        let before = Self::parse(text, is_tool)?;
        let at = before.rules.iter().position(|rule| rule.name == name);
        let Some(at) = at else {
            let text = format!("there is no rule {name:?}");
            return Err(PolicyFileError { line: None, text });
        };
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let first = before.rules[at].line.saturating_sub(1);
        let next = before.rules.get(at + 1);
        let next = next.map_or(lines.len(), |rule| rule.line.saturating_sub(1));
        // Comments right before the next rule are about that one.
        let is_comment = |line: &&&str| line.trim_start().starts_with('#');
        let comments = if at + 1 < before.rules.len() {
            let behind = lines[first..next].iter().rev();
            behind.take_while(is_comment).count()
        } else {
            0
        };
        let left = [&lines[..first], &lines[next - comments..]]
            .concat()
            .concat();
        let after = Self::parse(&left, is_tool)?;
        debug_assert_eq!(after.rules.len() + 1, before.rules.len(), "one rule less");
        Ok(left)
    }
}
