//! The properties of a tool from its declaration: its catalog entry.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{PeopleField, Tool, catalog_schema};
use crate::request::ToolEffect;

/// The queue of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallLane {
    /// In order with the other calls of its conversation: effects alone, reads in parallel.
    Conversation,
    /// At once, beside all others: for tools that manage running calls.
    Control,
}

/// A tool as the catalog shows it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// The name in the catalog and in requests.
    pub name: Cow<'static, str>,
    /// The domain, which is also its category.
    pub domain: &'static str,
    /// The text by which a model decides when to use it.
    pub description: String,
    /// Text that applies to this device only; the catalog adds it to the description.
    pub on_this_device: String,
    /// The arguments' JSON schema (draft 2020-12).
    pub schema: SchemaText,
    /// The strongest effect of its calls.
    pub effect: ToolEffect,
    /// The argument that decides how much of it a call may do.
    pub effect_depends_on: Option<&'static str>,
    /// The queue of its calls.
    pub lane: CallLane,
    /// Other accepted names of keys.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Keys that it accepts beside those of the schema.
    pub accepted: &'static [&'static str],
    /// Names of such a tool at other agents.
    pub known_as: &'static [&'static str],
    /// The tool that does the same work with current arguments.
    pub same_as: Option<&'static str>,
    /// Converts arguments in other agents' form to its own.
    pub normalize: fn(&mut Map<String, Value>),
    /// Working arguments.
    pub examples: &'static [&'static str],
    /// Its limits in words.
    pub limits: &'static [&'static str],
    /// The fields in which aliases of people are resolved.
    pub people_fields: &'static [PeopleField],
    /// Its kind in ACP's terms, if its provider states it; otherwise it follows from domain and effect.
    pub stated_kind: Option<&'static str>,
    /// Its categories beside its domain.
    pub categories: Vec<String>,
    /// Its provider: [`DEVICE_ORIGIN`], or the name of an editor or a plugin.
    pub origin: Cow<'static, str>,
    /// True if its calls can only end something that runs already.
    pub only_ends: bool,
    /// True if the catalog shows it; a tool that cannot work here is omitted.
    pub offered: bool,
    /// True if a follower is asked before every call, whatever the owner's settings are.
    pub always_asks: bool,
}

/// A JSON schema as its text: parsed, the schemas of all tools take a fifth of a megabyte for as long as the process lives.
#[derive(Debug, Clone)]
pub struct SchemaText(Box<str>);

impl SchemaText {
    /// Keeps a schema.
    pub fn new(schema: &Value) -> Self {
        Self(schema.to_string().into())
    }

    /// Parses the schema.
    ///
    /// # Panics
    /// Never: the text was written from a value.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.0).expect("it was written from a value")
    }
}

/// The origin of this device's own tools.
pub const DEVICE_ORIGIN: &str = "device";
/// The beginning of the origin of editors' tools.
pub const EDITOR_ORIGIN: &str = "editor: ";

impl ToolSpec {
    pub(super) fn from_tool<T: Tool>(domain: &'static str) -> Self {
        let mut schema = catalog_schema::derive_schema::<T>();
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
            schema: SchemaText::new(&schema),
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
            people_fields: T::PEOPLE_FIELDS,
            stated_kind: None,
            categories: Vec::new(),
            origin: Cow::Borrowed(DEVICE_ORIGIN),
            only_ends: T::ONLY_ENDS,
            offered: true,
            always_asks: false,
        }
    }

    /// Returns the arguments under the tool's own keys, or `None` if they are unreadable.
    pub fn canonical_args(&self, args: &str) -> Option<Value> {
        let given = super::decode::parse_object(self, args).ok()?;
        super::decode::canonical_arguments(self, given)
            .ok()
            .map(Value::Object)
    }

    /// Returns whether this device runs it, and confines its programs. An editor runs its own tools.
    pub fn runs_here(&self) -> bool {
        !self.origin.starts_with(EDITOR_ORIGIN)
    }

    /// Returns the first sentence of the description.
    pub fn summary(&self) -> String {
        let paragraph = self.description.split("\n\n").next().unwrap_or_default();
        let sentence = paragraph.split_inclusive(". ").next().unwrap_or_default();
        sentence.trim().replace('\n', " ")
    }

    /// Returns the kind in ACP's terms (ToolKind of the Agent Client Protocol, version 1).
    pub fn acp_kind(&self) -> &'static str {
        if let Some(kind) = self.stated_kind {
            return kind;
        }
        match (self.domain, self.effect) {
            ("search", _) => "search",
            (_, ToolEffect::Reads) => "read",
            (_, ToolEffect::Writes) => "edit",
            (_, ToolEffect::Executes) => "execute",
            (_, ToolEffect::AsksUser) => "other",
        }
    }

    /// Returns the catalog item that the backend stores and a caller reads.
    pub fn catalog_body(&self) -> Value {
        let more = self
            .categories
            .iter()
            .map(String::as_str)
            .filter(|name| *name != self.domain);
        let categories: Vec<&str> = std::iter::once(self.domain).chain(more).collect();
        let mut body = self.model_view();
        let facts = [
            ("kind", json!(self.acp_kind())),
            ("effect", json!(self.effect)),
            ("effect_depends_on", json!(self.effect_depends_on)),
            (
                "requires_permission",
                json!(self.effect.runs_at_most_once()),
            ),
            (
                "compat",
                self.same_as.map_or(Value::Null, |_| Value::Bool(true)),
            ),
            ("categories", json!(categories)),
            ("origin", json!(self.origin)),
        ];
        body.extend(
            facts
                .into_iter()
                .filter(|(_, fact)| !fact.is_null())
                .map(|(key, fact)| (key.to_owned(), fact)),
        );
        Value::Object(body)
    }

    /// Returns the part of the catalog item for models: name, description, schema, other names of keys, an example.
    pub fn model_view(&self) -> Map<String, Value> {
        let mut view = Map::new();
        view.insert("name".to_owned(), json!(self.name));
        let facts = [self.description.as_str(), &self.on_this_device];
        view.insert(
            "description".to_owned(),
            json!(facts.join("\n\n").trim_end()),
        );
        // The schema of another provider's tool is passed on unchanged.
        let schema = if self.origin == DEVICE_ORIGIN {
            catalog_schema::published_schema(&self.schema.to_value(), self.same_as.is_some())
        } else {
            self.schema.to_value()
        };
        view.insert("schema".to_owned(), schema);
        // The other tool's entry already has the rest.
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
            let joined = other_names
                .into_iter()
                .map(|(key, names)| (key.to_owned(), json!(names.join(" "))));
            view.insert("aliases".to_owned(), joined.collect());
        }
        let shortest = self
            .examples
            .iter()
            .filter(|text| text.len() > 2)
            .min_by_key(|text| text.len());
        if let Some(example) = shortest.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
            view.insert("example".to_owned(), example);
        }
        view
    }
}
