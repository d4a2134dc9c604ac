//! The syntax of faults: `TARGET [xN] FAULT [VALUE]`, one per line or separated by ` ; `. `#` starts a comment.

use super::injected_fault::{InjectedFault, PlannedFault};

/// An invalid line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the fault {line:?} cannot be understood: {why}")]
pub struct BadFault {
    line: String,
    why: String,
}

/// The syntax of all faults, for error messages.
const KINDS: &str = "unheard, drop, status CODE [code=WORD] [retry-after=VALUE], redirect URL, html, cut BYTES, half, \
                     slow BYTES_A_SECOND, oversize BYTES, date SECONDS, reorder, duplicate, rewind, args JSON";

pub(super) fn parse_lines(script: &str) -> Result<Vec<PlannedFault>, BadFault> {
    let lines = script
        .lines()
        .flat_map(|line| line.split(" ; "))
        .map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(parse_line)
        .collect()
}

fn parse_line(line: &str) -> Result<PlannedFault, BadFault> {
    let bad = |why: String| BadFault {
        line: line.to_owned(),
        why,
    };
    let (target, rest) = split_word(line);
    let (next, after) = split_word(rest);
    let (left, rest) = match next.strip_prefix('x').map(str::parse::<u32>) {
        Some(Ok(times)) => (Some(times), after),
        _ => (None, rest),
    };
    let (kind, value) = split_word(rest);
    let fault = parse_fault(kind, value).map_err(bad)?;
    Ok(PlannedFault {
        target: target.to_owned(),
        remaining: left,
        fault,
    })
}

fn parse_fault(kind: &str, value: &str) -> Result<InjectedFault, String> {
    let bytes = || {
        value
            .parse()
            .map_err(|_| format!("{kind} needs a number of bytes, not {value:?}"))
    };
    Ok(match kind {
        "unheard" => InjectedFault::Unheard,
        "drop" => InjectedFault::Drop,
        "status" => parse_status(value)?,
        "redirect" if !value.is_empty() => InjectedFault::Redirect(value.to_owned()),
        "html" => InjectedFault::Html,
        "cut" => InjectedFault::Cut(bytes()?),
        "half" => InjectedFault::Half,
        "slow" => InjectedFault::Slow(bytes()?.max(1)),
        "oversize" => InjectedFault::Oversize(bytes()?),
        "date" => InjectedFault::Date(
            value
                .parse()
                .map_err(|_| format!("date needs seconds, not {value:?}"))?,
        ),
        "reorder" => InjectedFault::Reorder,
        "duplicate" => InjectedFault::Duplicate,
        "rewind" => InjectedFault::Rewind,
        "args" if !value.is_empty() => InjectedFault::Args(value.to_owned()),
        _ => return Err(format!("there are: {KINDS}")),
    })
}

fn parse_status(value: &str) -> Result<InjectedFault, String> {
    let (status, rest) = split_word(value);
    let status = status
        .parse()
        .ok()
        .filter(|status| (200..600).contains(status));
    let status =
        status.ok_or_else(|| format!("status needs a number from 200 to 599, not {value:?}"))?;
    // The rest of the line is the header's value, because an HTTP date contains spaces.
    let (words, retry_after) = match rest.split_once("retry-after=") {
        Some((words, date)) => (words.trim(), Some(date.trim().to_owned())),
        None => (rest, None),
    };
    let code = match words.strip_prefix("code=") {
        Some(code) => code,
        None if words.is_empty() => "Injected",
        None => return Err(format!("{words:?} is neither code= nor retry-after=")),
    };
    Ok(InjectedFault::Status {
        status,
        code: code.to_owned(),
        retry_after,
    })
}

/// Splits off the first word.
fn split_word(text: &str) -> (&str, &str) {
    text.split_once(char::is_whitespace)
        .map_or((text, ""), |(word, rest)| (word, rest.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_can_be_written() {
        let script = "# a bad day\n\
                      events:appendResult x2 drop ; events:claim unheard\n\
                      * x1 status 429 code=TooMany retry-after=Fri, 31 Dec 1999 23:59:59 GMT\n\
                      devices:heartbeat status 503\n\
                      * redirect http://192.0.2.1/ ; * html ; * cut 9 ; * half ; * slow 1 ; * oversize 52428800\n\
                      * date -600 ; * reorder ; * duplicate ; * rewind ; * args {\"command\":\"echo x\"}\n";
        let read: Vec<_> = parse_lines(script)
            .expect("a script")
            .into_iter()
            .map(|one| (one.remaining, one.fault))
            .collect();
        let status = |status, code: &str, retry: Option<&str>| InjectedFault::Status {
            status,
            code: code.to_owned(),
            retry_after: retry.map(str::to_owned),
        };
        let expected = [
            (Some(2), InjectedFault::Drop),
            (None, InjectedFault::Unheard),
            (
                Some(1),
                status(429, "TooMany", Some("Fri, 31 Dec 1999 23:59:59 GMT")),
            ),
            (None, status(503, "Injected", None)),
            (
                None,
                InjectedFault::Redirect("http://192.0.2.1/".to_owned()),
            ),
            (None, InjectedFault::Html),
            (None, InjectedFault::Cut(9)),
            (None, InjectedFault::Half),
            (None, InjectedFault::Slow(1)),
            (None, InjectedFault::Oversize(52_428_800)),
            (None, InjectedFault::Date(-600)),
            (None, InjectedFault::Reorder),
            (None, InjectedFault::Duplicate),
            (None, InjectedFault::Rewind),
            (
                None,
                InjectedFault::Args("{\"command\":\"echo x\"}".to_owned()),
            ),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn what_cannot_be_understood_is_said_with_what_can() {
        for bad in [
            "events:claim",
            "events:claim explode",
            "* status",
            "* status 42",
            "* cut",
            "* x2",
            "* redirect",
        ] {
            let refused = parse_lines(bad).expect_err(bad).to_string();
            assert!(refused.contains(bad), "{refused}");
        }
        assert!(
            parse_lines("* explode")
                .expect_err("unknown")
                .to_string()
                .contains("oversize BYTES")
        );
    }
}
