//! Runs a script as a process, carries out its commands, and prints its output when it fails.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use super::host::ConformanceHost;
use crate::harness::left_out::can_be_tried;

/// The time limit of a script: no script takes longer on a slow machine under load.
const PATIENCE: Duration = Duration::from_mins(4);

pub struct ConformanceScript {
    pub name: &'static str,
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub folder: PathBuf,
}

impl ConformanceScript {
    /// Runs the script to its end, or prints the reason why this machine cannot run it.
    pub async fn holds_unless(&self, missing: Option<&str>) {
        if can_be_tried(&format!("the {} client of Convex", self.name), missing) {
            self.holds().await;
        }
    }

    async fn holds(&self) {
        let mut host = ConformanceHost::start().await;
        let home = tempfile::tempdir().expect("a folder");
        let mut said = String::new();
        let errors = home.path().join("stderr");
        let ended =
            tokio::time::timeout(PATIENCE, self.run(&mut host, home.path(), &mut said)).await;
        let passed = said.lines().any(|line| line.starts_with("@passed "));
        if !(matches!(ended, Ok(Ok(status)) if status.success()) && passed) {
            let errors = std::fs::read_to_string(errors).unwrap_or_default();
            panic!("the {} client: {ended:?}\n{said}\n{errors}", self.name);
        }
    }

    async fn run(
        &self,
        host: &mut ConformanceHost,
        home: &std::path::Path,
        said: &mut String,
    ) -> std::io::Result<std::process::ExitStatus> {
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .current_dir(&self.folder)
            .env("CONFORMANCE_URL", &host.url)
            .env("CONFORMANCE_WHO", host.who().await.to_string())
            .env("HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(home.join("stderr"))?)
            .kill_on_drop(true)
            .spawn()?;
        let mut answers = child.stdin.take().expect("piped");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        while let Some(line) = lines.next_line().await? {
            said.push_str(&line);
            said.push('\n');
            if let Some(asked) = line
                .strip_prefix('@')
                .filter(|asked| !asked.starts_with("passed "))
            {
                let answer = format!("{}\n", host.answer(asked).await);
                answers.write_all(answer.as_bytes()).await?;
            }
        }
        child.wait().await
    }
}
