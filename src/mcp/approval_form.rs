//! A question about a call as a form that the client shows to its person (elicitation), and what the person answered.

use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, JsonObject,
};
use serde_json::{Value, json};

use super::device_link::LinkQuestion;

/// The option of a question that wants words.
const TEXT_OPTION: &str = "text";

/// Returns the form of a question; `None` if it offers no answer.
pub(super) fn question_form(question: &LinkQuestion) -> Option<ElicitRequestParams> {
    let labels: Vec<&str> = question
        .options
        .iter()
        .map(|(_, label, _)| &**label)
        .collect();
    let mut properties = json!({
        "answer": {"type": "string", "title": "Answer", "enum": labels}
    });
    if question.options.iter().any(|(id, ..)| id == TEXT_OPTION) {
        properties["text"] = json!({"type": "string", "title": "In your own words"});
    }
    let form = json!({"type": "object", "properties": properties, "required": ["answer"]});
    let Value::Object(form) = form else {
        return None;
    };
    let requested_schema = ElicitationSchema::from_json_schema(JsonObject::from(form)).ok()?;
    (!labels.is_empty()).then(|| ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: question.title.clone(),
        requested_schema,
    })
}

/// Returns the option and the words of an answer. What is not clearly one of the options refuses.
pub(super) fn chosen_option(
    question: &LinkQuestion,
    answer: &ElicitResult,
) -> Option<(String, Option<String>)> {
    let refusal = || question.options.iter().find(|(_, _, refuses)| *refuses);
    let content = answer.content.as_ref().unwrap_or(&Value::Null);
    let chosen = match answer.action {
        ElicitationAction::Accept => {
            let by_label = |(_, label, _): &&(String, String, bool)| content["answer"] == **label;
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
    fn only_a_clear_yes_allows() {
        let option =
            |id: &str, label: &str| (id.to_owned(), label.to_owned(), id.starts_with("reject"));
        let question = LinkQuestion {
            id: "q".to_owned(),
            request: "r".to_owned(),
            title: "Bash: rm -rf build".to_owned(),
            options: vec![
                option("allow_once", "Allow"),
                option("reject_once", "Refuse"),
            ],
        };
        let chosen = |action, content: Value| {
            let mut answer = ElicitResult::new(action);
            answer.content = Some(content);
            chosen_option(&question, &answer).expect("an option").0
        };
        let accept = || ElicitationAction::Accept;
        assert_eq!(chosen(accept(), json!({"answer": "Allow"})), "allow_once");
        assert_eq!(chosen(accept(), json!({"answer": "allow"})), "reject_once");
        assert_eq!(chosen(accept(), json!({})), "reject_once");
        assert_eq!(
            chosen(ElicitationAction::Decline, json!({"answer": "Allow"})),
            "reject_once"
        );
        assert_eq!(
            chosen(ElicitationAction::Cancel, Value::Null),
            "reject_once"
        );
        let form = serde_json::to_value(question_form(&question).expect("a form")).expect("JSON");
        let labels = &form["requestedSchema"]["properties"]["answer"]["enum"];
        assert_eq!(labels, &json!(["Allow", "Refuse"]));
    }
}
