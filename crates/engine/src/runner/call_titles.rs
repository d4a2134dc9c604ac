//! The titles that the journal keeps of requests: a line with the command, the paths or the query. Secrets are masked
//! before the line is cut. Not here: the sentences that editors and approvals show (tool).

use std::path::PathBuf;
use std::sync::Arc;

use punie_text::output::hidden_characters::escape_to_one_line;
use punie_text::redact::{Redactor, mask_log_line};
use punie_tool::ToolRegistry;

/// The most characters of a title.
const MAX_TITLE_CHARS: usize = 200;

/// Makes the titles of requests. Cheap to clone.
#[derive(Clone)]
pub struct CallTitles {
    registry: Arc<ToolRegistry>,
    redactor: Redactor,
    /// The workspace folders, from which paths are shown.
    roots: Vec<PathBuf>,
}

impl CallTitles {
    /// Makes titles of these tools' calls.
    pub fn new(registry: Arc<ToolRegistry>, redactor: Redactor, roots: Vec<PathBuf>) -> Self {
        Self {
            registry,
            redactor,
            roots,
        }
    }

    /// Returns the title of a call; empty if the call has nothing to name.
    pub fn title_of_call(&self, tool: &str, args: &str) -> String {
        let subject = self.registry.call_subject(tool, args, &self.roots);
        let (masked, _) = self.redactor.mask(&subject);
        let masked = mask_log_line(masked.trim());
        shorten_title(&escape_to_one_line(&masked))
    }
}

/// Cuts a title to its most characters.
fn shorten_title(title: &str) -> String {
    if title.chars().count() <= MAX_TITLE_CHARS {
        return title.to_owned();
    }
    let kept: String = title.chars().take(MAX_TITLE_CHARS - 1).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use punie_text::redact::Secret;

    #[test]
    fn a_title_is_one_short_line_without_secrets() {
        let secret = "a-secret-of-this-device".to_owned();
        let titles = CallTitles::new(
            Arc::new(ToolRegistry::new([]).expect("no tools")),
            Redactor::new([Secret::new(secret.clone())]),
            Vec::new(),
        );
        // The secret lies across the cut: a part of it must not be left.
        let long = format!("{}{secret}{}", "x".repeat(190), "y".repeat(900));
        let args = serde_json::json!({ "command": long }).to_string();
        let title = titles.title_of_call("Other", &args);
        assert_eq!(title.chars().count(), MAX_TITLE_CHARS);
        assert!(
            title.contains("[REDACTED") && !title.contains("a-sec"),
            "{title}"
        );
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let args = serde_json::json!({ "command": format!("a {token}\nb\u{202e}") }).to_string();
        let title = titles.title_of_call("Other", &args);
        assert!(
            !title.contains(&token) && title.ends_with("\\nb\\u{202e}"),
            "{title}"
        );
        assert_eq!(titles.title_of_call("Other", "no JSON"), "");
    }
}
