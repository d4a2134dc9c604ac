//! Files that are no files: what is read of them is what comes in. Not here: who reads them.

/// Whether a path leads to what a program reads, or to another process's files, rather than to a script.
pub(super) fn is_device(path: &str) -> bool {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let is_apart = path.starts_with('/') || path.split('/').any(|part| part == "..");
    let is_numbered = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    // A relative one may be meant from within such a folder.
    is_apart && matches!(parts.first(), Some(&("dev" | "proc")))
        || parts.last().is_some_and(|last| matches!(*last, "stdin" | "tty") || is_numbered(last))
}
