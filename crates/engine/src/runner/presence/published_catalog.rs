//! The entries of a catalog that a backend has, and the calls that bring it up to date: only what differs, page by
//! page.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::backend::CatalogEntry;
use punie_core::ids::to_hex;

/// The largest part of a catalog in one call.
const PAGE_BYTES: usize = 2 << 20;
const PAGE_ITEMS: usize = 100;

/// The entries that a backend accepted, by key with their hashes. It is stored after each call, so that an interrupted
/// publication goes on where it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PublishedCatalog {
    /// The start of the last publication of all entries, in milliseconds since 1970.
    pub(super) at_ms: i64,
    hashes: BTreeMap<String, String>,
}

/// One call: the entries, and whether they are the whole catalog.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CatalogPage {
    pub(super) is_complete: bool,
    pub(super) items: Vec<CatalogEntry>,
}

impl PublishedCatalog {
    /// Creates the record of a backend that has nothing.
    pub(super) fn created_at(at_ms: i64) -> Self {
        Self {
            at_ms,
            hashes: BTreeMap::new(),
        }
    }

    /// Records an accepted page.
    pub(super) fn record_page(&mut self, page: &CatalogPage) {
        if page.is_complete {
            self.hashes.clear();
        }
        let accepted = page.items.iter();
        self.hashes
            .extend(accepted.map(|item| (item.key.clone(), item.hash.clone())));
    }

    /// Marks all entries to be sent again, because the backend may have lost them.
    pub(super) fn expire_entries(&mut self) {
        self.hashes.values_mut().for_each(String::clear);
    }

    /// Returns the disabled entries for those that the backend has and that are not in the catalog any more.
    pub(super) fn removed_entries(&self, items: &[CatalogEntry]) -> Vec<CatalogEntry> {
        let current: BTreeSet<&str> = items.iter().map(|item| item.key.as_str()).collect();
        let gone = self.hashes.iter();
        gone.filter(|(key, _)| !current.contains(key.as_str()))
            .map(|(key, hash)| (removed_entry(key), hash))
            .filter(|(entry, hash)| entry.hash != **hash)
            .map(|(entry, _)| entry)
            .collect()
    }
}

/// Returns the pages that make the backend's catalog this one. `published` is what the backend has, if that is known.
///
/// Only a complete page deletes. If all entries fit into one page, that page is sent. If not, removed entries are
/// replaced by disabled ones, because a page that is complete but not whole would delete the others for a moment.
pub(super) fn plan_pages(
    items: &[CatalogEntry],
    published: Option<&PublishedCatalog>,
) -> Vec<CatalogPage> {
    let Some(published) = published else {
        let mut pages = split_pages(items.to_vec());
        if pages.is_empty() {
            pages.push(Vec::new());
        }
        let numbered = pages.into_iter().enumerate();
        return numbered
            .map(|(at, items)| CatalogPage {
                is_complete: at == 0,
                items,
            })
            .collect();
    };
    let removed = published.removed_entries(items);
    let differs = |item: &&CatalogEntry| published.hashes.get(&item.key) != Some(&item.hash);
    let changed: Vec<CatalogEntry> = items.iter().filter(differs).cloned().collect();
    let sends_all = changed.len() == items.len() && !items.is_empty();
    if (sends_all || !removed.is_empty()) && split_pages(items.to_vec()).len() <= 1 {
        return vec![CatalogPage {
            is_complete: true,
            items: items.to_vec(),
        }];
    }
    let pages = split_pages(changed.into_iter().chain(removed).collect());
    pages
        .into_iter()
        .map(|items| CatalogPage {
            is_complete: false,
            items,
        })
        .collect()
}

fn removed_entry(key: &str) -> CatalogEntry {
    let body = serde_json::json!({"id": key, "name": key, "enabled": false, "removed": true});
    let body = body.to_string();
    CatalogEntry {
        key: key.to_owned(),
        hash: to_hex(&Sha256::digest(&body)),
        body,
    }
}

fn split_pages(items: Vec<CatalogEntry>) -> Vec<Vec<CatalogEntry>> {
    let mut pages = Vec::<Vec<CatalogEntry>>::new();
    let mut bytes = 0;
    for item in items {
        bytes += item.body.len();
        match pages.last_mut() {
            Some(page) if page.len() < PAGE_ITEMS && bytes <= PAGE_BYTES => page.push(item),
            _ => {
                bytes = item.body.len();
                pages.push(vec![item]);
            }
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, text: &str) -> CatalogEntry {
        CatalogEntry {
            key: key.to_owned(),
            hash: to_hex(&Sha256::digest(text)),
            body: text.to_owned(),
        }
    }

    fn many(count: usize) -> Vec<CatalogEntry> {
        (0..count)
            .map(|n| entry(&format!("k{n:04}"), "text"))
            .collect()
    }

    fn publish(
        items: &[CatalogEntry],
        published: &mut Option<PublishedCatalog>,
    ) -> Vec<(bool, usize)> {
        let pages = plan_pages(items, published.as_ref());
        let record = published.get_or_insert_default();
        for page in &pages {
            record.record_page(page);
        }
        pages
            .iter()
            .map(|page| (page.is_complete, page.items.len()))
            .collect()
    }

    #[test]
    fn an_unknown_backend_gets_everything_and_one_that_has_it_nothing() {
        let mut published = None;
        assert_eq!(publish(&[], &mut published), [(true, 0)]);
        assert_eq!(publish(&[], &mut published), []);
        assert_eq!(publish(&many(2), &mut published), [(true, 2)]);
        assert_eq!(publish(&many(2), &mut published), []);
        published.get_or_insert_default().expire_entries();
        assert_eq!(publish(&many(2), &mut published), [(true, 2)]);
        let mut published = None;
        assert_eq!(
            publish(&many(250), &mut published),
            [(true, 100), (false, 100), (false, 50)]
        );
        assert_eq!(publish(&many(250), &mut published), []);
        published.get_or_insert_default().expire_entries();
        assert_eq!(
            publish(&many(250), &mut published),
            [(false, 100), (false, 100), (false, 50)],
            "nothing is deleted for a moment"
        );
    }

    #[test]
    fn a_change_is_sent_alone_and_many_go_in_batches() {
        let mut published = None;
        publish(&many(250), &mut published);
        let mut items = many(250);
        items[7] = entry("k0007", "changed");
        let pages = plan_pages(&items, published.as_ref());
        assert_eq!(pages[0].items, [entry("k0007", "changed")]);
        assert_eq!(publish(&items, &mut published), [(false, 1)]);
        let long = "x".repeat(900 << 10);
        let five: Vec<_> = (0..5).map(|n| entry(&format!("long{n}"), &long)).collect();
        let mut published = None;
        assert_eq!(
            publish(&five, &mut published),
            [(true, 2), (false, 2), (false, 1)]
        );
    }

    #[test]
    fn a_removed_entry_is_deleted_or_disabled() {
        let mut published = None;
        publish(&many(3), &mut published);
        assert_eq!(publish(&many(2), &mut published), [(true, 2)], "all fit");
        let mut published = None;
        publish(&many(250), &mut published);
        let pages = plan_pages(&many(249), published.as_ref());
        assert_eq!(pages.len(), 1);
        let [gone] = pages[0].items.as_slice() else {
            panic!("one entry: {pages:?}")
        };
        assert_eq!(gone.key, "k0249");
        assert!(gone.body.contains(r#""enabled":false"#), "{}", gone.body);
        assert_eq!(publish(&many(249), &mut published), [(false, 1)]);
        assert_eq!(publish(&many(249), &mut published), [], "once");
        assert_eq!(
            publish(&many(250), &mut published),
            [(false, 1)],
            "it is back"
        );
    }

    #[test]
    fn an_interrupted_publication_goes_on_where_it_was() {
        let items = many(250);
        let mut record = PublishedCatalog::default();
        record.record_page(&plan_pages(&items, None)[0]);
        let rest = plan_pages(&items, Some(&record));
        let sizes: Vec<_> = rest
            .iter()
            .map(|page| (page.is_complete, page.items.len()))
            .collect();
        assert_eq!(sizes, [(false, 100), (false, 50)]);
        assert_eq!(rest[0].items[0].key, "k0100");
    }
}
