//! The files that a command runs, or from which it takes its program: scripts, awk programs, makefiles, package.json.

use super::command::{
    CommandLine, CommandWord, FOLDS_CASE, NOT_WRITTEN_OUT, SimpleCommand, table_name,
};
use super::interpreters::{RUNS_INPUT, is_interpreter, is_shell};
use super::options::parse_options;
use super::scripts::program_options;

/// The most files of a command that only may be scripts, because options with values may stand before the script.
const MOST_POSSIBLE_SCRIPTS: usize = 2;
/// The most files that a command names as its program.
const MOST_NAMED_SCRIPTS: usize = 16;
/// The most folders above its own in which a program looks for its file.
const MOST_FOLDERS_ABOVE: usize = 8;
/// The most texts of a line that are taken for names of files.
const MOST_POSSIBLE_FILES: usize = 1_000;
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
/// The single arguments with which a program only shows something about itself.
const INFORMS: &[&str] = &["--version", "--help", "-V", "-h", "--list"];

/// Programs that run command lines of a file which they find by themselves.
struct CommandFileRunner {
    names: &'static [&'static str],
    files: &'static [&'static str],
    /// The subcommands that run none of them, between blanks. Any other word may name some.
    others: &'static str,
}

const RUNNERS: &[CommandFileRunner] = &[
    CommandFileRunner {
        names: &["make", "gmake", "bmake"],
        files: DEFAULT_MAKEFILES,
        others: "",
    },
    CommandFileRunner {
        names: &["just"],
        files: &["justfile", "Justfile", ".justfile"],
        others: "",
    },
    CommandFileRunner {
        names: &["ninja", "samu"],
        files: &["build.ninja"],
        others: "",
    },
    CommandFileRunner {
        names: &["task", "go-task"],
        files: &[
            "Taskfile.yml",
            "Taskfile.yaml",
            "taskfile.yml",
            "taskfile.yaml",
        ],
        others: "",
    },
    CommandFileRunner {
        names: &["npm"],
        files: &["package.json"],
        others: "install i ci add remove rm un uninstall update up upgrade ls list ll outdated audit why info view show \
                 search publish pack version init create exec x dlx explore link unlink config cache prune dedupe whoami \
                 login logout ping",
    },
    CommandFileRunner {
        names: &["pnpm"],
        files: &["package.json"],
        others: "install i add remove rm un uninstall update up upgrade ls list outdated audit why publish pack exec dlx \
                 create init link unlink import fetch store config licenses prune",
    },
    CommandFileRunner {
        names: &["yarn", "yarnpkg"],
        files: &["package.json"],
        others: "install add remove upgrade info why outdated audit init create dlx exec publish pack cache config \
                 global versions version licenses link unlink",
    },
    CommandFileRunner {
        names: &["bun"],
        files: &["package.json"],
        others: "install i add remove rm update link unlink pm x build test init create upgrade publish outdated exec",
    },
    CommandFileRunner {
        names: &["deno"],
        files: &["deno.json", "deno.jsonc", "package.json"],
        others: "run test bench fmt lint check cache info install add compile doc upgrade types eval repl",
    },
];

impl CommandFileRunner {
    fn find(name: &str) -> Option<&'static Self> {
        RUNNERS.iter().find(|runner| runner.names.contains(&name))
    }

    /// Returns whether it runs command lines of its file with these arguments.
    fn runs_lines(&self, words: &[CommandWord]) -> bool {
        let is_word = |word: &&CommandWord| !word.is_literal || !word.text.starts_with('-');
        // The first word may be the value of an option before it.
        let is_value = words
            .first()
            .is_some_and(|first| !is_word(&first) && !first.text.contains('='));
        let mut subcommands = words
            .iter()
            .filter(is_word)
            .take(1 + usize::from(is_value))
            .peekable();
        let is_known = |word: &CommandWord| {
            // Those that are interpreters run a file that is named.
            let is_file = is_interpreter(self.names[0]) && word.text.contains(['.', '/']);
            let mut others = self.others.split_whitespace();
            word.is_literal && (is_file || others.any(|known| known == word.text))
        };
        match subcommands.peek() {
            None => self.others.is_empty(),
            Some(_) => !subcommands.all(is_known),
        }
    }

    /// Returns where its files may lie: in the folders among its arguments, its own folder and those above.
    fn possible_files(&self, words: &[CommandWord]) -> Vec<CommandWord> {
        let named = literal_operands(words).map(|word| word.text.clone());
        let own = std::iter::once(String::new());
        let above = (1..=MOST_FOLDERS_ABOVE).map(|depth| vec![".."; depth].join("/"));
        let folders = named.take(MOST_NAMED_SCRIPTS).chain(own).chain(above);
        let in_folder = |folder: String| {
            let files = self.files.iter();
            files.map(move |file| CommandWord::from_literal(&join_path(&folder, file)))
        };
        // One that is given as such comes first.
        let given = literal_operands(words).take(MOST_NAMED_SCRIPTS).cloned();
        given.chain(folders.flat_map(in_folder)).collect()
    }
}

/// Returns whether a program or builtin runs command lines of a file, and not only those in its arguments. With an open end
/// more arguments follow.
pub(super) fn runs_command_file(name: &str, words: &[CommandWord], is_open_ended: bool) -> bool {
    let only_informs = matches!(words, [word] if INFORMS.contains(&word.text.as_str()));
    let runs = match CommandFileRunner::find(name) {
        Some(runner) => is_open_ended || runner.runs_lines(words),
        None => is_shell(name) || matches!(name, "source" | "."),
    };
    runs && (is_open_ended || !only_informs)
}

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

impl CommandLine {
    /// Returns the texts of a line that may name files which it runs, if its words do not say what it runs: all that
    /// could be paths. In `cat f | sh` this is `f`, too.
    pub fn possible_files(&self) -> Vec<&str> {
        // A build tool is bound to the file that it finds by itself. A script may be made by the line.
        let is_unclear = |simple: &SimpleCommand| {
            let is_tool = |name: &CommandWord| {
                CommandFileRunner::find(&table_name(&name.text, FOLDS_CASE)).is_some()
            };
            let runs_script =
                simple.runs_command_file && !simple.words.first().is_some_and(is_tool);
            simple.opaque.is_some() || simple.is_open_ended || runs_script
        };
        if self.unanalysed.is_empty() && !self.commands.iter().any(is_unclear) {
            return Vec::new();
        }
        let ends = |c: char| c.is_whitespace() || "'\"`;|&(){}[]<>=,:!$".contains(c);
        let mut found: Vec<&str> = Vec::new();
        for text in self.texts.split(ends).filter(|text| !text.is_empty()) {
            if found.len() < MOST_POSSIBLE_FILES && !found.contains(&text) {
                found.push(text);
            }
        }
        found
    }
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
        if let Some(runner) = CommandFileRunner::find(&name) {
            return ScriptFiles {
                words: runner.possible_files(words),
                most: MOST_NAMED_SCRIPTS,
                uses_search_path: false,
            };
        }
        if !runs_files(&name) && program_options(&name).is_none() {
            return ScriptFiles::default();
        }
        let mut files = self.python_module_files();
        let most = match files.len() {
            0 => MOST_POSSIBLE_SCRIPTS,
            _ => MOST_NAMED_SCRIPTS,
        };
        files.extend(literal_operands(words).cloned());
        ScriptFiles {
            words: files,
            most,
            uses_search_path: is_shell(&name) || matches!(name.as_str(), "source" | "."),
        }
    }

    /// Returns the files in which Python finds the module that it is told to run, if it lies in the folder.
    pub fn python_module_files(&self) -> Vec<CommandWord> {
        self.python_module().map_or_else(Vec::new, module_files)
    }

    /// Returns the module that Python runs (`python3 -m NAME`).
    fn python_module(&self) -> Option<&str> {
        let (name, words) = self.words.split_first()?;
        let name = table_name(&name.text, FOLDS_CASE);
        if !name.starts_with("python") && !name.starts_with("pypy") {
            return None;
        }
        let is_bundle = |text: &str| text.starts_with('-') && !text.starts_with("--");
        let mut words = words.iter();
        let option = words.find(|word| is_bundle(&word.text) && word.text.contains('m'))?;
        match option.text.split_once('m')? {
            (_, "") => words.next().map(|word| word.text.as_str()),
            (_, module) => Some(module),
        }
    }

    /// Returns whether it runs what it reads, or a file that is known only when it runs: `sh < f`, `xargs sh`, `. "$f"`.
    pub fn runs_unknown_file(&self) -> bool {
        let Some((name, words)) = self.words.split_first() else {
            return false;
        };
        let is_open = words.first().is_some_and(|word| !word.is_literal);
        match self.opaque {
            Some(why) => why == RUNS_INPUT || (why == NOT_WRITTEN_OUT && runs_files(&name.text)),
            None => matches!(name.text.as_str(), "source" | ".") && is_open,
        }
    }
}

/// Returns the files in which Python finds a module of the folder, with its package.
fn module_files(module: &str) -> Vec<CommandWord> {
    let path = module.replace('.', "/");
    let mut files = vec![format!("{path}.py"), format!("{path}/__main__.py")];
    let packages = path.match_indices('/').map(|(at, _)| &path[..at]);
    let packages = packages.chain(std::iter::once(path.as_str()));
    files.extend(packages.map(|package| format!("{package}/__init__.py")));
    let words = files.iter().map(|file| CommandWord::from_literal(file));
    words.collect()
}

fn literal_operands(words: &[CommandWord]) -> impl Iterator<Item = &CommandWord> {
    let operands = words.iter().filter(|word| !word.text.starts_with('-'));
    operands.filter(|word| word.is_literal)
}

/// Returns whether a program of this name, with or without a folder, runs a file given to it.
pub fn runs_files(name: &str) -> bool {
    let name = table_name(name, FOLDS_CASE);
    is_interpreter(&name)
        || CommandFileRunner::find(&name).is_some()
        || matches!(name.as_str(), "source" | ".")
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
    let mut files = Vec::new();
    let mut folder = String::new();
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
            (
                "python3 -m a.b x",
                &[
                    "a/b.py",
                    "a/b/__main__.py",
                    "a/__init__.py",
                    "a/b/__init__.py",
                    "a.b",
                    "x",
                ],
            ),
            ("python3 -uma", &["a.py", "a/__main__.py", "a/__init__.py"]),
            ("python3 f.py -m", &["f.py"]),
            (
                "python3 f.py -m a",
                &["a.py", "a/__main__.py", "a/__init__.py", "f.py", "a"],
            ),
            ("cat f", &[]),
        ] {
            assert_eq!(files(line), wanted, "{line}");
        }
    }
}
