//! Processes that run, as /proc shows them.

/// Whether a process runs; one that only waits to be collected does not.
pub fn is_alive(pid: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().next());
    !matches!(state, Some("Z" | "X"))
}

/// The processes that live and have exactly this among their arguments.
pub fn carrying(argument: &str) -> Vec<u32> {
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
