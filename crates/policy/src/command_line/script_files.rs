//! The files that a command runs, or from which it takes its program: scripts, awk programs and makefiles. Not here:
//! whether such a file exists, and files that it reads in turn.

use super::command::{CommandWord, FOLDS_CASE, SimpleCommand, table_name};
use super::interpreters::{is_interpreter, is_shell};
use super::options::parse_options;
use super::scripts::program_options;

/// The most files of a command that only may be scripts, because options with values may stand before the script.
const MOST_POSSIBLE_SCRIPTS: usize = 2;
/// The most files that a command names as its program.
const MOST_NAMED_SCRIPTS: usize = 16;
/// The options of make that GNU make knows.
const MAKE_OPTIONS: &str = "b m B d e i k n p q r R s S t v w h C: f: I: o: W: E: j? l? O? always-make directory: \
                            debug? environment-overrides eval: file: makefile: help ignore-errors include-dir: jobs? \
                            jobserver-auth: keep-going load-average? max-load? check-symlink-times just-print dry-run \
                            recon old-file: assume-old: output-sync? print-data-base question no-builtin-rules \
                            no-builtin-variables silent quiet no-silent no-keep-going stop touch trace version \
                            print-directory no-print-directory what-if: new-file: assume-new: \
                            warn-undefined-variables";
/// The files that make reads if no option names one.
const DEFAULT_MAKEFILES: &[&str] = &["Makefile", "makefile", "GNUmakefile"];

/// Words of a command that may name its scripts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ScriptFiles {
    /// The files, the likeliest first.
    pub words: Vec<CommandWord>,
    /// The most of them that are scripts.
    pub most: usize,
    /// True if a name without a folder is searched in PATH too.
    pub uses_search_path: bool,
}

impl SimpleCommand {
    /// Returns the words that may name the command's scripts; none if its program runs no files.
    pub fn script_files(&self) -> ScriptFiles {
        let Some((name, words)) = self.words.split_first().filter(|(name, _)| name.is_literal)
        else {
            return ScriptFiles::default();
        };
        let name = table_name(&name.text, FOLDS_CASE);
        let named = match name.as_str() {
            "make" | "gmake" => Some(makefiles(words)),
            name => program_options(name).and_then(|known| program_files(known, words)),
        };
        if let Some(named) = named {
            return ScriptFiles {
                words: named,
                most: MOST_NAMED_SCRIPTS,
                uses_search_path: false,
            };
        }
        if !runs_files(&name) && program_options(&name).is_none() {
            return ScriptFiles::default();
        }
        ScriptFiles {
            words: literal_operands(words).cloned().collect(),
            most: MOST_POSSIBLE_SCRIPTS,
            uses_search_path: is_shell(&name) || matches!(name.as_str(), "source" | "."),
        }
    }
}

fn literal_operands(words: &[CommandWord]) -> impl Iterator<Item = &CommandWord> {
    let operands = words.iter().filter(|word| !word.text.starts_with('-'));
    operands.filter(|word| word.is_literal)
}

/// Returns whether a program of this name, with or without a folder, runs a file given to it.
pub fn runs_files(name: &str) -> bool {
    let name = table_name(name, FOLDS_CASE);
    is_interpreter(&name) || matches!(name.as_str(), "source" | "." | "make" | "gmake" | "just")
}

/// Returns the options with their values, which may stand before and behind operands; `None` if they cannot be parsed.
fn given_options<'w>(known: &str, words: &'w [CommandWord]) -> Option<Vec<(&'w str, &'w str)>> {
    let mut given = Vec::new();
    let mut rest = words;
    while !rest.is_empty() {
        let options = parse_options(known, rest).ok()?;
        given.extend(options.given);
        rest = rest.get(options.operands + 1..).unwrap_or_default();
    }
    Some(given)
}

/// Returns the files that the options of sed or awk name; `None` if the options cannot be parsed.
fn program_files(known: &str, words: &[CommandWord]) -> Option<Vec<CommandWord>> {
    let given = given_options(known, words)?.into_iter();
    let files = given.filter(|(name, _)| matches!(*name, "f" | "file"));
    let files = files.map(|(_, file)| CommandWord::from_literal(file));
    Some(files.collect())
}

/// Returns the files that make reads first.
fn makefiles(words: &[CommandWord]) -> Vec<CommandWord> {
    let default = |file: &&str| CommandWord::from_literal(file);
    let Some(given) = given_options(MAKE_OPTIONS, words) else {
        let possible = literal_operands(words).cloned();
        return possible
            .chain(DEFAULT_MAKEFILES.iter().map(default))
            .collect();
    };
    let (mut files, mut folder) = (Vec::new(), String::new());
    for (name, value) in given {
        match name {
            "f" | "file" | "makefile" => files.push(value),
            "C" | "directory" => folder = join_path(&folder, value),
            _ => {}
        }
    }
    if files.is_empty() {
        files = DEFAULT_MAKEFILES.to_vec();
    }
    let path = |file: &str| CommandWord::from_literal(&join_path(&folder, file));
    files.into_iter().map(path).collect()
}

fn join_path(folder: &str, path: &str) -> String {
    if folder.is_empty() || path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{folder}/{path}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_command_line;

    /// The files of the last command of a line.
    fn files(line: &str) -> Vec<String> {
        let parsed = read_command_line(line);
        let last = parsed.commands.last().expect("a command");
        let words = last.script_files().words;
        words.into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn the_files_of_a_program_are_those_that_its_words_name() {
        let defaults = ["Makefile", "makefile", "GNUmakefile"];
        for (line, wanted) in [
            (". f", &["f"][..]),
            ("builtin . f x", &["f", "x"]),
            ("source ./f", &["./f"]),
            ("sh -x f", &["f"]),
            ("awk -f f -v a=b data", &["f"]),
            ("gawk -ff --file=g data", &["f", "g"]),
            ("awk '{ print }' data", &[]),
            ("sed -n -f f data", &["f"]),
            ("make", &defaults),
            ("/usr/bin/make all -j4 V=1", &defaults),
            ("make all -f f", &["f"]),
            ("make -ff --makefile=g -C sub all", &["sub/f", "sub/g"]),
            (
                "make -C a -C b",
                &["a/b/Makefile", "a/b/makefile", "a/b/GNUmakefile"],
            ),
            (
                "make --surprise f",
                &["f", "Makefile", "makefile", "GNUmakefile"],
            ),
            ("sed data -f f", &["f"]),
            ("cat f", &[]),
        ] {
            assert_eq!(files(line), wanted, "{line}");
        }
    }
}
