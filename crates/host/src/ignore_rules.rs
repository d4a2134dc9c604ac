//! One file of ignore rules (`.gitignore`, `.ignore`), compiled as git understands it.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use parking_lot::Mutex;

use punie_core::bounded_file::{FinalLink, open_nonblocking};

/// The bytes of a file that are read. No hand-written file is longer.
const MAX_RULES_BYTES: u64 = 1 << 20;
/// The compiled files in the cache; above it, all are compiled again.
const MAX_CACHED_FILES: usize = 512;
/// A longer file is not in the cache.
const MAX_CACHED_BYTES: usize = 16 << 10;

/// A cache of compiled rules by their text. Many folders have the same rules, and compiling them takes longer than
/// walking the folder.
#[derive(Debug, Default)]
pub struct RulesCache(Mutex<HashMap<Vec<u8>, Arc<Gitignore>>>);

impl RulesCache {
    /// Reads the rules of the file at this path; `None` also for a link, which git does not follow either.
    pub fn load_rules_at(&self, path: &Path) -> Option<Arc<Gitignore>> {
        self.load_rules(open_nonblocking(path, FinalLink::Refuse).ok()?)
    }

    /// Reads the rules of a file, for paths relative to its folder. Skips invalid lines, as git does. `None` if it is no
    /// regular file or cannot be read.
    pub fn load_rules(&self, file: File) -> Option<Arc<Gitignore>> {
        let mut bytes = Vec::new();
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        file.take(MAX_RULES_BYTES).read_to_end(&mut bytes).ok()?;
        if let Some(known) = self.0.lock().get(&bytes) {
            return Some(Arc::clone(known));
        }
        let text = String::from_utf8_lossy(&bytes);
        let mut builder = GitignoreBuilder::new("");
        for line in text.trim_start_matches('\u{FEFF}').lines() {
            // To git, braces are letters.
            let _ = builder.add_line(None, &line.replace('{', "[{]").replace('}', "[}]"));
        }
        let rules = Arc::new(builder.build().ok()?);
        if bytes.len() <= MAX_CACHED_BYTES {
            let mut cached = self.0.lock();
            if cached.len() >= MAX_CACHED_FILES {
                cached.clear();
            }
            cached.insert(bytes, Arc::clone(&rules));
        }
        Some(rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_letters_and_only_a_regular_file_has_rules() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("rules"), "/{{name}}.yml\n*.{a,b}\n").expect("written");
        let rules = RulesCache::default();
        let read = rules.load_rules_at(&at("rules")).expect("rules");
        for (name, is_ignored) in [
            ("{{name}}.yml", true),
            ("x.{a,b}", true),
            ("name.yml", false),
            ("x.a", false),
        ] {
            assert_eq!(read.matched(name, false).is_ignore(), is_ignored, "{name}");
        }
        #[cfg(unix)]
        {
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR, 0).expect("a FIFO");
            std::os::unix::fs::symlink("rules", at("link")).expect("a link");
        }
        for name in ["fifo", "link", "missing"] {
            assert!(rules.load_rules_at(&at(name)).is_none(), "{name}");
        }
    }
}
