//! Turns a result of the Model Context Protocol into text for the model. Not here: getting the result.

use std::borrow::Cow;

use serde_json::Value;

/// Returns the text of a result, and whether the server calls it an error.
pub(super) fn read_result(result: &Value) -> (String, bool) {
    let blocks = result["content"].as_array();
    let texts: Vec<Cow<'_, str>> = blocks.into_iter().flatten().map(block_text).collect();
    let structured = &result["structuredContent"];
    let text = if texts.is_empty() && !structured.is_null() {
        structured.to_string()
    } else {
        texts.join("\n")
    };
    (text, result["isError"] == true)
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
        let result = json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "two"}},
            {"type": "resource_link", "uri": "file:///b", "name": "b"},
        ]});
        let text = "one\n[image: image/png, left out]\ntwo\n[link: file:///b]";
        assert_eq!(read_result(&result), (text.to_owned(), false));
        let only = json!({"content": [], "structuredContent": {"n": 1}, "isError": true});
        assert_eq!(read_result(&only), ("{\"n\":1}".to_owned(), true));
        assert_eq!(read_result(&json!({})), (String::new(), false));
    }
}
