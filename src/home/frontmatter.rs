//! Parses Markdown text that may begin with YAML between two `---` lines. Accepts byte order marks, any line endings
//! and a missing head; a head that cannot be read is an error.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, SeqAccess, Visitor};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Error, Options};

/// The longest head, in bytes; people write shorter ones.
const MAX_HEAD: usize = 64 * 1024;
/// The most levels of lists and maps in a head.
const MAX_DEPTH: usize = 16;
/// The most values in a head.
const MAX_NODES: usize = 4_000;
/// The most references (`*name`) in a head; more than a few only occur in texts that attack the parser.
const MAX_ALIASES: usize = 64;

const FENCE: &str = "---";

/// The reason why a head could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrontmatterError {
    /// The first line opens a head that no line closes.
    #[error("line 1 opens a head with --- that no later line closes")]
    Unclosed,
    /// The head is longer than the limit.
    #[error("its head is longer than {} KiB", MAX_HEAD / 1024)]
    TooLong,
    /// It is not YAML, or has wrong fields.
    #[error("its head cannot be read: {0}")]
    Yaml(String),
}

/// A text that was split and parsed.
#[derive(Debug, PartialEq)]
pub(super) struct Frontmatter<T> {
    pub(super) fields: T,
    /// The text below the head.
    pub(super) body: String,
    /// The first line whose value lacks quotes; it was read as plain text.
    pub(super) unquoted_line: Option<usize>,
}

/// Splits the text and parses its head. Without a head, the fields have their defaults and the whole text is the body.
/// Line ends of the body become `
/// `, so that the same text has the same hash everywhere.
pub(super) fn parse_frontmatter<T: DeserializeOwned + Default>(
    text: &str,
) -> Result<Frontmatter<T>, FrontmatterError> {
    let text = text
        .strip_prefix('\u{feff}')
        .unwrap_or(text)
        .replace("\r\n", "\n");
    let Some((head, body)) = split_head(&text)? else {
        return Ok(Frontmatter {
            fields: T::default(),
            body: text,
            unquoted_line: None,
        });
    };
    if head.len() > MAX_HEAD {
        return Err(FrontmatterError::TooLong);
    }
    let parse = |yaml: &str| serde_saphyr::from_str_with_options(yaml, yaml_limits());
    let (fields, unquoted_line): (Option<T>, _) = match parse(head) {
        Ok(fields) => (fields, None),
        Err(error) => quote_plain_values(head)
            .and_then(|(quoted, line)| Some((parse(&quoted).ok()?, Some(line))))
            .ok_or_else(|| yaml_error(&error))?,
    };
    Ok(Frontmatter {
        fields: fields.unwrap_or_default(),
        body: body.to_owned(),
        unquoted_line,
    })
}

/// Puts quotes around values such as `Use when: asked`, which many skills have and YAML refuses. Returns the text and the
/// first changed line; `None` if there is no such value.
fn quote_plain_values(head: &str) -> Option<(String, usize)> {
    let mut quoted = String::with_capacity(head.len() + 64);
    let mut first = None;
    for (at, line) in head.lines().enumerate() {
        let value = split_plain_entry(line).map(|(_, value)| value.trim());
        match value {
            Some(value)
                if value.contains(": ")
                    || value.ends_with(':')
                    || value.starts_with(['@', '`']) =>
            {
                first.get_or_insert(at + 1);
                let key = line.trim_end().strip_suffix(value).unwrap_or_default();
                quoted = quoted + key + "'" + &value.replace('\'', "''") + "'";
            }
            _ => quoted.push_str(line),
        }
        quoted.push('\n');
    }
    first.map(|line| (quoted, line))
}

/// Splits a line `key: value` that is not indented and whose value has no quotes or marks of its own.
fn split_plain_entry(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(": ")?;
    let is_key = key
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    let is_plain = !value
        .trim_start()
        .starts_with(['"', '\'', '[', '{', '|', '>', '&', '*', '!', '#']);
    (is_key && is_plain).then_some((key, value))
}

/// Returns the line of a key of the head, counted from 1.
pub(super) fn find_key_line(text: &str, key: &str) -> Option<usize> {
    let is_key = |line: &str| {
        let after = line.strip_prefix(key).unwrap_or_default().trim_start();
        after.starts_with(':')
    };
    let head = text
        .lines()
        .skip(1)
        .take_while(|line| line.trim_end() != FENCE);
    head.zip(2..)
        .find(|(line, _)| is_key(line))
        .map(|(_, at)| at)
}

/// Returns whether a text begins with the opening line of a head.
pub(super) fn has_head(text: &str) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines()
        .next()
        .is_some_and(|first| first.trim_end() == FENCE)
}

/// Splits off the head, with its opening line so that line numbers are those of the file, and the body.
fn split_head(text: &str) -> Result<Option<(&str, &str)>, FrontmatterError> {
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|first| first.trim_end() == FENCE) else {
        return Ok(None);
    };
    let mut end = first.len();
    for line in lines {
        let after = end + line.len();
        if line.trim_end() == FENCE {
            return Ok(Some((&text[..end], &text[after..])));
        }
        end = after;
    }
    Err(FrontmatterError::Unclosed)
}

fn yaml_limits() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: MAX_NODES * 3,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_documents: 1,
            flow_nesting_limit: MAX_DEPTH,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_NODES,
            max_replay_stack_depth: 8,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        with_snippet: false,
    }
}

fn yaml_error(error: &Error) -> FrontmatterError {
    // The parser's message may quote the file; its first line is enough.
    let text = error.without_snippet().to_string();
    FrontmatterError::Yaml(
        text.lines()
            .next()
            .unwrap_or("no reason given")
            .chars()
            .take(300)
            .collect(),
    )
}

/// A list as people write it: `[a, b]`, one entry per line, or `a, b`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TextList(pub(super) Vec<String>);

impl TextList {
    fn from_texts<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        Self(
            texts
                .map(str::trim)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
                .collect(),
        )
    }
}

impl<'de> Deserialize<'de> for TextList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextListVisitor(|text| {
            text.split(',').map(str::to_owned).collect()
        }))
    }
}

/// A list of tools as people write it: like a [`TextList`], or with blanks between them. Blanks in parentheses, as in
/// `Bash(git add:*)`, separate nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ToolNames(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for ToolNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list = deserializer.deserialize_any(TextListVisitor(split_tool_names))?;
        Ok(Self(list.0))
    }
}

fn split_tool_names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c == ',' || c.is_whitespace()) {
            names.push(String::new());
        } else if let Some(last) = names.last_mut() {
            last.push(c);
        }
    }
    names
}

/// The visitor of a list, with the way to split a single text.
struct TextListVisitor(fn(&str) -> Vec<String>);

impl<'de> Visitor<'de> for TextListVisitor {
    type Value = TextList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts, or texts with commas between them")
    }
    fn visit_str<E>(self, text: &str) -> Result<TextList, E> {
        let texts = (self.0)(text);
        Ok(TextList::from_texts(texts.iter().map(String::as_str)))
    }
    fn visit_unit<E>(self) -> Result<TextList, E> {
        Ok(TextList::default())
    }
    fn visit_bool<E>(self, value: bool) -> Result<TextList, E> {
        Ok(TextList(vec![value.to_string()]))
    }
    fn visit_i64<E>(self, value: i64) -> Result<TextList, E> {
        Ok(TextList(vec![value.to_string()]))
    }
    fn visit_u64<E>(self, value: u64) -> Result<TextList, E> {
        Ok(TextList(vec![value.to_string()]))
    }
    fn visit_f64<E>(self, value: f64) -> Result<TextList, E> {
        Ok(TextList(vec![value.to_string()]))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<TextList, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = entries.next_element::<String>()? {
            texts.push(text);
        }
        Ok(TextList::from_texts(texts.iter().map(String::as_str)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Fields {
        name: Option<String>,
        tags: TextList,
        version: Option<String>,
    }

    fn ok(text: &str) -> (Fields, String) {
        let parsed = parse_frontmatter(text).expect("a readable text");
        (parsed.fields, parsed.body)
    }

    fn list(tags: &str) -> Vec<String> {
        ok(&format!("---\ntags: {tags}\n---\n")).0.tags.0
    }

    #[test]
    fn a_text_without_a_head_is_all_body() {
        assert_eq!(
            ok("# Title\n---\nmore"),
            (Fields::default(), "# Title\n---\nmore".to_owned())
        );
        assert_eq!(ok(""), (Fields::default(), String::new()));
        assert_eq!(ok("----\nx"), (Fields::default(), "----\nx".to_owned()));
    }

    #[test]
    fn a_mark_and_foreign_line_ends_do_not_matter() {
        let plain = ok("---\nname: Deploy\ntags: a, b\n---\nBody\nmore\n");
        assert_eq!(plain.0.name.as_deref(), Some("Deploy"));
        assert_eq!(plain.1, "Body\nmore\n");
        assert_eq!(
            plain,
            ok("\u{feff}---\r\nname: Deploy\r\ntags: a, b\r\n---  \r\nBody\r\nmore\r\n")
        );
    }

    #[test]
    fn empty_heads_give_the_defaults() {
        for text in [
            "---\n---\nb",
            "---\n\n---\nb",
            "---\n# only a remark\n---\nb",
        ] {
            assert_eq!(ok(text), (Fields::default(), "b".to_owned()), "{text:?}");
        }
        assert_eq!(
            ok("---\nname: x\n---").1,
            "",
            "a head closed by the end of the file"
        );
    }

    #[test]
    fn lists_are_taken_as_people_write_them() {
        let both = ["a".to_owned(), "b".to_owned()];
        for written in ["a, b", "[a, b]", "\"a,b\"", "\n- a\n- ' b '", "[a, '', b]"] {
            assert_eq!(list(written), both, "{written:?}");
        }
        assert_eq!(list(""), Vec::<String>::new());
        assert_eq!(list("12"), ["12"]);
        assert_eq!(
            list("[1.10, true]"),
            ["1.10", "true"],
            "as written, not as a number"
        );
    }

    #[test]
    fn a_number_where_a_text_is_wanted_stays_as_written() {
        assert_eq!(
            ok("---\nversion: 1.10\n---\n").0.version.as_deref(),
            Some("1.10")
        );
    }

    #[test]
    fn a_broken_head_is_an_error_with_the_line_of_the_file() {
        assert_eq!(
            parse_frontmatter::<Fields>("---\nname: x\nno end"),
            Err(FrontmatterError::Unclosed)
        );
        let refused = parse_frontmatter::<Fields>("---\nname: x\ntags: [a\n---\nbody")
            .expect_err("an open bracket");
        assert!(
            matches!(&refused, FrontmatterError::Yaml(why) if why.contains("line")),
            "{refused}"
        );
        let refused = parse_frontmatter::<Fields>("---\nname: x\nname: y\n---\n")
            .expect_err("twice the same");
        assert!(
            matches!(&refused, FrontmatterError::Yaml(why) if why.contains("line 3")),
            "{refused}"
        );
        let long = format!("---\nname: {}\n---\n", "x".repeat(MAX_HEAD));
        assert_eq!(
            parse_frontmatter::<Fields>(&long),
            Err(FrontmatterError::TooLong)
        );
    }

    #[test]
    fn texts_made_to_exhaust_the_reader_are_refused() {
        let mut bomb = String::from("---\na: &a [x, x, x, x, x, x, x, x, x]\n");
        for (this, last) in ["b", "c", "d", "e", "f", "g", "h"]
            .iter()
            .zip(["a", "b", "c", "d", "e", "f", "g"])
        {
            let nine = vec![format!("*{last}"); 9].join(", ");
            bomb = bomb + this + ": &" + this + " [" + &nine + "]\n";
        }
        bomb.push_str("tags: *h\n---\n");
        assert!(parse_frontmatter::<Fields>(&bomb).is_err());
        let deep = format!(
            "---\ntags: {}x{}\n---\n",
            "[".repeat(5_000),
            "]".repeat(5_000)
        );
        assert!(parse_frontmatter::<Fields>(&deep).is_err());
    }

    #[test]
    fn values_without_the_quotes_that_yaml_wants_are_read_as_text() {
        for (line, name) in [
            ("name: Use when: it's asked", "Use when: it's asked"),
            ("name: @Observable and more", "@Observable and more"),
            ("name:   x license: MIT  ", "x license: MIT"),
            ("name: ends with:", "ends with:"),
        ] {
            let text = format!("---\nversion: 1\n{line}\n---\nbody");
            let parsed = parse_frontmatter::<Fields>(&text).expect(line);
            assert_eq!(parsed.fields.name.as_deref(), Some(name));
            assert_eq!(
                (parsed.unquoted_line, parsed.body.as_str()),
                (Some(3), "body")
            );
        }
        let fine = parse_frontmatter::<Fields>("---\nname: 'a: b'\n---\n").expect("quoted");
        assert_eq!(
            (fine.fields.name.as_deref(), fine.unquoted_line),
            (Some("a: b"), None)
        );
        let text = "---\nname: a: b\ntags: [x\n---\n";
        parse_frontmatter::<Fields>(text).expect_err("quotes do not mend it");
    }

    #[test]
    fn tools_are_separated_by_commas_or_blanks_outside_of_parentheses() {
        for written in ["Read Bash(git add:*) Edit", "Read, Bash(git add:*), Edit"] {
            let names = TextList::from_texts(split_tool_names(written).iter().map(String::as_str));
            assert_eq!(names.0, ["Read", "Bash(git add:*)", "Edit"]);
        }
    }

    #[test]
    fn a_key_is_found_in_the_head_only() {
        let text = "---\nname: x\ndescription : y\n---\nversion: 3\n";
        assert_eq!(find_key_line(text, "name"), Some(2));
        assert_eq!(find_key_line(text, "description"), Some(3));
        assert_eq!(find_key_line(text, "version"), None);
        assert_eq!(find_key_line("name: x", "name"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics_and_no_body_is_lost(text in "(---\n)?[ -~\n\u{feff}é]{0,200}(\n---\n)?[ -~\n]{0,50}") {
            if let Ok(parsed) = parse_frontmatter::<Fields>(&text) {
                prop_assert!(text.ends_with(&parsed.body));
            }
        }

        #[test]
        fn any_yaml_like_head_is_read_or_refused(head in "([a-z&*!\\[\\]{}:,|>'\"#? -]{0,12}\n){0,12}") {
            let text = format!("---\n{head}---\nbody");
            match parse_frontmatter::<Fields>(&text) {
                Ok(parsed) => prop_assert!(parsed.body.ends_with("body")),
                Err(refused) => prop_assert!(!refused.to_string().is_empty()),
            }
        }
    }
}
