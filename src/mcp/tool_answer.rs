//! The answer of a tool as the protocol has it: text, images, structured content, and a link to output that was cut.

use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::{Map, Value, json};

use super::device_link::{LinkAnswer, LinkCall};
use super::output_pages::output_resource;
use punie_tool::request::untold_notes;

/// Converts an answer. Its facts (exit code, times, handle) and the id for `undo` are in `_meta`.
pub(super) fn tool_result(call: &LinkCall, mut answer: LinkAnswer) -> CallToolResult {
    let key = if answer.payload["error"].is_null() {
        "result"
    } else {
        "error"
    };
    let notes = untold_notes(&answer.payload);
    let meta = answer.payload["meta"].take();
    let (mut content, structured) = read_body(answer.payload[key].take());
    let output = meta["handle"].as_str().map(output_resource);
    content.extend(output.map(ContentBlock::resource_link));
    content.extend(notes.map(ContentBlock::text));
    let mut result = if answer.is_ok {
        CallToolResult::success(content)
    } else {
        CallToolResult::error(content)
    };
    result.structured_content = structured;
    let mut facts = Map::new();
    facts.insert("punie-runner/requestId".to_owned(), json!(call.id.as_str()));
    facts.insert("punie-runner/meta".to_owned(), meta);
    result.meta = Some(MetaObject(facts));
    result
}

/// Returns the blocks of a result, and its structured form if it is an object.
fn read_body(body: Value) -> (Vec<ContentBlock>, Option<Value>) {
    let Value::Object(mut object) = body else {
        let text = match body {
            Value::String(text) => text,
            Value::Null => String::new(),
            other => other.to_string(),
        };
        return (vec![ContentBlock::text(text)], None);
    };
    let image = take_image(&mut object);
    let structured = Value::Object(object);
    let mut content: Vec<ContentBlock> = image.into_iter().collect();
    content.push(ContentBlock::text(structured.to_string()));
    (content, Some(structured))
}

/// Takes the data of an image out of a result that is one.
fn take_image(object: &mut Map<String, Value>) -> Option<ContentBlock> {
    let is_base64 = object.get("encoding").is_some_and(|one| one == "base64");
    let mime_type = object.get("mime_type")?.as_str()?.to_owned();
    if !is_base64 || !mime_type.starts_with("image/") {
        return None;
    }
    let Value::String(data) = object.remove("data")? else {
        return None;
    };
    object.remove("encoding");
    Some(ContentBlock::image(data, mime_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punie_core::ids::RequestId;

    fn result(payload: Value, is_ok: bool) -> Value {
        let call = LinkCall {
            id: RequestId::parse("r-1").expect("an id"),
            tool: "Read".to_owned(),
            args: "{}".to_owned(),
            conversation: "c".to_owned(),
            session: None,
        };
        let mut result = tool_result(&call, LinkAnswer { is_ok, payload });
        result.result_type = None;
        serde_json::to_value(result).expect("JSON")
    }

    #[test]
    fn an_image_is_a_block_and_its_data_is_nowhere_else() {
        let image = json!({"type": "image", "mime_type": "image/png", "width": 9, "encoding": "base64", "data": "QUJD"});
        let read = result(json!({"result": image, "meta": {}}), true);
        assert_eq!(
            read["content"][0],
            json!({"type": "image", "data": "QUJD", "mimeType": "image/png"})
        );
        let rest = json!({"type": "image", "mime_type": "image/png", "width": 9});
        assert_eq!(read["structuredContent"], rest);
        assert_eq!(read["content"][1]["text"], rest.to_string());
    }

    #[test]
    fn a_cut_answer_links_to_its_output_and_an_error_says_so() {
        let read = result(
            json!({"result": "one [...]", "meta": {"handle": "out_1"}}),
            true,
        );
        assert_eq!(
            read["content"][0],
            json!({"type": "text", "text": "one [...]"})
        );
        assert_eq!(read["content"][1]["uri"], "punie-output://out_1");
        assert_eq!(read["_meta"]["punie-runner/requestId"], "r-1");
        assert_eq!(
            (&read["isError"], &read["structuredContent"]),
            (&json!(false), &Value::Null)
        );
        let failed = result(
            json!({"error": "no such file", "meta": {"code": "not_found"}}),
            false,
        );
        assert_eq!(failed["isError"], true);
        assert_eq!(failed["content"][0]["text"], "no such file");
        assert_eq!(failed["_meta"]["punie-runner/meta"]["code"], "not_found");
    }

    #[test]
    fn a_warning_that_the_text_does_not_have_is_a_block_of_its_own() {
        let warnings = json!(["It was matched as plain quotes.", "the encoding is guessed"]);
        let edited = "Edited a.py.\nIt was matched as plain quotes.";
        let payload = json!({"result": edited, "meta": {"warnings": warnings}});
        let read = result(payload, true);
        let texts: Vec<_> = read["content"]
            .as_array()
            .expect("blocks")
            .iter()
            .map(|block| &block["text"])
            .collect();
        assert_eq!(texts, [edited, "Note: the encoding is guessed"]);
        assert_eq!(read["_meta"]["punie-runner/meta"]["warnings"], warnings);
    }
}
