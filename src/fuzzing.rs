//! What the fuzz targets call: one function a target, each with the law that it checks. Absent from every normal
//! build; unit tests replay the targets' seeds. Not here: the targets themselves (`fuzz/`).

use schemars::JsonSchema;
use serde::Deserialize;

use punie_text::output::terminal_text::{TerminalTextCleaner, Utf8Decoder};
use punie_tool::{
    DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolRegistry, ToolReply, ToolSet,
};

/// Between the parts of an input.
const BETWEEN: u8 = 0x1E;

/// A text and a patch of it.
pub fn patch(data: &[u8]) {
    let (text, patch) = halves(data);
    crate::handlers::file::fuzzing::patch(text, &String::from_utf8_lossy(patch));
}

/// A text, what is quoted of it, and what shall come there.
pub fn edit(data: &[u8]) {
    let (text, rest) = halves(data);
    let (old, new) = halves(rest);
    crate::handlers::file::fuzzing::edit(
        text,
        &String::from_utf8_lossy(old),
        &String::from_utf8_lossy(new),
    );
}

/// A command's output: however it is cut, it is the same text, and no control character is left.
///
/// # Panics
/// Where that is not so.
pub fn hygiene(data: &[u8]) {
    let Some((cut, bytes)) = data.split_first() else {
        return;
    };
    let clean = |size: usize| {
        let (mut decoder, mut command) = (Utf8Decoder::default(), TerminalTextCleaner::default());
        let (mut text, mut out) = (String::new(), String::new());
        for chunk in bytes.chunks(size) {
            decoder.push(chunk, &mut text);
            command.push(&text, &mut out);
            text.clear();
        }
        decoder.finish(&mut text);
        command.push(&text, &mut out);
        command.finish(&mut out);
        out
    };
    let whole = clean(bytes.len().max(1));
    assert_eq!(
        whole,
        clean(usize::from(*cut) + 1),
        "cut into pieces of {}",
        usize::from(*cut) + 1
    );
    let left = whole
        .chars()
        .find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
    assert_eq!(left, None, "a control character is left");
}

/// What the backend sends, and a tool's arguments.
///
/// # Panics
/// Where an answer is lost, or a refusal has no words.
pub fn wire(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(value) = serde_json::from_str(&text) {
        crate::backend::fuzzing::replies(&value);
    }
    let tools = ToolSet::new("fuzzing", ())
        .with_tool::<Arguments>()
        .into_entries();
    let registry = ToolRegistry::new([tools]).expect("one tool");
    let entry = registry.find_tool(Arguments::NAME).expect("the only tool");
    // Whatever is refused is refused with words.
    if let Err(refusal) = entry.decode_call(&text) {
        assert!(!refusal.model_text().is_empty());
    }
}

fn halves(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == BETWEEN) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}

/// A tool with a key of every kind.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its decoding is of interest")]
struct Arguments {
    text: String,
    #[serde(default)]
    number: Option<i64>,
    #[serde(default)]
    fraction: Option<f64>,
    #[serde(default)]
    flag: bool,
    #[serde(default)]
    list: Vec<String>,
    #[serde(default)]
    choice: Option<Choice>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Choice {
    OneThing,
    Another,
}

impl Tool for Arguments {
    const NAME: &'static str = "Arguments";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const ALIASES: &'static [(&'static str, &'static str)] = &[("body", "text")];
    type Deps = ();
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::no_access()
    }

    async fn run(self, _cx: &ToolContext, _deps: &()) -> Result<ToolReply, ToolError> {
        Ok(ToolReply::from_text("decoded"))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests read the seeds")]

    use std::path::Path;

    use super::*;

    type Target = fn(&[u8]);

    #[test]
    fn every_seed_keeps_the_laws() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        let targets: [(&str, Target); 4] = [
            ("patch", patch),
            ("edit", edit),
            ("hygiene", hygiene),
            ("wire", wire),
        ];
        for (name, target) in targets {
            let mut seeds = 0;
            for seed in std::fs::read_dir(corpus.join(name)).expect("a folder of seeds") {
                target(&std::fs::read(seed.expect("a seed").path()).expect("it can be read"));
                seeds += 1;
            }
            assert!(seeds >= 3, "{name} has {seeds} seeds");
        }
    }
}
