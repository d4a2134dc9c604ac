//! What is known of a tool from its declaration: the catalog's entry. Not here: how it runs.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Value, json};

use super::Tool;
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
    /// The arguments' JSON schema (draft 2020-12).
    pub schema: Value,
    /// The most that a call of it may do.
    pub effect: Effect,
    /// Which queue its calls take.
    pub lane: Lane,
    /// Names accepted for keys.
    pub aliases: &'static [(&'static str, &'static str)],
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
    /// Whether a person who follows is asked before every call, whatever the owner's settings ask about.
    pub always_asks: bool,
}

/// The origin of this device's own tools.
pub const DEVICE: &str = "device";

impl ToolSpec {
    pub(super) fn of<T: Tool>(domain: &'static str) -> Self {
        let mut schema = argument_schema::<T>();
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
            schema,
            effect: T::EFFECT,
            lane: T::LANE,
            aliases: T::ALIASES,
            examples: T::EXAMPLES,
            limits: T::LIMITS,
            stated_kind: None,
            categories: Vec::new(),
            origin: Cow::Borrowed(DEVICE),
            only_ends: T::ONLY_ENDS,
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
        json!({
            "name": self.name,
            "kind": self.kind(),
            "description": self.description,
            "schema": self.schema,
            "effect": self.effect,
            "requires_permission": self.effect.at_most_once(),
            "categories": categories,
            "origin": self.origin,
        })
    }
}

fn argument_schema<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .with_transform(RecursiveTransform(plain))
        .into_generator();
    generator.into_root_schema_for::<T>().to_value()
}

/// A schema as a model needs it. Rust's number formats say nothing to it, and that null is the same as absent need not
/// be said at every key.
fn plain(schema: &mut Schema) {
    schema.remove("format");
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            schema.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(variants)) = schema.get_mut("anyOf") {
        variants.retain(|variant| variant.get("type").is_none_or(|name| name != "null"));
        if let [Value::Object(one)] = variants.as_slice() {
            let one = one.clone();
            schema.remove("anyOf");
            for (key, value) in one.into_iter().filter(|(key, _)| key != "description") {
                schema.insert(key, value);
            }
        }
    }
    // The breaks of a comment's lines mean nothing. The tool's own text keeps them, for people read it as it is.
    let of_a_key = schema.get("properties").is_none();
    if let Some(Value::String(text)) = schema.get_mut("description").filter(|_| of_a_key) {
        *text = text.replace('\n', " ");
    }
}
