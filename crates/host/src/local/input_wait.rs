//! Detects whether a process is blocked reading its terminal, as Linux shows it.

use super::process_stat::TreeMember;

/// Returns whether one of these processes waits in a system call for input from the terminal with this device number.
/// False if the system does not show it, as for a program of another user.
#[cfg(target_os = "linux")]
pub(super) fn is_any_reading_terminal(members: &[TreeMember], device: u64) -> bool {
    let reads = |member: &TreeMember| {
        let call = std::fs::read_to_string(format!("/proc/{}/syscall", member.pid)).ok()?;
        let file = rustix::fs::stat(format!(
            "/proc/{}/fd/{}",
            member.pid,
            awaited_descriptor(&call)?
        ))
        .ok()?;
        Some(file.st_rdev == device)
    };
    members.iter().any(|member| reads(member) == Some(true))
}

/// Returns false: unknown here.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_any_reading_terminal(_members: &[TreeMember], _device: u64) -> bool {
    false
}

/// Returns the file descriptor from which a system call waits for input: `read`, or `pselect6` on descriptor 0 alone
/// without a timeout, as line editors call it.
#[cfg(target_os = "linux")]
fn awaited_descriptor(call: &str) -> Option<u64> {
    let mut fields = call.split_ascii_whitespace();
    let number = fields.next()?.parse::<i64>().ok()?;
    let hex = |field: &str| u64::from_str_radix(field.trim_start_matches("0x"), 16).ok();
    let args: Vec<u64> = fields.map_while(hex).collect();
    match (number, args.as_slice()) {
        (libc::SYS_read, [fd, ..]) => Some(*fd),
        (libc::SYS_pselect6, [1, set, 0, 0, 0, ..]) if *set != 0 => Some(0),
        _ => None,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_that_waits_for_one_input_is_taken_for_that() {
        let read = libc::SYS_read;
        let select = libc::SYS_pselect6;
        assert_eq!(
            awaited_descriptor(&format!(
                "{read} 0x3 0x55d1 0x1000 0x8 0x7f 0x0 0x7ffc 0x7f53\n"
            )),
            Some(3)
        );
        assert_eq!(
            awaited_descriptor(&format!(
                "{select} 0x1 0x7fff 0x0 0x0 0x0 0x7f 0x7ffc 0x7f53\n"
            )),
            Some(0)
        );
        assert_eq!(
            awaited_descriptor(&format!(
                "{select} 0x1 0x7fff 0x0 0x0 0x7f 0x7f 0x7ffc 0x7f53\n"
            )),
            None,
            "a time limit"
        );
        assert_eq!(
            awaited_descriptor(&format!(
                "{select} 0x5 0x7fff 0x0 0x0 0x0 0x7f 0x7ffc 0x7f53\n"
            )),
            None
        );
        assert_eq!(awaited_descriptor("running\n"), None);
        assert_eq!(awaited_descriptor("-1 0x7ffc 0x7f53\n"), None);
    }
}
