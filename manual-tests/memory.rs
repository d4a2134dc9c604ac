//! What earlier answers left for later requests. Not here: asking.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::scenario::Save;
use crate::wire::Answer;

/// The saved values of one scenario.
#[derive(Default)]
pub struct Memory(BTreeMap<String, String>);

impl Memory {
    /// Saves what a step wants saved of its answer.
    pub fn save(&mut self, wanted: &BTreeMap<String, Save>, answer: &Answer) -> anyhow::Result<()> {
        for (name, place) in wanted {
            let found =
                find(place, answer).with_context(|| format!("{name} is not in the answer"))?;
            self.0.insert(name.clone(), found);
        }
        Ok(())
    }

    /// The value with every `${name}` in its strings filled in.
    pub fn fill(&self, value: &Value) -> anyhow::Result<Value> {
        Ok(match value {
            Value::String(text) => Value::String(self.fill_text(text)?),
            Value::Array(items) => items
                .iter()
                .map(|item| self.fill(item))
                .collect::<anyhow::Result<_>>()?,
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| Ok((key.clone(), self.fill(value)?)))
                .collect::<anyhow::Result<_>>()?,
            other => other.clone(),
        })
    }

    fn fill_text(&self, text: &str) -> anyhow::Result<String> {
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, behind)) = rest.split_once("${") {
            let Some((name, after)) = behind.split_once('}') else {
                bail!("{text:?} has a ${{ without a }}")
            };
            filled.push_str(before);
            filled.push_str(
                self.0
                    .get(name)
                    .with_context(|| format!("no earlier step saved {name}"))?,
            );
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

fn find(place: &Save, answer: &Answer) -> Option<String> {
    match place {
        Save::Pointer { pointer } => match answer.payload.pointer(pointer)? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        },
        Save::Between { after, before } => {
            let text = answer.text();
            let (_, behind) = text.split_once(after.as_str())?;
            let (found, _) = behind.split_once(before.as_str())?;
            Some(found.to_owned())
        }
    }
}
