//! Runs the program on a pseudo-terminal, reads its screen and types as a person does.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

use super::interrupt_signal::restore_interrupts;
use super::process::{PROGRAM, ProcessSetting};
use super::terminal::open_terminal;
use super::wait::wait_until;

/// A program on a terminal of 80 columns. Dropping it kills the program.
pub struct OnTerminal {
    child: Child,
    typed: File,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl OnTerminal {
    pub fn start(setting: &ProcessSetting, args: &[&str]) -> Self {
        let (ours, theirs) = open_terminal();
        let side = || Stdio::from(theirs.try_clone().expect("a copy"));
        restore_interrupts();
        let mut command = Command::new(PROGRAM);
        setting.set_environment(&mut command);
        let child = command
            .args(args)
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .expect("started");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let screen = Arc::clone(&shown);
        let mut output = ours.try_clone().expect("a copy");
        let reader = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // `read` fails once the program's side of the terminal is closed.
            while let Ok(read @ 1..) = output.read(&mut piece) {
                let mut screen = screen.lock();
                screen.extend_from_slice(&piece[..read]);
            }
        });
        Self {
            child,
            typed: ours,
            shown,
            reader,
        }
    }

    /// All output so far, with line feeds as in a file.
    pub fn shown(&self) -> String {
        let shown = self.shown.lock();
        String::from_utf8_lossy(&shown).replace("\r\n", "\n")
    }

    /// Waits until the terminal has shown these words at least so many times.
    pub async fn shows_times(&self, words: &str, times: usize) {
        wait_until(&format!("{words:?} {times} times on the terminal"), || {
            self.shown().matches(words).count() >= times
        })
        .await;
    }

    /// Waits until the terminal has shown these words.
    pub async fn shows(&self, words: &str) {
        self.shows_times(words, 1).await;
    }

    pub fn types(&mut self, text: &str) {
        self.typed.write_all(text.as_bytes()).expect("typed");
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub fn interrupt(&self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("it runs"), Signal::INT).expect("it runs");
    }

    /// Waits until the program ends by itself, and until all its output is read.
    pub async fn end(&mut self) -> Option<i32> {
        wait_until("the end of the program", || {
            self.child
                .try_wait()
                .expect("its status can be read")
                .is_some()
        })
        .await;
        wait_until("all its output to be read", || self.reader.is_finished()).await;
        self.child.wait().expect("it ended").code()
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
