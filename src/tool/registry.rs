//! Every tool by name: this device's own, which never change, and guests, which come and go with whoever runs them.
//! Not here: how types are erased (entry), and how guests of one name are told apart (guests).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::guests::{Guests, Stay};
use super::{BeforeImages, CallDescription, CallTitle, Entry, ToolError, ToolSpec, decode};
use crate::request::{Effect, ErrorCode};

/// Two tools want one name; found at start, never at a call.
#[derive(Debug, thiserror::Error)]
#[error("two tools are called {0}; a name belongs to one tool")]
pub struct DuplicateName(Cow<'static, str>);

/// Every tool that can be called, by name.
pub struct Registry {
    own: BTreeMap<Cow<'static, str>, Arc<Entry>>,
    guests: Arc<Guests>,
}

impl Registry {
    /// Takes the domains' tools.
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

    /// The same, with what this device's own tools change in files kept here.
    #[must_use]
    pub fn keeping(mut self, images: &Arc<dyn BeforeImages>) -> Self {
        // Nobody else has an entry yet.
        for entry in self.own.values_mut().filter_map(Arc::get_mut) {
            entry.keep_in(Arc::clone(images));
        }
        self
    }

    /// The tool of this name.
    ///
    /// # Errors
    /// `unknown_tool`, with the names that are close.
    pub fn find(&self, name: &str) -> Result<Arc<Entry>, ToolError> {
        self.get(name).ok_or_else(|| self.unknown(name))
    }

    fn get(&self, name: &str) -> Option<Arc<Entry>> {
        self.own.get(name).cloned().or_else(|| self.guests.get(name))
    }

    /// This device's own tools, in order of name.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.own.values().map(|entry| entry.spec())
    }

    /// Everything that can be called now, guests included, in order of name: what the catalog shows.
    pub fn entries(&self) -> Vec<Arc<Entry>> {
        let mut all: Vec<_> = self.own.values().cloned().chain(self.guests.all()).collect();
        all.sort_by(|a, b| a.spec().name.cmp(&b.spec().name));
        all
    }

    /// Whether this device has a tool of its own by that name.
    pub fn has_own(&self, name: &str) -> bool {
        self.own.contains_key(name)
    }

    /// What this call may do, if there is a tool of that name.
    pub fn effect(&self, name: &str, args: &str) -> Option<Effect> {
        self.get(name).map(|entry| entry.effect_of(args))
    }

    /// Describes a call for a person: its title, what it accesses, the changes that it would make.
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

    /// Takes in the tools that somebody else runs, until what is returned is dropped. One that is named as a tool of
    /// this device is left out: a guest hides nothing.
    pub fn welcome(&self, entries: Vec<Entry>) -> Stay {
        let entries = entries.into_iter().filter(|entry| !self.has_own(&entry.spec().name)).collect();
        self.guests.welcome(entries)
    }

    /// Changes its value whenever guests have come or gone.
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
