//! An answer beside what was expected of it. Not here: printing it.

use serde_json::{Map, Value};

use crate::scenario::Expect;
use crate::wire::Answer;

/// One thing that was expected, and what came.
pub struct Finding {
    /// Which part of the answer.
    pub part: String,
    /// What it should be.
    pub expected: String,
    /// What it is.
    pub came: String,
    /// Whether that is as it should be.
    pub fits: bool,
}

/// Everything that was expected, in the order of the answer's parts.
pub fn check(expect: &Expect, answer: &Answer) -> Vec<Finding> {
    let text = answer.text();
    let mut findings = vec![Finding {
        part: "outcome".to_owned(),
        expected: expect.outcome.clone(),
        came: answer.outcome.clone(),
        fits: expect.outcome == answer.outcome,
    }];
    let nothing = Map::new();
    let meta = answer
        .payload
        .get("meta")
        .and_then(Value::as_object)
        .unwrap_or(&nothing);
    findings.extend(
        expect
            .meta
            .iter()
            .map(|(key, expected)| fact(key, expected, meta.get(key))),
    );
    findings.extend(expect.text.iter().map(|part| holds(&text, part, true)));
    findings.extend(expect.no_text.iter().map(|part| holds(&text, part, false)));
    findings
}

fn holds(text: &str, part: &str, wanted: bool) -> Finding {
    let there = text.contains(part);
    Finding {
        part: if wanted { "text has" } else { "text has not" }.to_owned(),
        expected: format!("{part:?}"),
        came: if there { "there" } else { "not there" }.to_owned(),
        fits: there == wanted,
    }
}

/// A member of `meta`. `{"$absent": true}` and `{"$any": "string" | "number"}` mean what they mean in the contract's
/// cases; everything else is meant as it is, numbers by value.
fn fact(key: &str, expected: &Value, found: Option<&Value>) -> Finding {
    let kind = expected.get("$any").and_then(Value::as_str);
    let (shown, fits) = if expected.get("$absent").is_some() {
        ("absent".to_owned(), found.is_none())
    } else if let Some(kind) = kind {
        let is_of_kind = found.is_some_and(|found| match kind {
            "string" => found.is_string(),
            "number" => found.is_number(),
            _ => false,
        });
        (format!("any {kind}"), is_of_kind)
    } else {
        (
            expected.to_string(),
            found.is_some_and(|found| equal(expected, found)),
        )
    };
    let came = found.map_or_else(|| "absent".to_owned(), Value::to_string);
    Finding {
        part: key.to_owned(),
        expected: shown,
        came,
        fits,
    }
}

fn equal(expected: &Value, found: &Value) -> bool {
    match (expected.as_f64(), found.as_f64()) {
        (Some(expected), Some(found)) => (expected - found).abs() < f64::EPSILON,
        _ => expected == found,
    }
}
