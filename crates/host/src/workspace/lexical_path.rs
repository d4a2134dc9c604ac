//! Parses paths by their text alone.

use std::path::{Component, Path, PathBuf};

use punie_text::output::path_text::path_from_text;
use punie_tool::ToolError;

/// A path text after expansion.
#[derive(Debug)]
pub(super) struct ParsedPathText {
    /// Absolute, or relative to the first workspace.
    pub path: PathBuf,
    /// The text ends in a separator, so the path must be a folder.
    pub names_folder: bool,
}

/// The longest path and the longest name on Linux, in bytes (PATH_MAX counts a final NUL).
const MAX_PATH: usize = 4_095;
const MAX_NAME: usize = 255;

/// Checks a path text and expands a home folder at its start.
pub(super) fn parse_path_text(
    text: &str,
    home: Option<&Path>,
) -> Result<ParsedPathText, ToolError> {
    if text.is_empty() {
        return Err(ToolError::invalid_args(
            "The path is empty. Give a path in the workspace.",
        ));
    }
    let given = path_from_text(text);
    let bytes = given.as_encoded_bytes();
    if bytes.contains(&0) {
        return Err(ToolError::invalid_args(
            "The path holds a NUL byte, which no file name can have.",
        ));
    }
    if bytes.len() > MAX_PATH {
        return Err(ToolError::invalid_args(format!(
            "The path is {} bytes long; the limit is {MAX_PATH}.",
            bytes.len()
        )));
    }
    let is_separator = |byte: &u8| std::path::is_separator(char::from(*byte));
    if let Some(name) = bytes.split(is_separator).find(|name| name.len() > MAX_NAME) {
        return Err(ToolError::invalid_args(format!(
            "A name in the path is {} bytes long; the limit is {MAX_NAME}.",
            name.len()
        )));
    }
    if cfg!(windows)
        && let Some(hazard) = windows_hazard(&given.to_string_lossy())
    {
        return Err(ToolError::invalid_args(format!("{text}: {hazard}.")));
    }
    // A quoted name is literal.
    let path = if given == *text {
        expand_home(text, home)?
    } else {
        PathBuf::from(&given)
    };
    if path.components().eq([Component::ParentDir]) {
        return Err(ToolError::invalid_args(
            ".. names no file. Give a path in the workspace.",
        ));
    }
    let names_folder = bytes.last().is_some_and(is_separator);
    Ok(ParsedPathText { path, names_folder })
}

fn is_separator(c: char) -> bool {
    std::path::is_separator(c)
}

fn expand_home(text: &str, home: Option<&Path>) -> Result<PathBuf, ToolError> {
    // After %USERPROFILE% a backslash is a separator on every system, because that spelling comes from Windows.
    for (mark, also) in [
        ("~", '/'),
        ("$HOME", '/'),
        ("${HOME}", '/'),
        ("%USERPROFILE%", '\\'),
    ] {
        let Some(rest) = text.strip_prefix(mark) else {
            continue;
        };
        if !(rest.is_empty() || rest.starts_with(is_separator) || rest.starts_with(also)) {
            continue;
        }
        let Some(home) = home else {
            return Err(ToolError::invalid_args(format!(
                "{text}: the home folder is not known here. Write the path in full."
            )));
        };
        let rest = rest.trim_start_matches(|c| is_separator(c) || c == also);
        return Ok(if rest.is_empty() {
            home.to_owned()
        } else {
            home.join(rest)
        });
    }
    Ok(PathBuf::from(text))
}

/// Returns whether the path climbs above its start when `..` is resolved by the text alone.
pub(super) fn climbs_above_start(rel: &Path) -> bool {
    let mut depth = 0_usize;
    for part in rel.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            _ => {}
        }
    }
    false
}

/// Returns the unintended meaning that a path text would have on Windows.
fn windows_hazard(text: &str) -> Option<&'static str> {
    let flat = text.replace('/', "\\");
    if flat.starts_with(r"\\") {
        return Some("network and device paths are not served");
    }
    let rest = match flat.as_bytes() {
        [drive, b':', ..] if drive.is_ascii_alphabetic() => {
            if flat.as_bytes().get(2) != Some(&b'\\') {
                return Some(
                    "a drive without a backslash means that drive's current folder; write the path in full",
                );
            }
            &flat[2..]
        }
        _ => flat.as_str(),
    };
    if rest.contains(':') {
        return Some("a colon would name a hidden stream of the file");
    }
    for name in rest
        .split('\\')
        .filter(|name| !matches!(*name, "" | "." | ".."))
    {
        if name.ends_with(['.', ' ']) {
            return Some("Windows drops a dot or a blank at the end of a name");
        }
        let stem = name.split('.').next().unwrap_or(name).trim_end();
        let device = ["con", "prn", "aux", "nul", "conin$", "conout$"]
            .iter()
            .any(|d| stem.eq_ignore_ascii_case(d))
            || (stem.len() == 4
                && stem.is_char_boundary(3)
                && (stem[..3].eq_ignore_ascii_case("com")
                    || stem[..3].eq_ignore_ascii_case("lpt"))
                && stem.as_bytes()[3].is_ascii_digit());
        if device {
            return Some("that name belongs to a device");
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_is_expanded_only_as_the_first_component() {
        let home = Path::new("/home/ada");
        for (text, expect) in [
            ("~", "/home/ada"),
            ("~/x", "/home/ada/x"),
            ("$HOME/x", "/home/ada/x"),
            (r"%USERPROFILE%\x", "/home/ada/x"),
            ("~x", "~x"),
            ("a/~/x", "a/~/x"),
            ("a/$HOME", "a/$HOME"),
            ("$HOMER/x", "$HOMER/x"),
        ] {
            assert_eq!(
                parse_path_text(text, Some(home)).expect(text).path,
                Path::new(expect),
                "{text}"
            );
        }
        assert!(parse_path_text("~/x", None).is_err());
    }

    #[test]
    fn climbing_is_seen_in_the_text() {
        for text in ["..", "../x", "a/../../x", "a/b/../../../out"] {
            assert!(climbs_above_start(Path::new(text)), "{text}");
        }
        for text in [".", "./a/../top", "a/b/../c"] {
            assert!(!climbs_above_start(Path::new(text)), "{text}");
        }
    }

    #[test]
    fn windows_spellings_that_reach_elsewhere_are_seen() {
        for text in [
            r"C:x",
            r"\\?\C:\x",
            r"\\host\share\x",
            "CON",
            "a/con.txt",
            "lpt1",
            "f:ads",
            r"C:\f:ads",
            "x.",
            "a /b",
        ] {
            assert!(windows_hazard(text).is_some(), "{text}");
        }
        for text in [
            r"C:\x\y.txt",
            "a/b.c",
            "../x",
            "console.txt",
            "com",
            "com10",
        ] {
            assert!(windows_hazard(text).is_none(), "{text}");
        }
    }
}
