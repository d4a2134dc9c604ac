//! AskUserQuestion: asks a person one to four questions, one after the other.

use std::collections::HashSet;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::UserDeps;
use super::person_question::{MAX_WAIT_SECONDS, PersonQuestion, QuestionEnd, cancelled_error};
use punie_home::{ChoiceOption, QuestionInput};
use punie_tool::{DeclaredAccess, ErrorCode, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

const MAX_QUESTIONS: usize = 4;
const MAX_OPTIONS: usize = 20;
const MAX_QUESTION_CHARS: usize = 2_000;
const MAX_LABEL_CHARS: usize = 200;
const MAX_DESCRIPTION_CHARS: usize = 1_000;

/// Ask a person questions and wait; the answer is a line for each: QUESTION -> ANSWER.
///
/// The person may also answer in own words.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AskUserQuestion {
    /// One to four.
    questions: Vec<AskedQuestion>,
    /// Seconds to wait.
    timeout: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AskedQuestion {
    question: String,
    header: Option<String>,
    /// None for own words.
    #[serde(default)]
    options: Vec<AskedOption>,
    #[serde(default)]
    multi_select: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct AskedOption {
    label: String,
    description: Option<String>,
}

impl Tool for AskUserQuestion {
    const NAME: &'static str = "AskUserQuestion";
    const EFFECT: ToolEffect = ToolEffect::AsksUser;
    const ACCEPTED: &'static [&'static str] = &["answers", "metadata", "annotations", "question"];
    const KNOWN_AS: &'static [&'static str] = &["ask_followup_question", "ask_user"];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"questions":[{"question":"Which port?"}]}"#,
        r#"{"questions":[{"question":"Which database?","header":"Database","options":[{"label":"SQLite","description":"one file"},{"label":"PostgreSQL"}],"multiSelect":false}],"timeout":300}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "1 to 4 questions of 2,000 characters, each with up to 20 options",
        "waits 3,000 s at most for all answers",
        "one call of a conversation asks at a time",
    ];
    type Deps = UserDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    /// Accepts one question without its list, options as plain texts, and `multi_select`.
    fn normalize(arguments: &mut Map<String, Value>) {
        if let Some(question) = arguments.remove("question")
            && !arguments.contains_key("questions")
        {
            let question = match question {
                Value::String(text) => json!({ "question": text }),
                other => other,
            };
            arguments.insert("questions".to_owned(), json!([question]));
        }
        let questions = arguments.get_mut("questions").and_then(Value::as_array_mut);
        for question in questions.into_iter().flatten() {
            let Some(question) = question.as_object_mut() else {
                continue;
            };
            if let Some(multiple) = question.remove("multi_select") {
                question.insert("multiSelect".to_owned(), multiple);
            }
            let options = question.get_mut("options").and_then(Value::as_array_mut);
            for option in options.into_iter().flatten().filter(|it| it.is_string()) {
                *option = json!({ "label": option.take() });
            }
        }
    }

    async fn run(self, cx: &ToolContext, deps: &UserDeps) -> Result<ToolReply, ToolError> {
        check_questions(&self.questions)?;
        let _turn = tokio::select! {
            biased;
            () = cx.wait_for_cancel() => return Err(cancelled_error()),
            turn = deps.turns.wait_for_turn(&cx.conversation) => turn,
        };
        let begun = tokio::time::Instant::now();
        let until = deps.end_of_wait(cx, self.timeout);
        let seconds = until.duration_since(begun).as_secs();
        let mut lines = Vec::new();
        let mut is_refused = false;
        for (number, asked) in self.questions.iter().enumerate() {
            let question = build_question(deps, asked, number);
            let shown = deps.plain_line(&asked.question);
            if is_refused {
                lines.push(format!("{shown} -> (not asked)"));
                continue;
            }
            let end = deps.ask_person(cx, question, until).await?;
            let answer = match (end, &deps.default_answer) {
                (QuestionEnd::Answered(text), _) => put_on_one_line(&text.unwrap_or_default()),
                (QuestionEnd::Refused, _) => {
                    is_refused = true;
                    "(refused to answer)".to_owned()
                }
                (QuestionEnd::Unanswered, Some(default)) => {
                    format!("{default} (the owner's default: nobody answered within {seconds} s)")
                }
                (QuestionEnd::Unanswered, None) => format!("(nobody answered within {seconds} s)"),
                (QuestionEnd::NobodyToAsk, Some(default)) => {
                    format!("{default} (the owner's default: nobody can be asked now)")
                }
                (QuestionEnd::NobodyToAsk, None) => return Err(nobody_to_ask_error()),
            };
            lines.push(format!("{shown} -> {answer}"));
        }
        Ok(ToolReply::from_text(lines.join("\n")))
    }
}

/// Puts an answer on one line. Of the characters that nobody sees, those that change the order of others are escaped;
/// joiners and marks stay, because some scripts and emoji need them.
fn put_on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => line.push_str("\\n"),
            '\t' => line.push_str("\\t"),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => line.extend(c.escape_unicode()),
            c if c.is_control() => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line
}

/// Returns the error for a question that nobody can be asked.
pub(super) fn nobody_to_ask_error() -> ToolError {
    let text = "Nobody can be asked now. The owner can change that: run `punie-runner approvals --watch` on the device, \
                or `punie-runner run` in a terminal. Decide without the answer, or ask again then.";
    ToolError::new(ErrorCode::PolicyDenied, text)
}

/// Refuses questions that no person can read.
fn check_questions(questions: &[AskedQuestion]) -> Result<(), ToolError> {
    let refuse = |why: String| Err(ToolError::invalid_args(format!("AskUserQuestion: {why}.")));
    let is_within = |text: &str, most: usize| text.chars().count() <= most;
    if !(1..=MAX_QUESTIONS).contains(&questions.len()) {
        let count = questions.len();
        return refuse(format!("ask 1 to {MAX_QUESTIONS} questions, not {count}"));
    }
    for (at, asked) in questions.iter().enumerate() {
        let n = at + 1;
        if asked.question.trim().is_empty() || !is_within(&asked.question, MAX_QUESTION_CHARS) {
            return refuse(format!(
                "question {n} must have 1 to {MAX_QUESTION_CHARS} characters"
            ));
        }
        let header = asked.header.as_deref().unwrap_or_default();
        let count = asked.options.len();
        if count > MAX_OPTIONS {
            return refuse(format!(
                "question {n} has {count} options; {MAX_OPTIONS} are allowed. A person may always answer in own words"
            ));
        }
        let mut labels = HashSet::new();
        for option in &asked.options {
            let label = option.label.trim();
            let description = option.description.as_deref().unwrap_or_default();
            if label.is_empty()
                || !is_within(label, MAX_LABEL_CHARS)
                || !is_within(description, MAX_DESCRIPTION_CHARS)
            {
                return refuse(format!(
                    "a label of question {n} must have 1 to {MAX_LABEL_CHARS} characters, a description at most \
                     {MAX_DESCRIPTION_CHARS}"
                ));
            }
            if !labels.insert(label.to_lowercase()) {
                return refuse(format!("question {n} has the option {label:?} twice"));
            }
        }
        if !is_within(header, MAX_LABEL_CHARS) {
            return refuse(format!(
                "the header of question {n} must have at most {MAX_LABEL_CHARS} characters"
            ));
        }
    }
    Ok(())
}

fn build_question(deps: &UserDeps, asked: &AskedQuestion, number: usize) -> PersonQuestion {
    let option = |option: &AskedOption| ChoiceOption {
        label: deps.plain_line(&option.label),
        description: deps.plain_line(option.description.as_deref().unwrap_or_default()),
    };
    let options: Vec<ChoiceOption> = asked.options.iter().map(option).collect();
    let header = asked
        .header
        .as_deref()
        .map(|header| deps.plain_line(header));
    let header = header.filter(|header| !header.is_empty());
    let prefix = header.map_or_else(String::new, |header| format!("{header}: "));
    let mut details = format!("{prefix}{}", deps.plain_text(&asked.question));
    for (at, option) in options.iter().enumerate() {
        let _ = write!(details, "\n  {}", option.numbered_line(at + 1));
    }
    PersonQuestion {
        tool: AskUserQuestion::NAME,
        number,
        title: format!("{prefix}{}", deps.plain_line(&asked.question)),
        details,
        input: QuestionInput::Choice {
            options,
            is_multiple: asked.multi_select,
        },
    }
}

const _: () = assert!(MAX_WAIT_SECONDS == 3_000, "the schema and LIMITS name it");
