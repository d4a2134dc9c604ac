//! Sets one key in the text of a configuration file, or adds to a list of paths.

use std::ops::Range;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::toml_document::{ConfigDocument, TomlValue};
use super::value::{ConfigValue as _, quote_toml};

/// The change to a configuration file's text.
#[derive(Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// The key has this value already.
    AlreadySet(String),
    /// The text with the key.
    NewText(String),
    /// The table is written in a form that one added line does not extend, such as `sandbox = {}`, or the value has
    /// comments in it. Holds that line.
    NeedsOwner(String),
}

/// Sets a key of a table to this value, and leaves every other line as it is. A commented-out key is replaced.
pub fn set_key(text: &str, table: &str, key: &str, value: &str) -> KeyChange {
    if let Some(set) = find_value(text, table, key) {
        return KeyChange::AlreadySet(match set {
            TomlValue::Text(set) => set,
            other => other.to_string(),
        });
    }
    add_key(text, table, key, format!("{key} = {}", quote_toml(value)))
}

/// Sets a key of a table to a value in TOML, in place of the one that the file has. Every other line stays.
pub fn replace_key(text: &str, table: &str, key: &str, value: &str) -> KeyChange {
    match find_value_span(text, table, key) {
        Some((_, true)) => KeyChange::NeedsOwner(format!("{key} = {value}")),
        Some((span, false)) => {
            KeyChange::NewText([&text[..span.start], value, &text[span.end..]].concat())
        }
        None => add_key(text, table, key, format!("{key} = {value}")),
    }
}

/// Returns whether a text is one value of TOML, and nothing beside it.
pub fn is_toml_value(value: &str) -> bool {
    let text = format!("value = {value}\n");
    DeTable::parse(&text).is_ok_and(|table| table.get_ref().len() == 1)
}

/// Quotes a text as a value of TOML.
pub fn quote_text(text: &str) -> String {
    quote_toml(text)
}

/// Adds paths behind the last one of a list, and leaves all else as it is. A missing list is added.
pub fn add_paths(text: &str, table: &str, key: &str, added: &[PathBuf]) -> KeyChange {
    let line = render_paths(key, added);
    if find_value(text, table, key).is_none() {
        return add_key(text, table, key, line);
    }
    let items = line.split_once('[').map(|(_, items)| items);
    let items = items.and_then(|items| items.strip_suffix(']'));
    match (find_list_end(text, table, key), items) {
        (Some((at, separator)), Some(items)) => {
            KeyChange::NewText([&text[..at], separator, items, &text[at..]].concat())
        }
        _ => KeyChange::NeedsOwner(line),
    }
}

/// Returns the line of a key with these paths.
pub fn render_paths(key: &str, paths: &[PathBuf]) -> String {
    format!("{key} = {}", paths.to_vec().to_toml().unwrap_or_default())
}

fn find_value(text: &str, table: &str, key: &str) -> Option<TomlValue> {
    let document = ConfigDocument::parse_document(text).ok()?;
    let entry = document.get(&format!("{table}.{key}"))?;
    Some(entry.value.clone())
}

/// Returns the place of a key's value in the text, and whether comments stand within it.
fn find_value_span(text: &str, table: &str, key: &str) -> Option<(Range<usize>, bool)> {
    let plain = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document = DeTable::parse(plain).ok()?.into_inner();
    let mut tables = table.split('.');
    let first = document.get(tables.next()?)?.get_ref();
    let inner = tables.try_fold(first, |value, name| {
        value.as_table()?.get(name).map(Spanned::get_ref)
    });
    let value = inner?.as_table()?.get(key)?;
    let span = value.span();
    let before = text.len() - plain.len();
    let place = span.start + before..span.end + before;
    Some((place, has_comment(value, plain)))
}

/// Returns whether comments stand between the items of a list.
fn has_comment(value: &Spanned<DeValue<'_>>, text: &str) -> bool {
    let Some(items) = value.get_ref().as_array() else {
        return false;
    };
    let starts = items.iter().map(|item| item.span().start);
    let ends = items.iter().map(|item| item.span().end);
    let mut between = [value.span().start]
        .into_iter()
        .chain(ends)
        .zip(starts.chain([value.span().end]));
    between.any(|(from, to)| text[from..to].contains('#'))
        || items.iter().any(|item| has_comment(item, text))
}

/// Returns the offset behind the last item of a list, and the separator before the next one.
fn find_list_end(text: &str, table: &str, key: &str) -> Option<(usize, &'static str)> {
    let plain = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document = DeTable::parse(plain).ok()?.into_inner();
    let list = document.get(table)?.get_ref().as_table()?.get(key)?;
    let (at, separator) = match list.get_ref().as_array()?.last() {
        Some(item) => (item.span().end, ", "),
        None => (list.span().start + 1, ""),
    };
    Some((text.len() - plain.len() + at, separator))
}

fn add_key(text: &str, table: &str, key: &str, line: String) -> KeyChange {
    let changed = insert_line(text, table, key, &line);
    if find_value(&changed, table, key).is_some() {
        KeyChange::NewText(changed)
    } else {
        KeyChange::NeedsOwner(line)
    }
}

fn insert_line(text: &str, table: &str, key: &str, line: &str) -> String {
    let header = format!("[{table}]");
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let is_whole = text.is_empty() || text.ends_with('\n');
    let text = [text, if is_whole { "" } else { line_end }].concat();
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_header = |line: &&str| {
        line.split('#')
            .next()
            .unwrap_or_default()
            .replace(' ', "")
            .trim()
            == header
    };
    let Some(start) = lines.iter().position(is_header) else {
        lines.extend([line_end, &header, line_end, line, line_end]);
        return lines.concat();
    };
    let new_line = [line, line_end].concat();
    let mut of_table = lines[start + 1..]
        .iter()
        .take_while(|line| !line.trim_start().starts_with('['));
    match of_table.position(|line| is_commented_key(line, key)) {
        Some(at) => lines[start + 1 + at] = &new_line,
        None => lines.insert(start + 1, &new_line),
    }
    lines.concat()
}

/// Returns whether a line is this key with a value, behind a `#`, and nothing else: no sentence about it.
fn is_commented_key(line: &str, key: &str) -> bool {
    let Some(commented) = line.trim().strip_prefix('#') else {
        return false;
    };
    let set = DeTable::parse(commented);
    set.is_ok_and(|set| {
        let value = set.get_ref().get(key);
        set.get_ref().len() == 1 && value.is_some_and(|value| value.span().end == commented.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_text(text: &str, url: &str) -> String {
        match set_key(text, "backend", "url", url) {
            KeyChange::NewText(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_key_is_set_and_no_other_line_changes() {
        let written = "# mine\n[limits]\nreads = 4\n[backend]\n#url = \"https://example\"\nkind = \"convex\"\n[log]\n";
        let text = new_text(written, "http://127.0.0.1:1");
        assert_eq!(
            text,
            "# mine\n[limits]\nreads = 4\n[backend]\nurl = \"http://127.0.0.1:1\"\nkind = \"convex\"\n[log]\n"
        );
        let set = KeyChange::AlreadySet("http://127.0.0.1:1".to_owned());
        assert_eq!(set_key(&text, "backend", "url", "http://other"), set);
        assert_eq!(new_text("", "a"), "\n[backend]\nurl = \"a\"\n");
        assert_eq!(
            new_text("[ backend ]\n", "a"),
            "[ backend ]\nurl = \"a\"\n",
            "spaces"
        );
        assert_eq!(
            new_text("[backend] # mine\n", "a"),
            "[backend] # mine\nurl = \"a\"\n"
        );
    }

    #[test]
    fn a_path_is_added_to_a_list_in_any_form() {
        let added = [PathBuf::from("/new")];
        for (written, changed) in [
            (
                "[workspaces]\npaths = [\"~/a\"] # mine\n",
                "[workspaces]\npaths = [\"~/a\", \"/new\"] # mine\n",
            ),
            (
                "\u{feff}[workspaces]\npaths = [\n  \"a\", # one, [two]\n  'b', # last\n]\n",
                "\u{feff}[workspaces]\npaths = [\n  \"a\", # one, [two]\n  'b', \"/new\", # last\n]\n",
            ),
            ("workspaces.paths = [ ]", "workspaces.paths = [\"/new\" ]"),
            (
                "[workspaces]\n#paths = [\"~/project\"]\n[log]\n",
                "[workspaces]\npaths = [\"/new\"]\n[log]\n",
            ),
        ] {
            let change = add_paths(written, "workspaces", "paths", &added);
            assert_eq!(change, KeyChange::NewText(changed.to_owned()));
        }
    }

    #[test]
    fn a_value_is_replaced_where_it_stands() {
        for (written, changed) in [
            (
                "\u{feff}[backend.poll] # mine\nhold_ms = 5 # short\n[log]\n",
                "\u{feff}[backend.poll] # mine\nhold_ms = 7 # short\n[log]\n",
            ),
            ("backend.poll.hold_ms=5", "backend.poll.hold_ms=7"),
            (
                "backend = { poll = { hold_ms = 5 } }\n",
                "backend = { poll = { hold_ms = 7 } }\n",
            ),
            (
                "[backend.poll]\n#hold_ms = 1\n",
                "[backend.poll]\nhold_ms = 7\n",
            ),
        ] {
            let change = replace_key(written, "backend.poll", "hold_ms", "7");
            assert_eq!(change, KeyChange::NewText(changed.to_owned()));
        }
        for (value, is_one) in [
            ("[1, 2]", true),
            ("true # so", true),
            ("1\nother = 2", false),
            ("~/a", false),
        ] {
            assert_eq!(is_toml_value(value), is_one, "{value}");
        }
    }

    #[test]
    fn a_commented_sentence_stays_and_so_do_line_ends() {
        for (written, changed) in [
            (
                "[limits]\n# reads = 4 was too slow\n# reads = 4 # slow\n# reads = 4\n",
                "[limits]\n# reads = 4 was too slow\n# reads = 4 # slow\nreads = 7\n",
            ),
            (
                "[limits]\n# reads = 4 was too slow\n",
                "[limits]\nreads = 7\n# reads = 4 was too slow\n",
            ),
            (
                "# mine\r\n[limits]\r\n#reads = 4\r\n[log]\r\n",
                "# mine\r\n[limits]\r\nreads = 7\r\n[log]\r\n",
            ),
            ("[limits]", "[limits]\nreads = 7\n"),
            ("[limits]\n#reads = 4", "[limits]\nreads = 7\n"),
            ("[log]\r\n", "[log]\r\n\r\n[limits]\r\nreads = 7\r\n"),
        ] {
            let change = replace_key(written, "limits", "reads", "7");
            assert_eq!(change, KeyChange::NewText(changed.to_owned()), "{written}");
        }
    }

    #[test]
    fn a_list_with_comments_in_it_is_left_to_the_owner() {
        let written = "[policy]\nask = [\n  \"writes\", # mine\n]\n";
        assert_eq!(
            replace_key(written, "policy", "ask", "[]"),
            KeyChange::NeedsOwner("ask = []".to_owned())
        );
        let plain = "[policy]\nask = [\"a#b\"] # mine\n";
        assert_eq!(
            replace_key(plain, "policy", "ask", "[]"),
            KeyChange::NewText("[policy]\nask = [] # mine\n".to_owned())
        );
    }

    #[test]
    fn a_table_in_another_form_is_left_to_the_owner() {
        for written in ["backend = {}\n", "backend.kind = \"convex\"\n"] {
            assert_eq!(
                set_key(written, "backend", "url", "a"),
                KeyChange::NeedsOwner("url = \"a\"".to_owned()),
                "{written}"
            );
        }
    }
}
