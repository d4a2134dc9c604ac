//! One case of the contract under way: its steps, what it kept, and how values are matched.
//! The steps are described in `tests/contract/README.md`.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::server::{Keys, TestBackend};

const PRELUDE: &str = include_str!("../../contract/prelude.json");

pub struct Run {
    server: TestBackend,
    prelude: Map<String, Value>,
    kept: Map<String, Value>,
    keys: HashMap<String, Keys>,
}

impl Run {
    /// Runs a case; the error says which step failed and how.
    pub async fn of(case: &Value) -> Result<(), String> {
        let server = TestBackend::start().await;
        let prelude = serde_json::from_str(PRELUDE).expect("a map of steps");
        let mut kept = Map::new();
        kept.insert("callerToken".into(), json!(server.caller_token));
        kept.insert("pairingCode".into(), json!(server.backend.pairing_code()));
        let mut run = Self { server, prelude, kept, keys: HashMap::new() };
        let outcome = run.steps(&case["steps"]).await;
        run.server.backend.stop().await;
        outcome
    }

    async fn steps(&mut self, steps: &Value) -> Result<(), String> {
        for step in steps.as_array().ok_or("steps are an array")? {
            Box::pin(self.step(step)).await?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Value) -> Result<(), String> {
        let Value::Object(step) = step else { return Err(format!("no step: {step}")) };
        if step.contains_key("call") {
            return self.call(step).await;
        }
        if let Some(name) = text(step, "use") {
            let steps = self.prelude.get(name).cloned().ok_or_else(|| format!("no prelude {name:?}"))?;
            return self.steps(&steps).await;
        }
        if let Some(times) = step.get("repeat").and_then(Value::as_u64) {
            for i in 0..times {
                self.kept.insert("i".into(), json!(i));
                self.steps(&step["steps"]).await?;
            }
            return Ok(());
        }
        self.set_the_scene(step)
    }

    /// The steps that call nothing.
    fn set_the_scene(&mut self, step: &Map<String, Value>) -> Result<(), String> {
        if let Some(ms) = step.get("advanceMs").and_then(Value::as_f64) {
            self.server.clock.advance(ms);
        } else if let Some(name) = text(step, "now") {
            let plus = step.get("plusMs").and_then(Value::as_f64).unwrap_or(0.0);
            #[expect(clippy::cast_possible_truncation, reason = "whole milliseconds")]
            let now = (self.server.clock.now_ms() + plus) as i64;
            self.kept.insert(name.into(), json!(now));
        } else if let Some(name) = text(step, "device") {
            let keys = Keys::new();
            self.kept.insert(format!("{name}.publicKey"), json!(keys.public_key()));
            self.kept.insert(format!("{name}.token"), json!(keys.token));
            self.kept.insert(format!("{name}.tokenHash"), json!(keys.token_hash()));
            self.keys.insert(name.into(), keys);
        } else if let Some(signed) = text(step, "sign") {
            let signed = self.fill_text(signed)?;
            let by = text(step, "by").and_then(|by| self.keys.get(by)).ok_or("no such signer")?;
            self.kept
                .insert(text(step, "save").ok_or("a signature is saved")?.into(), json!(by.sign(&signed)));
        } else if let Some(name) = text(step, "text") {
            let bytes = step.get("bytes").and_then(Value::as_u64).ok_or("a text has bytes")?;
            let bytes = usize::try_from(bytes).map_err(|bad| bad.to_string())?;
            self.kept.insert(name.into(), json!("x".repeat(bytes)));
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

    async fn call(&mut self, step: &Map<String, Value>) -> Result<(), String> {
        let path = text(step, "call").ok_or("a call has a path")?;
        let kind = text(step, "kind").ok_or("a call has a kind")?;
        let args = self.fill(step.get("args").ok_or("a call has args")?)?;
        let envelope = self.server.wire.call(kind, path, &args).await;
        let told =
            self.judge(step, &envelope).map_err(|why| format!("{path} {}: {why}", short(&step["args"])))?;
        if let Some(Value::Object(saves)) = step.get("save") {
            for (name, pointer) in saves {
                let pointer = pointer.as_str().ok_or("a pointer is text")?;
                let value = told.pointer(pointer).ok_or_else(|| format!("{path}: nothing at {pointer}"))?;
                self.kept.insert(name.clone(), value.clone());
            }
        }
        Ok(())
    }

    /// Compares the envelope with what the step expects; what it told is returned.
    fn judge<'e>(&self, step: &Map<String, Value>, envelope: &'e Value) -> Result<&'e Value, String> {
        let data = &envelope["errorData"];
        if let Some(code) = text(step, "error") {
            let expected = self.fill(step.get("data").unwrap_or(&json!({})))?;
            if envelope["status"] != "error" || data["code"] != code {
                return Err(format!("expected {code}, got {}", short(envelope)));
            }
            matches(&expected, data, "data")?;
            return Ok(data);
        }
        if step.get("refused") == Some(&json!(true)) {
            let refused =
                envelope["status"] == "error" && data.is_null() && envelope["errorMessage"].is_string();
            return if refused {
                Ok(data)
            } else {
                Err(format!("expected a refusal, got {}", short(envelope)))
            };
        }
        if envelope["status"] != "success" {
            return Err(short(envelope));
        }
        let value = &envelope["value"];
        if let Some(expected) = step.get("expect") {
            matches(&self.fill(expected)?, value, "value")?;
        }
        Ok(value)
    }

    /// Puts what was kept in its places.
    fn fill(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(template) => {
                let whole = template.strip_prefix("${").and_then(|name| name.strip_suffix('}'));
                match whole.filter(|name| !name.contains('$')) {
                    Some(name) => {
                        self.kept.get(name).cloned().ok_or_else(|| format!("nothing kept as {name:?}"))?
                    }
                    None => Value::String(self.fill_text(template)?),
                }
            }
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect::<Result<_, _>>()?,
            Value::Object(members) => {
                let filled = members.iter().map(|(key, member)| Ok((key.clone(), self.fill(member)?)));
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
            match self.kept.get(name).ok_or_else(|| format!("nothing kept as {name:?}"))? {
                Value::String(text) => filled.push_str(text),
                other => filled.push_str(&other.to_string()),
            }
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

fn text<'s>(step: &'s Map<String, Value>, key: &str) -> Option<&'s str> {
    step.get(key).and_then(Value::as_str)
}

/// Expected members must match; numbers by value; arrays in full.
fn matches(expected: &Value, got: &Value, at: &str) -> Result<(), String> {
    let differs = || Err(format!("{at}: expected {}, got {}", short(expected), short(got)));
    match (expected, got) {
        (Value::Object(wanted), _) if wanted.contains_key("$now") => matches(&wanted["$now"], got, at),
        (Value::Object(wanted), _) if wanted.contains_key("$any") => {
            let fits = match wanted["$any"].as_str() {
                Some("string") => got.is_string(),
                Some("number") => got.is_number(),
                Some("digits") => got
                    .as_str()
                    .is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())),
                _ => return Err(format!("{at}: no such kind {}", wanted["$any"])),
            };
            if fits { Ok(()) } else { differs() }
        }
        // A time of the backend's own clock, which here stands still between the steps.
        (Value::Object(wanted), _) if wanted.contains_key("$now") => matches(&wanted["$now"], got, at),
        (Value::Object(wanted), Value::Object(members)) => {
            for (key, wanted) in wanted {
                let at = format!("{at}.{key}");
                match (wanted.get("$absent").is_some(), members.get(key)) {
                    (true, None) => {}
                    (true, Some(there)) => return Err(format!("{at}: must be absent, is {}", short(there))),
                    (false, Some(there)) => matches(wanted, there, &at)?,
                    (false, None) => return Err(format!("{at}: is absent")),
                }
            }
            Ok(())
        }
        (Value::Array(wanted), Value::Array(items)) if wanted.len() == items.len() => wanted
            .iter()
            .zip(items)
            .enumerate()
            .try_for_each(|(i, (wanted, item))| matches(wanted, item, &format!("{at}[{i}]"))),
        (Value::Number(wanted), Value::Number(number)) if wanted.as_f64() == number.as_f64() => Ok(()),
        (wanted, got) if wanted == got => Ok(()),
        _ => differs(),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 300 { text } else { text.chars().take(300).chain("...".chars()).collect() }
}
