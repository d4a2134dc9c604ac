//! Writes a command for an editor's terminal. Editors join a program and its arguments with blanks and pass the line to
//! the person's shell, in an environment of their own. So the command is sent as a bash script, which removes the
//! variables that no command gets here and quotes each word.

use std::path::Path;

use punie_host::local::variable_names::refused_name_patterns;
use punie_host::terminals::CommandLaunch;

/// Makes bash read no startup file, and take no functions or options from the environment.
pub(super) const PRIVILEGED: &str = "-p";

/// Builds the text of a bash script that runs this command.
pub(super) fn build_bash_script(launch: &CommandLaunch) -> String {
    // As on this machine: no startup files of the person's shell, and no input.
    let words = match launch {
        // `env` would take a first word with an equals sign as a variable.
        CommandLaunch::Program { command, args } if command.contains('=') => {
            let own = [
                "bash",
                "--noprofile",
                "--norc",
                "-c",
                r#"exec -- "$0" "$@""#,
                command,
            ];
            own.into_iter()
                .chain(args.iter().map(String::as_str))
                .map(quote_for_bash)
                .collect::<Vec<_>>()
        }
        CommandLaunch::Program { command, args } => std::iter::once(command)
            .chain(args)
            .map(|w| quote_for_bash(w))
            .collect(),
        CommandLaunch::Shell(line) => ["bash", "--noprofile", "--norc", "-c", line]
            .map(quote_for_bash)
            .to_vec(),
    };
    format!(
        "{}exec </dev/null env \"${{refused[@]}}\" -- {}\n",
        environment_filter(),
        words.join(" ")
    )
}

/// Builds the part of the script that removes refused variables. The editor's variables are only known where the script
/// runs. Names that bash does not accept are only seen by `env`.
fn environment_filter() -> String {
    let (refused, ours) = refused_name_patterns();
    format!(
        "set +o posix\n\
         shopt -s nocasematch\n\
         is_refused() {{ case \"$1\" in {ours}) return 1;; {refused}) return 0;; esac; return 1; }}\n\
         for name in $(compgen -e); do if is_refused \"$name\"; then export -n \"$name\"; fi; done\n\
         refused=()\n\
         while IFS= read -r -d '' entry; do\n\
         if is_refused \"${{entry%%=*}}\"; then refused+=(-u \"${{entry%%=*}}\"); fi\n\
         done < <(env -0 2>/dev/null)\n"
    )
}

/// Returns whether this path can be an argument without quotes.
pub(super) fn is_safe_script_path(path: &Path) -> bool {
    path.to_str().is_some_and(is_literal_word)
}

/// Returns whether every shell reads this text as one literal word.
fn is_literal_word(word: &str) -> bool {
    let plain = |b: u8| {
        b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'/' | b'-' | b'+' | b':' | b',')
    };
    !word.is_empty() && word.bytes().all(plain)
}

/// Quotes a text as one word of bash.
fn quote_for_bash(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_line(launch: &CommandLaunch) -> String {
        build_bash_script(launch)
            .lines()
            .last()
            .expect("a line")
            .to_owned()
    }

    fn program(command: &str, args: &[&str]) -> CommandLaunch {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        CommandLaunch::Program {
            command: command.to_owned(),
            args,
        }
    }

    #[test]
    fn only_a_path_that_every_shell_reads_alike_can_be_an_argument() {
        assert!(is_safe_script_path(Path::new("/a/b-c_d/e.f+1:2,3.sh")));
        for odd in [
            "two words",
            "",
            "$HOME",
            "a;b",
            "*",
            "~",
            "it's",
            "a=b",
            "%1",
            "ä",
            "a\nb",
            "\\",
            "#x",
            "!x",
        ] {
            assert!(!is_safe_script_path(Path::new(odd)), "{odd:?}");
        }
    }

    #[test]
    fn a_script_quotes_each_word_for_bash() {
        let start = r#"exec </dev/null env "${refused[@]}" -- "#;
        let plain = last_line(&program("printf", &["%s|", "it's", "$HOME"]));
        assert_eq!(plain, format!(r"{start}'printf' '%s|' 'it'\''s' '$HOME'"));
        let line = last_line(&CommandLaunch::Shell("echo 'a'; exit 3".to_owned()));
        assert_eq!(
            line,
            format!(r"{start}'bash' '--noprofile' '--norc' '-c' 'echo '\''a'\''; exit 3'")
        );
        let odd = last_line(&program("a=b", &["c"]));
        assert_eq!(
            odd,
            format!(r#"{start}'bash' '--noprofile' '--norc' '-c' 'exec -- "$0" "$@"' 'a=b' 'c'"#)
        );
    }
}
