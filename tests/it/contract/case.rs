//! Runs one case of the contract, and stores the values that its steps save. `tests/contract/README.md` describes the
//! steps.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::matching::{JsonMatcher, shorten_json};
use super::stage::ContractFixture;
use crate::dev_backend::server::DeviceKeys;

type Step = Map<String, Value>;

pub struct CaseRun<'s> {
    stage: &'s ContractFixture,
    prelude: &'s Map<String, Value>,
    kept: Map<String, Value>,
    keys: HashMap<String, DeviceKeys>,
}

impl<'s> CaseRun<'s> {
    /// Runs a case. The error names the step that failed, and the reason.
    pub async fn of(
        setup: &'s ContractFixture,
        prelude: &'s Map<String, Value>,
        steps: &Value,
    ) -> Result<(), String> {
        static CASES: AtomicUsize = AtomicUsize::new(0);
        let mut kept = Map::new();
        kept.insert("callerToken".into(), json!(setup.caller_token));
        kept.insert("pairingCode".into(), json!(setup.pairing_code));
        kept.insert("case".into(), json!(CASES.fetch_add(1, Ordering::Relaxed)));
        let mut run = Self {
            stage: setup,
            prelude,
            kept,
            keys: HashMap::new(),
        };
        run.steps(steps).await
    }

    async fn steps(&mut self, steps: &Value) -> Result<(), String> {
        for step in steps.as_array().ok_or("steps are an array")? {
            Box::pin(self.step(step)).await?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Value) -> Result<(), String> {
        let Value::Object(step) = step else {
            return Err(format!("no step: {step}"));
        };
        if step.contains_key("parallel") {
            return self.parallel(step).await;
        }
        if step.contains_key("call") {
            return self.call(step).await;
        }
        if let Some(name) = step_text(step, "use") {
            let steps = self
                .prelude
                .get(name)
                .ok_or_else(|| format!("no prelude {name:?}"))?;
            return self.steps(steps).await;
        }
        if let Some(times) = step.get("repeat").and_then(Value::as_u64) {
            for i in 0..times {
                self.kept.insert("i".into(), json!(i));
                self.steps(&step["steps"]).await?;
            }
            return Ok(());
        }
        if let Some(ms) = step.get("advanceMs").and_then(Value::as_f64) {
            return self.stage.advance(ms).await;
        }
        if step.contains_key("sweep") {
            return self.stage.delete_old_rows().await;
        }
        if let Some(name) = step_text(step, "now") {
            let plus = step.get("plusMs").and_then(Value::as_f64).unwrap_or(0.0);
            #[expect(clippy::cast_possible_truncation, reason = "whole milliseconds")]
            let now = (self.stage.now_ms().await? + plus) as i64;
            self.kept.insert(name.into(), json!(now));
            return Ok(());
        }
        if let Some(name) = step_text(step, "uuid7") {
            let plus = step.get("plusMs").and_then(Value::as_f64).unwrap_or(0.0);
            self.kept.insert(
                name.into(),
                json!(uuid_at(self.stage.now_ms().await? + plus)),
            );
            return Ok(());
        }
        self.set_the_scene(step)
    }

    /// Runs a step that does not call the backend.
    fn set_the_scene(&mut self, step: &Step) -> Result<(), String> {
        if let Some(name) = step_text(step, "device") {
            let keys = DeviceKeys::new();
            self.kept
                .insert(format!("{name}.publicKey"), json!(keys.public_key()));
            self.kept.insert(format!("{name}.token"), json!(keys.token));
            self.kept
                .insert(format!("{name}.tokenHash"), json!(keys.token_hash()));
            self.keys.insert(name.into(), keys);
        } else if let Some(signed) = step_text(step, "sign") {
            let signed = self.fill_text(signed)?;
            let by = step_text(step, "by")
                .and_then(|by| self.keys.get(by))
                .ok_or("no such signer")?;
            self.kept.insert(
                step_text(step, "save")
                    .ok_or("a signature is saved")?
                    .into(),
                json!(by.sign(&signed)),
            );
        } else if let Some(name) = step_text(step, "text") {
            let bytes = step
                .get("bytes")
                .and_then(Value::as_u64)
                .ok_or("a text has bytes")?;
            let bytes = usize::try_from(bytes).map_err(|bad| bad.to_string())?;
            let of = step_text(step, "of").unwrap_or("x");
            let mut made = of.repeat(bytes / of.len());
            made.push_str(&"x".repeat(bytes % of.len()));
            self.kept.insert(name.into(), json!(made));
        } else if let Some(Value::Object(values)) = step.get("set") {
            for (name, value) in values {
                let value = self.fill(value)?;
                self.kept.insert(name.clone(), value);
            }
        } else {
            return Err(format!("no such step: {step:?}"));
        }
        Ok(())
    }

    async fn call(&mut self, step: &Step) -> Result<(), String> {
        let (path, kind, args) = self.called(step)?;
        let envelope = match kind {
            "operator" => self.stage.operate(path, &args).await?,
            kind => self.stage.wire.call(kind, path, &args).await,
        };
        if let Some(secret) = step_text(step, "unsaid")
            && envelope.to_string().contains(&self.fill_text(secret)?)
        {
            return Err(format!(
                "{path} repeats {secret}: {}",
                shorten_json(&envelope)
            ));
        }
        let told = self
            .judge(step, &envelope)
            .map_err(|why| format!("{path} {}: {why}", shorten_json(&step["args"])))?;
        if let Some(Value::Object(saves)) = step.get("save") {
            for (name, pointer) in saves {
                let pointer = pointer.as_str().ok_or("a pointer is text")?;
                let value = told
                    .pointer(pointer)
                    .ok_or_else(|| format!("{path}: nothing at {pointer}"))?;
                self.kept.insert(name.clone(), value.clone());
            }
        }
        Ok(())
    }

    /// Makes a call many times at once. Each answer must match `others`. If there is a `once`, exactly one must match
    /// it instead.
    async fn parallel(&mut self, step: &Step) -> Result<(), String> {
        let times = step["parallel"].as_u64().ok_or("parallel is a number")?;
        let mut calls = JoinSet::new();
        for i in 0..times {
            self.kept.insert("i".into(), json!(i));
            let (path, kind, args) = self.called(step)?;
            let wire = self.stage.wire.clone();
            let path = path.to_owned();
            let kind = kind.to_owned();
            calls.spawn(async move { wire.call(&kind, &path, &args).await });
        }
        let envelopes = calls.join_all().await;
        let as_said = |which: &str| {
            let said = step
                .get(which)
                .and_then(Value::as_object)
                .ok_or_else(|| format!("no {which}"))?;
            let fitting = envelopes
                .iter()
                .filter(|envelope| self.judge(said, envelope).is_ok());
            Ok::<_, String>(fitting.count())
        };
        let once = if step.contains_key("once") {
            as_said("once")?
        } else {
            0
        };
        let wanted = usize::from(step.contains_key("once"));
        let others = as_said("others")?;
        if once == wanted && once + others == envelopes.len() {
            return Ok(());
        }
        let all = Value::Array(envelopes.clone());
        Err(format!(
            "parallel: {once} as once, {others} as others, of {}: {}",
            envelopes.len(),
            shorten_json(&all)
        ))
    }

    /// The path, the kind and the arguments of a call.
    fn called<'c>(&self, step: &'c Step) -> Result<(&'c str, &'c str, Value), String> {
        let path = step_text(step, "call").ok_or("a call has a path")?;
        let kind = step_text(step, "kind").ok_or("a call has a kind")?;
        Ok((
            path,
            kind,
            self.fill(step.get("args").ok_or("a call has args")?)?,
        ))
    }

    /// Compares the envelope with the step's expectation. Returns its value, or the data of its error.
    fn judge<'e>(&self, step: &Step, envelope: &'e Value) -> Result<&'e Value, String> {
        let matcher = JsonMatcher {
            leeway_ms: self.stage.leeway_ms(),
        };
        let data = &envelope["errorData"];
        if let Some(code) = step_text(step, "error") {
            let expected = self.fill(step.get("data").unwrap_or(&json!({})))?;
            if envelope["status"] != "error" || data["code"] != code {
                return Err(format!("expected {code}, got {}", shorten_json(envelope)));
            }
            matcher.matches(&expected, data, "data")?;
            return Ok(data);
        }
        if step.get("refused") == Some(&json!(true)) {
            let refused = envelope["status"] == "error"
                && data.is_null()
                && envelope["errorMessage"].is_string();
            return if refused {
                Ok(data)
            } else {
                Err(format!(
                    "expected a refusal, got {}",
                    shorten_json(envelope)
                ))
            };
        }
        if envelope["status"] != "success" {
            return Err(shorten_json(envelope));
        }
        let value = &envelope["value"];
        if let Some(expected) = step.get("expect") {
            matcher.matches(&self.fill(expected)?, value, "value")?;
        }
        Ok(value)
    }

    /// Replaces each `${name}` by the stored value.
    fn fill(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(template) => {
                let whole = template
                    .strip_prefix("${")
                    .and_then(|name| name.strip_suffix('}'));
                match whole.filter(|name| !name.contains('$')) {
                    Some(name) => self
                        .kept
                        .get(name)
                        .cloned()
                        .ok_or_else(|| format!("nothing kept as {name:?}"))?,
                    None => Value::String(self.fill_text(template)?),
                }
            }
            Value::Array(items) => items
                .iter()
                .map(|item| self.fill(item))
                .collect::<Result<_, _>>()?,
            Value::Object(members) => {
                let filled = members
                    .iter()
                    .map(|(key, member)| Ok((key.clone(), self.fill(member)?)));
                Value::Object(filled.collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }

    fn fill_text(&self, template: &str) -> Result<String, String> {
        let mut filled = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after.split_once('}').ok_or("a name ends with }")?;
            filled.push_str(before);
            match self
                .kept
                .get(name)
                .ok_or_else(|| format!("nothing kept as {name:?}"))?
            {
                Value::String(step_text) => filled.push_str(step_text),
                other => filled.push_str(&other.to_string()),
            }
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

fn step_text<'s>(step: &'s Step, key: &str) -> Option<&'s str> {
    step.get(key).and_then(Value::as_str)
}

/// Creates a UUIDv7 with this timestamp.
fn uuid_at(at_ms: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time of this century"
    )]
    let at_ms = at_ms as u64;
    let random = *uuid::Uuid::new_v4().as_bytes();
    let tail = random.last_chunk().expect("16 bytes");
    uuid::Builder::from_unix_timestamp_millis(at_ms, tail)
        .into_uuid()
        .to_string()
}
