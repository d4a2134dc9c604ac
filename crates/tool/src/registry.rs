//! All tools by name: the device's own, which never change, and those of other programs (editors, plugins).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::call_subject::describe_subject;
use super::dynamic_tools::{DynamicTools, ToolRegistration};
use super::{
    BeforeImages, CallDescription, CallTitle, ReadyCall, ToolEntry, ToolError, ToolProfile,
    ToolSpec, decode,
};
use crate::request::{ErrorCode, ResultMeta, ToolEffect};
use punie_text::redact::Redactor;

/// Two tools have the same name; detected at start.
#[derive(Debug, thiserror::Error)]
#[error("two tools are called {0}; a name belongs to one tool")]
pub struct DuplicateToolName(Cow<'static, str>);

/// All tools that can be called, by name.
pub struct ToolRegistry {
    own: BTreeMap<Cow<'static, str>, Arc<ToolEntry>>,
    dynamic_tools: Arc<DynamicTools>,
    before_images: Option<Arc<dyn BeforeImages>>,
    /// Resolves aliases of people in arguments.
    redactor: Redactor,
    profile: ToolProfile,
}

impl ToolRegistry {
    /// Creates a registry of the domains' tools.
    ///
    /// # Errors
    /// [`DuplicateToolName`].
    pub fn new(
        domains: impl IntoIterator<Item = Vec<ToolEntry>>,
    ) -> Result<Self, DuplicateToolName> {
        let mut own = BTreeMap::new();
        for entry in domains.into_iter().flatten() {
            let name = entry.tool_spec().name.clone();
            if own.insert(name.clone(), Arc::new(entry)).is_some() {
                return Err(DuplicateToolName(name));
            }
        }
        Ok(Self {
            own,
            dynamic_tools: Arc::default(),
            before_images: None,
            redactor: Redactor::default(),
            profile: ToolProfile::All,
        })
    }

    /// Stores before-images for the device's own tools here.
    #[must_use]
    pub fn with_before_images(mut self, images: &Arc<dyn BeforeImages>) -> Self {
        // No entry is shared yet.
        for entry in self.own.values_mut().filter_map(Arc::get_mut) {
            entry.set_before_images(Arc::clone(images));
        }
        self.before_images = Some(Arc::clone(images));
        self
    }

    /// Resolves aliases of people in arguments, and refuses calls while the identity map cannot be read.
    #[must_use]
    pub fn with_aliases(mut self, redactor: &Redactor) -> Self {
        for entry in self.own.values_mut().filter_map(Arc::get_mut) {
            entry.set_aliases(redactor.clone());
        }
        self.redactor = redactor.clone();
        self
    }

    /// Lists and runs only the tools of this profile.
    #[must_use]
    pub fn with_profile(self, profile: ToolProfile) -> Self {
        Self { profile, ..self }
    }

    /// Finds the tool of this name.
    ///
    /// # Errors
    /// `unknown_tool`, with similar names; `policy_denied` for a tool outside of the device's profile.
    pub fn find(&self, name: &str) -> Result<Arc<ToolEntry>, ToolError> {
        let entry = self
            .get_entry(name)
            .ok_or_else(|| self.unknown_error(name))?;
        if entry.tool_spec().is_in_profile(self.profile) {
            return Ok(entry);
        }
        let text = format!(
            "{name} was not run: this device has only the tools of the profile {:?}. The owner of the device sets it: \
             `profile` under [tools] in its config.toml.",
            self.profile.as_str()
        );
        Err(
            ToolError::new(ErrorCode::PolicyDenied, text).with_meta(ResultMeta {
                rule: Some("tools.profile".to_owned()),
                ..ResultMeta::default()
            }),
        )
    }

    fn get_entry(&self, name: &str) -> Option<Arc<ToolEntry>> {
        self.own
            .get(name)
            .cloned()
            .or_else(|| self.dynamic_tools.find_entry(name))
    }

    /// Returns the device's own tools, by name.
    pub fn device_specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.own.values().map(|entry| entry.tool_spec())
    }

    /// Returns all tools that can be called now, by name, as in the catalog.
    pub fn callable_entries(&self) -> Vec<Arc<ToolEntry>> {
        let mut all: Vec<_> = self
            .own
            .values()
            .cloned()
            .chain(self.dynamic_tools.list_entries())
            .filter(|entry| entry.tool_spec().is_in_profile(self.profile))
            .collect();
        all.sort_by(|a, b| a.tool_spec().name.cmp(&b.tool_spec().name));
        all
    }

    /// Returns whether the device has its own tool of this name.
    pub fn has_device_tool(&self, name: &str) -> bool {
        self.own.contains_key(name)
    }

    /// Returns the effect of this call, if the tool exists.
    pub fn effect_of(&self, name: &str, args: &str) -> Option<ToolEffect> {
        self.get_entry(name).map(|entry| entry.effect_of_call(args))
    }

    /// Describes a call for a person: its title, its access, the proposed changes.
    pub fn describe_call(&self, name: &str, args: &Value) -> CallDescription {
        let entry = self.get_entry(name);
        let mut described = entry
            .and_then(|entry| entry.describe_call(&args.to_string()))
            .unwrap_or_default();
        let title = described
            .title
            .take()
            .unwrap_or_else(|| described.default_title(name, args));
        described.title = Some(match &described.access.starts_call {
            Some(started) => {
                let inner = self.describe_call(&started.tool, &Value::Object(started.args.clone()));
                title.starting_call(
                    &inner
                        .title
                        .unwrap_or_else(|| CallTitle::from_sentence(started.tool.as_str())),
                )
            }
            None => title,
        });
        described
    }

    /// Returns the subject of a call without the tool's name: its command, its paths or its query.
    pub fn call_subject(&self, name: &str, args: &str, roots: &[PathBuf]) -> String {
        let ready = self
            .get_entry(name)
            .and_then(|entry| entry.decode_call(args).ok());
        let access = ready.as_ref().map(ReadyCall::declared_access);
        if let Some(started) = access.and_then(|access| access.starts_call.as_ref()) {
            let args = Value::Object(started.args.clone()).to_string();
            let subject = self.call_subject(&started.tool, &args, roots);
            return format!("{}: {subject}", started.tool);
        }
        let args = serde_json::from_str(args).unwrap_or_default();
        describe_subject(access, &args, roots)
    }

    /// Registers tools of another program until the result is dropped. Tools with the name of a device's own tool
    /// are ignored, so that they cannot hide it.
    pub fn register_dynamic(&self, entries: Vec<ToolEntry>) -> ToolRegistration {
        let mut entries = entries;
        entries.retain(|entry| !self.has_device_tool(&entry.tool_spec().name));
        if let Some(images) = &self.before_images {
            let here = entries
                .iter_mut()
                .filter(|entry| entry.tool_spec().runs_here());
            here.for_each(|entry| entry.set_before_images(Arc::clone(images)));
        }
        for entry in &mut entries {
            entry.set_aliases(self.redactor.clone());
        }
        self.dynamic_tools.register_group(entries)
    }

    /// Returns a counter that changes when such tools are added or removed.
    pub fn subscribe_changes(&self) -> watch::Receiver<u64> {
        self.dynamic_tools.subscribe_groups()
    }

    fn unknown_error(&self, name: &str) -> ToolError {
        let guests = self.dynamic_tools.tool_names();
        let names = || {
            let own = self.device_specs().filter(|spec| spec.offered);
            own.map(|spec| spec.name.as_ref())
                .chain(guests.iter().map(String::as_str))
        };
        // Clients and models put prefixes before a name: `mcp__punie__Read`, `functions.Read`.
        let bare = name.rsplit("__").next().unwrap_or(name);
        let bare = bare.rsplit(['.', '/', ':']).next().unwrap_or(bare);
        let is_bare = |known: &&str| known.eq_ignore_ascii_case(bare);
        let known_as = |spec: &&ToolSpec| spec.known_as.iter().any(is_bare);
        let mut near: Vec<&str> = names().filter(is_bare).collect();
        if near.is_empty() {
            let known = self.device_specs().filter(known_as);
            near = known.map(|spec| spec.name.as_ref()).collect();
        }
        if near.is_empty() {
            near = decode::nearest_names(bare, names());
        }
        let hint = if let Some(origin) = self.dynamic_tools.departed_origin(name) {
            format!(
                "It was offered by {origin}, which has gone. Connect it again, or use another tool."
            )
        } else if near.is_empty() {
            const MAX_LISTED: usize = 10;
            let listed: Vec<&str> = names().take(MAX_LISTED).collect();
            let more = match names().count().saturating_sub(MAX_LISTED) {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            format!("This device has {}{more}.", listed.join(", "))
        } else {
            format!("Did you mean {}?", near.join(" or "))
        };
        ToolError::new(
            ErrorCode::UnknownTool,
            format!("There is no tool called {name:?}. {hint}"),
        )
    }
}
