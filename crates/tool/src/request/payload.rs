//! The JSON text of a result payload, and its reduction for a backend that finds it too large.
//! Not here: masking and clipping (`seal`).

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use super::OutcomeKind;
use punie_text::output::TextBudget;
use punie_text::output::text_budget::clip_further;

/// The contract's limit for a payload, in bytes of UTF-8.
pub(super) const WIRE_LIMIT: usize = 900 << 10;

/// `{toolName, result | error, meta}`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResultPayload<'a> {
    tool_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<PayloadAnswer<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<PayloadAnswer<'a>>,
    meta: &'a super::ResultMeta,
}

/// The value of `result` or `error`.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub(super) enum PayloadAnswer<'a> {
    Text(&'a str),
    Json(&'a Value),
}

impl<'a> ResultPayload<'a> {
    pub(super) fn new(
        tool_name: &'a str,
        kind: OutcomeKind,
        answer: PayloadAnswer<'a>,
        meta: &'a super::ResultMeta,
    ) -> Self {
        let (result, error) = if kind == OutcomeKind::Ok {
            (Some(answer), None)
        } else {
            (None, Some(answer))
        };
        Self {
            tool_name,
            result,
            error,
            meta,
        }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("every key is a string and no serializer here fails")
    }
}

/// Shrinks a sealed payload to at most this many bytes. Returns `None` if it already fits or is no payload.
///
/// Another part is cut from the middle of the text. The first part keeps its line numbers, so the new marker says where
/// to read on. The marker has no byte counts, because those of the sealed text are in the part that it replaces. A JSON
/// answer becomes text first. If the facts alone are too large, only those that a caller acts on stay.
pub fn shrink_payload(payload: &str, limit_bytes: usize) -> Option<String> {
    if payload.len() <= limit_bytes {
        return None;
    }
    let Ok(Value::Object(mut map)) = serde_json::from_str(payload) else {
        return None;
    };
    let key = if map.contains_key("error") {
        "error"
    } else {
        "result"
    };
    let mut body = map.remove(key)?;
    let mut meta = match map.remove("meta") {
        Some(Value::Object(meta)) => meta,
        _ => Map::new(),
    };
    meta.insert("truncated".to_owned(), Value::Bool(true));
    if drop_base64_data(&mut body) {
        let mut smaller = map.clone();
        smaller.insert(key.to_owned(), body.clone());
        smaller.insert("meta".to_owned(), Value::Object(meta.clone()));
        let smaller = Value::Object(smaller).to_string();
        if smaller.len() <= limit_bytes {
            return Some(smaller);
        }
    }
    let text = match body {
        Value::String(text) => text,
        json => format!("{json:#}"),
    };
    let omitted_before = meta
        .get("omittedBytes")
        .and_then(Value::as_u64)
        .unwrap_or(0);
    let handle = meta
        .get("handle")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let mut chars = text.chars().count();
    loop {
        let (shown, omitted) = shorten_to_chars(&text, chars, handle.as_deref());
        meta.insert(
            "omittedBytes".to_owned(),
            Value::from(omitted_before + omitted),
        );
        map.insert(key.to_owned(), Value::String(shown));
        map.insert("meta".to_owned(), Value::Object(meta.clone()));
        let smaller = Value::Object(map.clone()).to_string();
        if smaller.len() <= limit_bytes {
            return Some(smaller);
        }
        if chars < 8 {
            if meta.len() <= ESSENTIAL_KEYS.len() {
                return Some(smaller);
            }
            meta.retain(|key, _| ESSENTIAL_KEYS.contains(&key.as_str()));
            chars = text.chars().count();
        }
        chars /= 2;
    }
}

/// The facts without which a reply would mislead.
const ESSENTIAL_KEYS: [&str; 9] = [
    "code",
    "retryable",
    "exitCode",
    "timedOut",
    "truncated",
    "omittedBytes",
    "handle",
    "mayHaveRun",
    "attempt",
];

/// Shortens a text to about this many characters. Returns it with the number of omitted bytes.
fn shorten_to_chars(text: &str, chars: usize, handle: Option<&str>) -> (String, u64) {
    let smallest = *TextBudget::ALLOWED_CHARS.start();
    if chars >= smallest {
        let part = clip_further(text, TextBudget::from_requested(Some(chars as u64)), handle);
        return (part.text, part.omitted_bytes);
    }
    let end = text
        .char_indices()
        .nth(chars)
        .map_or(text.len(), |(at, _)| at);
    (format!("{} [...]", &text[..end]), (text.len() - end) as u64)
}

/// Removes base64 data from an answer, because a part of it is useless. Returns whether there was any.
fn drop_base64_data(body: &mut Value) -> bool {
    let Value::Object(answer) = body else {
        return false;
    };
    if answer.get("encoding").and_then(Value::as_str) != Some("base64")
        || answer.remove("data").is_none()
    {
        return false;
    }
    answer.remove("encoding");
    answer.insert(
        "note".to_owned(),
        Value::from("The data is left out: the answer was too large for the backend."),
    );
    true
}

/// Returns the remarks of a result's payload that its answer does not have, for a model that reads the answer: a line each.
pub fn untold_notes(payload: &Value) -> Option<String> {
    let answers = [&payload["error"], &payload["result"]];
    let text = match answers.into_iter().find(|one| !one.is_null()) {
        Some(Value::String(text)) => Cow::Borrowed(text.as_str()),
        Some(json) => Cow::Owned(json.to_string()),
        None => Cow::Borrowed(""),
    };
    let warnings = payload["meta"]["warnings"].as_array()?;
    let untold = warnings
        .iter()
        .filter_map(Value::as_str)
        .filter(|warning| !text.contains(warning));
    let lines: Vec<String> = untold.map(|warning| format!("Note: {warning}")).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_in_base64_is_left_out_whole_and_never_cut() {
        let answer = json!({"type": "image", "width": 9, "encoding": "base64", "data": "QUJD".repeat(5_000)});
        let payload = json!({"toolName": "Read", "result": answer, "meta": {}}).to_string();
        let smaller: Value =
            serde_json::from_str(&shrink_payload(&payload, 2_000).unwrap()).unwrap();
        assert_eq!(
            (&smaller["result"]["width"], &smaller["result"]["data"]),
            (&json!(9), &Value::Null)
        );
        assert!(
            smaller["result"]["note"]
                .as_str()
                .unwrap()
                .contains("left out"),
            "{smaller}"
        );
        assert_eq!(smaller["meta"]["truncated"], true);
    }
}
