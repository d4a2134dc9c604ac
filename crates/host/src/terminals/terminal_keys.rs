//! Input that can be typed at a terminal: text and keys, with the bytes that a keyboard sends for them.

/// One piece of typed input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalInput {
    /// Characters; each line break in them is typed as Enter.
    Text(String),
    /// A key.
    Key(TerminalKey),
}

impl TerminalInput {
    /// Appends the bytes. `application` means that the program asked for the cursor keys' application mode.
    pub fn encode(&self, application: bool, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => {
                out.extend_from_slice(text.replace("\r\n", "\r").replace('\n', "\r").as_bytes());
            }
            Self::Key(key) => key.encode(application, out),
        }
    }
}

/// A key, by the bytes of an xterm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalKey {
    /// A key that always sends the same bytes.
    Plain(&'static str),
    /// A cursor key by its last letter; its bytes depend on the cursor key mode.
    Cursor(char),
    /// A key with Ctrl: one control character.
    Control(u8),
    /// A printed character.
    Character(char),
    /// A printed character with Alt.
    Alt(char),
}

/// Named keys, each with its aliases.
const NAMED_KEYS: &[(&[&str], TerminalKey)] = &[
    (&["enter", "return", "cr"], TerminalKey::Plain("\r")),
    (&["tab"], TerminalKey::Plain("\t")),
    (
        &["shift-tab", "backtab", "btab"],
        TerminalKey::Plain("\x1b[Z"),
    ),
    (&["escape", "esc"], TerminalKey::Plain("\x1b")),
    (&["space", "spacebar"], TerminalKey::Plain(" ")),
    (&["backspace", "bs"], TerminalKey::Plain("\x7f")),
    (&["delete", "del"], TerminalKey::Plain("\x1b[3~")),
    (&["insert", "ins"], TerminalKey::Plain("\x1b[2~")),
    (&["up", "arrow-up", "arrowup"], TerminalKey::Cursor('A')),
    (
        &["down", "arrow-down", "arrowdown"],
        TerminalKey::Cursor('B'),
    ),
    (
        &["right", "arrow-right", "arrowright"],
        TerminalKey::Cursor('C'),
    ),
    (
        &["left", "arrow-left", "arrowleft"],
        TerminalKey::Cursor('D'),
    ),
    (&["home"], TerminalKey::Cursor('H')),
    (&["end"], TerminalKey::Cursor('F')),
    (
        &["page-up", "pageup", "pgup"],
        TerminalKey::Plain("\x1b[5~"),
    ),
    (
        &["page-down", "pagedown", "pgdn"],
        TerminalKey::Plain("\x1b[6~"),
    ),
    (&["f1"], TerminalKey::Plain("\x1bOP")),
    (&["f2"], TerminalKey::Plain("\x1bOQ")),
    (&["f3"], TerminalKey::Plain("\x1bOR")),
    (&["f4"], TerminalKey::Plain("\x1bOS")),
    (&["f5"], TerminalKey::Plain("\x1b[15~")),
    (&["f6"], TerminalKey::Plain("\x1b[17~")),
    (&["f7"], TerminalKey::Plain("\x1b[18~")),
    (&["f8"], TerminalKey::Plain("\x1b[19~")),
    (&["f9"], TerminalKey::Plain("\x1b[20~")),
    (&["f10"], TerminalKey::Plain("\x1b[21~")),
    (&["f11"], TerminalKey::Plain("\x1b[23~")),
    (&["f12"], TerminalKey::Plain("\x1b[24~")),
];

impl TerminalKey {
    /// The accepted names, for an error message.
    pub const NAMES: &'static str = "enter, tab, shift-tab, escape, space, backspace, delete, insert, up, down, left, \
                                     right, home, end, page-up, page-down, f1 to f12, ctrl-a to ctrl-z, ctrl-space, \
                                     ctrl-[, ctrl-\\, ctrl-], ctrl-^, ctrl-_, alt- with a character, or one character";

    /// Parses a key's name. Case is ignored, `_`, `+` and blanks count as `-`, and Ctrl may also be written `^C` or
    /// `C-c`.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut letters = name.chars();
        if let (Some(only), None) = (letters.next(), letters.next()) {
            return (!only.is_control()).then_some(Self::Character(only));
        }
        let name = name.trim();
        if let Some(with) =
            strip_modifier(name, &["ctrl", "control", "c"]).or_else(|| name.strip_prefix('^'))
        {
            return control_key(with);
        }
        if let Some(with) = strip_modifier(name, &["alt", "meta", "m"]) {
            let mut with = with.chars();
            return match (with.next(), with.next()) {
                (Some(only), None) if !only.is_control() => Some(Self::Alt(only)),
                _ => None,
            };
        }
        let plain = name.to_ascii_lowercase().replace(['_', '+', ' '], "-");
        NAMED_KEYS
            .iter()
            .find(|(names, _)| names.contains(&plain.as_str()))
            .map(|(_, key)| *key)
    }

    fn encode(self, application: bool, out: &mut Vec<u8>) {
        let mut character = [0; 4];
        match self {
            Self::Plain(bytes) => out.extend_from_slice(bytes.as_bytes()),
            Self::Cursor(last) => {
                out.extend_from_slice(if application { b"\x1bO" } else { b"\x1b[" });
                out.extend_from_slice(last.encode_utf8(&mut character).as_bytes());
            }
            Self::Control(byte) => out.push(byte),
            Self::Character(c) => out.extend_from_slice(c.encode_utf8(&mut character).as_bytes()),
            Self::Alt(c) => {
                out.push(0x1b);
                out.extend_from_slice(c.encode_utf8(&mut character).as_bytes());
            }
        }
    }
}

/// Returns the text after a modifier and its separator.
fn strip_modifier<'a>(name: &'a str, modifiers: &[&str]) -> Option<&'a str> {
    let at = name.find(['-', '_', '+', ' '])?;
    let (modifier, rest) = name.split_at(at);
    modifiers
        .contains(&modifier.to_ascii_lowercase().as_str())
        .then(|| &rest[1..])
}

fn control_key(with: &str) -> Option<TerminalKey> {
    if with.eq_ignore_ascii_case("space") {
        return Some(TerminalKey::Control(0));
    }
    match with.as_bytes() {
        [letter] if letter.is_ascii_alphabetic() || b"@[\\]^_".contains(letter) => {
            Some(TerminalKey::Control(letter.to_ascii_uppercase() & 0x1f))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(name: &str) -> Vec<u8> {
        let mut out = Vec::new();
        TerminalInput::Key(TerminalKey::from_name(name).expect(name)).encode(false, &mut out);
        out
    }

    #[test]
    fn keys_are_known_by_the_names_people_use() {
        for name in [
            "ctrl-c",
            "Ctrl+C",
            "ctrl_c",
            "control-c",
            "C-c",
            "^C",
            "^c",
            "ctrl c",
        ] {
            assert_eq!(bytes(name), [3], "{name}");
        }
        assert_eq!(bytes("ctrl-d"), [4]);
        assert_eq!(bytes("ctrl-space"), [0]);
        assert_eq!(bytes("ctrl-\\"), [28]);
        assert_eq!(bytes("Enter"), b"\r");
        assert_eq!(bytes("page_up"), b"\x1b[5~");
        assert_eq!(bytes("F12"), b"\x1b[24~");
        assert_eq!(bytes("alt-X"), b"\x1bX");
        assert_eq!(bytes("y"), b"y");
        assert_eq!(bytes("-"), b"-");
        for name in [
            "", "ctrl-", "ctrl-ä", "ctrl-1", "ctrl-cc", "alt-", "f13", "hyper-x", "entre", "\u{7}",
        ] {
            assert_eq!(TerminalKey::from_name(name), None, "{name:?}");
        }
    }

    #[test]
    fn every_name_is_given_once() {
        let mut all: Vec<&str> = NAMED_KEYS
            .iter()
            .flat_map(|(names, _)| *names)
            .copied()
            .collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn cursor_keys_follow_what_the_program_asked_for() {
        let mut out = Vec::new();
        let up = TerminalInput::Key(TerminalKey::from_name("up").expect("a key"));
        up.encode(false, &mut out);
        up.encode(true, &mut out);
        assert_eq!(out, b"\x1b[A\x1bOA");
    }

    #[test]
    fn a_line_break_in_text_is_typed_as_enter() {
        let mut out = Vec::new();
        TerminalInput::Text("a\nb\r\nc\rd".to_owned()).encode(false, &mut out);
        assert_eq!(out, b"a\rb\rc\rd");
    }
}
