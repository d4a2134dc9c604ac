//! Tools of other programs (editors), registered while those are connected. Two with the same name share one catalog
//! entry.
//! Not here: which of them runs a call (the entry decides when it runs).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::Entry;

/// The most such tools in the catalog.
const MOST: usize = 512;
/// The most bytes of their catalog entries: a backend accepts some megabytes of one kind.
const MOST_BYTES: usize = 2 << 20;
/// The most removed tools whose names are remembered.
const MOST_DEPARTED: usize = 512;

/// All tools of other programs.
#[derive(Default)]
pub(super) struct Guests {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    next: u64,
    parties: BTreeMap<u64, Vec<Arc<Entry>>>,
    /// Derived from the groups.
    by_name: BTreeMap<String, Arc<Entry>>,
    /// The origins of removed tools, by name.
    departed: BTreeMap<String, String>,
}

/// The registration of a group of tools. Dropping it removes them.
#[must_use = "guests go when this is dropped"]
pub struct Stay {
    guests: Arc<Guests>,
    number: u64,
}

impl Guests {
    pub(super) fn welcome(self: &Arc<Self>, entries: Vec<Entry>) -> Stay {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        if !entries.is_empty() {
            state.parties.insert(number, entries.into_iter().map(Arc::new).collect());
            state.arrange();
            drop(state);
            self.changed.send_modify(|version| *version += 1);
        }
        Stay { guests: Arc::clone(self), number }
    }

    fn dismiss(&self, number: u64) {
        let mut state = self.state();
        let Some(party) = state.parties.remove(&number) else { return };
        state.arrange();
        for entry in party {
            let (name, origin) = (entry.spec().name.to_string(), entry.spec().origin.to_string());
            if !state.by_name.contains_key(&name) && state.departed.len() < MOST_DEPARTED {
                state.departed.insert(name, origin);
            }
        }
        drop(state);
        self.changed.send_modify(|version| *version += 1);
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Entry>> {
        self.state().by_name.get(name).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        self.state().by_name.values().cloned().collect()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.state().by_name.keys().cloned().collect()
    }

    /// Returns the origin of a tool that was removed.
    pub(super) fn departed(&self, name: &str) -> Option<String> {
        self.state().departed.get(name).cloned()
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Rebuilds the map by name; earlier groups come first.
    fn arrange(&mut self) {
        let mut named: BTreeMap<&str, Vec<Arc<Entry>>> = BTreeMap::new();
        let (mut count, mut bytes) = (0, 0);
        for entry in self.parties.values().flatten() {
            let size = entry.spec().catalog_body().to_string().len();
            let is_new = !named.contains_key(&*entry.spec().name);
            if is_new && (count == MOST || bytes + size > MOST_BYTES) {
                tracing::warn!(tool.name = %entry.spec().name, "there is no room for one more tool of an editor");
                continue;
            }
            if is_new {
                (count, bytes) = (count + 1, bytes + size);
            }
            named.entry(&entry.spec().name).or_default().push(Arc::clone(entry));
        }
        let shown = named
            .into_iter()
            .filter_map(|(name, entries)| Some((name.to_owned(), Entry::together(entries)?)));
        self.by_name = shown.collect();
        self.departed.retain(|name, _| !self.by_name.contains_key(name));
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.guests.dismiss(self.number);
    }
}
