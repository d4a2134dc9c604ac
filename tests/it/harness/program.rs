//! Creates executable files for other processes to run.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes this text to an executable file, and creates missing folders. Another process writes the file. If this
/// process had it open for writing, so would, for a moment, each process that another test starts. The kernel does not
/// execute a file that is open for writing (ETXTBSY in execve(2)).
pub fn make_program(path: &Path, text: &str) {
    let script = r#"mkdir -p "${1%/*}" && cat > "$1" && chmod 755 "$1""#;
    let mut writer = Command::new("/bin/sh");
    let mut writer = writer
        .args(["-c", script, "sh"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    writer
        .stdin
        .take()
        .expect("piped")
        .write_all(text.as_bytes())
        .expect("taken");
    assert!(
        writer.wait().expect("waited for").success(),
        "{}",
        path.display()
    );
}
