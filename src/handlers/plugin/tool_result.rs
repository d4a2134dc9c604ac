//! Turns a result of the Model Context Protocol into an answer for the model.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use punie_tool::ToolReply;

/// The most base64 of an image that is passed on, so that it is sent whole.
const MAX_BASE64_CHARS: usize = 700 << 10;

/// A result of a server.
#[derive(Debug, PartialEq)]
pub(super) struct ReadResult {
    /// Its text. What is no text is named in it.
    pub text: String,
    /// Its first image that is not too large: the media type, and the data in base64.
    pub image: Option<(String, String)>,
    /// The server calls it an error.
    pub is_error: bool,
}

pub(super) fn read_result(mut result: Value) -> ReadResult {
    let mut content = result["content"].take();
    let mut blocks = content.as_array_mut().into_iter().flatten();
    let image = blocks.find_map(take_image);
    let texts: Vec<Cow<'_, str>> = content
        .as_array()
        .into_iter()
        .flatten()
        .map(block_text)
        .collect();
    let structured = &result["structuredContent"];
    let mut text = texts.join("\n");
    if !structured.is_null() && !hold_value(&texts, structured) {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&structured.to_string());
    }
    ReadResult {
        text,
        image,
        is_error: result["isError"] == true,
    }
}

/// Returns whether texts hold a structured value: one as JSON, as the protocol asks, or as plain text; or one each of its
/// items. Libraries of servers wrap what is no object in one with the only field `result`.
fn hold_value(texts: &[Cow<'_, str>], value: &Value) -> bool {
    let read = texts
        .iter()
        .map(|text| (text, serde_json::from_str(text).ok()));
    let read: Vec<(_, Option<Value>)> = read.collect();
    let is_value = |(text, read): &(&Cow<'_, str>, Option<Value>), value: &Value| {
        value.as_str() == Some(text) || read.as_ref() == Some(value)
    };
    let wrapped = value.as_object().filter(|fields| fields.len() == 1);
    let inner = wrapped.and_then(|fields| fields.get("result"));
    [Some(value), inner].into_iter().flatten().any(|value| {
        read.iter().any(|text| is_value(text, value))
            || value.as_array().is_some_and(|items| {
                items.len() == read.len()
                    && read
                        .iter()
                        .zip(items)
                        .all(|(text, item)| is_value(text, item))
            })
    })
}

impl ReadResult {
    /// Returns the answer for the model. One with an image has the form of a picture that was read.
    pub fn into_reply(self) -> ToolReply {
        match self.image {
            None => ToolReply::from_text(self.text),
            Some((mime_type, data)) => ToolReply::from(json!({
                "type": "image",
                "mime_type": mime_type,
                "note": self.text,
                "encoding": "base64",
                "data": data,
            })),
        }
    }
}

/// Takes the data out of a block that is an image, if it can be passed on.
fn take_image(block: &mut Value) -> Option<(String, String)> {
    let mime_type = block["mimeType"]
        .as_str()
        .filter(|one| one.starts_with("image/"))?;
    let mime_type = mime_type.to_owned();
    let data = block["data"]
        .as_str()
        .filter(|data| data.len() <= MAX_BASE64_CHARS)?;
    let data = STANDARD.decode(data).is_ok().then(|| data.to_owned())?;
    *block = json!({"type": "text", "text": format!("[image: {mime_type}]")});
    Some((mime_type, data))
}

/// Returns the text of one block. What is no text is named.
fn block_text(block: &Value) -> Cow<'_, str> {
    let word = |key: &str| block[key].as_str().unwrap_or("unknown");
    match block["type"].as_str() {
        Some("text") => block["text"].as_str().unwrap_or_default().into(),
        Some("resource") => match block["resource"]["text"].as_str() {
            Some(text) => text.into(),
            None => "[binary data, left out]".into(),
        },
        Some("resource_link") => format!("[link: {}]", word("uri")).into(),
        Some(kind) => format!("[{kind}: {}, left out]", word("mimeType")).into(),
        None => "[content of an unknown kind, left out]".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_taken_and_the_rest_is_named() {
        let large = "A".repeat(MAX_BASE64_CHARS + 4);
        let result = json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": large, "mimeType": "image/gif"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "image", "data": "BBBB", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "two"}},
            {"type": "resource_link", "uri": "file:///b", "name": "b"},
        ]});
        let read = read_result(result);
        let text = "one\n[image: image/gif, left out]\n[image: image/png]\n[image: image/png, left out]\ntwo\n\
                    [link: file:///b]";
        assert_eq!((read.text.as_str(), read.is_error), (text, false));
        assert_eq!(
            read.image,
            Some(("image/png".to_owned(), "AAAA".to_owned()))
        );
        let only = json!({"content": [], "structuredContent": {"n": 1}, "isError": true});
        let read = read_result(only);
        assert_eq!((read.text.as_str(), read.is_error), ("{\"n\":1}", true));
        for (texts, structured, expected) in [
            (
                json!(["2 rows"]),
                json!({"rows": [1, 2]}),
                "2 rows\n{\"rows\":[1,2]}",
            ),
            (
                json!(["{\"rows\": [1, 2]}"]),
                json!({"rows": [1, 2]}),
                "{\"rows\": [1, 2]}",
            ),
            (json!(["plain"]), json!({"result": "plain"}), "plain"),
            (json!(["a", "2"]), json!({"result": ["a", 2]}), "a\n2"),
            (
                json!(["a", "3"]),
                json!({"result": ["a", 2]}),
                "a\n3\n{\"result\":[\"a\",2]}",
            ),
        ] {
            let texts = texts.as_array().expect("texts").iter();
            let content: Vec<Value> = texts
                .map(|text| json!({"type": "text", "text": text}))
                .collect();
            let read = read_result(json!({"content": content, "structuredContent": structured}));
            assert_eq!(read.text, expected);
        }
        let empty = read_result(json!({}));
        assert_eq!((empty.text.as_str(), empty.is_error), ("", false));
    }
}
