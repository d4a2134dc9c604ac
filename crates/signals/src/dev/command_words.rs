//! The programs that a line of a shell's history starts, and the folders to which it changes. A history is counted, so a
//! line that no shell would take gives whatever its words give, never an error.

/// One simple command: its words, without quotes.
pub(super) type SimpleCommand = Vec<String>;

/// Words after which a command follows.
const KEYWORDS_BEFORE: [&str; 9] = [
    "if", "then", "elif", "else", "while", "until", "do", "!", "{",
];
/// Words that begin or end something that is no command.
const KEYWORDS: [&str; 11] = [
    "for", "case", "select", "function", "done", "fi", "esac", "in", "[[", "[", "}",
];

/// A program that runs another one: its options that take a value, and the arguments before the other program.
struct Wrapper {
    name: &'static str,
    value_options: &'static [&'static str],
    arguments: usize,
}

const fn wrapper(
    name: &'static str,
    value_options: &'static [&'static str],
    arguments: usize,
) -> Wrapper {
    Wrapper {
        name,
        value_options,
        arguments,
    }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper(
        "sudo",
        &[
            "-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "--user", "--group",
        ],
        0,
    ),
    wrapper("doas", &["-u", "-C"], 0),
    wrapper("time", &["-f", "-o", "--format", "--output"], 0),
    wrapper("nohup", &[], 0),
    wrapper("nice", &["-n", "--adjustment"], 0),
    wrapper("ionice", &["-c", "-n", "--class", "--classdata"], 0),
    wrapper("env", &["-u", "-C", "--unset", "--chdir"], 0),
    wrapper("timeout", &["-s", "-k", "--signal", "--kill-after"], 1),
    wrapper("stdbuf", &["-i", "-o", "-e"], 0),
    wrapper("setsid", &[], 0),
    wrapper("exec", &["-a"], 0),
    wrapper("command", &[], 0),
    wrapper("builtin", &[], 0),
    wrapper("noglob", &[], 0),
    wrapper("nocorrect", &[], 0),
];

/// Splits a line at operators and its commands at blanks. A here-document is left out.
pub(super) fn split_commands(line: &str, backslash_escapes: bool) -> Vec<SimpleCommand> {
    let mut splitter = Splitter::default();
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\'' => {
                let quoted = characters.by_ref().take_while(|&inner| inner != '\'');
                splitter.word.get_or_insert_default().extend(quoted);
            }
            '"' => {
                let word = splitter.word.get_or_insert_default();
                while let Some(inner) = characters.next().filter(|&inner| inner != '"') {
                    match inner {
                        '\\' if backslash_escapes => word.extend(characters.next()),
                        _ => word.push(inner),
                    }
                }
            }
            '\\' if backslash_escapes => {
                // A line break after a backslash joins the lines.
                if let Some(escaped) = characters.next().filter(|&escaped| escaped != '\n') {
                    splitter.word.get_or_insert_default().push(escaped);
                }
            }
            '#' if splitter.word.is_none() => {
                while characters.next_if(|&inner| inner != '\n').is_some() {}
            }
            '<' | '>' => {
                splitter.end_word();
                let is_doubled = characters.next_if_eq(&character).is_some();
                splitter.has_here_document |= is_doubled && character == '<';
                characters.next_if_eq(&'&');
                splitter.skips_word = true;
            }
            '\n' if splitter.has_here_document => break,
            ';' | '&' | '|' | '\n' | '(' | ')' | '`' => splitter.end_command(),
            blank if blank.is_whitespace() => splitter.end_word(),
            other => splitter.word.get_or_insert_default().push(other),
        }
    }
    splitter.end_command();
    splitter.commands
}

#[derive(Default)]
struct Splitter {
    commands: Vec<SimpleCommand>,
    command: SimpleCommand,
    word: Option<String>,
    /// Whether the next word is the file of a redirection.
    skips_word: bool,
    has_here_document: bool,
}

impl Splitter {
    fn end_word(&mut self) {
        if let Some(word) = self.word.take()
            && !std::mem::take(&mut self.skips_word)
        {
            self.command.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.skips_word = false;
        if !self.command.is_empty() {
            self.commands.push(std::mem::take(&mut self.command));
        }
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// Returns a command's words from the program that it is about: after keywords, assignments, and programs like `sudo`.
pub(super) fn base_command(command: &[String]) -> &[String] {
    let mut rest = command;
    while let [first, after @ ..] = rest {
        if KEYWORDS.contains(&first.as_str()) {
            return &[];
        }
        if KEYWORDS_BEFORE.contains(&first.as_str()) || is_assignment(first) {
            rest = after;
        } else if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == first) {
            rest = skip_wrapper_arguments(wrapper, after);
        } else {
            break;
        }
    }
    rest
}

fn skip_wrapper_arguments<'a>(wrapper: &Wrapper, words: &'a [String]) -> &'a [String] {
    let mut rest = words;
    while let [option, after @ ..] = rest
        && option.starts_with('-')
    {
        let skipped = usize::from(wrapper.value_options.contains(&option.as_str()));
        rest = after.get(skipped..).unwrap_or_default();
    }
    while let [assignment, after @ ..] = rest
        && is_assignment(assignment)
    {
        rest = after;
    }
    rest.get(wrapper.arguments..).unwrap_or_default()
}

/// Returns the program's name without its folder, if it can be the name of a program.
pub(super) fn program_name(word: &str) -> Option<&str> {
    let name = word.rsplit(['/', '\\']).next()?;
    let is_plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte));
    let begins_well = name.starts_with(|first: char| first.is_ascii_alphabetic());
    (is_plain && begins_well && name.len() <= 40).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(line: &str) -> Vec<String> {
        let commands = split_commands(line, true);
        let first = |command: &SimpleCommand| base_command(command).first().cloned();
        commands.iter().filter_map(first).collect()
    }

    #[test]
    fn the_base_command_is_found_by_exact_words() {
        for (line, expected) in [
            ("git pull", "git"),
            ("sudo -u root -E FOO=1 apt install x", "apt"),
            ("time -p cargo test", "cargo"),
            ("timeout -s KILL 5s make", "make"),
            ("timeouts 5", "timeouts"),
            ("timer", "timer"),
            ("nicer x", "nicer"),
            (
                "FOO=1 BAR='a b' env -u X Y=2 nohup nice -n 5 node x.js",
                "node",
            ),
            ("environment", "environment"),
            ("\"/opt/my tools/run\" x", "/opt/my tools/run"),
        ] {
            assert_eq!(programs(line), [expected], "{line}");
        }
        for line in [
            "sudo",
            "env A=1",
            "timeout 5",
            "A=1",
            "# git",
            "",
            "  ",
            "timeout -s",
        ] {
            assert_eq!(programs(line), Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn all_commands_of_a_line_are_found() {
        let line =
            "cd x && make -j4 2>&1 | tee 'a;b' > out; if git diff; then vim \"a\\\"; b\"; fi # ls";
        assert_eq!(programs(line), ["cd", "make", "tee", "git", "vim"]);
        assert_eq!(
            programs("for x in a b\ndo\n  docker ps $(id -u)\ndone"),
            ["docker", "id"]
        );
        assert_eq!(
            programs("cat > x <<EOF && ls\nsecret text\nEOF\ngit x"),
            ["cat", "ls"]
        );
        assert_eq!(programs("docker run \\\n  -v x"), ["docker"]);
        assert_eq!(programs("{ git pull; }"), ["git"]);
        assert_eq!(programs("a \"open"), ["a"]);
        assert_eq!(programs("a 'open"), ["a"]);
        let power_shell = split_commands("cd C:\\dev; ls", false);
        assert_eq!(power_shell, [vec!["cd", "C:\\dev"], vec!["ls"]]);
    }

    #[test]
    fn a_name_of_a_program_is_plain() {
        assert_eq!(program_name("/usr/bin/g++"), Some("g++"));
        assert_eq!(program_name("C:\\x\\node.exe"), Some("node.exe"));
        for word in ["", "$x", "a=b", "1+1", "./", "hunter2!", "-x"] {
            assert_eq!(program_name(word), None, "{word}");
        }
    }

    proptest::proptest! {
        #[test]
        fn the_base_command_of_any_text_is_the_end_of_a_command(line: String, escapes: bool) {
            for command in split_commands(&line, escapes) {
                proptest::prop_assert!(!command.is_empty());
                let base = base_command(&command);
                proptest::prop_assert!(command.ends_with(base));
            }
        }
    }
}
