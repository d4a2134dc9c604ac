//! Grep and Glob over a tree of 20,000 files, made once and kept among the build's own files.
//! `cargo bench --bench search`; `SEARCH_TREE=DIR` searches a tree of your own, to compare with `rg` and `fd` there.
#![expect(clippy::disallowed_methods, reason = "a benchmark makes its files")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use divan::Bencher;
use punie_core::ids::RequestId;
use punie_handlers::search::{SearchDeps, tools};
use punie_host::Workspace;
use punie_tool::{ToolContext, ToolRegistry};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// 200 folders of 100 files, of about 5 KB each.
const FOLDERS: usize = 200;
const FILES: usize = 100;

fn main() {
    divan::main();
}

#[divan::bench]
fn grep_rare_word(bencher: Bencher<'_, '_>) {
    // In one file of a hundred.
    ask(bencher, "Grep", &json!({"pattern": "needle_in_[a-z]+"}));
}

#[divan::bench]
fn grep_common_word(bencher: Bencher<'_, '_>) {
    ask(bencher, "Grep", &json!({"pattern": "compute"}));
}

#[divan::bench]
fn grep_a_word_that_is_nowhere(bencher: Bencher<'_, '_>) {
    ask(
        bencher,
        "Grep",
        &json!({"pattern": "a_word_that_is_nowhere"}),
    );
}

#[divan::bench]
fn grep_any_case(bencher: Bencher<'_, '_>) {
    ask(
        bencher,
        "Grep",
        &json!({"pattern": "allocator", "case_insensitive": true, "output_mode": "count"}),
    );
}

#[divan::bench]
fn grep_alternation(bencher: Bencher<'_, '_>) {
    let pattern = r"(unsafe|extern) fn [a-z_]+|TODO\(";
    ask(
        bencher,
        "Grep",
        &json!({"pattern": pattern, "output_mode": "count"}),
    );
}

#[divan::bench]
fn grep_count(bencher: Bencher<'_, '_>) {
    ask(
        bencher,
        "Grep",
        &json!({"pattern": "let", "output_mode": "count"}),
    );
}

#[divan::bench]
fn grep_first_100_lines(bencher: Bencher<'_, '_>) {
    ask(
        bencher,
        "Grep",
        &json!({"pattern": "let", "output_mode": "content"}),
    );
}

#[divan::bench]
fn glob_newest_first(bencher: Bencher<'_, '_>) {
    ask(bencher, "Glob", &json!({"pattern": "**/*.rs"}));
}

#[divan::bench]
fn glob_by_name(bencher: Bencher<'_, '_>) {
    ask(
        bencher,
        "Glob",
        &json!({"pattern": "**/*.rs", "sort": "name"}),
    );
}

#[divan::bench]
fn glob_first_100_in_any_order(bencher: Bencher<'_, '_>) {
    ask(
        bencher,
        "Glob",
        &json!({"pattern": "**/*.rs", "sort": "any", "limit": 100}),
    );
}

#[divan::bench]
fn glob_every_tenth_file(bencher: Bencher<'_, '_>) {
    ask(bencher, "Glob", &json!({"pattern": "**/*.md"}));
}

fn ask(bencher: Bencher<'_, '_>, tool: &str, args: &Value) {
    let (runtime, tools) = (Runtime::new().expect("a runtime"), search_tools(&tree()));
    let (entry, args) = (tools.find(tool).expect("a tool"), args.to_string());
    bencher.bench_local(|| {
        let call = entry.decode_call(&args).expect("its arguments");
        runtime
            .block_on(call.run_call(ToolContext::for_detached_call(RequestId::new())))
            .expect("an answer")
    });
}

fn search_tools(root: &Path) -> ToolRegistry {
    let workspace = Workspace::open_roots(&[root.to_owned()]).expect("a workspace");
    ToolRegistry::new([tools(SearchDeps {
        workspace,
        user_ignore: None,
        views: None,
    })])
    .expect("the names of one domain differ")
}

/// The tree; a mark beside it says that it is whole.
fn tree() -> PathBuf {
    if let Some(own) = std::env::var_os("SEARCH_TREE") {
        return own.into();
    }
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (root, mark) = (place.join("search-tree"), place.join("search-tree.whole"));
    if mark.exists() {
        return root;
    }
    for folder in 0..FOLDERS {
        let path = root
            .join(format!("group_{}", folder / 20))
            .join(format!("folder_{folder}"));
        fs::create_dir_all(&path).expect("a folder");
        for file in 0..FILES {
            let ending = if file % 10 == 0 { "md" } else { "rs" };
            fs::write(
                path.join(format!("file_{file}.{ending}")),
                content(folder, file),
            )
            .expect("a file");
        }
    }
    fs::write(mark, "").expect("a mark");
    root
}

fn content(folder: usize, file: usize) -> String {
    let mut text = String::new();
    for line in 0..120 {
        let _ = writeln!(
            text,
            "    let value_{line} = compute({folder}, {file}, {line});"
        );
    }
    if file == 50 {
        text += "// needle_in_haystack\n";
    }
    text
}
