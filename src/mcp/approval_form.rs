//! A question about a call as a form that the client shows to its person (elicitation), and what the person answered.

use std::path::Path;

use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, JsonObject,
};
use serde_json::{Deserializer, Value, json};

use super::device_link::LinkQuestion;
use punie_tool::format_call_arguments;

/// The option of a question that wants words.
const TEXT_OPTION: &str = "text";
/// The option that lets a call run once.
const ALLOW_OPTION: &str = "allow_once";

/// Returns the form of a question about a call that works in this folder; `None` if it offers no answer.
pub(super) fn question_form(
    question: &LinkQuestion,
    folder: Option<&Path>,
) -> Option<ElicitRequestParams> {
    let labels: Vec<&str> = question
        .options
        .iter()
        .map(|(_, label, _)| &**label)
        .collect();
    let mut answer = json!({"type": "string", "title": "Answer", "enum": labels});
    let mut required = vec!["answer"];
    // Whoever accepts such a form as it is allows the call once.
    if let Some((_, allow, _)) = allow_option(question) {
        answer["default"] = json!(allow);
        required.clear();
    }
    let mut properties = json!({ "answer": answer });
    if question.options.iter().any(|(id, ..)| id == TEXT_OPTION) {
        properties["text"] = json!({"type": "string", "title": "In your own words"});
    }
    let form = json!({"type": "object", "properties": properties, "required": required});
    let Value::Object(form) = form else {
        return None;
    };
    let requested_schema = ElicitationSchema::from_json_schema(JsonObject::from(form)).ok()?;
    (!labels.is_empty()).then(|| ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: describe_question(question, folder),
        requested_schema,
    })
}

/// Returns the form of the question whether a client may work in a folder.
pub(super) fn folder_form(client: &str, folder: &Path) -> Option<ElicitRequestParams> {
    let title = format!(
        "{client} wants to work in {}, which lies outside of your workspaces.\nAccept allows clients to work there \
         from now on, until `punie-runner policy revoke`. Decline refuses it for this session.",
        folder.display()
    );
    question_form(&folder_question(title), None)
}

/// Returns the form of the question whether git may use a repository, which this sentence without a period describes.
pub(super) fn repository_form(client: &str, text: &str) -> Option<ElicitRequestParams> {
    let title = format!(
        "{text}.\nAccept lets git use it for {client} and other clients from now on, until `punie-runner policy revoke`. \
         Decline refuses it for this session."
    );
    question_form(&folder_question(title), None)
}

fn folder_question(title: String) -> LinkQuestion {
    let option = |id: &str, label: &str, refuses| (id.to_owned(), label.to_owned(), refuses);
    LinkQuestion {
        id: String::new(),
        request: String::new(),
        title,
        options: vec![
            option(ALLOW_OPTION, "Allow", false),
            option("reject_always", "Refuse from now on", true),
        ],
    }
}

/// What a person said about a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FolderAnswer {
    /// Yes or no, from now on.
    Rule(bool),
    /// Not in this session. Clients without a person say so, too.
    Declined,
    /// Nothing: the form was closed.
    None,
}

/// Reads the answer to the question about a folder.
pub(super) fn folder_answer(answer: &ElicitResult) -> FolderAnswer {
    let question = folder_question(String::new());
    match answer.action {
        ElicitationAction::Accept => {
            let chosen = chosen_option(&question, answer);
            FolderAnswer::Rule(chosen.is_some_and(|(option, _)| option == ALLOW_OPTION))
        }
        ElicitationAction::Decline => FolderAnswer::Declined,
        _ => FolderAnswer::None,
    }
}

fn allow_option(question: &LinkQuestion) -> Option<&(String, String, bool)> {
    question.options.iter().find(|(id, ..)| id == ALLOW_OPTION)
}

/// Describes a call in plain words, if the question's title has it whole, else returns the title.
fn describe_question(question: &LinkQuestion, folder: Option<&Path>) -> String {
    let title = &question.title;
    let Some((tool, reason, arguments)) = split_title(title) else {
        return title.clone();
    };
    let mut lines = vec![format!("{tool} waits for your approval:")];
    let arguments = format_call_arguments(&arguments);
    lines.extend(arguments.lines().map(|line| format!("  {line}")));
    lines.extend(folder.map(|folder| format!("Folder: {}", folder.display())));
    if !reason.is_empty() {
        lines.push(format!("Reason: {reason}"));
    }
    if allow_option(question).is_some() {
        lines.push("Accept allows it once. Decline refuses it.".to_owned());
    }
    lines.join("\n")
}

/// Splits `Tool {arguments} [reason]`.
fn split_title(title: &str) -> Option<(&str, &str, Value)> {
    let (tool, rest) = title.split_once(' ')?;
    let mut values = Deserializer::from_str(rest).into_iter::<Value>();
    let arguments = values.next()?.ok().filter(Value::is_object)?;
    let reason = rest[values.byte_offset()..].trim();
    let bare = reason
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    Some((tool, bare.unwrap_or(reason), arguments))
}

/// Returns the option and the words of an answer. A form that was accepted as it is allows the call once; every other
/// answer that is not clearly one of the options refuses.
pub(super) fn chosen_option(
    question: &LinkQuestion,
    answer: &ElicitResult,
) -> Option<(String, Option<String>)> {
    let refusal = || question.options.iter().find(|(_, _, refuses)| *refuses);
    let content = answer.content.as_ref().unwrap_or(&Value::Null);
    let chosen = match (&answer.action, &content["answer"]) {
        (ElicitationAction::Accept, Value::Null) => allow_option(question).or_else(refusal),
        (ElicitationAction::Accept, given) => {
            let by_label = |(_, label, _): &&(String, String, bool)| *given == **label;
            question.options.iter().find(by_label).or_else(refusal)
        }
        _ => refusal(),
    };
    let (id, ..) = chosen?;
    let words = content["text"].as_str().filter(|_| id == TEXT_OPTION);
    Some((id.clone(), words.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_accept_allows_once_and_an_unclear_answer_refuses() {
        let question = question("Bash {}");
        let chosen = |action, content: Value| {
            let mut answer = ElicitResult::new(action);
            answer.content = Some(content);
            chosen_option(&question, &answer).expect("an option").0
        };
        let accept = || ElicitationAction::Accept;
        assert_eq!(chosen(accept(), json!({"answer": "Allow"})), "allow_once");
        assert_eq!(chosen(accept(), json!({"answer": "allow"})), "reject_once");
        assert_eq!(chosen(accept(), json!({})), "allow_once");
        assert_eq!(chosen(accept(), Value::Null), "allow_once");
        assert_eq!(chosen(accept(), json!({"answer": ""})), "reject_once");
        let mut choice = question.clone();
        choice.options.remove(0);
        let result = chosen_option(&choice, &ElicitResult::new(accept()));
        assert_eq!(result.expect("an option").0, "reject_once");
        assert_eq!(
            chosen(ElicitationAction::Decline, json!({"answer": "Allow"})),
            "reject_once"
        );
        assert_eq!(
            chosen(ElicitationAction::Cancel, Value::Null),
            "reject_once"
        );
    }

    #[test]
    fn a_form_shows_the_call_in_plain_words_with_a_default() {
        let form = |title: &str| {
            let form = question_form(&question(title), Some(Path::new("/w")));
            serde_json::to_value(form.expect("a form")).expect("JSON")
        };
        let asked = form(r#"Bash {"command":"rm -rf build\necho","timeout":5} [deletes files]"#);
        assert_eq!(
            asked["message"],
            "Bash waits for your approval:\n  command:\n      rm -rf build\n      echo\n  timeout: 5\nFolder: \
             /w\nReason: deletes files\nAccept allows it once. Decline refuses it."
        );
        let schema = &asked["requestedSchema"];
        let answer = json!({"type": "string", "title": "Answer", "enum": ["Allow", "Refuse"], "default": "Allow"});
        assert_eq!(schema["properties"]["answer"], answer);
        let required = schema["required"].as_array().map_or(0, Vec::len);
        assert_eq!(required, 0, "{schema}");
        // Texts that are no call, and those of which a part is left out, stay as they are.
        for title in [
            "Which color?",
            r#"Bash {"command":"a …(9 bytes left out)… "#,
            "Bash [1]",
        ] {
            assert_eq!(form(title)["message"], title);
        }
    }

    fn question(title: &str) -> LinkQuestion {
        let option =
            |id: &str, label: &str| (id.to_owned(), label.to_owned(), id.starts_with("reject"));
        LinkQuestion {
            id: "q".to_owned(),
            request: "r".to_owned(),
            title: title.to_owned(),
            options: vec![
                option("allow_once", "Allow"),
                option("reject_once", "Refuse"),
            ],
        }
    }
}
