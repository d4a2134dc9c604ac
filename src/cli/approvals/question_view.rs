//! A question as the person at this device reads it: in the list, at a prompt, and whole. The runner has escaped hidden
//! characters in its texts already.

use crate::cli::wrapped_text::wrap_words;
use crate::cli::{console, display_time, table};
use punie_engine::journal::InterruptedQuestion;
use punie_home::{OpenQuestion, QuestionInput, command_to_type};
use punie_policy::command_line::quote_word;

/// The most characters and lines of a call that a prompt and the list show; a longer call is shown whole on request.
const MAX_SHOWN_CHARS: usize = 1_500;
const MAX_SHOWN_LINES: usize = 20;
/// The extra indent where a long line of a call goes on, so that no part of it looks like a line of its own.
const CONTINUED_INDENT: usize = 4;

/// Returns the end of the request's id. The beginnings of ids are alike.
pub(in crate::cli) fn short_id(question: &OpenQuestion) -> &str {
    table::short_id(question.request_id.as_str())
}

/// Returns the text without calls that wait now. `interrupted`: the requests about which a runner asked when it stopped.
pub(super) fn no_question_text(interrupted: &[InterruptedQuestion]) -> String {
    let first = if interrupted.is_empty() {
        "No calls are waiting for approval."
    } else {
        "When the runner starts, it asks again about:"
    };
    let mut lines = vec![first.to_owned()];
    lines.extend(interrupted.iter().map(|request| {
        let id = table::short_id(&request.id);
        let what = console::cell_text(&format!("{} {}", request.tool, request.title), 66);
        format!("  {id}  {what}").trim_end().to_owned()
    }));
    lines.join("\n")
}

/// Returns everything about a question.
pub(super) fn question_text(question: &OpenQuestion) -> String {
    let id = short_id(question);
    let arguments = &question.arguments;
    let row =
        |label: &str, text: &str| format!("{label:<14}{}", console::cell_text(text, usize::MAX));
    let mut lines = vec![row("Request", id), row("Tool", &question.tool)];
    lines.extend(
        question
            .folder
            .as_deref()
            .map(|folder| row("Folder", folder)),
    );
    lines.push(row(
        "Expires at",
        &display_time::format_moment(question.expires_at_ms),
    ));
    let why = question.why.as_deref().map(|why| row("Asked because", why));
    lines.extend(why.map(|row| console::wrap_sentences(&row).into_owned()));
    lines.push(format!("\n{arguments}\n"));
    if question.runs_command {
        let bound = "A yes is bound to the programs and scripts that the command names, as they are now. Other files \
                     that it reads (imports, includes, a shell's input) may change after your yes.";
        lines.push(console::wrap_sentences(bound).into_owned());
    }
    let answer = format!(
        "Answer by `{}` or `{}`.",
        command_to_type(&format!("approvals allow {id}")),
        command_to_type(&format!("approvals deny {id}"))
    );
    lines.push(console::wrap_sentences(&answer).into_owned());
    lines.join("\n")
}

/// A question at a prompt.
pub(super) struct PromptView {
    /// Its lines.
    pub text: String,
    /// True if they show the whole call.
    pub is_whole: bool,
}

/// Returns whether a prompt and the list show the whole call.
pub(super) fn is_shown_whole(question: &OpenQuestion) -> bool {
    let whole = &question.arguments;
    whole.chars().count() <= MAX_SHOWN_CHARS && whole.lines().count() <= MAX_SHOWN_LINES
}

/// Returns the lines of a call at a prompt and in the list: all of them, or the first ones and a note. `how_to_read`
/// ends the note.
fn call_lines(question: &OpenQuestion, width: usize, how_to_read: &str) -> Vec<String> {
    let whole = question.arguments.as_str();
    let line = |line: &str| wrap_call_line(line, width);
    if is_shown_whole(question) {
        return whole.lines().flat_map(line).collect();
    }
    let head: String = whole.chars().take(MAX_SHOWN_CHARS / 2).collect();
    let shown = head.lines().take(MAX_SHOWN_LINES / 2);
    let mut lines: Vec<String> = shown.flat_map(line).collect();
    let count = whole.chars().count();
    let note = format!("... This is only the beginning of {count} characters. {how_to_read}");
    lines.extend(wrap_words(&note, width, 0, true));
    lines
}

/// Splits a line of a call at blanks. Its other parts are indented more than its beginning.
fn wrap_call_line(line: &str, width: usize) -> Vec<String> {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let indent = indent.min(width / 2) + CONTINUED_INDENT;
    wrap_words(line, width, indent, true)
}

/// Returns a question as it is shown at a prompt on a terminal of this width.
pub(super) fn prompt_view(question: &OpenQuestion, width: usize) -> PromptView {
    let wants = match (&question.input, &question.host) {
        (Some(QuestionInput::Secret { .. }), _) => "wants a secret",
        (Some(QuestionInput::Confirmation), _) => "wants you to sign in",
        (Some(QuestionInput::Consent { .. }), _) => "asks for your consent",
        (Some(QuestionInput::Choice { .. }), _) => "asks you",
        (None, Some(_)) => "wants to reach a host",
        (None, None) if question.session_folder.is_some() => "needs a folder",
        (None, None) => "waits for your approval",
    };
    let tool = console::cell_text(&question.tool, usize::MAX);
    let mut lines = vec![format!("\n{tool} {wants}:")];
    let room = width.saturating_sub(2).max(20);
    let call = call_lines(question, room, "Type s to read all of it.");
    lines.extend(call.iter().map(|line| format!("  {line}")));
    let details = details(question).into_iter();
    lines.extend(details.map(|row| console::wrap_sentences(&row).into_owned()));
    PromptView {
        text: lines.join("\n"),
        is_whole: is_shown_whole(question),
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
    let answer = question.session_folder.as_ref();
    [
        question
            .folder
            .as_deref()
            .map(|folder| row("Folder", folder)),
        answer.map(|_| {
            row(
                "Answer",
                "adds a rule to policy.toml, which `policy revoke` takes back",
            )
        }),
        question.why.as_deref().map(|why| row("Reason", why)),
        always.map(|always| row("Always", &always)),
        question.input.as_ref().map(|_| {
            let at = display_time::format_moment(question.expires_at_ms);
            row("Until", &at)
        }),
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
    let left = display_time::format_time_left(question.expires_at_ms, now_ms);
    if question.session_folder.is_some() {
        return format!("[a]llow, [d]eny, [s]how ({left} left): ");
    }
    if let Some(input) = &question.input {
        // Without the time that is left: a new text would erase what was typed.
        return input_prompt(input);
    }
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

/// Returns the line at which an answer that is more than yes or no is typed.
fn input_prompt(input: &QuestionInput) -> String {
    match input {
        QuestionInput::Choice {
            options,
            is_multiple,
        } => match (options.len(), is_multiple) {
            (0, _) => "Your answer ([r]efuse): ".to_owned(),
            (most, false) => format!("1 to {most}, or your own words ([r]efuse): "),
            (most, true) => {
                format!("1 to {most}, several as in 1,2, or your own words ([r]efuse): ")
            }
        },
        QuestionInput::Secret { name } => {
            let name = console::cell_text(name, 30);
            format!("The value of {name} (not shown; empty refuses): ")
        }
        QuestionInput::Confirmation => "Type d when it is done ([r]efuse): ".to_owned(),
        QuestionInput::Consent { .. } => "Type yes to agree ([r]efuse): ".to_owned(),
    }
}

/// Returns the list of questions for a terminal of this width. Each call is shown as at the prompt.
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
        let show = format!("`show {}` prints it all.", short_id(question));
        let mut texts = if question.arguments.contains('\n') || !is_shown_whole(question) {
            call_lines(question, room, &show)
        } else {
            wrap_call_line(&call_summary(question), room)
        };
        let folder = question.folder.as_deref();
        let why = question.why.as_deref();
        let facts = [
            folder.map(|folder| format!("in {folder}")),
            why.map(|why| format!("because {why}")),
        ];
        for fact in facts.into_iter().flatten() {
            let fact = console::cell_text(&fact, usize::MAX);
            texts.extend(wrap_words(&fact, room, 0, true));
        }
        let mut texts = texts.into_iter();
        lines.push(row(
            short_id(question),
            &display_time::format_time_left(question.expires_at_ms, now_ms),
            &question.tool,
            &texts.next().unwrap_or_default(),
        ));
        lines.extend(texts.map(|text| row("", "", "", &text)));
    }
    lines.join("\n")
}

/// Returns a call in one line: its arguments, else its title.
pub(in crate::cli) fn call_summary(question: &OpenQuestion) -> String {
    let has_title = question.host.is_some() || question.session_folder.is_some();
    if has_title || question.input.is_some() {
        return question.title.clone();
    }
    let arguments = question.arguments.as_str();
    if arguments.is_empty() {
        let title = &question.title;
        let rest = title.strip_prefix(&question.tool).unwrap_or(title);
        return rest.trim_start().to_owned();
    }
    let command = arguments.strip_prefix("command:");
    let lines = command.unwrap_or(arguments).trim_start().lines();
    lines.map(str::trim).collect::<Vec<_>>().join("\\n")
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use punie_core::ids::RequestId;

    pub fn question(arguments: &str) -> OpenQuestion {
        let request = RequestId::parse("01990000-aaaa-7bbb-8ccc-0123456789ab").expect("an id");
        let title = "Bash {\"command\":\"...\"}".to_owned();
        OpenQuestion {
            id: RequestId::parse("q").expect("an id"),
            runs_command: true,
            why: Some("the owner's rule \"pushes\" asks".to_owned()),
            folder: Some("/home/me/work".to_owned()),
            asked_at_ms: 0,
            expires_at_ms: 600_000,
            ..OpenQuestion::new(
                &request,
                "Bash",
                title,
                arguments.to_owned(),
                Duration::ZERO,
            )
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
    fn a_list_shows_the_first_lines_of_a_long_command() {
        let many = format!("command:{}", "\n    echo \"line\"".repeat(100));
        let mut asked = question(&many);
        asked.title =
            "Bash {\"command\":\"echo [This title shows only a part of the call.]".to_owned();
        asked.is_cut = true;
        let text = list_text(&[asked.clone()], 80, 1_000);
        assert!(
            text.contains("Bash  command:\n") && text.matches("    echo \"line\"\n").count() == 9,
            "{text}"
        );
        assert!(
            text.contains("`show 456789ab` prints it all.") && !text.contains("{\""),
            "{text}"
        );
        assert_eq!(call_summary(&asked).lines().count(), 1);
    }

    #[test]
    fn a_long_command_is_wrapped_at_blanks_and_goes_on_deeper() {
        let words = "cargo test --workspace cwd: ".repeat(6);
        let view = prompt_view(&question(&format!("command: {words}")), 40);
        let lines: Vec<&str> = view.text.lines().collect();
        assert_eq!(
            lines[2], "  command: cargo test --workspace cwd:",
            "{lines:?}"
        );
        assert_eq!(
            lines[3], "      cargo test --workspace cwd: cargo",
            "{lines:?}"
        );
        assert!(lines.iter().all(|line| line.len() <= 40), "{lines:?}");
    }

    #[test]
    fn a_long_call_is_shown_whole_before_it_may_be_allowed() {
        assert!(prompt_view(&question("command: git push"), 80).is_whole);
        let long = prompt_view(&question(&format!("command: {}", "x".repeat(2_000))), 80);
        assert!(
            !long.is_whole && long.text.contains("beginning of 2009 characters"),
            "{}",
            long.text
        );
        assert!(!prompt_view(&question(&"line\n".repeat(21)), 80).is_whole);
        assert_eq!(
            prompt_line(&question(""), false, 590_000),
            "[s]how all of it, [d]eny (under 1 min left): "
        );
    }
}
