//! A command as an editor's terminal is given it. Editors join a program and its arguments with blanks and hand the
//! line to whatever shell the person there uses, so only words that no shell reads otherwise go over as they are;
//! everything else goes as a file that bash reads. Not here: the file (`acp::local::script_file`).

use std::path::Path;

use crate::acp::terminals::Launch;

/// What goes over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wire {
    /// A program with its arguments, as they are.
    Words(String, Vec<String>),
    /// The text of a file for bash.
    Script(String),
}

/// How this command goes over.
pub(super) fn wire(launch: &Launch) -> Wire {
    match launch {
        Launch::Program { command, args } if is_plain(command) && args.iter().all(|arg| is_plain(arg)) => {
            Wire::Words(command.clone(), args.clone())
        }
        Launch::Program { command, args } => {
            let words: Vec<String> = std::iter::once(command).chain(args).map(|word| quoted(word)).collect();
            Wire::Script(format!("exec </dev/null {}\n", words.join(" ")))
        }
        // As on this machine: nothing of the person's own shell, and nothing to read.
        Launch::Shell(line) => {
            Wire::Script(format!("exec </dev/null bash --noprofile --norc -c {}\n", quoted(line)))
        }
    }
}

/// Whether this file's path can be an argument as it is.
pub(super) fn fits(path: &Path) -> bool {
    path.to_str().is_some_and(is_plain)
}

/// Whether every shell reads this as the one word that it is.
fn is_plain(word: &str) -> bool {
    let plain =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'/' | b'-' | b'+' | b':' | b',');
    !word.is_empty() && word.bytes().all(plain)
}

/// As one word of bash.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(command: &str, args: &[&str]) -> Launch {
        Launch::Program {
            command: command.to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        }
    }

    #[test]
    fn only_words_that_every_shell_reads_alike_go_over_as_they_are() {
        let plain = program("/usr/bin/cargo", &["test", "--lib", "-p", "a_b,c:1.2"]);
        assert!(matches!(wire(&plain), Wire::Words(..)));
        for odd in [
            "two words",
            "",
            "$HOME",
            "a;b",
            "*",
            "~",
            "it's",
            "a=b",
            "=ls",
            "%1",
            "ä",
            "a\nb",
            "\\",
            "#x",
            "!x",
        ] {
            assert!(matches!(wire(&program("ls", &[odd])), Wire::Script(_)), "{odd:?}");
            assert!(matches!(wire(&program(odd, &[])), Wire::Script(_)), "{odd:?}");
        }
    }

    #[test]
    fn a_script_quotes_each_word_for_bash() {
        let Wire::Script(text) = wire(&program("printf", &["%s|", "it's", "$HOME"])) else {
            panic!("a script")
        };
        assert_eq!(text, "exec </dev/null 'printf' '%s|' 'it'\\''s' '$HOME'\n");
        let Wire::Script(text) = wire(&Launch::Shell("echo 'a'; exit 3".to_owned())) else {
            panic!("a script")
        };
        assert_eq!(text, "exec </dev/null bash --noprofile --norc -c 'echo '\\''a'\\''; exit 3'\n");
    }
}
