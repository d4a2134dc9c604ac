//! Commands that change the folder in which other commands run.

use super::command::{SimpleCommand, base_name};
use super::options::has_short_option;

/// Returns whether later commands, or those that it starts, may run in another folder.
pub(super) fn may_change_folder(name: &str, command: &SimpleCommand) -> bool {
    matches!(name, "cd" | "pushd" | "popd" | "source" | ".") || changes_to_unknown_folder(command)
}

/// Returns whether a command changes to a folder that its words do not determine, or runs another
/// command in one.
pub fn changes_to_unknown_folder(command: &SimpleCommand) -> bool {
    let Some((name, words)) = command.words.split_first() else {
        return false;
    };
    let has = |letter: &str, long: &str| {
        words
            .iter()
            .any(|word| has_short_option(&word.text, letter) || word.text.starts_with(long))
    };
    match base_name(&name.text) {
        "cd" | "pushd" => {
            let given = words
                .iter()
                .find(|word| !word.is_literal || !word.text.starts_with('-'));
            given.is_none_or(|word| !word.is_literal)
        }
        "env" => has("C", "--c"),
        "sudo" => has("D", "--c"),
        "find" => words
            .iter()
            .any(|word| matches!(word.text.as_str(), "-execdir" | "-okdir")),
        "popd" | "chroot" => true,
        _ => false,
    }
}
