//! The kinds of packages, the place of each in the home, and the grammar of ids.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::layout::Home;
use crate::name_grammar::{MAX_ID, is_item_id};

/// A kind of package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageKind {
    /// A skill, `skills/<id>/`.
    Skill,
    /// A theme, `themes/<id>.json`.
    Theme,
    /// A canvas, `apps/<id>/`.
    Canvas,
    /// A plugin, `plugins/<id>/`.
    Plugin,
}

impl PackageKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Skill, Self::Theme, Self::Canvas, Self::Plugin];

    /// Returns its word in arguments and lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skill => "skill",
            Self::Theme => "theme",
            Self::Canvas => "canvas",
            Self::Plugin => "plugin",
        }
    }

    /// Returns the kind of this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Returns the folder of the home with all of this kind.
    pub(super) fn folder(self, home: &Home) -> PathBuf {
        match self {
            Self::Skill => home.skills_dir(),
            Self::Theme => home.themes_dir(),
            Self::Canvas => home.apps_dir(),
            Self::Plugin => home.plugins_dir(),
        }
    }

    /// Returns the name of the file or folder of one of this kind.
    pub(super) fn file_name(self, id: &str) -> String {
        match self {
            Self::Theme => format!("{id}.json"),
            Self::Skill | Self::Canvas | Self::Plugin => id.to_owned(),
        }
    }
}

/// Checks an id; `name` is the argument that has it.
///
/// # Errors
/// The id does not follow the grammar, which the text names.
pub fn check_package_id(name: &str, id: &str) -> Result<(), String> {
    if is_item_id(id) {
        return Ok(());
    }
    let shown: String = id.chars().take(MAX_ID + 16).collect();
    Err(format!(
        "{name} {shown:?} is not an id. An id has 1 to {MAX_ID} of a-z 0-9 - _, a letter or digit first"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_lower_case_letters_digits_and_two_marks() {
        for id in ["a", "0", "a-b_c9", &"a".repeat(64)] {
            assert_eq!(check_package_id("skillId", id), Ok(()), "{id}");
        }
        for id in [
            "",
            "..",
            ".",
            "a/b",
            "../a",
            "/a",
            "A",
            "a b",
            "-a",
            "_a",
            "a.",
            "a\\b",
            "a\0",
            "é",
            "a\n",
            "con:",
            "~",
            &"a".repeat(65),
        ] {
            let said = check_package_id("skillId", id).expect_err(id);
            assert!(said.contains("a-z 0-9 - _"), "{said}");
        }
    }
}
