//! Finds running processes and their state in /proc.

/// Returns true while a process executes code. On a busy machine, the kernel may need seconds to remove a process that
/// has ended.
pub fn is_alive(pid: &str) -> bool {
    // `PF_EXITING`, see proc_pid_stat(5).
    const EXITING: u64 = 0x4;
    let Some(fields) = stat_fields(pid) else {
        return false;
    };
    let number = |at: usize| fields[at].parse::<u64>().expect("a number");
    let is_ending = matches!(fields[0].as_str(), "Z" | "X") || number(6) & EXITING != 0;
    // The main thread may end before other threads.
    !is_ending || number(17) > 1
}

/// The fields of /proc/PID/stat after the process name; the first one is the state.
fn stat_fields(pid: &str) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = stat.rsplit(')').next()?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// The running processes with exactly this argument.
pub fn processes_with_argument(argument: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc")
        .expect("the processes")
        .filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words
            .split(|b| *b == 0)
            .any(|word| word == argument.as_bytes())
    };
    pids.filter(has)
        .filter(|pid| is_alive(&pid.to_string()))
        .collect()
}
