//! A file pattern: checked, split into a literal folder and the rest, and compiled.

use std::ffi::OsStr;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::Value;

use punie_text::normal_forms::other_forms;
use punie_tool::ToolError;

/// No real pattern is longer.
const MAX_BYTES: usize = 4_096;
/// The largest nesting of alternatives. Deeper patterns only serve to exhaust memory.
const MAX_NESTING: usize = 8;
/// The largest number of alternatives in a pattern.
const MAX_ALTERNATIVES: usize = 512;

/// A compiled file pattern.
#[derive(Debug, Clone)]
pub(super) struct FileGlob {
    set: GlobSet,
    /// The suffix, if the pattern only tests that, as most do: `*.rs`, `**/*.rs`.
    suffix: Option<String>,
    /// A pattern without a slash tests the name alone, at any depth.
    name_only: bool,
    negated: bool,
    whole: String,
}

impl FileGlob {
    /// Checks and compiles a pattern. A leading `!` negates it.
    pub(super) fn new(pattern: &str) -> Result<Self, ToolError> {
        let (negated, pattern) = match pattern.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        check_glob(pattern)?;
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let whole = if pattern.ends_with('/') {
            format!("{pattern}**")
        } else {
            pattern.to_owned()
        };
        let unusable = |error: &globset::Error| {
            ToolError::invalid_args(format!(
                "The file pattern {pattern:?} cannot be used: {}. Examples: *.rs, src/**/*.{{ts,tsx}}.",
                error.kind()
            ))
        };
        let set = compile_glob(&whole, false).map_err(|e| unusable(&e))?;
        Ok(Self {
            set,
            suffix: literal_suffix(&whole).filter(|suffix| suffix.is_ascii()),
            name_only: !whole.contains('/'),
            negated,
            whole,
        })
    }

    /// Compiles a pattern whose folder was split off. Without a slash it matches in that folder alone.
    pub(super) fn relative_to_folder(pattern: &str) -> Result<Self, ToolError> {
        Self::new(pattern).map(|glob| {
            let ending = glob.suffix.filter(|_| !glob.name_only);
            Self {
                name_only: false,
                suffix: ending,
                ..glob
            }
        })
    }

    /// Returns the same pattern without case, or `None` if that makes no difference.
    pub(super) fn ignoring_case(&self) -> Option<Self> {
        if self.negated || !self.whole.chars().any(char::is_alphabetic) {
            return None;
        }
        let set = compile_glob(&self.whole, true).ok()?;
        Some(Self {
            set,
            suffix: None,
            ..self.clone()
        })
    }

    /// Returns the same pattern with brackets as letters of names, as in `app/[id]/page.tsx`; `None` if it has none.
    pub(super) fn with_literal_brackets(&self) -> Option<Self> {
        if !self.whole.contains('[') {
            return None;
        }
        let escape = |c: char| match c {
            '[' | ']' => format!("[{c}]"),
            c => c.to_string(),
        };
        let whole: String = self.whole.chars().map(escape).collect();
        Some(Self {
            set: compile_glob(&whole, false).ok()?,
            suffix: None,
            whole,
            ..self.clone()
        })
    }

    /// Returns whether a file matches, given its path relative to the start of the search and its name.
    pub(super) fn matches(&self, rel: &Path, name: &OsStr) -> bool {
        let hit = match &self.suffix {
            Some(ending) => name.as_encoded_bytes().ends_with(ending.as_bytes()),
            None if self.name_only => self.set.is_match(name),
            None => self.set.is_match(rel),
        };
        hit != self.negated
    }
}

/// Compiles a pattern, in each of Unicode's normal forms. Within brackets a letter of the other form would be several.
fn compile_glob(pattern: &str, any_case: bool) -> Result<GlobSet, globset::Error> {
    let forms = other_forms(pattern);
    let forms = forms
        .iter()
        .map(String::as_str)
        .filter(|_| !pattern.contains('['));
    let mut set = GlobSetBuilder::new();
    for form in std::iter::once(pattern).chain(forms) {
        let mut glob = GlobBuilder::new(form);
        set.add(
            glob.literal_separator(true)
                .case_insensitive(any_case)
                .build()?,
        );
    }
    set.build()
}

/// Joins the patterns of a list, as models write it: an array, or a text with commas or blanks between patterns.
pub(super) fn join_glob_list(value: &Value) -> Option<String> {
    let parts: Vec<&str> = match value {
        Value::Array(all) => all.iter().map(Value::as_str).collect::<Option<_>>()?,
        Value::String(text) if !text.contains(['{', '[', '\\']) => {
            let parts = text.split([',', ' ']).filter(|part| !part.is_empty());
            let parts: Vec<&str> = parts.collect();
            // A single name may have a comma or a blank.
            parts
                .iter()
                .all(|part| part.contains('*'))
                .then_some(parts)?
        }
        _ => return None,
    };
    if parts.iter().any(|part| part.starts_with('!')) {
        return None;
    }
    match parts.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        several => {
            // With a slash in one of them, the others would be about the top folder alone.
            let has_slash = several.iter().any(|part| part.contains('/'));
            let anywhere = |part: &&str| {
                if has_slash && !part.contains('/') {
                    format!("**/{part}")
                } else {
                    (*part).to_owned()
                }
            };
            let parts: Vec<String> = several.iter().map(anywhere).collect();
            Some(format!("{{{}}}", parts.join(",")))
        }
    }
}

/// Splits off the folder before the first wildcard: `src/**/*.rs` is `src` and `**/*.rs`. Walking that folder alone
/// finds the same files sooner.
pub(super) fn split_literal_folder(pattern: &str) -> (&str, &str) {
    let wild = pattern
        .find(['*', '?', '[', '{', '\\'])
        .unwrap_or(pattern.len());
    match pattern[..wild].rfind('/') {
        // `/*.rs` means the root folder itself.
        Some(0) => ("/", &pattern[1..]),
        Some(slash) => (&pattern[..slash], &pattern[slash + 1..]),
        None => ("", pattern),
    }
}

/// Returns the suffix, if the pattern tests only that.
fn literal_suffix(pattern: &str) -> Option<String> {
    let name = pattern.strip_prefix("**/").unwrap_or(pattern);
    let ending = name.strip_prefix('*')?;
    let plain =
        !ending.is_empty() && !ending.contains(['*', '?', '[', ']', '{', '}', '\\', '/', '!']);
    plain.then(|| ending.to_owned())
}

fn check_glob(pattern: &str) -> Result<(), ToolError> {
    let mut depth = 0_usize;
    let mut deepest = 0_usize;
    let mut alternatives = 0_usize;
    for c in pattern.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth > 0 => alternatives += 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    let why = if pattern.is_empty() {
        "is empty. Examples: *.rs, src/**/*.ts, **/Cargo.toml.".to_owned()
    } else if pattern.len() > MAX_BYTES {
        format!(
            "is {} bytes long; the limit is {MAX_BYTES}. Search for less at a time.",
            pattern.len()
        )
    } else if pattern.contains('\0') {
        "contains a NUL byte, which no file name has.".to_owned()
    } else if pattern.split('/').any(|part| part == "..") {
        "contains `..`. Name the folder to search in `path` and keep the pattern below it."
            .to_owned()
    } else if deepest > MAX_NESTING || alternatives > MAX_ALTERNATIVES {
        format!(
            "nests {deepest} deep with {alternatives} alternatives; the limits are {MAX_NESTING} \
             and {MAX_ALTERNATIVES}. Search for less at a time."
        )
    } else {
        return Ok(());
    };
    Err(ToolError::invalid_args(format!("The file pattern {why}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use punie_tool::ErrorCode;

    fn hit(pattern: &str, path: &str) -> bool {
        let path = Path::new(path);
        FileGlob::new(pattern)
            .expect("a pattern")
            .matches(path, path.file_name().expect("a name"))
    }

    #[test]
    fn a_pattern_without_a_slash_is_about_the_name() {
        assert!(hit("*.rs", "a/b/c.rs"));
        assert!(hit("Cargo.toml", "x/Cargo.toml"));
        assert!(!hit("*.rs", "a/b.rs/c"));
    }

    #[test]
    fn a_star_stays_in_its_folder_and_two_stars_do_not() {
        assert!(hit("src/*.rs", "src/a.rs"));
        assert!(!hit("src/*.rs", "src/x/a.rs"));
        assert!(hit("src/**/*.{rs,toml}", "src/x/y/a.toml"));
        assert!(hit("**/x/*.rs", "x/a.rs"));
        assert!(hit("src/", "src/deep/er/file"));
        assert!(hit("!*.rs", "a.txt") && !hit("!*.rs", "a.rs"));
    }

    proptest! {
        #[test]
        fn an_ending_says_the_same_as_its_pattern(
            ending in "[.a-c ~@-]{1,3}",
            folders in prop::collection::vec("[.a-c]{1,3}", 0..3),
            name in "[.a-c ~@-]{1,6}",
            anywhere: bool,
        ) {
            // No file and no folder has one of these names.
            let is_name = |name: &String| name != "." && name != "..";
            prop_assume!(folders.iter().chain([&name]).all(is_name));
            let pattern = format!("{}*{ending}", if anywhere { "**/" } else { "" });
            let glob = FileGlob::new(&pattern).expect("a pattern");
            prop_assert!(glob.suffix.is_some());
            let path: std::path::PathBuf = folders.iter().chain([&name]).collect();
            let said = glob.matches(&path, name.as_ref());
            prop_assert_eq!(said, FileGlob { suffix: None, ..glob }.matches(&path, name.as_ref()), "{}", pattern);
        }
    }

    #[test]
    fn brackets_may_be_letters_of_a_name() {
        let literally = |pattern: &str, path: &str| {
            let glob = FileGlob::new(pattern)
                .expect("a pattern")
                .with_literal_brackets();
            let path = Path::new(path);
            glob.expect("brackets")
                .matches(path, path.file_name().expect("a name"))
        };
        assert!(!hit("app/[id]/*.tsx", "app/[id]/page.tsx"));
        assert!(literally("app/[id]/*.tsx", "app/[id]/page.tsx"));
        assert!(literally(
            "app/[[...slug]]/*.tsx",
            "app/[[...slug]]/page.tsx"
        ));
        assert!(!literally("app/[id]/*.tsx", "app/i/page.tsx"));
        assert!(
            FileGlob::new("a.tsx")
                .expect("a pattern")
                .with_literal_brackets()
                .is_none()
        );
    }

    #[test]
    fn a_list_of_patterns_is_one() {
        let joined = |value: Value| join_glob_list(&value);
        for (list, pattern) in [
            (Value::from("*.py,*.ts"), "{*.py,*.ts}"),
            (Value::from("*.py, *.ts"), "{*.py,*.ts}"),
            (Value::from("*.py *.ts"), "{*.py,*.ts}"),
            (Value::from(vec!["*.py", "src/*.ts"]), "{**/*.py,src/*.ts}"),
            (Value::from(vec!["a b.txt"]), "a b.txt"),
            (Value::from("*.py"), "*.py"),
        ] {
            assert_eq!(joined(list).as_deref(), Some(pattern));
        }
        for other in ["a b.txt", "*.{py,ts}", "!*.py,*.ts", "x, *.ts", ""] {
            assert_eq!(joined(Value::from(other)), None, "{other}");
        }
        assert_eq!(joined(Value::from(vec![1])), None);
    }

    #[test]
    fn a_name_is_found_in_either_form() {
        assert!(hit("Caf\u{e9}*", "Cafe\u{301}.txt") && hit("*fe\u{301}.txt", "Caf\u{e9}.txt"));
    }

    #[test]
    fn bombs_are_refused() {
        let nested = format!("{}a{}", "{a,".repeat(10_000), "}".repeat(10_000));
        let nested_less = format!("{}a{}", "{a,".repeat(20), "}".repeat(20));
        let wide = format!("{{{}}}", "a,".repeat(1_000));
        for bomb in [
            nested.as_str(),
            nested_less.as_str(),
            wide.as_str(),
            "",
            "../x",
            "a/../../b",
            "{a",
            "[z-a]",
            "a\0b",
        ] {
            let refused = FileGlob::new(bomb).expect_err("a bomb");
            assert_eq!(refused.stable_code(), ErrorCode::InvalidArgs);
        }
    }

    #[test]
    fn the_literal_folder_is_split_off() {
        assert_eq!(split_literal_folder("src/**/*.rs"), ("src", "**/*.rs"));
        assert_eq!(split_literal_folder("a/b/c.rs"), ("a/b", "c.rs"));
        assert_eq!(split_literal_folder("*.rs"), ("", "*.rs"));
        assert_eq!(split_literal_folder("/abs/x*/y"), ("/abs", "x*/y"));
        assert_eq!(split_literal_folder("/*.rs"), ("/", "*.rs"));
    }
}
