//! The inventory of stored outputs: a running total, so that no call has to scan the folder, and the order of removal.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::output_handle::OutputHandle;
use punie_core::clock::ExpiryClock;

/// The limits on the size and the age of stored outputs.
#[derive(Debug, Clone)]
pub struct OutputLimits {
    /// Bytes of one output.
    pub per_output: u64,
    /// Bytes of all outputs.
    pub in_total: u64,
    /// The time from its start for which an output is stored.
    pub max_age: Duration,
    /// The time by which they are too old.
    pub clock: ExpiryClock,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self {
            per_output: 256 << 20,
            in_total: 2 << 30,
            max_age: Duration::from_hours(7 * 24),
            clock: ExpiryClock::default(),
        }
    }
}

impl OutputLimits {
    /// The usual limits; outputs are too old by this clock.
    pub fn by_clock(clock: &ExpiryClock) -> Self {
        Self {
            clock: clock.clone(),
            ..Self::default()
        }
    }
}

/// Every kept output, oldest first.
#[derive(Debug, Default)]
pub(super) struct OutputInventory {
    items: BTreeMap<u64, InventoryItem>,
    next: u64,
    total: u64,
}

#[derive(Debug)]
struct InventoryItem {
    name: String,
    size: u64,
    since: SystemTime,
    /// Still being written: it does not go, whatever its age.
    is_open: bool,
    /// The reason why nothing of it is stored.
    refused: Option<String>,
    /// The reason why its end is missing.
    cut_short: Option<String>,
}

impl OutputInventory {
    /// Reads the folder; files that are not outputs are ignored.
    pub(super) fn load_folder(dir: &Path) -> io::Result<Self> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str().and_then(OutputHandle::parse) else {
                continue;
            };
            // A file that was removed meanwhile is skipped.
            let Ok(facts) = entry.metadata() else {
                continue;
            };
            found.push((facts.modified()?, name, facts.len()));
        }
        found.sort_by_key(|(since, ..)| *since);
        let mut inventory = Self::default();
        for (since, name, size) in found {
            let order = inventory.begin_item(name.as_str(), since);
            inventory.finish_item(order, dir);
            inventory.add_size(order, size);
        }
        Ok(inventory)
    }

    /// Enters an output that is being written; an earlier one of that name is forgotten.
    pub(super) fn begin_item(&mut self, name: &str, since: SystemTime) -> u64 {
        let earlier = self.items.iter().find(|(_, item)| item.name == name);
        if let Some(order) = earlier.map(|(order, _)| *order) {
            self.forget_item(order);
        }
        let order = self.next;
        self.next += 1;
        self.items.insert(
            order,
            InventoryItem {
                name: name.to_owned(),
                size: 0,
                since,
                is_open: true,
                refused: None,
                cut_short: None,
            },
        );
        order
    }

    /// Counts bytes about to be written; false when there is no room for them even without all finished outputs.
    pub(super) fn reserve_bytes(
        &mut self,
        order: u64,
        bytes: u64,
        dir: &Path,
        limits: &OutputLimits,
    ) -> bool {
        while self.total + bytes > limits.in_total {
            let Some(oldest) = self.oldest_finished() else {
                return false;
            };
            self.remove_item(oldest, dir);
        }
        self.add_size(order, bytes);
        true
    }

    /// Records the reason why nothing of an output is stored.
    pub(super) fn record_refusal(&mut self, order: u64, reason: &str) {
        if let Some(item) = self.items.get_mut(&order) {
            item.refused = Some(reason.to_owned());
        }
    }

    /// Records the reason why the end of an output is missing.
    pub(super) fn record_cut(&mut self, order: u64, reason: &str) {
        if let Some(item) = self.items.get_mut(&order) {
            item.cut_short = Some(reason.to_owned());
        }
    }

    /// Returns the reason why the end of this output is missing, if this process saw it happen.
    pub(super) fn cut_reason(&self, name: &str) -> Option<&str> {
        self.find_item(name)?.cut_short.as_deref()
    }

    /// Returns the reason why nothing is stored under this name.
    pub(super) fn recorded_refusal(&self, name: &str) -> Option<&str> {
        self.find_item(name)?.refused.as_deref()
    }

    /// The output is complete. The file of one of which nothing is kept goes: it would look like one that is empty.
    pub(super) fn finish_item(&mut self, order: u64, dir: &Path) {
        let Some(item) = self.items.get_mut(&order) else {
            return;
        };
        item.is_open = false;
        if item.refused.is_some() {
            let _ = std::fs::remove_file(dir.join(&item.name));
        }
    }

    /// Removes outputs that exceed the limits of age or total size.
    pub(super) fn remove_expired(&mut self, dir: &Path, limits: &OutputLimits) {
        while let Some(oldest) = self.oldest_finished() {
            let since = self.items[&oldest].since;
            let is_old = limits.clock.is_file_older(since, limits.max_age);
            if !is_old && self.total <= limits.in_total {
                break;
            }
            self.remove_item(oldest, dir);
        }
    }

    /// Counts bytes that are there.
    pub(super) fn add_size(&mut self, order: u64, bytes: u64) {
        if let Some(item) = self.items.get_mut(&order) {
            item.size += bytes;
            self.total += bytes;
        }
    }

    fn find_item(&self, name: &str) -> Option<&InventoryItem> {
        self.items.values().find(|item| item.name == name)
    }

    fn oldest_finished(&self) -> Option<u64> {
        self.items
            .iter()
            .find(|(_, item)| !item.is_open)
            .map(|(order, _)| *order)
    }

    fn forget_item(&mut self, order: u64) -> Option<InventoryItem> {
        let item = self.items.remove(&order)?;
        self.total -= item.size;
        Some(item)
    }

    /// A file that cannot be removed is forgotten all the same: the next start finds it again.
    fn remove_item(&mut self, order: u64, dir: &Path) {
        if let Some(item) = self.forget_item(order) {
            let _ = std::fs::remove_file(dir.join(item.name));
        }
    }
}
