//! Commands that go to another folder, or have others run in one. Not here: which folder that is.

use super::Simple;
use super::unfold::base_name;

/// Whether what follows a command, or what it starts, may be in another folder than the one before it: also where it runs a
/// file that may go elsewhere.
pub(super) fn moves(name: &str, simple: &Simple) -> bool {
    matches!(name, "cd" | "pushd" | "popd" | "source" | ".") || moves_somewhere(simple)
}

/// Whether a command goes to a folder that its words do not tell, or has another one run elsewhere.
pub fn moves_somewhere(simple: &Simple) -> bool {
    let Some((name, words)) = simple.words.split_first() else { return false };
    let options = |short: &str, long: &str| {
        words.iter().any(|word| {
            let is_bundle = word.text.starts_with('-') && !word.text.starts_with("--");
            (is_bundle && word.text.contains(short)) || word.text.starts_with(long)
        })
    };
    match base_name(&name.text) {
        "cd" | "pushd" => {
            let given = words.iter().find(|word| !word.literal || !word.text.starts_with('-'));
            given.is_none_or(|word| !word.literal)
        }
        "env" => options("C", "--c"),
        "sudo" => options("D", "--c"),
        "find" => words.iter().any(|word| matches!(word.text.as_str(), "-execdir" | "-okdir")),
        "popd" | "chroot" => true,
        _ => false,
    }
}
