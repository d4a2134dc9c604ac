//! Parses Markdown text that may begin with YAML between two `---` lines. Accepts byte order marks, any line endings
//! and a missing head; a head that cannot be read is an error. Not here: the meaning of the fields.

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

/// Splits the text and parses its head. Without a head, the fields have their defaults and the whole text is the body.
/// Line ends of the body become `
/// `, so that the same text has the same hash everywhere.
pub(super) fn parse_frontmatter<T: DeserializeOwned + Default>(
    text: &str,
) -> Result<(T, String), FrontmatterError> {
    let text = text
        .strip_prefix('\u{feff}')
        .unwrap_or(text)
        .replace("\r\n", "\n");
    let Some((head, body)) = split_head(&text)? else {
        return Ok((T::default(), text));
    };
    if head.len() > MAX_HEAD {
        return Err(FrontmatterError::TooLong);
    }
    let fields: Option<T> =
        serde_saphyr::from_str_with_options(head, yaml_limits()).map_err(|e| yaml_error(&e))?;
    Ok((fields.unwrap_or_default(), body.to_owned()))
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
        deserializer.deserialize_any(TextListVisitor)
    }
}

struct TextListVisitor;

impl<'de> Visitor<'de> for TextListVisitor {
    type Value = TextList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts, or texts with commas between them")
    }
    fn visit_str<E>(self, text: &str) -> Result<TextList, E> {
        Ok(TextList::from_texts(text.split(',')))
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
        parse_frontmatter(text).expect("a readable text")
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

    proptest! {
        #[test]
        fn no_text_panics_and_no_body_is_lost(text in "(---\n)?[ -~\n\u{feff}é]{0,200}(\n---\n)?[ -~\n]{0,50}") {
            if let Ok((_, body)) = parse_frontmatter::<Fields>(&text) {
                prop_assert!(text.ends_with(&body));
            }
        }

        #[test]
        fn any_yaml_like_head_is_read_or_refused(head in "([a-z&*!\\[\\]{}:,|>'\"#? -]{0,12}\n){0,12}") {
            let text = format!("---\n{head}---\nbody");
            match parse_frontmatter::<Fields>(&text) {
                Ok((_, body)) => prop_assert!(body.ends_with("body")),
                Err(refused) => prop_assert!(!refused.to_string().is_empty()),
            }
        }
    }
}
