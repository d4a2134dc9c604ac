//! Tools of other programs (editors, plugins), registered while those are there. Two editors' tools of one name share
//! one catalog entry. A plugin's tool shares its name with none.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::ToolEntry;

/// The most such tools in the catalog.
const MAX_TOOLS: usize = 512;
/// The most bytes of their catalog entries: a backend accepts some megabytes of one kind.
const MOST_BYTES: usize = 2 << 20;
/// The most removed tools whose names are remembered.
const MOST_DEPARTED: usize = 512;

/// All tools of other programs.
#[derive(Default)]
pub(super) struct DynamicTools {
    state: Mutex<DynamicToolState>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct DynamicToolState {
    next: u64,
    groups: BTreeMap<u64, Vec<Arc<ToolEntry>>>,
    /// Derived from the groups.
    by_name: BTreeMap<String, Arc<ToolEntry>>,
    /// The origins of removed tools, by name.
    departed: BTreeMap<String, String>,
}

/// The registration of a group of tools. Dropping it removes them.
#[must_use = "guests go when this is dropped"]
pub struct ToolRegistration {
    tools: Arc<DynamicTools>,
    number: u64,
}

impl DynamicTools {
    pub(super) fn register_group(self: &Arc<Self>, entries: Vec<ToolEntry>) -> ToolRegistration {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        if !entries.is_empty() {
            state
                .groups
                .insert(number, entries.into_iter().map(Arc::new).collect());
            state.rebuild_by_name();
            drop(state);
            self.changed.send_modify(|version| *version += 1);
        }
        ToolRegistration {
            tools: Arc::clone(self),
            number,
        }
    }

    fn unregister_group(&self, number: u64) {
        let mut state = self.state.lock();
        let Some(party) = state.groups.remove(&number) else {
            return;
        };
        state.rebuild_by_name();
        for entry in party {
            let name = entry.tool_spec().name.to_string();
            let origin = entry.tool_spec().origin.to_string();
            if !state.by_name.contains_key(&name) && state.departed.len() < MOST_DEPARTED {
                state.departed.insert(name, origin);
            }
        }
        drop(state);
        self.changed.send_modify(|version| *version += 1);
    }

    pub(super) fn find_entry(&self, name: &str) -> Option<Arc<ToolEntry>> {
        self.state.lock().by_name.get(name).cloned()
    }

    pub(super) fn list_entries(&self) -> Vec<Arc<ToolEntry>> {
        self.state.lock().by_name.values().cloned().collect()
    }

    pub(super) fn tool_names(&self) -> Vec<String> {
        self.state.lock().by_name.keys().cloned().collect()
    }

    /// Returns the origin of a tool that was removed.
    pub(super) fn departed_origin(&self, name: &str) -> Option<String> {
        self.state.lock().departed.get(name).cloned()
    }

    pub(super) fn subscribe_groups(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

impl DynamicToolState {
    /// Rebuilds the map by name; earlier groups come first.
    fn rebuild_by_name(&mut self) {
        let mut named: BTreeMap<&str, Vec<Arc<ToolEntry>>> = BTreeMap::new();
        let mut count = 0;
        let mut bytes = 0;
        for entry in self.groups.values().flatten() {
            let size = entry.tool_spec().catalog_body().to_string().len();
            let is_new = !named.contains_key(&*entry.tool_spec().name);
            if is_new && (count == MAX_TOOLS || bytes + size > MOST_BYTES) {
                tracing::warn!(tool.name = %entry.tool_spec().name, "there is no room for one more tool of another program");
                continue;
            }
            if is_new {
                (count, bytes) = (count + 1, bytes + size);
            }
            named
                .entry(&entry.tool_spec().name)
                .or_default()
                .push(Arc::clone(entry));
        }
        let shown = named.into_iter().filter_map(|(name, entries)| {
            let here = entries.iter().find(|entry| entry.tool_spec().runs_here());
            let entry = here
                .cloned()
                .or_else(|| ToolEntry::merge_entries(entries))?;
            Some((name.to_owned(), entry))
        });
        self.by_name = shown.collect();
        self.departed
            .retain(|name, _| !self.by_name.contains_key(name));
    }
}

impl Drop for ToolRegistration {
    fn drop(&mut self) {
        self.tools.unregister_group(self.number);
    }
}
