//! The line on the terminal at which a person types an answer. Other lines of this process, such as its log, are
//! written above it, and it is written again below them.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Returns to the beginning of the line and erases it.
const ERASE_LINE: &[u8] = b"\r\x1b[K";

/// The prompt that stands on the terminal now.
static PROMPT: Mutex<Option<String>> = parking_lot::const_mutex(None);

/// True once this process asks nothing more.
static IS_ENDED: AtomicBool = AtomicBool::new(false);

/// Erases the prompt that stands, and shows none from here on: the process ends.
pub(super) fn end_prompts() {
    let mut prompt = PROMPT.lock();
    IS_ENDED.store(true, Ordering::Relaxed);
    if prompt.take().is_some() {
        write_to_terminal(&[ERASE_LINE]);
    }
}

/// A prompt that stands on the terminal. Dropping it leaves its line, on which the answer was typed.
pub(super) struct ShownPrompt {
    text: String,
    /// True if its line is erased when this is dropped.
    is_erased: bool,
}

impl ShownPrompt {
    /// Shows this prompt. It must fit on one line of the terminal.
    pub fn show(text: &str) -> Self {
        let mut shown = Self {
            text: String::new(),
            is_erased: false,
        };
        shown.change_text(text);
        shown
    }

    /// Replaces its text.
    pub fn change_text(&mut self, text: &str) {
        if self.text != text {
            let mut prompt = PROMPT.lock();
            if IS_ENDED.load(Ordering::Relaxed) {
                return;
            }
            write_to_terminal(&[ERASE_LINE, text.as_bytes()]);
            *prompt = Some(text.to_owned());
            text.clone_into(&mut self.text);
        }
    }

    /// Removes it from the terminal.
    pub fn erase(mut self) {
        self.is_erased = true;
    }
}

impl Drop for ShownPrompt {
    fn drop(&mut self) {
        let mut prompt = PROMPT.lock();
        if prompt.take().is_some() && self.is_erased {
            write_to_terminal(&[ERASE_LINE]);
        }
    }
}

/// Writes lines to this output. If it is the terminal, a standing prompt moves below them. The output must not be locked
/// by the caller.
pub(super) fn write_above_prompt(
    out: &mut (impl Write + IsTerminal),
    lines: &[u8],
) -> io::Result<()> {
    let prompt = PROMPT.lock();
    let standing = prompt.as_ref().filter(|_| out.is_terminal());
    if standing.is_some() {
        out.write_all(ERASE_LINE)?;
    }
    out.write_all(lines)?;
    out.flush()?;
    if let Some(text) = standing {
        write_to_terminal(&[text.as_bytes()]);
    }
    Ok(())
}

/// Writes to the terminal: stdout, or stderr if only that is one. If it is gone, there is nobody to read a prompt.
fn write_to_terminal(parts: &[&[u8]]) {
    let text = parts.concat();
    let written = if io::stdout().is_terminal() {
        let mut out = io::stdout().lock();
        out.write_all(&text).and_then(|()| out.flush())
    } else {
        io::stderr().lock().write_all(&text)
    };
    // If the terminal is gone, nobody reads it.
    let _ = written;
}
