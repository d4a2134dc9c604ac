//! Placeholders that models write for code that they leave out, such as `// ... existing code ...`. Written into a file,
//! they would delete that code.

use std::sync::LazyLock;

use regex::Regex;

use super::FileDeps;
use super::edit_plan::MAX_BYTES;
use super::text_transcoding::TranscodedText;
use punie_host::WorkspacePath;
use punie_tool::{ToolContext, ToolError};

/// The signs that begin and end comments, longest first.
const COMMENT_SIGNS: [&str; 24] = [
    "{{!--", "--}}", "<!--", "-->", "{/*", "*/}", "<%#", "%>", "\"\"\"", "'''", "///", "//", "/*",
    "*/", "(*", "*)", "--", "##", "#", ";;", ";", "%", "*", "'",
];

/// What a comment says that stands for code. Without a comment's signs around it, a line needs dots before it.
static OMISSION: LazyLock<Regex> = LazyLock::new(|| {
    let dots = r"(?:\.{3,}|…)";
    let left = r"(?:existing|rest|remaining|remains?|unchanged|omitted|same as|previous|其余|剩余|现有|原有|省略|不变)";
    let what = r"(?:the )?(?:rest|remainder|remaining|existing|previous|other|others|everything else)\b[^.]{0,60}";
    let kept = r"(?:unchanged|(?:stays?|remains?|is|are)? ?the same|as (?:before|above|is)|omitted|not shown|goes here|here)";
    let pattern = format!(
        r"(?ix)^ [\s(\[{{]* (?:
            {dots}
          | {dots} .{{0,60}} {left} .{{0,60}}
          | .{{0,60}} {left} .{{0,60}} {dots}
          | {} {}
          | (?:code\ )? (?:unchanged|omitted(?:\ for\ brevity)?|no\ changes?(?:\ here)?|existing\ code(?:\ here)?)
          | (?:the\ )? rest\ of\ (?:the\ )? [\w.]+ (?:\ [\w.]+)?
          | same\ as\ (?:before|above)
          | 其余(?:代码|部分)?(?:保持)?不变 | 保持不变 | 代码不变
        ) [\s)\]}}.]* $",
        what.replace(' ', r"\ "),
        kept.replace(' ', r"\ "),
    );
    Regex::new(&pattern).expect("a valid pattern")
});

/// Refuses a new text with a placeholder where it leaves out lines of the old one.
///
/// # Errors
/// `invalid_args` that quotes the placeholder.
pub(super) fn refuse_placeholder(key: &str, old: &str, new: &str) -> Result<(), ToolError> {
    let has_line = |text: &str, wanted: &str| text.lines().any(|line| line.trim() == wanted);
    let mut added = new.lines().map(str::trim);
    let Some(placeholder) = added.find(|line| is_placeholder(line) && !has_line(old, line)) else {
        return Ok(());
    };
    let mut removed = old.lines().map(str::trim).filter(|line| !line.is_empty());
    if !removed.any(|line| !has_line(new, line)) {
        return Ok(());
    }
    Err(ToolError::invalid_args(format!(
        "Nothing was changed: `{placeholder}` in {key} would take the place of code that is not repeated there. Write the \
         code out, or quote only the lines that change. If the line itself is meant, add it with an edit that removes \
         nothing."
    )))
}

/// Refuses to replace a file by a text with a placeholder that the file does not have.
///
/// # Errors
/// As [`refuse_placeholder`].
pub(super) async fn refuse_placeholder_overwrite(
    cx: &ToolContext,
    deps: &FileDeps,
    path: &WorkspacePath,
    content: &str,
) -> Result<(), ToolError> {
    if !path.existed_when_resolved() || !content.lines().any(|line| is_placeholder(line.trim())) {
        return Ok(());
    }
    // The write itself says why a file cannot be read.
    let Ok(loaded) = deps.client.load_file(cx, path.clone(), MAX_BYTES).await else {
        return Ok(());
    };
    let old = TranscodedText::decode_loaded(&loaded);
    refuse_placeholder("content", &String::from_utf8_lossy(old.utf8()), content)
}

/// Returns whether a line, without blanks around it, is a comment that stands for code.
fn is_placeholder(line: &str) -> bool {
    let mut inner = line;
    while let Some(rest) = strip_sign(inner) {
        inner = rest;
    }
    let begins_with_dots = inner.starts_with("...") || inner.starts_with('…');
    // Python's own `...` stands for an empty body.
    let is_comment = inner.len() < line.len();
    let is_bare_dots = inner.trim_matches(['.', '…', ' ']).is_empty();
    (is_comment || (begins_with_dots && !is_bare_dots)) && OMISSION.is_match(inner)
}

fn strip_sign(text: &str) -> Option<&str> {
    let text = text.trim();
    COMMENT_SIGNS
        .iter()
        .find_map(|sign| text.strip_prefix(sign).or_else(|| text.strip_suffix(sign)))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_that_stands_for_code_is_known_in_every_language() {
        for line in [
            "// ... existing code ...",
            "// ...",
            "# ... rest unchanged",
            "# rest unchanged",
            "/* ... */",
            "/* rest of the function */",
            "{/* ... existing code ... */}",
            "<!-- ... -->",
            "<!-- rest of the page unchanged -->",
            "-- ... remaining columns ...",
            "; rest of the file stays the same",
            "% … unchanged …",
            "(* ... existing code ... *)",
            "\"\"\" ... existing code ... \"\"\"",
            "' ... rest of the module",
            "{{!-- ... --}}",
            "* ... unchanged",
            "// (unchanged)",
            "// [existing code]",
            "// code omitted for brevity",
            "// ... other methods remain unchanged ...",
            "// the other imports are the same",
            "... existing code ...",
            "// … 其余代码 …",
            "# 其余代码不变",
            "//... rest of file",
        ] {
            assert!(is_placeholder(line), "{line}");
        }
        for line in [
            "...",
            "return ...",
            "// Keep the connection open ...",
            "// The rest of the bytes go to the tail.",
            "# Same as in the parser, but for tabs",
            "// unchanged since 1.2, see the log",
            "x = existing",
            "/* existing users are kept */",
            "# remaining = total - used",
            "args...",
            "fn f(rest: ...)",
            "-- other",
            "#",
            "//",
            "// Existing code paths call this.",
        ] {
            assert!(!is_placeholder(line), "{line}");
        }
    }

    #[test]
    fn it_is_refused_only_where_code_would_go() {
        let refused = |old: &str, new: &str| refuse_placeholder("new_string", old, new).is_err();
        assert!(refused(
            "a();\nb();\nc();",
            "a();\n// ... existing code ..."
        ));
        assert!(!refused("a();", "a();\n// ..."));
        assert!(!refused("a();\n// ...\n", "b();\n// ...\n"));
        assert!(!refused("", "# ...\n"));
        assert!(!refused("def f():\n    return 1\n", "def f():\n    ...\n"));
    }
}
