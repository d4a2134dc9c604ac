//! The inventory of stored outputs: a running total, so that no call has to scan the folder, and the order of removal.
//! Not here: their content.
#![expect(clippy::disallowed_methods, reason = "this room owns the kept outputs")]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use super::OutputHandle;
use super::store::Limits;

/// Every kept output, oldest first.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    items: BTreeMap<u64, Item>,
    next: u64,
    total: u64,
}

#[derive(Debug)]
struct Item {
    name: String,
    size: u64,
    since: SystemTime,
    /// Still being written: it does not go, whatever its age.
    open: bool,
    /// The reason why nothing of it is stored.
    refused: Option<String>,
    /// The reason why its end is missing.
    cut_short: Option<String>,
}

impl Ledger {
    /// Reads the folder; files that are not outputs are ignored.
    pub(super) fn load(dir: &Path) -> io::Result<Self> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str().and_then(OutputHandle::parse) else { continue };
            // A file that was removed meanwhile is skipped.
            let Ok(facts) = entry.metadata() else { continue };
            found.push((facts.modified()?, name, facts.len()));
        }
        found.sort_by_key(|(since, ..)| *since);
        let mut ledger = Self::default();
        for (since, name, size) in found {
            let order = ledger.begin(name.as_str(), since);
            ledger.end(order, dir);
            ledger.count(order, size);
        }
        Ok(ledger)
    }

    /// Enters an output that is being written; an earlier one of that name is forgotten.
    pub(super) fn begin(&mut self, name: &str, since: SystemTime) -> u64 {
        if let Some(order) = self.items.iter().find(|(_, item)| item.name == name).map(|(order, _)| *order) {
            self.forget(order);
        }
        let order = self.next;
        self.next += 1;
        self.items.insert(
            order,
            Item { name: name.to_owned(), size: 0, since, open: true, refused: None, cut_short: None },
        );
        order
    }

    /// Counts bytes about to be written; false when there is no room for them even without all finished outputs.
    pub(super) fn grow(&mut self, order: u64, bytes: u64, dir: &Path, limits: &Limits) -> bool {
        while self.total + bytes > limits.all {
            let Some(oldest) = self.oldest() else { return false };
            self.remove(oldest, dir);
        }
        self.count(order, bytes);
        true
    }

    /// Records the reason why nothing of an output is stored.
    pub(super) fn refuse(&mut self, order: u64, reason: &str) {
        if let Some(item) = self.items.get_mut(&order) {
            item.refused = Some(reason.to_owned());
        }
    }

    /// Records the reason why the end of an output is missing.
    pub(super) fn cut(&mut self, order: u64, reason: &str) {
        if let Some(item) = self.items.get_mut(&order) {
            item.cut_short = Some(reason.to_owned());
        }
    }

    /// Returns the reason why the end of this output is missing, if this process saw it happen.
    pub(super) fn cut_short(&self, name: &str) -> Option<&str> {
        self.items.values().find(|item| item.name == name)?.cut_short.as_deref()
    }

    /// Returns the reason why nothing is stored under this name.
    pub(super) fn refusal(&self, name: &str) -> Option<&str> {
        self.items.values().find(|item| item.name == name)?.refused.as_deref()
    }

    /// The output is complete. The file of one of which nothing is kept goes: it would look like one that is empty.
    pub(super) fn end(&mut self, order: u64, dir: &Path) {
        let Some(item) = self.items.get_mut(&order) else { return };
        item.open = false;
        if item.refused.is_some() {
            let _ = std::fs::remove_file(dir.join(&item.name));
        }
    }

    /// Removes outputs that exceed the limits of age or total size.
    pub(super) fn sweep(&mut self, dir: &Path, limits: &Limits, now: SystemTime) {
        while let Some(oldest) = self.oldest() {
            let age = now.duration_since(self.items[&oldest].since).unwrap_or_default();
            if age <= limits.age && self.total <= limits.all {
                break;
            }
            self.remove(oldest, dir);
        }
    }

    /// Counts bytes that are there.
    pub(super) fn count(&mut self, order: u64, bytes: u64) {
        if let Some(item) = self.items.get_mut(&order) {
            item.size += bytes;
            self.total += bytes;
        }
    }

    fn oldest(&self) -> Option<u64> {
        self.items.iter().find(|(_, item)| !item.open).map(|(order, _)| *order)
    }

    fn forget(&mut self, order: u64) -> Option<Item> {
        let item = self.items.remove(&order)?;
        self.total -= item.size;
        Some(item)
    }

    /// A file that cannot be removed is forgotten all the same: the next start finds it again.
    fn remove(&mut self, order: u64, dir: &Path) {
        if let Some(item) = self.forget(order) {
            let _ = std::fs::remove_file(dir.join(item.name));
        }
    }
}
