//! Glob and Grep over real trees: what their tests share.
#![expect(
    clippy::disallowed_methods,
    reason = "tests make their own files and processes"
)]

mod glob;
mod grep;
mod hostile;
mod law;

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use punie_handlers::search::{SearchDeps, tools};
use punie_host::Workspace;
use punie_tool::{ToolError, ToolRegistry};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::tools::{build_registry, call_tool, reply_text};

struct Tree {
    dir: TempDir,
    tools: ToolRegistry,
}

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        for (path, content) in files {
            put(dir.path(), path, content.as_bytes());
        }
        let workspace = Workspace::open_roots(&[dir.path().to_owned()]).expect("a workspace");
        Self {
            dir,
            tools: build_registry(tools(SearchDeps {
                workspace,
                user_ignore: None,
                views: None,
            })),
        }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    async fn ask(&self, tool: &str, args: Value) -> String {
        reply_text(&call_tool(&self.tools, tool, args).await.expect("an answer")).to_owned()
    }

    async fn refused(&self, tool: &str, args: Value) -> ToolError {
        call_tool(&self.tools, tool, args)
            .await
            .expect_err("a refusal")
    }
}

fn put(root: &Path, path: &str, content: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    fs::write(path, content).expect("a file");
}

fn age(root: &Path, path: &str, seconds: u64) {
    let file = fs::File::options()
        .write(true)
        .open(root.join(path))
        .expect("a file");
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds))
        .expect("a time");
}

/// The lines between the header and the footer.
fn listed(answer: &str) -> Vec<&str> {
    answer
        .lines()
        .skip(1)
        .filter(|line| !line.starts_with('['))
        .collect()
}
