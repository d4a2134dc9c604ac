//! The system calls that are refused to confined commands. Not here: compiling the filter (bpf) and loading it
//! (acp::local).
//!
//! The listed calls bypass the other restrictions: kernel interfaces with a history of vulnerabilities, the memory of
//! other processes, namespaces, and sockets of families that the network setting does not include.

use std::collections::BTreeMap;

use super::bpf::{self, Instruction, Test, Verdict};
use super::level::Network;

/// Calls that are refused with any arguments.
const REFUSED: &[libc::c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Kernel interfaces.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_fanotify_init,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_unshare,
    libc::SYS_setns,
];

/// Calls that are reported as missing, so that programs fall back to others. A filter cannot see the arguments of
/// `clone3`.
const ABSENT: &[libc::c_long] =
    &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// The bit of x32 system call numbers: on x86-64 the kernel may accept each call by a second number. No program here
/// is built for x32.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// System V shared memory, semaphores and messages, and POSIX queues: their names are shared by all processes of an
/// IPC namespace.
const BY_COMMON_NAMES: &[libc::c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// `RLIMIT_LOCKS`, the same on all of these processors.
const LOCKS: u32 = 10;

/// The `ioctl` requests that insert input into a terminal: `TIOCSTI`, and on a console `TIOCLINUX`.
const TYPING: [u32; 2] = [0x5412, 0x541c];

type Calls = BTreeMap<u32, Verdict>;

/// The restrictions that other mechanisms already enforce.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elsewhere {
    /// Landlock prevents the truncation of files that are only readable.
    pub lengths: bool,
    /// Commands have their own IPC namespace.
    pub names: bool,
}

/// Builds the filter for a process that needs no network, or `None` on an unsupported processor.
pub fn filter_without_network() -> Option<Vec<Instruction>> {
    filter(Network::None, Elsewhere { lengths: true, names: false })
}

/// Builds the filter for this network setting, or `None` on an unsupported processor. It adds the restrictions that no
/// other mechanism enforces.
pub(super) fn filter(network: Network, elsewhere: Elsewhere) -> Option<Vec<Instruction>> {
    let mut calls = Calls::new();
    for call in BY_COMMON_NAMES.iter().filter(|_| !elsewhere.names) {
        add(&mut calls, *call, Verdict::Fails(libc::ENOSYS));
    }
    for call in REFUSED {
        add(&mut calls, *call, Verdict::Fails(libc::EPERM));
    }
    for call in ABSENT {
        add(&mut calls, *call, Verdict::Fails(libc::ENOSYS));
    }
    let namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    // With CLONE_PARENT, the child would be the runner's and would never be reaped.
    let made = bits(namespaces | libc::CLONE_PARENT);
    add(&mut calls, libc::SYS_clone, refused_if(vec![vec![Test::HasAnyOf(0, made)]]));
    add(&mut calls, libc::SYS_socket, refused_if(sockets(network)));
    // Refuse limits of another process: a limit on processor time can end it. Also refuse setting RLIMIT_LOCKS, by
    // which commands are recognised. Reading it, with a null pointer, is allowed.
    let sets = [Test::IsNot(2, 0), Test::UpperIsNot(2, 0)].map(|half| vec![Test::Is(1, LOCKS), half]);
    let of_others = vec![Test::IsNot(0, 0)];
    add(&mut calls, libc::SYS_prlimit64, refused_if([vec![of_others], sets.to_vec()].concat()));
    #[cfg(not(target_arch = "riscv64"))]
    add(&mut calls, libc::SYS_setrlimit, refused_if(vec![vec![Test::Is(0, LOCKS)]]));
    keep_pace(&mut calls);
    let types = TYPING.map(|request| vec![Test::Is(1, request)]);
    add(&mut calls, libc::SYS_ioctl, refused_if(types.to_vec()));
    if !elsewhere.lengths {
        keep_lengths(&mut calls);
    }
    // Allow all other calls: end each range after its number.
    let behind: Vec<u32> = calls.keys().map(|call| call + 1).collect();
    for call in behind {
        calls.entry(call).or_insert(Verdict::Allowed);
    }
    #[cfg(target_arch = "x86_64")]
    calls.insert(X32, Verdict::Fails(libc::ENOSYS));
    bpf::program(&calls)
}

fn refused_if(lists: Vec<Vec<Test>>) -> Verdict {
    Verdict::FailsIf(libc::EPERM, lists)
}

/// Refuses changing the scheduling of other processes. A program may change its own, by process id 0.
fn keep_pace(calls: &mut Calls) {
    let of_others = |process: u8| vec![Test::IsNot(process, 0)];
    for call in [libc::SYS_sched_setscheduler, libc::SYS_sched_setparam, libc::SYS_sched_setattr] {
        add(calls, call, refused_if(vec![of_others(0)]));
    }
    // All processes of this user (`PRIO_USER`, `IOPRIO_WHO_USER`).
    for (call, of_the_user) in [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)] {
        add(calls, call, refused_if(vec![of_others(1), vec![Test::Is(0, of_the_user)]]));
    }
}

/// Refuses truncation without write access, by path or by opening: with read access, or with neither, which is also a
/// mode (3, for `ioctl` only). The arguments of `openat2` cannot be seen.
fn keep_lengths(calls: &mut Calls) {
    let mask = bits(libc::O_ACCMODE | libc::O_TRUNC);
    let cut = |flags: u8, mode: libc::c_int| vec![Test::Masked(flags, mask, bits(mode | libc::O_TRUNC))];
    let cuts = |flags: u8| refused_if(vec![cut(flags, libc::O_RDONLY), cut(flags, libc::O_ACCMODE)]);
    add(calls, libc::SYS_truncate, Verdict::Fails(libc::EPERM));
    add(calls, libc::SYS_openat, cuts(2));
    #[cfg(target_arch = "x86_64")]
    add(calls, libc::SYS_open, cuts(1));
    add(calls, libc::SYS_openat2, Verdict::Fails(libc::ENOSYS));
}

/// Returns the tests for refused sockets.
fn sockets(network: Network) -> Vec<Vec<Test>> {
    let families: &[libc::c_int] = match network {
        Network::None => &[libc::AF_UNIX],
        // Programs list the machine's addresses through Netlink.
        Network::Loopback | Network::Full => {
            &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]
        }
    };
    let mut refused = vec![families.iter().map(|family| Test::IsNot(0, bits(*family))).collect()];
    if network != Network::None {
        let of = |family: libc::c_int| Test::Is(0, bits(family));
        refused.push(vec![of(libc::AF_NETLINK), Test::IsNot(2, bits(libc::NETLINK_ROUTE))]);
        for family in [libc::AF_INET, libc::AF_INET6] {
            refused.push(vec![of(family), Test::Masked(1, 0xf, bits(libc::SOCK_RAW))]);
        }
    }
    refused
}

fn bits(of: libc::c_int) -> u32 {
    of.cast_unsigned()
}

fn add(calls: &mut Calls, call: libc::c_long, verdict: Verdict) {
    calls.insert(u32::try_from(call).expect("the numbers of calls are small"), verdict);
}

#[cfg(test)]
mod tests {
    use libc::{
        AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, AF_VSOCK, SOCK_CLOEXEC, SOCK_RAW, SOCK_STREAM,
    };

    use super::super::bpf::tests::run;
    use super::*;

    const REFUSAL: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    const ABSENCE: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    const ALLOWANCE: u32 = libc::SECCOMP_RET_ALLOW;

    const NOWHERE: Elsewhere = Elsewhere { lengths: false, names: false };

    fn number(call: libc::c_long) -> u32 {
        u32::try_from(call).expect("small")
    }

    #[test]
    fn what_is_listed_is_refused_and_the_rest_is_not_in_a_few_steps() {
        for network in [Network::None, Network::Loopback, Network::Full] {
            for kept in [true, false] {
                let elsewhere = Elsewhere { lengths: kept, names: kept };
                let filter = filter(network, elsewhere).expect("this processor is known");
                // BPF_MAXINSNS.
                assert!(filter.len() < 4096, "{network:?}");
                let mut special = vec![
                    libc::SYS_socket,
                    libc::SYS_prlimit64,
                    libc::SYS_setrlimit,
                    libc::SYS_ioctl,
                    libc::SYS_setpriority,
                    libc::SYS_ioprio_set,
                ];
                special.extend_from_slice(if kept { &[] } else { &[libc::SYS_truncate, libc::SYS_openat2] });
                for call in 0..1000 {
                    let (given, steps) = run(&filter, call, [0; 6]);
                    let is_in = |list: &[libc::c_long]| list.iter().any(|listed| number(*listed) == call);
                    if !is_in(&special) {
                        let expected = match () {
                            () if is_in(REFUSED) => REFUSAL,
                            () if is_in(ABSENT) || !kept && is_in(BY_COMMON_NAMES) => ABSENCE,
                            () => ALLOWANCE,
                        };
                        assert_eq!(given, expected, "{call} with {network:?}");
                    }
                    assert!(steps <= 24, "{steps} steps for {call}");
                }
                #[cfg(target_arch = "x86_64")]
                for call in [X32, X32 | number(libc::SYS_read), X32 | 0x209, u32::MAX] {
                    assert_eq!(run(&filter, call, [0; 6]).0, ABSENCE, "{call:#x}");
                }
            }
        }
    }

    #[test]
    fn what_depends_on_arguments_is_refused_by_them() {
        let given = |network: Network, call: libc::c_long, args: [libc::c_int; 3]| {
            let filter = filter(network, NOWHERE).expect("this processor is known");
            let args = args.map(|arg| u64::from(bits(arg)));
            run(&filter, number(call), [args[0], args[1], args[2], 0, 0, 0]).0
        };
        for network in [Network::Loopback, Network::Full] {
            for (args, expected) in [
                ([AF_UNIX, SOCK_STREAM, 0], ALLOWANCE),
                ([AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0], ALLOWANCE),
                ([AF_INET6, SOCK_RAW | SOCK_CLOEXEC, 0], REFUSAL),
                ([AF_INET, SOCK_RAW, 0], REFUSAL),
                ([AF_NETLINK, SOCK_RAW, libc::NETLINK_ROUTE], ALLOWANCE),
                ([AF_NETLINK, SOCK_RAW, libc::NETLINK_ROUTE + 1], REFUSAL),
                ([AF_PACKET, SOCK_RAW, 0], REFUSAL),
                ([AF_VSOCK, SOCK_STREAM, 0], REFUSAL),
            ] {
                assert_eq!(given(network, libc::SYS_socket, args), expected, "{args:?}");
            }
        }
        assert_eq!(given(Network::None, libc::SYS_socket, [AF_UNIX, SOCK_STREAM, 0]), ALLOWANCE);
        assert_eq!(given(Network::None, libc::SYS_socket, [AF_INET, SOCK_STREAM, 0]), REFUSAL);
        let other = |call, args| given(Network::Loopback, call, args);
        assert_eq!(other(libc::SYS_clone, [libc::CLONE_VM | libc::SIGCHLD, 0, 0]), ALLOWANCE);
        assert_eq!(other(libc::SYS_clone, [libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0]), REFUSAL);
        assert_eq!(other(libc::SYS_clone, [libc::CLONE_PARENT | libc::SIGCHLD, 0, 0]), REFUSAL);
        for (call, args, expected) in [
            (libc::SYS_setpriority, [0, 0, 19], ALLOWANCE),
            (libc::SYS_setpriority, [0, 7, 19], REFUSAL),
            (libc::SYS_setpriority, [2, 0, 19], REFUSAL),
            (libc::SYS_ioprio_set, [1, 0, 3], ALLOWANCE),
            (libc::SYS_ioprio_set, [3, 0, 3], REFUSAL),
            (libc::SYS_sched_setscheduler, [0, libc::SCHED_IDLE, 0], ALLOWANCE),
            (libc::SYS_sched_setscheduler, [7, libc::SCHED_IDLE, 0], REFUSAL),
            (libc::SYS_sched_setattr, [7, 0, 0], REFUSAL),
        ] {
            assert_eq!(other(call, args), expected, "{call} {args:?}");
        }
        assert_eq!(other(libc::SYS_prlimit64, [0, 1, 0]), ALLOWANCE);
        assert_eq!(other(libc::SYS_prlimit64, [1, 1, 0]), REFUSAL);
        assert_eq!(other(libc::SYS_prlimit64, [0, 10, 0]), ALLOWANCE, "to ask is allowed");
        assert_eq!(other(libc::SYS_prlimit64, [0, 10, 1]), REFUSAL);
        let filter = filter(Network::Loopback, NOWHERE).expect("this processor is known");
        let by_pointer = |at| run(&filter, number(libc::SYS_prlimit64), [0, 10, at, 0, 0, 0]).0;
        assert_eq!([by_pointer(1 << 32), by_pointer(7 << 40), by_pointer(u64::MAX)], [REFUSAL; 3]);
        for (request, expected) in
            [(0x5412, REFUSAL), (0x541c, REFUSAL), (0x5413, ALLOWANCE), (0x5401, ALLOWANCE)]
        {
            let with =
                |upper: u64| run(&filter, number(libc::SYS_ioctl), [0, upper << 32 | request, 0, 0, 0, 0]).0;
            assert_eq!((with(0), with(1)), (expected, expected), "{request:#x}");
        }
        let open = |flags| other(libc::SYS_openat, [libc::AT_FDCWD, 0, flags]);
        assert_eq!((open(libc::O_RDONLY), open(libc::O_WRONLY | libc::O_TRUNC)), (ALLOWANCE, ALLOWANCE));
        for neither_to_write in [libc::O_RDONLY, libc::O_ACCMODE] {
            assert_eq!(open(neither_to_write | libc::O_TRUNC | libc::O_CLOEXEC), REFUSAL);
            assert_eq!(open(neither_to_write | libc::O_CLOEXEC), ALLOWANCE);
        }
        assert_eq!(open(libc::O_RDWR | libc::O_TRUNC), ALLOWANCE);
    }
}
