//! RequestCredential: asks a person for a secret, which they type on a terminal of this device, or to enter a code on a
//! page. The value never passes through this tool.

use schemars::JsonSchema;
use serde::Deserialize;

use super::UserDeps;
use super::ask_user_question::nobody_to_ask_error;
use super::person_question::{PersonQuestion, QuestionEnd, cancelled_error};
use punie_home::{QuestionInput, check_secret_name};
use punie_tool::{DeclaredAccess, ErrorCode, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

const MAX_PURPOSE_CHARS: usize = 1_000;
const MAX_NAME_CHARS: usize = 300;
const MAX_URL_CHARS: usize = 2_000;

/// Have the owner store a secret for commands of skills.
///
/// With url: have them sign in there.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestCredential {
    /// Its name.
    name: String,
    /// Shown to them.
    purpose: String,
    /// Skill it is for.
    for_skill: Option<String>,
    /// Host it is for.
    for_host: Option<String>,
    /// Sign-in page.
    url: Option<String>,
    /// To enter there.
    code: Option<String>,
    /// Seconds to wait.
    timeout: Option<u32>,
}

impl Tool for RequestCredential {
    const NAME: &'static str = "RequestCredential";
    const EFFECT: ToolEffect = ToolEffect::AsksUser;
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("provider", "name"), ("description", "purpose")];
    const ACCEPTED: &'static [&'static str] = &["label", "placeholder"];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"name":"GITHUB_TOKEN","purpose":"open pull requests"}"#,
        r#"{"name":"acme","purpose":"sign in","url":"https://acme.example/device","code":"WDJB-MJHT","for_host":"acme.example"}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "waits 3,000 s at most",
        "a name has 1 to 128 letters, digits and . _ - / : @",
    ];
    type Deps = UserDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    async fn run(self, cx: &ToolContext, deps: &UserDeps) -> Result<ToolReply, ToolError> {
        self.check_arguments()?;
        let _turn = tokio::select! {
            biased;
            () = cx.wait_for_cancel() => return Err(cancelled_error()),
            turn = deps.turns.wait_for_turn(&cx.conversation) => turn,
        };
        // An earlier process asked for it and ended before it could answer.
        if self.url.is_none() && self.is_stored_for(cx, deps).await? {
            return Ok(self.stored_reply());
        }
        let begun = tokio::time::Instant::now();
        let until = deps.end_of_wait(cx, self.timeout);
        let end = deps
            .ask_person(cx, self.build_question(deps), until)
            .await?;
        match end {
            QuestionEnd::Answered(_) if self.url.is_some() => Ok(ToolReply::from_text("done")),
            QuestionEnd::Answered(_) if self.is_stored_for(cx, deps).await? => {
                Ok(self.stored_reply())
            }
            QuestionEnd::Answered(_) => {
                let text = format!("{} is not stored: it was removed again.", self.name);
                Err(ToolError::new(ErrorCode::PolicyDenied, text))
            }
            QuestionEnd::Refused => Ok(ToolReply::from_text("refused")),
            QuestionEnd::Unanswered => Ok(ToolReply::from_text(format!(
                "Nobody answered within {} s. The owner can store it at any time: punie-runner secrets set {}",
                until.duration_since(begun).as_secs(),
                self.name
            ))),
            QuestionEnd::NobodyToAsk => Err(nobody_to_ask_error()),
        }
    }
}

impl RequestCredential {
    fn check_arguments(&self) -> Result<(), ToolError> {
        let refuse = |why: &str| {
            let text = format!("RequestCredential: {why}.");
            Err(ToolError::invalid_args(text))
        };
        let is_within = |text: Option<&str>, most: usize| {
            let text = text.unwrap_or("x");
            !text.trim().is_empty() && text.chars().count() <= most
        };
        check_secret_name(&self.name).or_else(|why| refuse(&why))?;
        if !is_within(Some(&self.purpose), MAX_PURPOSE_CHARS) {
            return refuse("purpose must have 1 to 1,000 characters");
        }
        for text in [&self.for_skill, &self.for_host, &self.code] {
            if !is_within(text.as_deref(), MAX_NAME_CHARS) {
                return refuse("for_skill, for_host and code must have 1 to 300 characters");
            }
        }
        match &self.url {
            Some(url) if !is_page_address(url) => {
                refuse("url must begin with https:// and be an address without blanks")
            }
            None if self.code.is_some() => refuse("code needs the url where it is entered"),
            _ => Ok(()),
        }
    }

    fn build_question(&self, deps: &UserDeps) -> PersonQuestion {
        let name = &self.name;
        let purpose = deps.plain_line(&self.purpose);
        let target = [("skill", &self.for_skill), ("host", &self.for_host)];
        let target: Vec<String> = target
            .into_iter()
            .filter_map(|(kind, name)| Some(format!("{kind} {}", deps.plain_line(name.as_ref()?))))
            .collect();
        let target = match target.as_slice() {
            [] => String::new(),
            some => format!(" (for the {})", some.join(" and the ")),
        };
        let mut details = format!("{name}{target}\nPurpose: {purpose}");
        let mut title = format!("{name}{target}: {purpose}");
        let input = if let Some(url) = &self.url {
            let url = deps.plain_line(url);
            let code = self.code.as_deref().map(|code| deps.plain_line(code));
            let code = code.map_or_else(String::new, |code| format!("\nCode: {code}"));
            let visit = format!("\nOpen: {url}{code}");
            title.push_str(&visit);
            details.push_str(&visit);
            QuestionInput::Confirmation
        } else {
            let readers = self.describe_readers(deps);
            title.push_str(&readers);
            details.push_str(&readers);
            QuestionInput::Secret {
                name: self.name.clone(),
            }
        };
        PersonQuestion {
            tool: Self::NAME,
            number: 0,
            title,
            details,
            input,
        }
    }

    /// Returns the line that says who can read the value: `for_skill` names the agent's intent, and binds nothing.
    fn describe_readers(&self, deps: &UserDeps) -> String {
        let name = deps.plain_line(&self.name);
        format!(
            "\nWho can read it: every command that the agent runs by SkillBash with a skill that names {name}."
        )
    }

    /// Returns whether the secret was stored in answer to this request.
    async fn is_stored_for(&self, cx: &ToolContext, deps: &UserDeps) -> Result<bool, ToolError> {
        let secrets = deps.secrets.clone();
        let name = self.name.clone();
        let request = cx.request.to_string();
        let reading = tokio::task::spawn_blocking(move || {
            let stored = secrets.list()?;
            Ok(stored.iter().any(|entry| {
                entry.name == name
                    && entry
                        .asked
                        .as_ref()
                        .is_some_and(|asked| asked.request == request)
            }))
        });
        let found: Result<bool, punie_home::HomeError> = reading
            .await
            .map_err(|panicked| ToolError::internal(panicked.to_string()))?;
        found.map_err(|error| {
            tracing::error!(%error, "the owner's secrets cannot be read");
            let text = "The owner's secrets cannot be used just now. The owner sees why with `punie-runner secrets list`.";
            ToolError::new(ErrorCode::Io, text)
        })
    }

    fn stored_reply(&self) -> ToolReply {
        ToolReply::from_text(format!("stored as {}", self.name))
    }
}

/// Returns whether this is a page that a person may be sent to.
fn is_page_address(url: &str) -> bool {
    let is_local = ["http://localhost", "http://127.0.0.1"]
        .iter()
        .filter_map(|start| url.strip_prefix(start))
        .any(|rest| rest.is_empty() || rest.starts_with([':', '/']));
    let has_host = url.strip_prefix("https://").is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')
            // A name before @ looks like the host and is not.
            && !rest.split('/').next().unwrap_or_default().contains('@')
    });
    url.chars().count() <= MAX_URL_CHARS
        && url.chars().all(|c| c.is_ascii_graphic())
        && (is_local || has_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_sent_to_plain_addresses_only() {
        for good in [
            "https://github.com/login/device",
            "http://localhost:8080/x",
            "http://127.0.0.1",
        ] {
            assert!(is_page_address(good), "{good}");
        }
        for bad in [
            "http://github.com",
            "https://",
            "https://a b",
            "https://github.com@evil.example/",
            "https://gith\u{202e}ub.com",
            "javascript:alert(1)",
            "http://localhost.evil.example",
            "file:///etc/passwd",
        ] {
            assert!(!is_page_address(bad), "{bad}");
        }
    }
}
