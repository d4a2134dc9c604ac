//! Patterns that look like secrets, for log lines and for files about to be committed. Not here: results, which no
//! pattern rewrites.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// A kind of secret with a known prefix.
struct SecretPattern {
    name: &'static str,
    prefix: &'static str,
    /// Returns the length of the rest after the prefix, if it is valid.
    body: fn(&str) -> Option<usize>,
}

const RULES: &[SecretPattern] = &[
    SecretPattern {
        name: "aws",
        prefix: "AKIA",
        body: |rest| match_exactly(rest, 16, is_upper_or_digit),
    },
    SecretPattern {
        name: "aws",
        prefix: "ASIA",
        body: |rest| match_exactly(rest, 16, is_upper_or_digit),
    },
    SecretPattern {
        name: "github",
        prefix: "ghp_",
        body: |rest| match_at_least(rest, 36, is_alphanumeric),
    },
    SecretPattern {
        name: "github",
        prefix: "gho_",
        body: |rest| match_at_least(rest, 36, is_alphanumeric),
    },
    SecretPattern {
        name: "github",
        prefix: "ghu_",
        body: |rest| match_at_least(rest, 36, is_alphanumeric),
    },
    SecretPattern {
        name: "github",
        prefix: "ghs_",
        body: |rest| match_at_least(rest, 36, is_alphanumeric),
    },
    SecretPattern {
        name: "github",
        prefix: "ghr_",
        body: |rest| match_at_least(rest, 36, is_alphanumeric),
    },
    SecretPattern {
        name: "github",
        prefix: "github_pat_",
        body: |rest| match_at_least(rest, 22, is_word_byte),
    },
    SecretPattern {
        name: "slack",
        prefix: "xoxa-",
        body: |rest| require_digit(match_at_least(rest, 10, is_word_or_dash), rest),
    },
    SecretPattern {
        name: "slack",
        prefix: "xoxb-",
        body: |rest| require_digit(match_at_least(rest, 10, is_word_or_dash), rest),
    },
    SecretPattern {
        name: "slack",
        prefix: "xoxe-",
        body: |rest| require_digit(match_at_least(rest, 10, is_word_or_dash), rest),
    },
    SecretPattern {
        name: "slack",
        prefix: "xoxp-",
        body: |rest| require_digit(match_at_least(rest, 10, is_word_or_dash), rest),
    },
    SecretPattern {
        name: "slack",
        prefix: "xoxr-",
        body: |rest| require_digit(match_at_least(rest, 10, is_word_or_dash), rest),
    },
    SecretPattern {
        name: "slack",
        prefix: "xoxs-",
        body: |rest| require_digit(match_at_least(rest, 10, is_word_or_dash), rest),
    },
    SecretPattern {
        name: "slack",
        prefix: "xapp-",
        body: |rest| require_digit(match_at_least(rest, 10, is_word_or_dash), rest),
    },
    SecretPattern {
        name: "api-key",
        prefix: "sk-",
        body: |rest| require_digit(match_at_least(rest, 20, is_word_or_dash), rest),
    },
    SecretPattern {
        name: "google",
        prefix: "AIza",
        body: |rest| match_exactly(rest, 35, is_word_or_dash),
    },
    SecretPattern {
        name: "npm",
        prefix: "npm_",
        body: |rest| match_exactly(rest, 36, is_alphanumeric),
    },
    SecretPattern {
        name: "stripe",
        prefix: "sk_live_",
        body: |rest| match_at_least(rest, 16, is_alphanumeric),
    },
    SecretPattern {
        name: "stripe",
        prefix: "sk_test_",
        body: |rest| match_at_least(rest, 16, is_alphanumeric),
    },
    SecretPattern {
        name: "stripe",
        prefix: "rk_live_",
        body: |rest| match_at_least(rest, 16, is_alphanumeric),
    },
    SecretPattern {
        name: "stripe",
        prefix: "rk_test_",
        body: |rest| match_at_least(rest, 16, is_alphanumeric),
    },
    SecretPattern {
        name: "stripe",
        prefix: "whsec_",
        body: |rest| match_at_least(rest, 16, is_alphanumeric),
    },
    SecretPattern {
        name: "jwt",
        prefix: "eyJ",
        body: match_jwt,
    },
    SecretPattern {
        name: "private-key",
        prefix: "-----BEGIN ",
        body: match_private_key,
    },
];

static PREFIXES: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        // A quarter of the memory of the table that would be chosen, and it stays for the process's life.
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .match_kind(MatchKind::LeftmostLongest)
        .build(RULES.iter().map(|rule| rule.prefix))
        .expect("the prefixes are few and short")
});

/// Replaces everything in the line that looks like a secret by `[REDACTED:rule]`.
pub fn mask_log_line(line: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut done = 0;
    for SecretLookalike { rule, range } in find_lookalikes(line) {
        out.push_str(&line[done..range.start]);
        out.push_str("[REDACTED:");
        out.push_str(rule);
        out.push(']');
        done = range.end;
    }
    if done == 0 {
        return Cow::Borrowed(line);
    }
    out.push_str(&line[done..]);
    Cow::Owned(out)
}

/// A part of a text that looks like a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretLookalike {
    /// The kind, such as `github` or `private-key`.
    pub rule: &'static str,
    /// The range in bytes.
    pub range: Range<usize>,
}

/// Finds all parts of a text that look like secrets, in order. For asking before the text is used; nothing is
/// rewritten.
pub fn find_lookalikes(text: &str) -> Vec<SecretLookalike> {
    let mut found: Vec<SecretLookalike> = Vec::new();
    for prefix in PREFIXES.find_iter(text) {
        let rule = &RULES[prefix.pattern().as_usize()];
        // Inside another word it is no prefix; inside the previous match it is part of that.
        let inside = text[..prefix.start()]
            .bytes()
            .next_back()
            .is_some_and(is_word_byte);
        if inside
            || found
                .last()
                .is_some_and(|last| prefix.start() < last.range.end)
        {
            continue;
        }
        if let Some(body) = (rule.body)(&text[prefix.end()..]) {
            found.push(SecretLookalike {
                rule: rule.name,
                range: prefix.start()..prefix.end() + body,
            });
        }
    }
    found
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_upper_or_digit(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_word_or_dash(byte: u8) -> bool {
    is_word_byte(byte) || byte == b'-'
}

fn run_length(rest: &str, class: fn(u8) -> bool) -> usize {
    rest.bytes().take_while(|byte| class(*byte)).count()
}

fn match_at_least(rest: &str, len: usize, class: fn(u8) -> bool) -> Option<usize> {
    Some(run_length(rest, class)).filter(|run| *run >= len)
}

fn match_exactly(rest: &str, len: usize, class: fn(u8) -> bool) -> Option<usize> {
    let longer = rest
        .as_bytes()
        .get(len)
        .is_some_and(|byte| is_word_byte(*byte));
    (run_length(rest, class) >= len && !longer).then_some(len)
}

/// Requires a digit: words with dashes are common, but keys contain digits.
fn require_digit(body: Option<usize>, rest: &str) -> Option<usize> {
    body.filter(|len| rest[..*len].bytes().any(|byte| byte.is_ascii_digit()))
}

/// Matches header, payload (both JSON objects, hence the second `eyJ`) and signature.
fn match_jwt(rest: &str) -> Option<usize> {
    let header = match_at_least(rest, 10, is_word_or_dash)?;
    let payload = rest[header..].strip_prefix(".eyJ")?;
    let payload_len = match_at_least(payload, 10, is_word_or_dash)?;
    let signature = payload[payload_len..].strip_prefix('.')?;
    let signature_len = match_at_least(signature, 16, is_word_or_dash)?;
    Some(header + 4 + payload_len + 1 + signature_len)
}

/// Matches to the end of the key's last line, or of the text if the key was cut off.
fn match_private_key(rest: &str) -> Option<usize> {
    let label = rest.find("-----")?;
    if !rest[..label].ends_with("PRIVATE KEY") {
        return None;
    }
    let end = rest[label..]
        .find("-----END ")
        .map(|at| label + at + "-----END ".len());
    Some(
        end.and_then(|at| rest[at..].find("-----").map(|more| at + more + 5))
            .unwrap_or(rest.len()),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Built from parts, so that secret scanners do not report this file.
    fn fixtures() -> Vec<(&'static str, String)> {
        let body = "Ab3".repeat(20);
        vec![
            ("aws", format!("AKIA{}", "AB2DEFGHIJKLMNOP")),
            ("github", format!("ghp_{}", &body[..36])),
            ("github", format!("github_pat_{}", &body[..59])),
            ("slack", format!("xoxb-{}-{}", "123456789012", &body[..24])),
            ("api-key", format!("sk-ant-api03-{}", &body[..40])),
            ("google", format!("AIza{}", &body[..35])),
            ("npm", format!("npm_{}", &body[..36])),
            ("stripe", format!("sk_live_{}", &body[..24])),
            (
                "jwt",
                format!("eyJ{}.eyJ{}.{}", &body[..20], &body[..30], &body[..43]),
            ),
            (
                "private-key",
                format!("-----BEGIN RSA PRIVATE KEY-----\\n{body}\\n-----END RSA PRIVATE KEY-----"),
            ),
        ]
    }

    #[test]
    fn every_rule_masks_its_kind_and_nothing_around_it() {
        for (rule, secret) in fixtures() {
            let line = format!("sent token={secret}, retrying");
            assert_eq!(
                mask_log_line(&line),
                format!("sent token=[REDACTED:{rule}], retrying")
            );
        }
    }

    #[test]
    fn ordinary_text_stays() {
        for line in [
            "task-1234567890123456789012345 done",
            "class=\"sk-circle-fade-dot-spinner-large\"",
            "AKIA is a prefix, AKIAIOSFODNN7EXAMPLEISLONGER is not a key",
            "npm_config_registry=https://registry.npmjs.org",
            "eyJhbGciOiJIUzI1NiJ9 alone is no token",
            "-----BEGIN CERTIFICATE-----",
            "whsec_ and xoxb- and ghp_short",
        ] {
            assert!(
                matches!(mask_log_line(line), Cow::Borrowed(_)),
                "{}",
                mask_log_line(line)
            );
        }
    }

    #[test]
    fn a_key_that_is_cut_off_is_masked_to_the_end() {
        let line = format!("key: -----BEGIN PRIVATE KEY-----\n{}", "MIIE".repeat(10));
        assert_eq!(mask_log_line(&line), "key: [REDACTED:private-key]");
    }

    proptest! {
        #[test]
        fn any_text_is_survived(line in "\\PC{0,80}", which in any::<prop::sample::Index>()) {
            let fixtures = fixtures();
            let (rule, secret) = which.get(&fixtures);
            let mask = format!("[REDACTED:{rule}]");
            let joined = format!("{line} {secret} {line}");
            let shown = mask_log_line(&joined);
            prop_assert!(shown.contains(&mask) && !shown.contains(secret.as_str()));
        }
    }
}
