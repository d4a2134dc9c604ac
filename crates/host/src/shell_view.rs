//! A background shell as the tools show it: Bash makes it, and TaskOutput lists it beside tasks.

/// The state of a background shell at one moment.
#[derive(Debug, Clone)]
pub struct ShellView {
    /// Its id: `sh_1`.
    pub id: String,
    /// Its command and purpose, on one line.
    pub title: String,
    /// Its state in words: `running for 12.4 s`.
    pub state: String,
    /// Its command or a process that it left still runs, so more output may come.
    pub running: bool,
    /// The handle of its stored output, if there is any.
    pub handle: Option<String>,
}
