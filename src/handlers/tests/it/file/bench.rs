//! A workspace with the file tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punie_handlers::file::{FileDeps, tools};
use punie_host::local::local_files::LocalFiles;
use punie_host::worker::WorkerProgram;
use punie_host::{FileClient, Workspace};
use punie_tool::{ToolError, ToolRegistry, ToolReply};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::process::worker_program;
use crate::harness::tools::{build_registry, call_tool, reply_text};

/// A workspace with a folder beside it that no tool may reach.
pub struct Bench {
    _dir: TempDir,
    pub root: PathBuf,
    pub outside: PathBuf,
    pub workspace: Workspace,
    pub tools: ToolRegistry,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(Arc::new(LocalFiles::new()))
    }

    /// With another client for the files.
    pub fn with(client: Arc<dyn FileClient>) -> Self {
        Self::at(tempfile::tempdir().unwrap(), client)
    }

    /// In a folder of the caller's choice.
    pub fn at(dir: TempDir, client: Arc<dyn FileClient>) -> Self {
        Self::with_worker(dir, client, worker_program())
    }

    /// With another program as the worker.
    pub fn with_worker(dir: TempDir, client: Arc<dyn FileClient>, worker: WorkerProgram) -> Self {
        let base = fs::canonicalize(dir.path()).unwrap();
        let (root, outside) = (base.join("root"), base.join("root-evil"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("f"), "secret\n").unwrap();
        let real = [root.canonicalize().unwrap()];
        let workspace = Workspace::open_existing(&real, Some(root.join("home")));
        let deps = FileDeps::new(client, workspace.clone(), worker);
        Self {
            _dir: dir,
            root,
            outside,
            workspace,
            tools: build_registry(tools(deps)),
        }
    }

    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub fn get(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).unwrap()
    }

    pub async fn call(&self, tool: &str, args: Value) -> Result<ToolReply, ToolError> {
        call_tool(&self.tools, tool, args).await
    }

    pub async fn ok(&self, tool: &str, args: Value) -> ToolReply {
        self.call(tool, args.clone())
            .await
            .unwrap_or_else(|error| panic!("{tool} {args}: {error}"))
    }

    pub async fn refused(&self, tool: &str, args: Value) -> ToolError {
        match self.call(tool, args.clone()).await {
            Ok(reply) => panic!("{tool} {args} was served: {}", reply_text(&reply)),
            Err(error) => error,
        }
    }

    pub async fn read(&self, args: Value) -> String {
        reply_text(&self.ok("Read", args).await).to_owned()
    }

    /// Every file with its content, but for temporary ones, of which there are none.
    pub fn tree(&self) -> Vec<(String, Vec<u8>)> {
        self.assert_tidy();
        let mut files = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path
                        .strip_prefix(&self.root)
                        .unwrap()
                        .to_str()
                        .unwrap()
                        .to_owned();
                    files.push((name, fs::read(&path).unwrap()));
                }
            }
        }
        files.sort();
        files
    }

    /// No temporary file is left behind.
    pub fn assert_tidy(&self) {
        let left: Vec<_> = fs::read_dir(&self.root)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap_or_default())
            .filter(|name| Path::new(name).extension().is_some_and(|ext| ext == "tmp"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// So many lines of this pattern, each with its number.
pub fn counted(lines: usize, pattern: &str) -> String {
    (1..=lines)
        .flat_map(|n| [pattern.replace("{}", &n.to_string())])
        .collect()
}
