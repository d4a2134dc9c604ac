//! What is known of a tool from its declaration: the catalog's entry. Not here: how it runs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Tool, catalog_schema};
use crate::request::Effect;

/// Which queue a call takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// In order with the other calls of its conversation: effects alone, reads side by side.
    Conversation,
    /// At once, beside everything: for tools that look after calls that run.
    Control,
}

/// A tool as the catalog shows it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// The name on the wire.
    pub name: Cow<'static, str>,
    /// The domain it belongs to, which is its category.
    pub domain: &'static str,
    /// What a model reads to decide when to use it.
    pub description: String,
    /// What holds for it on this device alone; the catalog adds it to the description.
    pub on_this_device: String,
    /// The arguments' JSON schema (draft 2020-12).
    pub schema: Value,
    /// The most that a call of it may do.
    pub effect: Effect,
    /// The argument that decides how much of it a call may do.
    pub effect_depends_on: Option<&'static str>,
    /// Which queue its calls take.
    pub lane: Lane,
    /// Names accepted for keys.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Keys accepted beside those of the schema.
    pub accepted: &'static [&'static str],
    /// Names that other agents have for such a tool.
    pub known_as: &'static [&'static str],
    /// The tool whose work it does with older callers' arguments.
    pub same_as: Option<&'static str>,
    /// Turns arguments as other agents write them into its own.
    pub normalize: fn(&mut Map<String, Value>),
    /// Arguments that work.
    pub examples: &'static [&'static str],
    /// Its bounds in words.
    pub limits: &'static [&'static str],
    /// Its kind in ACP's words, where whoever runs it says so; else it follows from domain and effect.
    pub stated_kind: Option<&'static str>,
    /// What it belongs to beside its domain.
    pub categories: Vec<String>,
    /// Who runs it: [`DEVICE`], or an editor by its name.
    pub origin: Cow<'static, str>,
    /// Whether its calls can do nothing but end what was begun before.
    pub only_ends: bool,
    /// Whether the catalog shows it: a tool that cannot work here is left out.
    pub offered: bool,
    /// Whether a person who follows is asked before every call, whatever the owner's settings ask about.
    pub always_asks: bool,
}

/// The origin of this device's own tools.
pub const DEVICE: &str = "device";

impl ToolSpec {
    pub(super) fn of<T: Tool>(domain: &'static str) -> Self {
        let mut schema = catalog_schema::derive::<T>();
        let description = match schema.get_mut("description").map(Value::take) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        if let Some(map) = schema.as_object_mut() {
            for key in ["description", "title", "$schema"] {
                map.remove(key);
            }
        }
        Self {
            name: Cow::Borrowed(T::NAME),
            domain,
            description,
            on_this_device: String::new(),
            schema,
            effect: T::EFFECT,
            effect_depends_on: T::EFFECT_DEPENDS_ON,
            lane: T::LANE,
            aliases: T::ALIASES,
            accepted: T::ACCEPTED,
            known_as: T::KNOWN_AS,
            same_as: T::SAME_AS,
            normalize: T::normalize,
            examples: T::EXAMPLES,
            limits: T::LIMITS,
            stated_kind: None,
            categories: Vec::new(),
            origin: Cow::Borrowed(DEVICE),
            only_ends: T::ONLY_ENDS,
            offered: true,
            always_asks: false,
        }
    }

    /// The arguments under their own names, as the tool reads them; none where they cannot be read.
    pub fn canonical(&self, args: &str) -> Option<Value> {
        let given = super::decode::object(self, args).ok()?;
        super::decode::canonical(self, given).ok().map(Value::Object)
    }

    /// The kind as ACP names it (ToolKind of the Agent Client Protocol, version 1).
    pub fn kind(&self) -> &'static str {
        if let Some(kind) = self.stated_kind {
            return kind;
        }
        match (self.domain, self.effect) {
            ("search", _) => "search",
            (_, Effect::Reads) => "read",
            (_, Effect::Writes) => "edit",
            (_, Effect::Executes) => "execute",
            (_, Effect::AsksUser) => "other",
        }
    }

    /// The catalog item that the backend stores and a caller reads.
    pub fn catalog_body(&self) -> Value {
        let more = self.categories.iter().map(String::as_str).filter(|name| *name != self.domain);
        let categories: Vec<&str> = std::iter::once(self.domain).chain(more).collect();
        let mut body = self.model_view();
        let facts = [
            ("kind", json!(self.kind())),
            ("effect", json!(self.effect)),
            ("effect_depends_on", json!(self.effect_depends_on)),
            ("requires_permission", json!(self.effect.at_most_once())),
            ("compat", self.same_as.map_or(Value::Null, |_| Value::Bool(true))),
            ("categories", json!(categories)),
            ("origin", json!(self.origin)),
        ];
        body.extend(
            facts.into_iter().filter(|(_, fact)| !fact.is_null()).map(|(key, fact)| (key.to_owned(), fact)),
        );
        Value::Object(body)
    }

    /// The part of the catalog item that a model reads: name, description, schema, other names of keys, an example.
    pub fn model_view(&self) -> Map<String, Value> {
        let mut view = Map::new();
        view.insert("name".to_owned(), json!(self.name));
        let facts = [self.description.as_str(), &self.on_this_device];
        view.insert("description".to_owned(), json!(facts.join("\n\n").trim_end()));
        // The schema of another party's tool is theirs.
        let schema = if self.origin == DEVICE {
            catalog_schema::publish(&self.schema, self.same_as.is_some())
        } else {
            self.schema.clone()
        };
        view.insert("schema".to_owned(), schema);
        // What stands with another tool is not said twice.
        if self.same_as.is_some() {
            return view;
        }
        let mut other_names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let published = view["schema"]["properties"].as_object();
        let is_published = |key: &str| published.is_some_and(|keys| keys.contains_key(key));
        for (alias, key) in self.aliases.iter().filter(|(_, key)| is_published(key)) {
            other_names.entry(key).or_default().push(alias);
        }
        if !other_names.is_empty() {
            let joined = other_names.into_iter().map(|(key, names)| (key.to_owned(), json!(names.join(" "))));
            view.insert("aliases".to_owned(), joined.collect());
        }
        let shortest = self.examples.iter().filter(|text| text.len() > 2).min_by_key(|text| text.len());
        if let Some(example) = shortest.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
            view.insert("example".to_owned(), example);
        }
        view
    }
}
