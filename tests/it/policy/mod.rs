//! The owner's rules: how they read command lines, their effect on calls, and the owner's commands.
#![cfg(unix)]

mod access;
mod bound;
mod calls;
mod everyday;
mod grants;
mod lines;
mod owner;
mod spellings;

use std::path::Path;

/// Writes the rules of a home.
fn write_rules(home: &Path, text: &str) {
    std::fs::write(home.join("policy.toml"), text).expect("written");
}

/// A rule that denies `touch`: a call that runs in spite of it leaves a file.
const NO_TOUCH: &str = "\
[[rule]]
name = \"no-touch\"
decision = \"deny\"
reason = \"files are made by hand\"
command = [\"touch\"]
match = [\"touch x\", \"a; touch x\"]
no_match = [\"echo touch\"]
";
