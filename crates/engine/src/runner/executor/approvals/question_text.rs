//! The text of a question for approval: the whole call for the person at this device, and a title that fits the wire.
//! Secrets are masked and hidden characters are escaped.

use serde_json::Value;

use punie_text::output::hidden_characters::{escape_hidden_characters, escape_to_one_line};
use punie_text::redact::Redactor;
use punie_tool::format_call_arguments;
use punie_tool::request::ToolRequest;

/// The most bytes of a title on the wire.
const MAX_TITLE_BYTES: usize = 4_000;
/// The most bytes of the reason in a title.
const MAX_REASON_BYTES: usize = 1_000;

/// A question as people read it.
pub(super) struct QuestionText {
    /// The tool, its arguments and the reason in one line.
    pub title: String,
    /// True if the title shows only a part of the call.
    pub is_cut: bool,
    /// All arguments of the call.
    pub arguments: String,
    /// The reason of the question.
    pub why: Option<String>,
}

impl QuestionText {
    /// Describes a call. The JSON is written anew, so that neither the caller's blanks nor its escapes hide anything.
    pub fn for_call(request: &ToolRequest, why: Option<&str>, redactor: &Redactor) -> Self {
        let args: Value = serde_json::from_str(&request.args).unwrap_or_default();
        let args = args.to_string();
        let (masked, _) = redactor.mask(&args);
        let arguments = match serde_json::from_str(&masked) {
            Ok(args) => format_call_arguments(&args),
            Err(_) => escape_hidden_characters(&masked).into_owned(),
        };
        let why = why.map(|why| escape_to_one_line(&redactor.mask(why).0));
        let mut title = escape_to_one_line(&format!("{} {masked}", request.tool));
        let reason = why.as_ref().map_or_else(String::new, |why| {
            format!(" [{}]", truncate_middle(why, MAX_REASON_BYTES))
        });
        let room = MAX_TITLE_BYTES - reason.len();
        let is_cut = title.len() > room;
        if is_cut {
            let note = format!(
                " [This title shows only a part of the call. The person at the device can read all of it and allow \
                 it: `punie-runner approvals show {}`]",
                request.id
            );
            title = truncate_middle(&title, room - note.len()) + &note;
        }
        Self {
            title: title + &reason,
            is_cut,
            arguments,
            why,
        }
    }
}

fn truncate_middle(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let half = most / 2 - 40;
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len() - half);
    format!(
        "{} …({} bytes left out)… {}",
        &text[..head],
        tail - head,
        &text[tail..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_title_both_ends_are_shown() {
        let text = format!("begin{}end", "é".repeat(MAX_TITLE_BYTES));
        let shown = truncate_middle(&text, MAX_TITLE_BYTES);
        assert!(
            shown.len() <= MAX_TITLE_BYTES
                && shown.starts_with("beginé")
                && shown.ends_with("éend"),
            "{shown}"
        );
        assert_eq!(truncate_middle("short", MAX_TITLE_BYTES), "short");
    }
}
