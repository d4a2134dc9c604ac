//! The commands of a history that plainly have a secret. They are left out as a whole.

use std::sync::LazyLock;

use regex::Regex;

/// Returns whether a command has a secret: a variable or an option with the name of one and a value, a header for
/// authorization, the password of an address, or a known form of a token.
pub(super) fn has_obvious_secret(command: &str) -> bool {
    static SECRETS: LazyLock<Regex> = LazyLock::new(|| {
        let name = "(?i-u:[a-z0-9_.-]*(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key\
            |private[_-]?key|credentials?)[a-z0-9_.-]*)";
        let forms = [
            // NAME=VALUE, --NAME=VALUE, and in PowerShell $NAME = VALUE.
            format!("(?:^|[ \t\n;&|('\"$:-]){name}=[^ \t\n]"),
            format!("[$](?i-u:[a-z]+:)?{name}[ \t]*=[ \t]*[^ \t\n]"),
            // --NAME VALUE
            format!("(?:^|[ \t\n])--?{name}[ \t]+[^ \t\n-]"),
            // set -x NAME VALUE of fish, setx NAME VALUE
            format!(
                "(?:^|[ \t\n;&|])(?i-u:set[a-z]*)(?:[ \t]+--?[a-z]+)*[ \t]+{name}[ \t]+[^ \t\n]"
            ),
            // -H "NAME: VALUE", also in JSON and YAML.
            format!("['\"]{name}['\"]?[ \t]*:[ \t]*[^ \t\n]"),
            "(?i-u:authorization)['\"]?[ \t]*[:=]".to_owned(),
            "(?:curl|wget)[ \t][^;|\n]*(?:-u|--user|--proxy-user)[ \t=]*['\"]?[^ \t\n:/]+:[^ \t\n]"
                .to_owned(),
            "(?:^|[ \t\n;&|])sshpass[ \t]+-p".to_owned(),
        ];
        Regex::new(&forms.join("|")).expect("a constant")
    });
    SECRETS.is_match(command) || has_token(command)
}

/// Returns whether a text has a known form of a token, or a long run of letters and digits like a key.
pub(super) fn has_token(text: &str) -> bool {
    /// Fewer digits stand in ordinary long words, too.
    const MIN_DIGITS: usize = 3;
    static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
        let known = "gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}\
            |sk-[A-Za-z0-9_-]{16,}|xox[a-z]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}\
            |eyJ[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_.-]{8,}|[A-Za-z][A-Za-z0-9+.-]*://[^/ :@]*:[^/ @]+@";
        Regex::new(known).expect("a constant")
    });
    let mut runs = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let is_key =
        |run: &str| run.len() >= 32 && run.bytes().filter(u8::is_ascii_digit).count() >= MIN_DIGITS;
    TOKENS.is_match(text) || runs.any(is_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_by_the_name_of_its_variable_or_option() {
        for secret in [
            "export GITHUB_TOKEN=abc",
            "DB_PASSWORD='x y' ./run",
            "mysql --password=abc",
            "mysql --password abc",
            "vault login -token abc",
            "$env:API_KEY = 'x'",
            "set -gx NPM_TOKEN abc",
            "curl -H 'Authorization: Bearer abc' x",
            "curl -H \"X-Api-Key: abc\" x",
            "curl -u me:pw https://x.example",
            "git clone https://me:pw@host.example/x",
            "sshpass -p abc ssh x",
            "aws configure set aws_secret_access_key abc",
            "echo ghp_0123456789abcdefABCDEF",
            "echo d41d8cd98f00b204e9800998ecf8427e",
        ] {
            assert!(has_obvious_secret(secret), "{secret}");
        }
    }

    #[test]
    fn an_ordinary_command_is_kept() {
        for plain in [
            "mkdir -p a/b",
            "ssh -p 22 host",
            "docker run -p 80:80 x",
            "git log --author me",
            "vim src/auth/token.rs",
            "git commit -m 'read the token'",
            "cargo test authenticate",
            "curl -u me https://x.example",
            "docker exec -u 1000:1000 app ls",
            "cd ~/projects/2024/a-long-name-of-a-project-2",
            "pip install sk-learn",
            "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerk",
        ] {
            assert!(!has_obvious_secret(plain), "{plain}");
        }
    }
}
