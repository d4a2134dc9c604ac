//! Foreign text on its way into a section: one line, clipped, without control characters, mail addresses and texts that
//! look like secrets. The program's redactor masks known secrets afterwards.

/// The characters of a title or a name that are shown.
pub(crate) const MAX_TITLE_CHARS: usize = 120;
/// A shorter run of letters and digits is a word, a version or a short number.
const MIN_SECRET_CHARS: usize = 24;
const HIDDEN: &str = "[hidden]";

/// Cleans a foreign title or name. The result can be empty.
pub(crate) fn clean_title(text: &str) -> String {
    // A title of a megabyte is possible. Nothing beyond this can come into the clipped text, masks included.
    let bounded: String = text.chars().take(8 * MAX_TITLE_CHARS).collect();
    let words = bounded.split(is_separator).filter(|word| !word.is_empty());
    let line = words.map(mask_word).collect::<Vec<_>>().join(" ");
    clip(&line, MAX_TITLE_CHARS)
}

/// White space, control characters, and the invisible ones that turn the direction of a line.
fn is_separator(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn clip(text: &str, max_chars: usize) -> String {
    if text.chars().nth(max_chars).is_none() {
        return text.to_owned();
    }
    let kept: String = text.chars().take(max_chars - 1).collect();
    format!("{}…", kept.trim_end())
}

fn mask_word(word: &str) -> String {
    if is_mail_address(word) {
        return "[mail address]".to_owned();
    }
    if let Some(at) = word.find(['=', ':']) {
        let (name, value) = word.split_at(at + 1);
        if value.len() > 1 && names_a_secret(name.trim_end_matches(['=', ':'])) {
            return format!("{name}{HIDDEN}");
        }
    }
    // Addresses and paths: each of their parts is looked at by itself.
    let is_joint = |c: char| matches!(c, '/' | '?' | '&' | '=' | '#' | ':' | '|' | ',' | '(' | ')');
    if word.split(is_joint).any(looks_like_a_secret) {
        return HIDDEN.to_owned();
    }
    word.to_owned()
}

fn is_mail_address(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    word.split_once('@').is_some_and(|(name, host)| {
        !name.is_empty() && host.contains('.') && !host.contains(['/', '@'])
    })
}

fn names_a_secret(name: &str) -> bool {
    let name = name.to_lowercase().replace('-', "_");
    let endings = [
        "password",
        "passwd",
        "pass",
        "pwd",
        "pw",
        "secret",
        "token",
        "api_key",
        "apikey",
        "access_key",
    ];
    endings.iter().any(|ending| name.ends_with(ending))
}

/// A long run of letters and digits mixed: keys, tokens, hashes.
fn looks_like_a_secret(part: &str) -> bool {
    let digits = part.chars().filter(char::is_ascii_digit).count();
    part.chars().count() >= MIN_SECRET_CHARS
        && digits >= 4
        && part.chars().filter(char::is_ascii_alphabetic).count() >= 4
        && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '.' | '~'))
        // Slugs of articles are words and short numbers between hyphens.
        && part.split(['-', '_', '.']).any(|run| run.len() >= 12 && run.contains(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_clean_line() {
        assert_eq!(
            clean_title("  A\ttitle\n\u{202e}here\u{0}  "),
            "A title here"
        );
        assert_eq!(clean_title("\u{1b}[31mred"), "[31mred");
        assert_eq!(clean_title("\n\r\t"), "");
    }

    #[test]
    fn a_long_title_is_clipped_at_a_character() {
        let clipped = clean_title(&"ü".repeat(100_000));
        assert_eq!(clipped.chars().count(), MAX_TITLE_CHARS);
        assert!(clipped.ends_with('…'), "{clipped}");
    }

    #[test]
    fn secrets_and_mail_addresses_are_masked() {
        let masked = [
            ("Reset token=abc123 now", "Reset token=[hidden] now"),
            ("pw=hunter2", "pw=[hidden]"),
            (
                "key ghp_16C7e42F292c6912E7710c838347Ae178B4a end",
                "key [hidden] end",
            ),
            (
                "https://x.example/?k=AKIAIOSFODNN7EXAMPLE12345 x",
                "[hidden] x",
            ),
            (
                "Inbox (3) - anna@example.org - Mail",
                "Inbox (3) - [mail address] - Mail",
            ),
        ];
        for (title, expected) in masked {
            assert_eq!(clean_title(title), expected);
        }
    }

    #[test]
    fn plain_titles_stay() {
        let titles = [
            "Rust 1.95.0: what is new in 2026?",
            "how-to-build-a-keyboard-in-2024-and-2025",
            "@punie on Mastodon",
            "internationalization-and-localization-handbook",
            "Password: how to choose one",
        ];
        for title in titles {
            assert_eq!(clean_title(title), title);
        }
    }
}
