//! Read of a Jupyter notebook: its cells as text, with shortened outputs.

use serde_json::Value;

use super::super::rendered_page::RenderedPage;
use punie_text::output::number_format::{format_count, format_size};

/// The most lines shown of one output.
const MAX_OUTPUT_LINES: usize = 20;

/// Renders the cells, or explains why this is no notebook.
pub(super) fn render_notebook(shown: &str, bytes: &[u8]) -> Result<RenderedPage, String> {
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
    let mut rendered = RenderedPage {
        header: format!(
            "{shown} (Jupyter notebook, {}, {}, {language})",
            format_size(bytes.len() as u64),
            format_count(cells.len() as u64, "cell")
        ),
        ..RenderedPage::default()
    };
    for (n, cell) in (1..).zip(cells) {
        let kind = cell["cell_type"].as_str().unwrap_or("unknown");
        let ran = cell["execution_count"]
            .as_u64()
            .map_or_else(String::new, |count| format!(", run {count}"));
        rendered.lines.push(format!("[cell {n}: {kind}{ran}]"));
        let source = if cell["source"].is_null() {
            &cell["input"]
        } else {
            &cell["source"]
        };
        rendered
            .lines
            .extend(join_notebook_text(source).lines().map(str::to_owned));
        for output in cell["outputs"].as_array().into_iter().flatten() {
            push_cell_output(&mut rendered.lines, output);
        }
        rendered.lines.push(String::new());
    }
    rendered.lines.pop();
    rendered.notes.push(
        "Edit takes quotes of one cell's source; the outputs stay. Read with encoding=\"utf-8\" shows the JSON."
            .to_owned(),
    );
    Ok(rendered)
}

/// Joins a text that is one string or a list of lines.
fn join_notebook_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

fn push_cell_output(lines: &mut Vec<String>, output: &Value) {
    match output["output_type"].as_str() {
        Some("stream") => {
            let name = output["name"].as_str().unwrap_or("stdout");
            push_clipped_text(lines, name, &join_notebook_text(&output["text"]));
        }
        Some("error" | "pyerr") => {
            let name = output["ename"].as_str().unwrap_or("Error");
            lines.push(format!(
                "[error] {name}: {}",
                output["evalue"].as_str().unwrap_or_default()
            ));
        }
        Some(kind) => {
            let data = output["data"].as_object();
            if let Some(text) = data.and_then(|data| data.get("text/plain")) {
                push_clipped_text(lines, kind, &join_notebook_text(text));
            }
            for (mime, content) in data
                .into_iter()
                .flatten()
                .filter(|(mime, _)| *mime != "text/plain")
            {
                let text = if content.is_object() {
                    content.to_string()
                } else {
                    join_notebook_text(content)
                };
                // Base64 is a third longer than the encoded bytes.
                let bytes = if mime.starts_with("image/") && mime != "image/svg+xml" {
                    text.len() / 4 * 3
                } else {
                    text.len()
                };
                lines.push(format!(
                    "[{kind}: {mime}, {}, not shown]",
                    format_size(bytes as u64)
                ));
            }
        }
        None => {}
    }
}

fn push_clipped_text(lines: &mut Vec<String>, name: &str, text: &str) {
    lines.push(format!("[{name}]"));
    let all = text.lines().count();
    lines.extend(text.lines().take(MAX_OUTPUT_LINES).map(str::to_owned));
    if all > MAX_OUTPUT_LINES {
        lines.push(format!(
            "[... {} of this output more ...]",
            format_count((all - MAX_OUTPUT_LINES) as u64, "line")
        ));
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
        let rendered = render_notebook("n.ipynb", text.as_bytes()).unwrap();
        assert!(
            rendered.header.ends_with("2 cells, python)"),
            "{}",
            rendered.header
        );
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
        assert!(render_notebook("n.ipynb", b"{\"cells\":").is_err());
        assert!(render_notebook("n.ipynb", b"[]").is_err());
    }
}
