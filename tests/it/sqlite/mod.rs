//! Tests of SqliteQuery on real databases, and their fixture.

mod asking;
mod changing;
mod files;
mod hostile;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod locking;
mod reach;
#[cfg(target_os = "linux")]
mod worker;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use punie_handlers::sqlite::{SqliteDeps, tools};
use punie_host::Workspace;
use punie_host::worker::WorkerProgram;
use punie_text::redact::{Redactor, Secret};
use punie_tool::request::ToolReply;
use punie_tool::{ToolError, ToolRegistry};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::process::worker_program;
use crate::harness::tools::{build_registry, call_tool, reply_text};

const USERS: &str = "
    CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL, big INTEGER, photo BLOB);
    CREATE INDEX users_by_name ON users (name);
    CREATE VIEW names AS SELECT name FROM users;
    INSERT INTO users VALUES (1, 'ann', 9007199254740993, x'89504e470d0a1a0a0000'), (2, 'bob', NULL, NULL), (3, 'cy', -1, x'01');
";

/// One of the owner's secrets, which the fixture's redactor masks.
const SECRET: &str = "zq81Kf93hfLw02mXbT75vRcD";

struct SqliteFixture {
    dir: TempDir,
    scratch: TempDir,
    tools: ToolRegistry,
}

impl SqliteFixture {
    fn new(sql: &str) -> Self {
        punie_core::record_locks::install_lock_calls();
        let dir = tempfile::tempdir().expect("a folder");
        let scratch = tempfile::tempdir().expect("a folder");
        let connection = Connection::open(dir.path().join("app.db")).expect("a database");
        connection.execute_batch(sql).expect("a schema");
        drop(connection);
        let tools = registry_in(dir.path(), scratch.path(), worker_program());
        Self {
            dir,
            scratch,
            tools,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn ask(&self, mut args: Value) -> Result<ToolReply, ToolError> {
        let map = args.as_object_mut().expect("an object");
        map.entry("database_path").or_insert(json!("app.db"));
        call_tool(&self.tools, "SqliteQuery", args).await
    }

    async fn answer(&self, args: Value) -> String {
        reply_text(&self.ask(args).await.expect("an answer")).to_owned()
    }

    async fn refused(&self, args: Value) -> ToolError {
        match self.ask(args.clone()).await {
            Err(error) => error,
            Ok(reply) => panic!("{args} was answered: {}", reply_text(&reply)),
        }
    }

    /// The content of every file in the workspace, to check that none was added or changed.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        read_contents(self.dir.path())
    }
}

/// Builds the tools of a fixture with another worker.
#[cfg(target_os = "linux")]
fn registry_with_worker(setup: &SqliteFixture, worker: WorkerProgram) -> ToolRegistry {
    registry_in(setup.dir.path(), setup.scratch.path(), worker)
}

fn registry_in(dir: &Path, scratch: &Path, worker: WorkerProgram) -> ToolRegistry {
    build_registry(tools(SqliteDeps {
        workspace: Workspace::open_roots(&[dir.to_owned()]).expect("a workspace"),
        scratch: scratch.join("deeper"),
        home: dir.join("home"),
        redactor: Redactor::new([Secret::new(SECRET.to_owned())]),
        worker,
    }))
}

fn read_contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(dir)
        .expect("a folder")
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.file_type().expect("a kind").is_file())
        .map(|entry| {
            (
                entry.file_name().to_string_lossy().into_owned(),
                fs::read(entry.path()).expect("a file"),
            )
        })
        .collect()
}
