//! Programs that tests make for others to run.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes this text a program, and its folders where they are not there. Another process writes it: what this one has
/// open for writing is open for a moment in every process that another test is just starting, and no program is run that
/// somebody has open so (ETXTBSY in execve(2)).
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
