//! The owner's rules: what they see of command lines, what they do to calls, what the owner types.
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

/// A rule against `touch`, for calls that would be seen to have run.
const NO_TOUCH: &str = "\
[[rule]]
name = \"no-touch\"
decision = \"deny\"
reason = \"files are made by hand\"
command = [\"touch\"]
match = [\"touch x\", \"a; touch x\"]
no_match = [\"echo touch\"]
";
