//! Read of a Jupyter notebook: its cells as text, with their outputs in short. Not here: running them.

use serde_json::Value;

use super::rendered::Rendered;
use crate::output::figures::{counted, size};

/// So many lines of one output are shown.
const OUTPUT_LINES: usize = 20;

/// The cells, or why this is no notebook.
pub(super) fn render(shown: &str, bytes: &[u8]) -> Result<Rendered, String> {
    let notebook: Value =
        serde_json::from_slice(bytes).map_err(|cause| format!("it is not JSON: {cause}"))?;
    let cells = notebook["cells"]
        .as_array()
        .or_else(|| notebook["worksheets"][0]["cells"].as_array())
        .ok_or("it has no list of cells")?;
    let language = notebook["metadata"]["language_info"]["name"]
        .as_str()
        .or_else(|| notebook["metadata"]["kernelspec"]["language"].as_str())
        .unwrap_or("language unknown");
    let mut rendered = Rendered {
        header: format!(
            "{shown} (Jupyter notebook, {}, {}, {language})",
            size(bytes.len() as u64),
            counted(cells.len() as u64, "cell")
        ),
        of: "line",
        ..Rendered::default()
    };
    for (n, cell) in (1..).zip(cells) {
        let kind = cell["cell_type"].as_str().unwrap_or("unknown");
        let ran = cell["execution_count"].as_u64().map_or_else(String::new, |count| format!(", run {count}"));
        rendered.lines.push(format!("[cell {n}: {kind}{ran}]"));
        let source = if cell["source"].is_null() { &cell["input"] } else { &cell["source"] };
        rendered.lines.extend(joined(source).lines().map(str::to_owned));
        for output in cell["outputs"].as_array().into_iter().flatten() {
            push_output(&mut rendered.lines, output);
        }
        rendered.lines.push(String::new());
    }
    rendered.lines.pop();
    rendered.notes.push(
        "The lines are those of the cells, not of the file: to change it, edit its JSON (Read with encoding=\"utf-8\" shows it)."
            .to_owned(),
    );
    Ok(rendered)
}

/// A text that is one string or a list of lines.
fn joined(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

fn push_output(lines: &mut Vec<String>, output: &Value) {
    match output["output_type"].as_str() {
        Some("stream") => {
            let name = output["name"].as_str().unwrap_or("stdout");
            push_text(lines, name, &joined(&output["text"]));
        }
        Some("error" | "pyerr") => {
            let name = output["ename"].as_str().unwrap_or("Error");
            lines.push(format!("[error] {name}: {}", output["evalue"].as_str().unwrap_or_default()));
        }
        Some(kind) => {
            let data = output["data"].as_object();
            if let Some(text) = data.and_then(|data| data.get("text/plain")) {
                push_text(lines, kind, &joined(text));
            }
            for (mime, content) in data.into_iter().flatten().filter(|(mime, _)| *mime != "text/plain") {
                let text = if content.is_object() { content.to_string() } else { joined(content) };
                // Base64 is a third longer than what it stands for.
                let bytes = if mime.starts_with("image/") && mime != "image/svg+xml" {
                    text.len() / 4 * 3
                } else {
                    text.len()
                };
                lines.push(format!("[{kind}: {mime}, {}, not shown]", size(bytes as u64)));
            }
        }
        None => {}
    }
}

fn push_text(lines: &mut Vec<String>, name: &str, text: &str) {
    lines.push(format!("[{name}]"));
    let all = text.lines().count();
    lines.extend(text.lines().take(OUTPUT_LINES).map(str::to_owned));
    if all > OUTPUT_LINES {
        lines.push(format!("[... {} of this output more ...]", counted((all - OUTPUT_LINES) as u64, "line")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_with_their_source_and_short_outputs() {
        let text = r##"{"cells":[{"cell_type":"markdown","source":["# Title\n","text"]},
            {"cell_type":"code","execution_count":3,"source":"plot()","outputs":[
              {"output_type":"stream","name":"stdout","text":["hello\n"]},
              {"output_type":"display_data","data":{"image/png":"AAAAAAAA","text/plain":["<Figure>"]}},
              {"output_type":"error","ename":"ValueError","evalue":"bad"}]}],
            "metadata":{"language_info":{"name":"python"}}}"##;
        let rendered = render("n.ipynb", text.as_bytes()).unwrap();
        assert!(rendered.header.ends_with("2 cells, python)"), "{}", rendered.header);
        assert_eq!(
            rendered.lines,
            [
                "[cell 1: markdown]",
                "# Title",
                "text",
                "",
                "[cell 2: code, run 3]",
                "plot()",
                "[stdout]",
                "hello",
                "[display_data]",
                "<Figure>",
                "[display_data: image/png, 6 bytes, not shown]",
                "[error] ValueError: bad",
            ]
        );
        assert!(render("n.ipynb", b"{\"cells\":").is_err());
        assert!(render("n.ipynb", b"[]").is_err());
    }
}
