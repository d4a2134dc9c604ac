//! A seccomp filter as BPF: a binary search over the system call numbers, then tests of the arguments. When a process
//! loads a filter, the kernel runs it once for every number. A linear list of comparisons would therefore cost each
//! command a third of a millisecond.
//!
//! Source: `linux/filter.h`, `linux/seccomp.h` and `linux/audit.h` of the kernel, from which the names come.

use std::collections::BTreeMap;
use std::mem::offset_of;

/// One BPF instruction.
pub type Instruction = libc::sock_filter;

/// The action for a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SyscallAction {
    /// The call is allowed.
    Allowed,
    /// The call fails with this errno.
    Fails(libc::c_int),
    /// The call fails with this errno if every test of one of these lists holds, and is allowed otherwise.
    FailsIf(libc::c_int, Vec<Vec<ArgumentTest>>),
}

/// A test of one argument, by its index. It tests the low 32 bits unless stated otherwise: the kernel reads no more of
/// an `int`, while a pointer has two halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentTest {
    Is(u8, u32),
    IsNot(u8, u32),
    /// The high 32 bits are not this value.
    UpperIsNot(u8, u32),
    /// The masked bits are this value.
    Masked(u8, u32, u32),
    HasAnyOf(u8, u32),
}

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const IF_ANY: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// The kernel's constant for this processor (`AUDIT_ARCH_*`); `None` for processors whose call numbers were not
/// checked.
const PROCESSOR: Option<u32> = if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
    Some(0xC000_003E)
} else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
    Some(0xC000_00B7)
} else if cfg!(target_arch = "riscv64") {
    Some(0xC000_00F3)
} else {
    None
};

/// Compiles the filter from the first number of each range to its action. `None` on an unsupported processor. A call
/// with another processor's numbers, as of a 32-bit program, kills the process.
pub(super) fn compile_filter(calls: &BTreeMap<u32, SyscallAction>) -> Option<Vec<Instruction>> {
    let mut ranges: Vec<(u32, &SyscallAction)> = vec![(0, &SyscallAction::Allowed)];
    for (from, verdict) in calls {
        match ranges.last_mut() {
            Some((_, last)) if *last == verdict => {}
            Some((start, last)) if start == from => *last = verdict,
            _ => ranges.push((*from, verdict)),
        }
    }
    let mut program = vec![
        bpf_statement(LOAD, offset_of!(libc::seccomp_data, arch)),
        bpf_jump(IF_EQUAL, PROCESSOR?, 1, 0),
        return_action(libc::SECCOMP_RET_KILL_PROCESS),
        bpf_statement(LOAD, offset_of!(libc::seccomp_data, nr)),
    ];
    program.extend(compile_ranges(&ranges));
    Some(program)
}

fn compile_ranges(ranges: &[(u32, &SyscallAction)]) -> Vec<Instruction> {
    let [(_, verdict)] = ranges else {
        let (lower, upper) = ranges.split_at(ranges.len() / 2);
        let from = upper[0].0;
        let (lower, upper) = (compile_ranges(lower), compile_ranges(upper));
        // A conditional jump reaches at most 255 instructions.
        let mut all = match u8::try_from(lower.len()) {
            Ok(far) => vec![bpf_jump(IF_AT_LEAST, from, far, 0)],
            Err(_) => vec![
                bpf_jump(IF_AT_LEAST, from, 0, 1),
                bpf_statement(JUMP, lower.len()),
            ],
        };
        all.extend(lower.into_iter().chain(upper));
        return all;
    };
    match verdict {
        SyscallAction::Allowed => vec![return_action(libc::SECCOMP_RET_ALLOW)],
        SyscallAction::Fails(errno) => vec![return_errno(*errno)],
        SyscallAction::FailsIf(errno, lists) => {
            let mut all: Vec<_> = lists
                .iter()
                .flat_map(|list| compile_tests(list, *errno))
                .collect();
            all.push(return_action(libc::SECCOMP_RET_ALLOW));
            all
        }
    }
}

/// Fails if all of these tests hold, and otherwise continues after its last instruction.
fn compile_tests(tests: &[ArgumentTest], errno: libc::c_int) -> Vec<Instruction> {
    // Built from the end, because every failed test jumps past it.
    let mut backwards = vec![return_errno(errno)];
    for test in tests.iter().rev() {
        let away = u8::try_from(backwards.len()).expect("a list has a few tests");
        // All of these processors are little-endian.
        let half = if matches!(test, ArgumentTest::UpperIsNot(..)) {
            4
        } else {
            0
        };
        let place = match test {
            ArgumentTest::Is(place, value) => {
                backwards.push(bpf_jump(IF_EQUAL, *value, 0, away));
                place
            }
            ArgumentTest::IsNot(place, value) | ArgumentTest::UpperIsNot(place, value) => {
                backwards.push(bpf_jump(IF_EQUAL, *value, away, 0));
                place
            }
            ArgumentTest::Masked(place, mask, value) => {
                backwards.push(bpf_jump(IF_EQUAL, *value, 0, away));
                backwards.push(bpf_jump(AND, *mask, 0, 0));
                place
            }
            ArgumentTest::HasAnyOf(place, bits) => {
                backwards.push(bpf_jump(IF_ANY, *bits, 0, away));
                place
            }
        };
        backwards.push(bpf_statement(
            LOAD,
            offset_of!(libc::seccomp_data, args) + 8 * usize::from(*place) + half,
        ));
    }
    backwards.reverse();
    backwards
}

fn return_errno(errno: libc::c_int) -> Instruction {
    return_action(libc::SECCOMP_RET_ERRNO | errno.unsigned_abs())
}

fn return_action(verdict: u32) -> Instruction {
    bpf_jump(RETURN, verdict, 0, 0)
}

fn bpf_statement(code: u32, operand: usize) -> Instruction {
    bpf_jump(
        code,
        u32::try_from(operand).expect("an offset is small"),
        0,
        0,
    )
}

fn bpf_jump(code: u32, operand: u32, if_so: u8, if_not: u8) -> Instruction {
    let code = u16::try_from(code).expect("codes have 16 bits");
    Instruction {
        code,
        jt: if_so,
        jf: if_not,
        k: operand,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Interprets a filter as the kernel does; returns its action and the number of steps.
    pub fn run(program: &[Instruction], number: u32, args: [u64; 6]) -> (u32, usize) {
        let mut at = 0;
        let mut held = 0_u32;
        for steps in 1..=program.len() {
            let Instruction { code, jt, jf, k } = program[at];
            at += 1;
            let branch = |holds: bool| usize::from(if holds { jt } else { jf });
            match u32::from(code) {
                LOAD => {
                    let place = (k as usize).checked_sub(offset_of!(libc::seccomp_data, args));
                    held = match place {
                        Some(place) => {
                            let half = args[place / 8] >> (8 * (place % 8));
                            u32::try_from(half & 0xffff_ffff).expect("32 bits")
                        }
                        None if k == 0 => number,
                        None => PROCESSOR.expect("this one is known"),
                    };
                }
                AND => held &= k,
                JUMP => at += k as usize,
                IF_EQUAL => at += branch(held == k),
                IF_AT_LEAST => at += branch(held >= k),
                IF_ANY => at += branch(held & k != 0),
                RETURN => return (k, steps),
                other => panic!("the code {other:#x}"),
            }
        }
        panic!("it has no end")
    }

    #[test]
    fn every_number_has_its_verdict_however_many_there_are() {
        let verdict = |n: u32| match n % 7 {
            0 => SyscallAction::Fails(libc::EPERM),
            1 => SyscallAction::FailsIf(
                libc::ENOSYS,
                vec![
                    vec![ArgumentTest::Is(0, n), ArgumentTest::IsNot(1, 5)],
                    vec![
                        ArgumentTest::Masked(2, 0xf0, 0x30),
                        ArgumentTest::HasAnyOf(0, 6),
                    ],
                ],
            ),
            _ => SyscallAction::Allowed,
        };
        let calls: BTreeMap<u32, SyscallAction> = (3..900).map(|n| (n, verdict(n))).collect();
        let program = compile_filter(&calls).expect("this processor is known");
        let given =
            |n: u32, args: [u64; 3]| run(&program, n, [args[0], args[1], args[2], 0, 0, 0]).0;
        let fails = |errno: i32| libc::SECCOMP_RET_ERRNO | errno.unsigned_abs();
        for n in 3..900 {
            let nothing = if n % 7 == 0 {
                fails(libc::EPERM)
            } else {
                libc::SECCOMP_RET_ALLOW
            };
            assert_eq!(given(n, [0, 5, 0]), nothing, "{n}");
            if n % 7 == 1 {
                let high = 1 << 40;
                assert_eq!(
                    given(n, [u64::from(n) | high, 4, 0]),
                    fails(libc::ENOSYS),
                    "{n}"
                );
                assert_eq!(
                    given(n, [u64::from(n), 5, 0x20]),
                    libc::SECCOMP_RET_ALLOW,
                    "{n}"
                );
                assert_eq!(given(n, [2, 5, 0x3f]), fails(libc::ENOSYS), "{n}");
                assert_eq!(given(n, [8, 5, 0x3f]), libc::SECCOMP_RET_ALLOW, "{n}");
            }
        }
        assert_eq!(given(2, [0; 3]), libc::SECCOMP_RET_ALLOW);
        assert_eq!(
            given(u32::MAX, [0; 3]),
            given(899, [0; 3]),
            "as the last that is named"
        );
    }
}
