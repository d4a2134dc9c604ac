//! The way from an outcome to a reply that may be posted: masked, clipped, and within the contract's limit.

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::payload::{PayloadAnswer, ResultPayload, WIRE_LIMIT};
use super::{CallFailure, CallOutcome, ErrorCode, OutcomeKind, ReplyBody, ResultMeta};
use punie_core::approval_answer::ApprovalDenial;
use punie_core::ids::{RequestId, ToolName};
use punie_text::output::number_format::format_size;
use punie_text::output::text_budget::clip_to_budget;
use punie_text::output::{OutputStore, TextBudget};
use punie_text::redact::Redactor;

/// The inputs of sealing.
#[derive(Debug)]
pub struct SealContext<'a> {
    /// Masks secret values.
    pub redactor: &'a Redactor,
    /// Stores the full text of clipped replies.
    pub store: &'a OutputStore,
    /// The answered request.
    pub request: &'a RequestId,
    /// The tool asked for.
    pub tool: &'a ToolName,
    /// The time for which the call ran; zero if it never started.
    pub duration: Duration,
    /// The number of this execution, from 1; `None` if nothing ran.
    pub attempt: Option<u32>,
}

/// A reply that is masked and within its limits. Only [`CallOutcome::seal`] creates one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanReply {
    kind: OutcomeKind,
    payload: String,
    truncated: bool,
    code: Option<String>,
    end: CallEnd,
}

/// The end of a call beside its text, as `history` shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallEnd {
    /// A command's exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended a command.
    pub signal: Option<String>,
    /// The rule that refused the call.
    pub rule: Option<String>,
    /// The reason why the call did not get the approval that it needed.
    pub denial: Option<ApprovalDenial>,
    /// The time for which it ran, in milliseconds, without waits before its start; `None` if it never started.
    #[serde(skip)]
    pub run_ms: Option<i64>,
}

impl CleanReply {
    /// Returns the kind of the outcome.
    pub fn outcome_kind(&self) -> OutcomeKind {
        self.kind
    }
    /// Returns the JSON text to post.
    pub fn payload_json(&self) -> &str {
        &self.payload
    }
    /// Returns whether something was omitted.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }
    /// Returns the code of an error.
    pub fn failure_code(&self) -> Option<&str> {
        self.code.as_deref()
    }
    /// Returns the exit of its command, and the rule that refused it.
    pub fn call_end(&self) -> &CallEnd {
        &self.end
    }
}

impl CallOutcome {
    /// Estimates the bytes of text that sealing processes.
    pub fn estimated_bytes(&self) -> usize {
        match self {
            Self::Ok(reply) => match &reply.body {
                ReplyBody::Text(text) | ReplyBody::Fitted(text) => text.len(),
                ReplyBody::Json(value) => estimated_json_bytes(value),
            },
            Self::Error(failure) | Self::Cancelled(failure) => failure.text.len(),
        }
    }

    /// Returns an error in place of the outcome if names of people could not be replaced in it.
    fn withheld_if(self, obstacle: Option<String>, may_have_run: bool) -> Self {
        let Some(why) = obstacle else {
            return self;
        };
        let mut failure = CallFailure::new(ErrorCode::PermissionDenied, why);
        failure.meta.may_have_run = may_have_run;
        Self::Error(failure)
    }

    /// Masks and clips the outcome, and writes the payload.
    ///
    /// Text over its budget is stored whole (masked) under a handle, which the marker names. A JSON answer has no
    /// budget but the contract's limit. Beyond that, its JSON text is clipped and stored like any text, because a model
    /// can use a part of it, but not an error. May write a file.
    pub fn seal(self, sealing: &SealContext<'_>) -> CleanReply {
        sealing.redactor.refresh_people();
        let obstacle = sealing.redactor.people_obstacle();
        let (kind, body, mut meta, budget) =
            match self.withheld_if(obstacle, sealing.attempt.is_some()) {
                Self::Ok(reply) => (OutcomeKind::Ok, reply.body, reply.meta, reply.budget),
                Self::Error(failure) => failure_parts(OutcomeKind::Error, failure),
                Self::Cancelled(failure) => failure_parts(OutcomeKind::Cancelled, failure),
            };
        meta.duration_ms = u64::try_from(sealing.duration.as_millis()).ok();
        let run_ms = i64::try_from(sealing.duration.as_millis()).ok();
        meta.attempt = sealing.attempt;
        let mut scrub = SecretScrubber {
            redactor: sealing.redactor,
            masked: 0,
        };
        // Before clipping: a clipped warning could show a part of a secret.
        scrub.scrub_meta(&mut meta);
        meta.limit_lists();
        let body = scrub.scrub_body(body);
        if scrub.masked > 0 {
            meta.redactions = Some(meta.redactions.unwrap_or(0) + scrub.masked);
        }
        let code = meta.code.clone();
        let end = CallEnd {
            exit_code: meta.exit_code,
            signal: meta.signal.clone(),
            rule: meta.rule.clone(),
            denial: meta.denial,
            run_ms: run_ms.filter(|_| sealing.attempt.is_some() && !meta.recovered),
        };
        let (payload, truncated) = PayloadWriter {
            sealing,
            kind,
            meta,
        }
        .write_body(body, budget);
        CleanReply {
            kind,
            payload,
            truncated,
            code,
            end,
        }
    }
}

/// Estimates the size of a JSON value; names, quotes and numbers count with a flat size.
fn estimated_json_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values
            .iter()
            .map(|value| estimated_json_bytes(value) + 2)
            .sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| name.len() + estimated_json_bytes(value) + 4)
            .sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
    }
}

fn failure_parts(
    kind: OutcomeKind,
    failure: CallFailure,
) -> (OutcomeKind, ReplyBody, ResultMeta, TextBudget) {
    let mut meta = failure.meta;
    meta.code = Some(failure.code.as_str().to_owned());
    // A call that may have had its effect must be inspected before it is repeated.
    meta.retryable = Some(failure.code.is_retryable() && !meta.may_have_run);
    let body = if meta.text_is_fitted {
        ReplyBody::Fitted(failure.text)
    } else {
        ReplyBody::Text(failure.text)
    };
    (kind, body, meta, TextBudget::default())
}

/// Masks secrets in all texts of a reply and counts them.
struct SecretScrubber<'a> {
    redactor: &'a Redactor,
    masked: u64,
}

impl SecretScrubber<'_> {
    fn scrub_text(&mut self, text: String) -> String {
        let (clean, masked) = self.redactor.mask(&text);
        self.masked += masked;
        match clean {
            Cow::Borrowed(_) => text,
            Cow::Owned(clean) => clean,
        }
    }

    fn scrub_in_place(&mut self, text: &mut String) {
        *text = self.scrub_text(std::mem::take(text));
    }

    fn scrub_body(&mut self, body: ReplyBody) -> ReplyBody {
        match body {
            ReplyBody::Text(text) => ReplyBody::Text(self.scrub_text(text)),
            ReplyBody::Fitted(text) => ReplyBody::Fitted(self.scrub_text(text)),
            ReplyBody::Json(value) => ReplyBody::Json(self.scrub_value(value)),
        }
    }

    /// Masks strings and keys. A number whose digits are a secret becomes the mask.
    fn scrub_value(&mut self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.scrub_text(text)),
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.scrub_value(item))
                .collect(),
            Value::Object(map) => {
                let mut clean = Map::new();
                for (key, value) in map {
                    let mut key = self.scrub_text(key);
                    while clean.contains_key(&key) {
                        key.push('\'');
                    }
                    let value = self.scrub_value(value);
                    clean.insert(key, value);
                }
                Value::Object(clean)
            }
            Value::Number(number) => {
                let before = number.to_string();
                let text = self.scrub_text(before.clone());
                if text == before {
                    Value::Number(number)
                } else {
                    Value::String(text)
                }
            }
            Value::Null | Value::Bool(_) => value,
        }
    }

    /// Masks every field that a tool fills with free text. Codes, hashes and handles come from the runner.
    fn scrub_meta(&mut self, meta: &mut ResultMeta) {
        meta.warnings
            .iter_mut()
            .for_each(|warning| self.scrub_in_place(warning));
        meta.files
            .iter_mut()
            .for_each(|file| self.scrub_in_place(&mut file.path));
        for text in [&mut meta.confinement, &mut meta.signal]
            .into_iter()
            .flatten()
        {
            self.scrub_in_place(text);
        }
    }
}

/// Builds the payload from masked parts.
struct PayloadWriter<'a> {
    sealing: &'a SealContext<'a>,
    kind: OutcomeKind,
    meta: ResultMeta,
}

impl PayloadWriter<'_> {
    /// Returns the payload, and whether something was omitted.
    fn write_body(mut self, body: ReplyBody, budget: TextBudget) -> (String, bool) {
        let text = match body {
            ReplyBody::Text(text) => {
                return self.write_clipped(&text, self.budget_beside_notes(budget));
            }
            ReplyBody::Fitted(text) => text,
            ReplyBody::Json(value) => {
                let payload = self.payload_text(PayloadAnswer::Json(&value));
                if payload.len() <= WIRE_LIMIT {
                    return (payload, self.meta.truncated);
                }
                let payload_size = format_size(payload.len() as u64);
                self.meta.warnings.push(format!(
                    "the JSON answer is {payload_size}, too large to send whole; this is a part of its text"
                ));
                return self.write_clipped(&format!("{value:#}"), budget);
            }
        };
        let payload = self.payload_text(PayloadAnswer::Text(&text));
        if payload.len() <= WIRE_LIMIT {
            return (payload, self.meta.truncated);
        }
        self.write_clipped(&text, budget)
    }

    /// Returns the budget without what the remarks take of it: a model reads them beside the text.
    fn budget_beside_notes(&self, budget: TextBudget) -> TextBudget {
        let notes: usize = self
            .meta
            .warnings
            .iter()
            .map(|one| one.chars().count() + 1)
            .sum();
        TextBudget::from_requested(Some(budget.max_chars().saturating_sub(notes) as u64))
    }

    fn write_clipped(&mut self, text: &str, budget: TextBudget) -> (String, bool) {
        let whole = clip_to_budget(text, budget, None);
        if whole.is_whole() {
            let payload = self.payload_text(PayloadAnswer::Text(&whole.text));
            if payload.len() <= WIRE_LIMIT {
                return (payload, self.meta.truncated);
            }
        }
        let handle = self.store_full_text(text);
        let mut budget = budget;
        loop {
            let part = clip_to_budget(text, budget, handle.as_deref());
            if !part.is_whole() {
                self.meta.truncated = true;
                self.meta.omitted_bytes = Some(part.omitted_bytes);
            }
            let payload = self.payload_text(PayloadAnswer::Text(&part.text));
            // JSON writes a control character in six bytes, so a text within its budget may still be too large.
            if payload.len() <= WIRE_LIMIT
                || budget.max_chars() == *TextBudget::ALLOWED_CHARS.start()
            {
                return (payload, self.meta.truncated);
            }
            budget = TextBudget::from_requested(Some(budget.max_chars() as u64 / 2));
        }
    }

    /// Stores the full text, unless the tool did, and returns its handle. On failure there is no handle, and a warning
    /// gives the reason.
    fn store_full_text(&mut self, text: &str) -> Option<String> {
        if self.meta.handle.is_some() {
            return self.meta.handle.clone();
        }
        match self
            .sealing
            .store
            .store_next_text(self.sealing.request, text)
        {
            Ok(handle) => {
                self.meta.handle = Some(handle.as_str().to_owned());
                Some(handle.as_str().to_owned())
            }
            Err(error) => {
                self.meta.warnings.push(format!(
                    "what is left out could not be kept for ReadOutput: {error}"
                ));
                None
            }
        }
    }

    fn payload_text(&self, answer: PayloadAnswer<'_>) -> String {
        ResultPayload::new(self.sealing.tool.as_str(), self.kind, answer, &self.meta).to_json()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::request::ToolReply;

    #[test]
    fn an_outcome_weighs_about_what_its_text_does_wherever_it_stands() {
        let text = "x".repeat(100_000);
        let of = |reply: ToolReply| CallOutcome::Ok(reply).estimated_bytes();
        assert_eq!(of(ToolReply::from_text(text.as_str())), 100_000);
        assert_eq!(of(ToolReply::from_fitted_text("small")), 5);
        let deep = json!({ "rows": [[1, null], [{ "text": text }]] });
        let written = deep.to_string().len();
        assert!(of(ToolReply::from(deep)).abs_diff(written) < 100);
    }
}
