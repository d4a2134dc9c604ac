//! The way from an outcome to a reply that may be posted: masked, clipped, and within the contract's limit.
//! Not here: posting it, and its storage.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value};

use super::payload::{Answer, Payload, WIRE_LIMIT, shrink_payload};
use super::{Body, Failure, Meta, Outcome, OutcomeKind};
use crate::ids::{RequestId, ToolName};
use crate::output::clip::clip;
use crate::output::figures::{grouped, size};
use crate::output::{Budget, OutputStore};
use crate::redact::Redactor;

/// The inputs of sealing.
#[derive(Debug)]
pub struct Sealing<'a> {
    /// Masks secret values.
    pub redactor: &'a Redactor,
    /// Stores the full text of clipped replies.
    pub store: &'a OutputStore,
    /// The answered request.
    pub request: &'a RequestId,
    /// The tool asked for.
    pub tool: &'a ToolName,
    /// The duration of the call.
    pub duration: Duration,
    /// The number of this execution, from 1; `None` if nothing ran.
    pub attempt: Option<u32>,
}

/// A reply that is masked and within its limits. Only [`Outcome::seal`] creates one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanReply {
    kind: OutcomeKind,
    payload: String,
    truncated: bool,
    code: Option<String>,
}

impl CleanReply {
    /// Returns the kind of the outcome.
    pub fn kind(&self) -> OutcomeKind {
        self.kind
    }
    /// Returns the JSON text to post.
    pub fn payload(&self) -> &str {
        &self.payload
    }
    /// Returns whether something was omitted.
    pub fn truncated(&self) -> bool {
        self.truncated
    }
    /// Returns the code of an error.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// Shrinks the reply to at most this many bytes, for a backend that accepts less than the contract says.
    #[must_use]
    pub fn shrink(&self, limit_bytes: usize) -> Self {
        match shrink_payload(&self.payload, limit_bytes) {
            Some(payload) => Self { payload, truncated: true, ..self.clone() },
            None => self.clone(),
        }
    }
}

impl Outcome {
    /// Estimates the bytes of text that sealing processes.
    pub fn weight(&self) -> usize {
        match self {
            Self::Ok(reply) => match &reply.body {
                Body::Text(text) | Body::Fitted(text) => text.len(),
                Body::Json(value) => weight_of(value),
            },
            Self::Error(failure) | Self::Cancelled(failure) => failure.text.len(),
        }
    }

    /// Masks and clips the outcome, and writes the payload.
    ///
    /// Text over its budget is stored whole (masked) under a handle, which the marker names. A JSON answer has no
    /// budget but the contract's limit. Beyond that, its JSON text is clipped and stored like any text, because a model
    /// can use a part of it, but not an error. May write a file.
    pub fn seal(self, sealing: &Sealing<'_>) -> CleanReply {
        let (kind, body, mut meta, budget) = match self {
            Self::Ok(reply) => (OutcomeKind::Ok, reply.body, reply.meta, reply.budget),
            Self::Error(failure) => failed(OutcomeKind::Error, failure),
            Self::Cancelled(failure) => failed(OutcomeKind::Cancelled, failure),
        };
        meta.duration_ms = u64::try_from(sealing.duration.as_millis()).ok();
        meta.attempt = sealing.attempt;
        let mut scrub = Scrub { redactor: sealing.redactor, masked: 0 };
        // Before clipping: a clipped warning could show a part of a secret.
        scrub.meta(&mut meta);
        bound(&mut meta);
        let body = scrub.body(body);
        if scrub.masked > 0 {
            meta.redactions = Some(meta.redactions.unwrap_or(0) + scrub.masked);
        }
        let code = meta.code.clone();
        let (payload, truncated) = Writing { sealing, kind, meta }.body(body, budget);
        CleanReply { kind, payload, truncated, code }
    }
}

/// Estimates the size of a JSON value; names, quotes and numbers count with a flat size.
fn weight_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(|value| weight_of(value) + 2).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + weight_of(value) + 4).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
    }
}

fn failed(kind: OutcomeKind, failure: Failure) -> (OutcomeKind, Body, Meta, Budget) {
    let mut meta = failure.meta;
    meta.code = Some(failure.code.as_str().to_owned());
    // A call that may have had its effect must be inspected before it is repeated.
    meta.retryable = Some(failure.code.retryable() && !meta.may_have_run);
    let body = if meta.text_is_fitted { Body::Fitted(failure.text) } else { Body::Text(failure.text) };
    (kind, body, meta, Budget::default())
}

/// Limits the facts, so that they leave space for the text in the payload.
fn bound(meta: &mut Meta) {
    const WARNINGS: usize = 20;
    const WARNING_CHARS: u64 = 1_000;
    const FILES: usize = 500;
    for warning in &mut meta.warnings {
        *warning = clip(warning, Budget::chars(Some(WARNING_CHARS)), None).text;
    }
    let warnings = meta.warnings.len();
    if warnings > WARNINGS {
        meta.warnings.truncate(WARNINGS);
        meta.warnings.push(format!("{} more warnings are left out", grouped((warnings - WARNINGS) as u64)));
    }
    let files = meta.files.len();
    if files > FILES {
        meta.files.truncate(FILES);
        meta.warnings.push(format!("{} more changed files are not listed", grouped((files - FILES) as u64)));
    }
}

/// Masks secrets in all texts of a reply and counts them.
struct Scrub<'a> {
    redactor: &'a Redactor,
    masked: u64,
}

impl Scrub<'_> {
    fn text(&mut self, text: String) -> String {
        let (clean, masked) = self.redactor.scrub(&text);
        self.masked += masked;
        match clean {
            Cow::Borrowed(_) => text,
            Cow::Owned(clean) => clean,
        }
    }

    fn in_place(&mut self, text: &mut String) {
        *text = self.text(std::mem::take(text));
    }

    fn body(&mut self, body: Body) -> Body {
        match body {
            Body::Text(text) => Body::Text(self.text(text)),
            Body::Fitted(text) => Body::Fitted(self.text(text)),
            Body::Json(value) => Body::Json(self.value(value)),
        }
    }

    /// Masks strings and keys. A number whose digits are a secret becomes the mask.
    fn value(&mut self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(map) => {
                let mut clean = Map::new();
                for (key, value) in map {
                    let mut key = self.text(key);
                    while clean.contains_key(&key) {
                        key.push('\'');
                    }
                    let value = self.value(value);
                    clean.insert(key, value);
                }
                Value::Object(clean)
            }
            Value::Number(number) => {
                let before = self.masked;
                let text = self.text(number.to_string());
                if self.masked > before { Value::String(text) } else { Value::Number(number) }
            }
            Value::Null | Value::Bool(_) => value,
        }
    }

    /// Masks every field that a tool fills with free text. Codes, hashes and handles come from the runner.
    fn meta(&mut self, meta: &mut Meta) {
        meta.warnings.iter_mut().for_each(|warning| self.in_place(warning));
        meta.files.iter_mut().for_each(|file| self.in_place(&mut file.path));
        for text in [&mut meta.confinement, &mut meta.signal].into_iter().flatten() {
            self.in_place(text);
        }
    }
}

/// Builds the payload from masked parts.
struct Writing<'a> {
    sealing: &'a Sealing<'a>,
    kind: OutcomeKind,
    meta: Meta,
}

impl Writing<'_> {
    /// Returns the payload, and whether something was omitted.
    fn body(mut self, body: Body, budget: Budget) -> (String, bool) {
        let text = match body {
            Body::Text(text) => return self.clipped(&text, budget),
            Body::Fitted(text) => text,
            Body::Json(value) => {
                let payload = self.write(Answer::Json(&value));
                if payload.len() <= WIRE_LIMIT {
                    return (payload, self.meta.truncated);
                }
                let payload_size = size(payload.len() as u64);
                self.meta.warnings.push(format!(
                    "the JSON answer is {payload_size}, too large to send whole; this is a part of its text"
                ));
                return self.clipped(&format!("{value:#}"), budget);
            }
        };
        let payload = self.write(Answer::Text(&text));
        if payload.len() <= WIRE_LIMIT {
            return (payload, self.meta.truncated);
        }
        self.clipped(&text, budget)
    }

    fn clipped(&mut self, text: &str, budget: Budget) -> (String, bool) {
        let whole = clip(text, budget, None);
        if whole.is_whole() {
            let payload = self.write(Answer::Text(&whole.text));
            if payload.len() <= WIRE_LIMIT {
                return (payload, self.meta.truncated);
            }
        }
        let handle = self.keep(text);
        let mut budget = budget;
        loop {
            let part = clip(text, budget, handle.as_deref());
            if !part.is_whole() {
                self.meta.truncated = true;
                self.meta.omitted_bytes = Some(part.omitted_bytes);
            }
            let payload = self.write(Answer::Text(&part.text));
            // JSON writes a control character in six bytes, so a text within its budget may still be too large.
            if payload.len() <= WIRE_LIMIT || budget.max_chars() == *Budget::RANGE.start() {
                return (payload, self.meta.truncated);
            }
            budget = Budget::chars(Some(budget.max_chars() as u64 / 2));
        }
    }

    /// Stores the full text, unless the tool did, and returns its handle. On failure there is no handle, and a warning
    /// gives the reason.
    fn keep(&mut self, text: &str) -> Option<String> {
        if self.meta.handle.is_some() {
            return self.meta.handle.clone();
        }
        match self.sealing.store.keep_next(self.sealing.request, text) {
            Ok(handle) => {
                self.meta.handle = Some(handle.as_str().to_owned());
                Some(handle.as_str().to_owned())
            }
            Err(error) => {
                self.meta
                    .warnings
                    .push(format!("what is left out could not be kept for ReadOutput: {error}"));
                None
            }
        }
    }

    fn write(&self, answer: Answer<'_>) -> String {
        Payload::new(self.sealing.tool.as_str(), self.kind, answer, &self.meta).to_json()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::request::Reply;

    #[test]
    fn an_outcome_weighs_about_what_its_text_does_wherever_it_stands() {
        let text = "x".repeat(100_000);
        let of = |reply: Reply| Outcome::Ok(reply).weight();
        assert_eq!(of(Reply::text(text.as_str())), 100_000);
        assert_eq!(of(Reply::fitted("small")), 5);
        let deep = json!({ "rows": [[1, null], [{ "text": text }]] });
        let written = deep.to_string().len();
        assert!(of(Reply::from(deep)).abs_diff(written) < 100);
    }
}
