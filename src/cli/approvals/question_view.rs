//! A question as the person at this device reads it: in the list, at a prompt, and whole. The runner has escaped hidden
//! characters in its texts already. Not here: the answers.

use crate::cli::{console, display_time, table};
use crate::home::OpenQuestion;
use crate::policy::command_line::quote_word;

/// The most characters and lines of a call that a prompt shows; a longer call is shown whole on request.
const MAX_PROMPT_CHARS: usize = 1_500;
const MAX_PROMPT_LINES: usize = 20;

/// Returns the end of a question's id. The beginnings of ids are alike.
pub(super) fn short_id(question: &OpenQuestion) -> &str {
    table::short_id(question.id.as_str())
}

/// Returns everything about a question.
pub(super) fn question_text(question: &OpenQuestion) -> String {
    let OpenQuestion { id, arguments, .. } = question;
    let row =
        |label: &str, text: &str| format!("{label:<14}{}", console::cell_text(text, usize::MAX));
    let mut lines = vec![
        row("Question", id.as_str()),
        row("Request", question.request_id.as_str()),
        row("Tool", &question.tool),
    ];
    lines.extend(
        question
            .folder
            .as_deref()
            .map(|folder| row("Folder", folder)),
    );
    lines.push(row(
        "Expires at",
        &display_time::format_utc(question.expires_at_ms),
    ));
    lines.extend(question.why.as_deref().map(|why| row("Asked because", why)));
    lines.push(format!("\n{arguments}\n"));
    if question.runs_command {
        lines.push(
            "A yes is bound to the programs and scripts that the command names, as they are now. Other files that it \
             reads (imports, includes, a shell's input) may change after your yes."
                .to_owned(),
        );
    }
    lines.push(format!(
        "Answer by `punie-runner approvals allow {id}` or `punie-runner approvals deny {id}`."
    ));
    lines.join("\n")
}

/// A question at a prompt.
pub(super) struct PromptView {
    /// Its lines.
    pub text: String,
    /// True if they show the whole call.
    pub is_whole: bool,
}

/// Returns a question as it is shown at a prompt.
pub(super) fn prompt_view(question: &OpenQuestion) -> PromptView {
    let whole = question.arguments.as_str();
    let is_whole =
        whole.chars().count() <= MAX_PROMPT_CHARS && whole.lines().count() <= MAX_PROMPT_LINES;
    let wants = match question.host {
        Some(_) => "wants to reach a host",
        None => "waits for your approval",
    };
    let tool = console::cell_text(&question.tool, usize::MAX);
    let mut lines = vec![format!("\n{tool} {wants}:")];
    if is_whole {
        lines.extend(whole.lines().map(|line| format!("  {line}")));
    } else {
        let head: String = whole.chars().take(MAX_PROMPT_CHARS / 2).collect();
        lines.extend(
            head.lines()
                .take(MAX_PROMPT_LINES / 2)
                .map(|line| format!("  {line}")),
        );
        lines.push(format!(
            "  ... This is only the beginning of {} characters. Type s to read all of it.",
            whole.chars().count()
        ));
    }
    lines.extend(details(question));
    PromptView {
        text: lines.join("\n"),
        is_whole,
    }
}

/// Returns the folder, the reason, the rule of `always` and the id, each in its line.
fn details(question: &OpenQuestion) -> Vec<String> {
    let row =
        |label: &str, text: &str| format!("{label:<8}{}", console::cell_text(text, usize::MAX));
    let command = question.allowable_command.as_deref();
    let always = command
        .map(|words| format!("adds to policy.toml: allow `{} ...`", command_text(words)))
        .or(question
            .allowable_host
            .as_ref()
            .map(|host| format!("adds to policy.toml: allow host {host}")));
    [
        question
            .folder
            .as_deref()
            .map(|folder| row("Folder", folder)),
        question.why.as_deref().map(|why| row("Reason", why)),
        always.map(|always| row("Always", &always)),
        Some(row("Id", short_id(question))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns whether a person can have a rule added that allows this from now on.
pub(super) fn offers_always(question: &OpenQuestion) -> bool {
    question.allowable_command.is_some() || question.allowable_host.is_some()
}

/// Returns a command as a person would type it.
pub(super) fn command_text(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quote_word(word)).collect();
    quoted.join(" ")
}

/// Returns the line at which the answer is typed.
pub(super) fn prompt_line(question: &OpenQuestion, may_allow: bool, now_ms: i64) -> String {
    let left = time_left(question, now_ms);
    if !may_allow {
        return format!("[s]how all of it, [d]eny ({left} left): ");
    }
    let always = if offers_always(question) {
        "a[l]ways, "
    } else {
        ""
    };
    format!("[a]llow once, [c]onversation, {always}[d]eny, [s]how ({left} left): ")
}

/// Returns the time until a question expires, to the nearest minute.
pub(super) fn time_left(question: &OpenQuestion, now_ms: i64) -> String {
    match question.expires_at_ms.saturating_sub(now_ms) {
        ..60_000 => "under 1 min".to_owned(),
        left => format!("{} min", (left + 30_000) / 60_000),
    }
}

/// Returns the list of questions for a terminal of this width. Each call is shown as far as its title goes, so that a
/// yes may follow.
pub(super) fn list_text(open: &[OpenQuestion], width: usize, now_ms: i64) -> String {
    let tools = open.iter().map(|question| question.tool.chars().count());
    let tool_width = tools.max().unwrap_or_default().max(4);
    let row = |id: &str, left: &str, tool: &str, what: &str| {
        format!("{id:<8}  {left:<11}  {tool:<tool_width$}  {what}")
            .trim_end()
            .to_owned()
    };
    let indent = row("", "", "", "x").chars().count() - 1;
    let room = width.saturating_sub(indent).max(20);
    let mut lines = vec![row("ID", "TIME LEFT", "TOOL", "WHAT")];
    for question in open {
        let mut texts = vec![call_summary(question)];
        texts.extend(
            question
                .folder
                .as_deref()
                .map(|folder| format!("in {folder}")),
        );
        texts.extend(question.why.as_deref().map(|why| format!("because {why}")));
        let mut pieces = texts
            .iter()
            .flat_map(|text| wrap_text(&console::cell_text(text, usize::MAX), room));
        lines.push(row(
            short_id(question),
            &time_left(question, now_ms),
            &question.tool,
            &pieces.next().unwrap_or_default(),
        ));
        lines.extend(pieces.map(|piece| row("", "", "", &piece)));
    }
    lines.join("\n")
}

/// Returns a call in one line: its only argument, else its title.
fn call_summary(question: &OpenQuestion) -> String {
    if question.host.is_some() {
        return question.title.clone();
    }
    let arguments = &question.arguments;
    if question.is_cut || arguments.contains('\n') || arguments.is_empty() {
        let title = &question.title;
        let rest = title.strip_prefix(&question.tool).unwrap_or(title);
        return rest.trim_start().to_owned();
    }
    let command = arguments.strip_prefix("command: ");
    command.unwrap_or(arguments).to_owned()
}

/// Splits a text into lines of at most this many characters.
fn wrap_text(text: &str, width: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let lines = chars.chunks(width).map(|line| line.iter().collect());
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RequestId;

    fn question(arguments: &str) -> OpenQuestion {
        OpenQuestion {
            id: RequestId::parse("01990000-aaaa-7bbb-8ccc-0123456789ab").expect("an id"),
            request_id: RequestId::parse("r").expect("an id"),
            tool: "Bash".to_owned(),
            runs_command: true,
            title: "Bash {\"command\":\"...\"}".to_owned(),
            is_cut: false,
            arguments: arguments.to_owned(),
            why: Some("the owner's rule \"pushes\" asks".to_owned()),
            folder: Some("/home/me/work".to_owned()),
            allowable_command: None,
            host: None,
            allowable_host: None,
            asked_at_ms: 0,
            expires_at_ms: 600_000,
        }
    }

    #[test]
    fn a_list_fits_its_terminal_and_cuts_nothing() {
        let long = format!("command: echo {}", "x".repeat(200));
        let text = list_text(&[question("command: git push"), question(&long)], 80, 1_000);
        assert!(
            text.starts_with(
                "ID        TIME LEFT    TOOL  WHAT\n\
                 456789ab  10 min       Bash  git push\n\
                 \u{20}                            in /home/me/work\n"
            ),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert_eq!(text.matches('x').count(), 200, "{text}");
    }

    #[test]
    fn a_long_call_is_shown_whole_before_it_may_be_allowed() {
        assert!(prompt_view(&question("command: git push")).is_whole);
        let long = prompt_view(&question(&format!("command: {}", "x".repeat(2_000))));
        assert!(
            !long.is_whole && long.text.contains("beginning of 2009 characters"),
            "{}",
            long.text
        );
        assert!(!prompt_view(&question(&"line\n".repeat(21))).is_whole);
        assert_eq!(
            prompt_line(&question(""), false, 590_000),
            "[s]how all of it, [d]eny (under 1 min left): "
        );
    }
}
