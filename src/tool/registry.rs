//! All tools by name: the device's own, which never change, and those of connected programs (editors).
//! Not here: type erasure, and several such tools of one name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::guests::{Guests, Stay};
use super::{BeforeImages, CallDescription, CallTitle, Entry, ToolError, ToolSpec, decode};
use crate::request::{Effect, ErrorCode};

/// Two tools have the same name; detected at start.
#[derive(Debug, thiserror::Error)]
#[error("two tools are called {0}; a name belongs to one tool")]
pub struct DuplicateName(Cow<'static, str>);

/// All tools that can be called, by name.
pub struct Registry {
    own: BTreeMap<Cow<'static, str>, Arc<Entry>>,
    guests: Arc<Guests>,
}

impl Registry {
    /// Creates a registry of the domains' tools.
    ///
    /// # Errors
    /// [`DuplicateName`].
    pub fn new(domains: impl IntoIterator<Item = Vec<Entry>>) -> Result<Self, DuplicateName> {
        let mut own = BTreeMap::new();
        for entry in domains.into_iter().flatten() {
            let name = entry.spec().name.clone();
            if own.insert(name.clone(), Arc::new(entry)).is_some() {
                return Err(DuplicateName(name));
            }
        }
        Ok(Self { own, guests: Arc::default() })
    }

    /// Stores before-images for the device's own tools here.
    #[must_use]
    pub fn keeping(mut self, images: &Arc<dyn BeforeImages>) -> Self {
        // No entry is shared yet.
        for entry in self.own.values_mut().filter_map(Arc::get_mut) {
            entry.keep_in(Arc::clone(images));
        }
        self
    }

    /// Finds the tool of this name.
    ///
    /// # Errors
    /// `unknown_tool`, with similar names.
    pub fn find(&self, name: &str) -> Result<Arc<Entry>, ToolError> {
        self.get(name).ok_or_else(|| self.unknown(name))
    }

    fn get(&self, name: &str) -> Option<Arc<Entry>> {
        self.own.get(name).cloned().or_else(|| self.guests.get(name))
    }

    /// Returns the device's own tools, by name.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.own.values().map(|entry| entry.spec())
    }

    /// Returns all tools that can be called now, by name, as in the catalog.
    pub fn entries(&self) -> Vec<Arc<Entry>> {
        let mut all: Vec<_> = self.own.values().cloned().chain(self.guests.all()).collect();
        all.sort_by(|a, b| a.spec().name.cmp(&b.spec().name));
        all
    }

    /// Returns whether the device has its own tool of this name.
    pub fn has_own(&self, name: &str) -> bool {
        self.own.contains_key(name)
    }

    /// Returns the effect of this call, if the tool exists.
    pub fn effect(&self, name: &str, args: &str) -> Option<Effect> {
        self.get(name).map(|entry| entry.effect_of(args))
    }

    /// Describes a call for a person: its title, its access, the proposed changes.
    pub fn describe(&self, name: &str, args: &Value) -> CallDescription {
        let entry = self.get(name);
        let mut described = entry.and_then(|entry| entry.describe(&args.to_string())).unwrap_or_default();
        let title = described.title.take().unwrap_or_else(|| described.default_title(name, args));
        described.title = Some(match &described.access.starts_call {
            Some(started) => {
                let inner = self.describe(&started.tool, &Value::Object(started.args.clone()));
                title.starting(&inner.title.unwrap_or_else(|| CallTitle::sentence(started.tool.as_str())))
            }
            None => title,
        });
        described
    }

    /// Registers tools of a connected program until the result is dropped. Tools with the name of a device's own tool
    /// are ignored, so that they cannot hide it.
    pub fn welcome(&self, entries: Vec<Entry>) -> Stay {
        let entries = entries.into_iter().filter(|entry| !self.has_own(&entry.spec().name)).collect();
        self.guests.welcome(entries)
    }

    /// Returns a counter that changes when such tools are added or removed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.guests.changes()
    }

    fn unknown(&self, name: &str) -> ToolError {
        let guests = self.guests.names();
        let names = || self.own.keys().map(AsRef::as_ref).chain(guests.iter().map(String::as_str));
        let known_as = |spec: &&ToolSpec| spec.known_as.iter().any(|known| known.eq_ignore_ascii_case(name));
        let mut near: Vec<&str> = self.specs().filter(known_as).map(|spec| spec.name.as_ref()).collect();
        if near.is_empty() {
            near = decode::nearest(name, names());
        }
        let hint = if let Some(origin) = self.guests.departed(name) {
            format!("It was offered by {origin}, which has gone. Connect it again, or use another tool.")
        } else if near.is_empty() {
            format!("This device has: {}.", names().collect::<Vec<_>>().join(", "))
        } else {
            format!("Did you mean {}?", near.join(" or "))
        };
        ToolError::new(ErrorCode::UnknownTool, format!("There is no tool called {name:?}. {hint}"))
    }
}
