//! `logs`: shows the end of the background runner's log, and follows it with `-f`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use super::{console, log_file};
use crate::config::WorkspaceRule;
use punie_home::Home;
use punie_text::output::hidden_characters::escape_hidden_characters;

#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Show new lines as they come, until Ctrl-C
    #[arg(short, long)]
    pub(super) follow: bool,
    /// Start with the last N lines
    #[arg(short = 'n', long, default_value_t = 100, value_name = "N")]
    pub(super) lines: usize,
}

/// A line as `--json` shows it.
#[derive(Debug, Serialize)]
struct LogLine<'a> {
    line: &'a str,
}

/// The interval for checking a followed file.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

/// Shows the log.
pub fn run_logs(args: &LogsArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let config = context.effective_config(WorkspaceRule::NotNeeded)?;
    let folder = Home::logs_below(&config.home);
    let files = log_file::log_files(&folder);
    if files.is_empty() && !args.follow {
        let text = format!(
            "there is no log in {}: a runner writes one while it is in the background, or with `file = \"always\"` \
             under [log] in config.toml",
            folder.display()
        );
        return Err(CommandError::with_exit(Exit::Failed, text));
    }
    let json = context.is_json();
    let mut position = LogPosition::at_file_end(&folder.join(log_file::LOG_FILE_NAME));
    for line in read_last_lines(&files, args.lines, position.read_up_to)? {
        show_log_line(&line, json);
    }
    if args.follow {
        command_runtime()?.block_on(async {
            let interrupted = tokio::signal::ctrl_c();
            tokio::pin!(interrupted);
            loop {
                position.read_new_lines(|line| show_log_line(line, json));
                tokio::select! {
                    () = tokio::time::sleep(FOLLOW_INTERVAL) => {}
                    _ = &mut interrupted => return,
                }
            }
        });
    }
    Ok(Exit::Done)
}

fn show_log_line(line: &str, json: bool) {
    if json {
        console::print_json(&LogLine { line });
    } else {
        console::print_unwrapped(&escape_hidden_characters(line));
    }
}

/// Reads the last lines of the files, the latest file first and only up to this offset.
fn read_last_lines(
    files: &[PathBuf],
    count: usize,
    read_up_to: u64,
) -> std::io::Result<VecDeque<String>> {
    let mut wanted: VecDeque<String> = VecDeque::new();
    for (number, path) in files.iter().enumerate() {
        let limit = if number == 0 { read_up_to } else { u64::MAX };
        let mut of_file: VecDeque<String> = VecDeque::new();
        for line in BufReader::new(File::open(path)?.take(limit)).split(b'\n') {
            of_file.push_back(String::from_utf8_lossy(&line?).into_owned());
            if of_file.len() + wanted.len() > count {
                of_file.pop_front();
            }
        }
        of_file.append(&mut wanted);
        wanted = of_file;
        if wanted.len() >= count {
            break;
        }
    }
    Ok(wanted)
}

/// The read position in a file that may be rotated.
struct LogPosition {
    path: PathBuf,
    file: Option<File>,
    read_up_to: u64,
    /// The start of an incomplete line.
    partial_line: Vec<u8>,
}

impl LogPosition {
    fn at_file_end(path: &Path) -> Self {
        let file = File::open(path).ok();
        let read_up_to = file
            .as_ref()
            .and_then(|file| file.metadata().ok())
            .map_or(0, |about| about.len());
        Self {
            path: path.to_owned(),
            file,
            read_up_to,
            partial_line: Vec::new(),
        }
    }

    /// Shows the new lines of the open file and then of its successor.
    fn read_new_lines(&mut self, mut show: impl FnMut(&str)) {
        self.read_open_file(&mut show);
        let replaced = self
            .file
            .as_ref()
            .is_none_or(|file| !log_file::is_same_file(file, &self.path));
        if replaced && let Ok(next) = File::open(&self.path) {
            // Read the lines written between the last check and the rotation.
            self.read_open_file(&mut show);
            self.file = Some(next);
            self.read_up_to = 0;
            self.partial_line.clear();
            self.read_open_file(&mut show);
        }
    }

    fn read_open_file(&mut self, show: &mut impl FnMut(&str)) {
        let Some(file) = &mut self.file else { return };
        let mut news = Vec::new();
        if file.seek(SeekFrom::Start(self.read_up_to)).is_err()
            || file.read_to_end(&mut news).is_err()
        {
            return;
        }
        self.read_up_to += news.len() as u64;
        self.partial_line.extend_from_slice(&news);
        while let Some(end) = self.partial_line.iter().position(|byte| *byte == b'\n') {
            show(&String::from_utf8_lossy(&self.partial_line[..end]));
            self.partial_line.drain(..=end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_last_lines_are_taken_across_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("0"), "5\n6\nhalf").expect("written");
        std::fs::write(path("1"), "3\n4\n").expect("written");
        std::fs::write(path("2"), "1\n2\n").expect("written");
        let files = [path("0"), path("1"), path("2")];
        let last = |count, up_to| read_last_lines(&files, count, up_to).expect("read");
        assert_eq!(last(3, 4), ["4", "5", "6"]);
        assert_eq!(last(1, 4), ["6"]);
        assert_eq!(last(0, 4), [""; 0]);
        assert_eq!(last(100, 4), ["1", "2", "3", "4", "5", "6"]);
    }

    #[test]
    fn whoever_follows_sees_each_line_once_though_the_file_is_rolled() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(log_file::LOG_FILE_NAME);
        let mut seen = Vec::new();
        let mut position = LogPosition::at_file_end(&path);
        position.read_new_lines(|line| seen.push(line.to_owned()));
        let mut file = File::create(&path).expect("made");
        write!(file, "one\ntw").expect("written");
        position.read_new_lines(|line| seen.push(line.to_owned()));
        assert_eq!(seen, ["one"]);
        writeln!(file, "o").expect("written");
        std::fs::rename(&path, folder.path().join("rolled")).expect("renamed");
        writeln!(file, "three").expect("written");
        std::fs::write(&path, "four\n").expect("written");
        position.read_new_lines(|line| seen.push(line.to_owned()));
        assert_eq!(seen, ["one", "two", "three", "four"]);
    }
}
