//! Escapes of characters that steer a screen or that nobody sees, in texts for people: on this machine's screens, in
//! editors, and on the wire. Not here: the cleaning of command output (`terminal_text`) and quoted paths (`path_text`).

use std::borrow::Cow;

use super::path_text::is_invisible;

/// Returns whether a person would not see this character, or would see others because of it.
fn is_hidden(c: char) -> bool {
    is_invisible(c)
        || matches!(
            c,
            '\u{034F}'
                | '\u{115F}'..='\u{1160}'
                | '\u{17B4}'..='\u{17B5}'
                | '\u{180B}'..='\u{180F}'
                | '\u{3164}'
                | '\u{FE00}'..='\u{FE0F}'
                | '\u{FFA0}'
                | '\u{FFF0}'..='\u{FFFB}'
                | '\u{1BCA0}'..='\u{1BCA3}'
                | '\u{1D173}'..='\u{1D17A}'
                | '\u{E0000}'..='\u{E0FFF}'
        )
}

/// Escapes hidden characters (`\u{1b}`), but keeps line breaks and tabs.
pub fn escape_hidden_characters(text: &str) -> Cow<'_, str> {
    replace_hidden_characters(text, |c, out| out.extend(c.escape_unicode()))
}

/// Escapes hidden characters, line breaks and tabs, so that the text is one line.
pub fn escape_to_one_line(text: &str) -> String {
    let escaped = escape_hidden_characters(text);
    escaped.replace('\n', "\\n").replace('\t', "\\t")
}

/// Replaces every hidden character, except line breaks and tabs, by the output of `write`.
pub fn replace_hidden_characters(
    text: &str,
    mut write: impl FnMut(char, &mut String),
) -> Cow<'_, str> {
    let is_replaced = |c: char| !matches!(c, '\n' | '\t') && is_hidden(c);
    if !text.contains(is_replaced) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_replaced(c) {
            write(c, &mut out);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hidden_character_is_seen_and_other_text_stays() {
        for hidden in [
            "\u{202E}",
            "\u{200B}",
            "\u{00AD}",
            "\u{3164}",
            "\u{FE0F}",
            "\u{E0041}",
            "\u{E0101}",
            "\u{9b}",
            "\u{7f}",
            "\r",
            "\u{1b}",
            "\u{2028}",
            "\u{FFF9}",
        ] {
            let text = escape_hidden_characters(&format!("a{hidden}b")).into_owned();
            let seen = text.starts_with("a\\u{") && text.ends_with("}b");
            assert!(seen, "{hidden:?}: {text}");
        }
        assert_eq!(
            escape_hidden_characters("grüße, e\u{301}\n\tx"),
            "grüße, e\u{301}\n\tx"
        );
        assert_eq!(escape_to_one_line("a\nb\tc"), "a\\nb\\tc");
    }
}
