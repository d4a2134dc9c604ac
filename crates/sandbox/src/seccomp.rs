//! The system calls that are refused to confined commands. Not here: compiling the filter (bpf) and loading it
//! (enter_sandbox).
//!
//! The listed calls bypass the other restrictions: kernel interfaces with a history of vulnerabilities, the memory of
//! other processes, namespaces, and sockets of families that the network setting does not include.

use std::collections::BTreeMap;

use super::bpf::{self, ArgumentTest, Instruction, SyscallAction};
use super::level::NetworkAccess;

/// Calls that are refused with any arguments.
const DENIED_CALLS: &[libc::c_long] = &[
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
const MISSING_CALLS: &[libc::c_long] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// The bit of x32 system call numbers: on x86-64 the kernel may accept each call by a second number. No program here
/// is built for x32.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// System V shared memory, semaphores and messages, and POSIX queues: their names are shared by all processes of an
/// IPC namespace.
const SHARED_IPC_CALLS: &[libc::c_long] = &[
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
const RLIMIT_LOCKS: u32 = 10;

/// The `ioctl` requests that insert input into a terminal: `TIOCSTI`, and on a console `TIOCLINUX`.
const TERMINAL_INPUT_REQUESTS: [u32; 2] = [0x5412, 0x541c];

type SyscallActions = BTreeMap<u32, SyscallAction>;

/// The restrictions that other mechanisms already enforce.
#[derive(Debug, Clone, Copy)]
pub(super) struct OtherRestrictions {
    /// Landlock prevents the truncation of files that are only readable.
    pub blocks_truncation: bool,
    /// Commands have their own IPC namespace.
    pub has_ipc_namespace: bool,
}

/// Builds the filter for a process that needs no network, or `None` on an unsupported processor.
pub fn filter_without_network() -> Option<Vec<Instruction>> {
    build_filter(
        NetworkAccess::None,
        OtherRestrictions {
            blocks_truncation: true,
            has_ipc_namespace: false,
        },
    )
}

/// Builds the filter for this network setting, or `None` on an unsupported processor. It adds the restrictions that no
/// other mechanism enforces.
pub(super) fn build_filter(
    network: NetworkAccess,
    elsewhere: OtherRestrictions,
) -> Option<Vec<Instruction>> {
    let mut calls = SyscallActions::new();
    for call in SHARED_IPC_CALLS
        .iter()
        .filter(|_| !elsewhere.has_ipc_namespace)
    {
        add_action(&mut calls, *call, SyscallAction::Fails(libc::ENOSYS));
    }
    for call in DENIED_CALLS {
        add_action(&mut calls, *call, SyscallAction::Fails(libc::EPERM));
    }
    for call in MISSING_CALLS {
        add_action(&mut calls, *call, SyscallAction::Fails(libc::ENOSYS));
    }
    let namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    // With CLONE_PARENT, the child would be the runner's and would never be reaped.
    let made = to_bits(namespaces | libc::CLONE_PARENT);
    add_action(
        &mut calls,
        libc::SYS_clone,
        deny_if(vec![vec![ArgumentTest::HasAnyOf(0, made)]]),
    );
    add_action(
        &mut calls,
        libc::SYS_socket,
        deny_if(denied_sockets(network)),
    );
    // Refuse to set limits of another process: a limit on processor time can end it. Also refuse to set RLIMIT_LOCKS,
    // by which commands are recognised. Reading, with a null pointer, is allowed.
    let is_set = [ArgumentTest::IsNot(2, 0), ArgumentTest::UpperIsNot(2, 0)];
    let refused = [ArgumentTest::IsNot(0, 0), ArgumentTest::Is(1, RLIMIT_LOCKS)];
    let sets = is_set.map(|half| refused.map(|of| vec![of, half]));
    add_action(&mut calls, libc::SYS_prlimit64, deny_if(sets.concat()));
    #[cfg(not(target_arch = "riscv64"))]
    add_action(
        &mut calls,
        libc::SYS_setrlimit,
        deny_if(vec![vec![ArgumentTest::Is(0, RLIMIT_LOCKS)]]),
    );
    deny_rescheduling(&mut calls);
    let types = TERMINAL_INPUT_REQUESTS.map(|request| vec![ArgumentTest::Is(1, request)]);
    add_action(&mut calls, libc::SYS_ioctl, deny_if(types.to_vec()));
    deny_set_id_bits(&mut calls);
    deny_opens(&mut calls, elsewhere.blocks_truncation);
    // Allow all other calls: end each range after its number.
    let behind: Vec<u32> = calls.keys().map(|call| call + 1).collect();
    for call in behind {
        calls.entry(call).or_insert(SyscallAction::Allowed);
    }
    #[cfg(target_arch = "x86_64")]
    calls.insert(X32, SyscallAction::Fails(libc::ENOSYS));
    bpf::compile_filter(&calls)
}

fn deny_if(lists: Vec<Vec<ArgumentTest>>) -> SyscallAction {
    SyscallAction::FailsIf(libc::EPERM, lists)
}

/// Refuses changing the scheduling of other processes. A program may change its own, by process id 0. C libraries name a
/// thread by its id (`pthread_setschedparam`, in every program that uses ZeroMQ). A filter cannot tell whose id it is, so
/// with an id only the usual policy passes, which a process has unless somebody gave it another.
fn deny_rescheduling(calls: &mut SyscallActions) {
    let of_others = |process: u8| vec![ArgumentTest::IsNot(process, 0)];
    for call in [libc::SYS_sched_setparam, libc::SYS_sched_setattr] {
        add_action(calls, call, deny_if(vec![of_others(0)]));
    }
    let unusual = ArgumentTest::IsNot(1, to_bits(libc::SCHED_OTHER));
    add_action(
        calls,
        libc::SYS_sched_setscheduler,
        deny_if(vec![vec![ArgumentTest::IsNot(0, 0), unusual]]),
    );
    // All processes of this user (`PRIO_USER`, `IOPRIO_WHO_USER`).
    for (call, of_the_user) in [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)] {
        add_action(
            calls,
            call,
            deny_if(vec![of_others(1), vec![ArgumentTest::Is(0, of_the_user)]]),
        );
    }
}

/// The set-user-ID and set-group-ID bits of a mode. A program with one runs with the owner's rights for other users.
const SET_ID_BITS: u32 = 0o6000;
/// `fchmodat2`, which not every C library's header has.
const SYS_FCHMODAT2: libc::c_long = 452;

/// Refuses modes with a set-ID bit.
fn deny_set_id_bits(calls: &mut SyscallActions) {
    let modes = [
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (SYS_FCHMODAT2, 2),
        (libc::SYS_mknodat, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, 1),
    ];
    for (call, mode) in modes {
        let has_bit = vec![vec![ArgumentTest::HasAnyOf(mode, SET_ID_BITS)]];
        add_action(calls, call, deny_if(has_bit));
    }
}

/// Refuses opening a new file with a set-ID bit, and, unless another mechanism does, truncation without write access: by
/// path or by opening with read access, or with neither, which is also a mode (3, for `ioctl` only). The arguments of
/// `openat2` cannot be seen.
fn deny_opens(calls: &mut SyscallActions, blocks_truncation: bool) {
    // The second is the bit of O_TMPFILE alone.
    let creates = to_bits(libc::O_CREAT) | 0o20_000_000;
    let mask = to_bits(libc::O_ACCMODE | libc::O_TRUNC);
    let denied = |flags: u8| {
        let cut = |mode: libc::c_int| {
            let wanted = to_bits(mode | libc::O_TRUNC);
            vec![ArgumentTest::Masked(flags, mask, wanted)]
        };
        let set_id = vec![
            ArgumentTest::HasAnyOf(flags, creates),
            ArgumentTest::HasAnyOf(flags + 1, SET_ID_BITS),
        ];
        let mut lists = vec![set_id];
        if !blocks_truncation {
            lists.extend([cut(libc::O_RDONLY), cut(libc::O_ACCMODE)]);
        }
        deny_if(lists)
    };
    add_action(calls, libc::SYS_openat, denied(2));
    #[cfg(target_arch = "x86_64")]
    add_action(calls, libc::SYS_open, denied(1));
    add_action(calls, libc::SYS_openat2, SyscallAction::Fails(libc::ENOSYS));
    if !blocks_truncation {
        add_action(calls, libc::SYS_truncate, SyscallAction::Fails(libc::EPERM));
    }
}

/// Returns the tests for refused sockets.
fn denied_sockets(network: NetworkAccess) -> Vec<Vec<ArgumentTest>> {
    let families: &[libc::c_int] = match network {
        NetworkAccess::None => &[libc::AF_UNIX],
        // Programs list the machine's addresses through Netlink.
        NetworkAccess::Loopback | NetworkAccess::Ask | NetworkAccess::Full => &[
            libc::AF_UNIX,
            libc::AF_INET,
            libc::AF_INET6,
            libc::AF_NETLINK,
        ],
    };
    let mut refused = vec![
        families
            .iter()
            .map(|family| ArgumentTest::IsNot(0, to_bits(*family)))
            .collect(),
    ];
    if network != NetworkAccess::None {
        let of = |family: libc::c_int| ArgumentTest::Is(0, to_bits(family));
        refused.push(vec![
            of(libc::AF_NETLINK),
            ArgumentTest::IsNot(2, to_bits(libc::NETLINK_ROUTE)),
        ]);
        for family in [libc::AF_INET, libc::AF_INET6] {
            refused.push(vec![
                of(family),
                ArgumentTest::Masked(1, 0xf, to_bits(libc::SOCK_RAW)),
            ]);
        }
    }
    refused
}

fn to_bits(of: libc::c_int) -> u32 {
    of.cast_unsigned()
}

fn add_action(calls: &mut SyscallActions, call: libc::c_long, verdict: SyscallAction) {
    calls.insert(
        u32::try_from(call).expect("the numbers of calls are small"),
        verdict,
    );
}

#[cfg(test)]
mod tests {
    use libc::{
        AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, AF_VSOCK, SOCK_CLOEXEC, SOCK_RAW,
        SOCK_STREAM,
    };

    use super::super::bpf::tests::run;
    use super::*;

    const REFUSAL: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    const ABSENCE: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    const ALLOWANCE: u32 = libc::SECCOMP_RET_ALLOW;

    const NOWHERE: OtherRestrictions = OtherRestrictions {
        blocks_truncation: false,
        has_ipc_namespace: false,
    };

    fn number(call: libc::c_long) -> u32 {
        u32::try_from(call).expect("small")
    }

    #[test]
    fn what_is_listed_is_refused_and_the_rest_is_not_in_a_few_steps() {
        for network in [
            NetworkAccess::None,
            NetworkAccess::Loopback,
            NetworkAccess::Ask,
            NetworkAccess::Full,
        ] {
            for kept in [true, false] {
                let elsewhere = OtherRestrictions {
                    blocks_truncation: kept,
                    has_ipc_namespace: kept,
                };
                let filter = build_filter(network, elsewhere).expect("this processor is known");
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
                special.push(libc::SYS_openat2);
                if !kept {
                    special.push(libc::SYS_truncate);
                }
                for call in 0..1000 {
                    let (given, steps) = run(&filter, call, [0; 6]);
                    let is_in =
                        |list: &[libc::c_long]| list.iter().any(|listed| number(*listed) == call);
                    if !is_in(&special) {
                        let expected = match () {
                            () if is_in(DENIED_CALLS) => REFUSAL,
                            () if is_in(MISSING_CALLS) || !kept && is_in(SHARED_IPC_CALLS) => {
                                ABSENCE
                            }
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
    #[expect(clippy::too_many_lines, reason = "a list of cases")]
    fn what_depends_on_arguments_is_refused_by_them() {
        let given = |network: NetworkAccess, call: libc::c_long, args: [libc::c_int; 3]| {
            let filter = build_filter(network, NOWHERE).expect("this processor is known");
            let args = args.map(|arg| u64::from(to_bits(arg)));
            run(&filter, number(call), [args[0], args[1], args[2], 0, 0, 0]).0
        };
        for network in [NetworkAccess::Loopback, NetworkAccess::Full] {
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
        assert_eq!(
            given(
                NetworkAccess::None,
                libc::SYS_socket,
                [AF_UNIX, SOCK_STREAM, 0]
            ),
            ALLOWANCE
        );
        assert_eq!(
            given(
                NetworkAccess::None,
                libc::SYS_socket,
                [AF_INET, SOCK_STREAM, 0]
            ),
            REFUSAL
        );
        let other = |call, args| given(NetworkAccess::Loopback, call, args);
        assert_eq!(
            other(libc::SYS_clone, [libc::CLONE_VM | libc::SIGCHLD, 0, 0]),
            ALLOWANCE
        );
        assert_eq!(
            other(libc::SYS_clone, [libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0]),
            REFUSAL
        );
        assert_eq!(
            other(libc::SYS_clone, [libc::CLONE_PARENT | libc::SIGCHLD, 0, 0]),
            REFUSAL
        );
        for (call, args, expected) in [
            (libc::SYS_setpriority, [0, 0, 19], ALLOWANCE),
            (libc::SYS_setpriority, [0, 7, 19], REFUSAL),
            (libc::SYS_setpriority, [2, 0, 19], REFUSAL),
            (libc::SYS_ioprio_set, [1, 0, 3], ALLOWANCE),
            (libc::SYS_ioprio_set, [3, 0, 3], REFUSAL),
            (
                libc::SYS_sched_setscheduler,
                [0, libc::SCHED_IDLE, 0],
                ALLOWANCE,
            ),
            (
                libc::SYS_sched_setscheduler,
                [7, libc::SCHED_IDLE, 0],
                REFUSAL,
            ),
            (
                libc::SYS_sched_setscheduler,
                [7, libc::SCHED_OTHER, 0],
                ALLOWANCE,
            ),
            (
                libc::SYS_sched_setscheduler,
                [7, libc::SCHED_FIFO, 0],
                REFUSAL,
            ),
            (libc::SYS_sched_setparam, [7, 0, 0], REFUSAL),
            (libc::SYS_sched_setattr, [7, 0, 0], REFUSAL),
        ] {
            assert_eq!(other(call, args), expected, "{call} {args:?}");
        }
        assert_eq!(other(libc::SYS_prlimit64, [0, 1, 0]), ALLOWANCE);
        assert_eq!(
            other(libc::SYS_prlimit64, [1, 1, 0]),
            ALLOWANCE,
            "to ask is allowed"
        );
        assert_eq!(other(libc::SYS_prlimit64, [1, 1, 1]), REFUSAL);
        assert_eq!(
            other(libc::SYS_prlimit64, [0, 10, 0]),
            ALLOWANCE,
            "to ask is allowed"
        );
        assert_eq!(other(libc::SYS_prlimit64, [0, 10, 1]), REFUSAL);
        let filter =
            build_filter(NetworkAccess::Loopback, NOWHERE).expect("this processor is known");
        for [id, limit] in [[0, 10], [7, 1]] {
            let by_pointer = |at| {
                run(
                    &filter,
                    number(libc::SYS_prlimit64),
                    [id, limit, at, 0, 0, 0],
                )
                .0
            };
            let pointers = [1 << 32, 7 << 40, u64::MAX];
            assert_eq!(pointers.map(by_pointer), [REFUSAL; 3]);
        }
        for (request, expected) in [
            (0x5412, REFUSAL),
            (0x541c, REFUSAL),
            (0x5413, ALLOWANCE),
            (0x5401, ALLOWANCE),
        ] {
            let with = |upper: u64| {
                run(
                    &filter,
                    number(libc::SYS_ioctl),
                    [0, upper << 32 | request, 0, 0, 0, 0],
                )
                .0
            };
            assert_eq!((with(0), with(1)), (expected, expected), "{request:#x}");
        }
        let open = |flags| other(libc::SYS_openat, [libc::AT_FDCWD, 0, flags]);
        assert_eq!(
            (open(libc::O_RDONLY), open(libc::O_WRONLY | libc::O_TRUNC)),
            (ALLOWANCE, ALLOWANCE)
        );
        for neither_to_write in [libc::O_RDONLY, libc::O_ACCMODE] {
            assert_eq!(
                open(neither_to_write | libc::O_TRUNC | libc::O_CLOEXEC),
                REFUSAL
            );
            assert_eq!(open(neither_to_write | libc::O_CLOEXEC), ALLOWANCE);
        }
        assert_eq!(open(libc::O_RDWR | libc::O_TRUNC), ALLOWANCE);
        let made = |flags, mode: u64| {
            let flags = u64::from(to_bits(flags));
            run(&filter, number(libc::SYS_openat), [0, 0, flags, mode, 0, 0]).0
        };
        assert_eq!(made(libc::O_CREAT | libc::O_WRONLY, 0o755), ALLOWANCE);
        assert_eq!(made(libc::O_CREAT | libc::O_WRONLY, 0o4755), REFUSAL);
        assert_eq!(made(libc::O_TMPFILE | libc::O_RDWR, 0o2755), REFUSAL);
        assert_eq!(
            made(libc::O_RDONLY, 0o6777),
            ALLOWANCE,
            "the mode is no argument then"
        );
        for (call, args) in [
            (libc::SYS_fchmod, [3, 0o4755, 0]),
            (libc::SYS_fchmodat, [libc::AT_FDCWD, 0, 0o2755]),
            (SYS_FCHMODAT2, [libc::AT_FDCWD, 0, 0o2755]),
            (libc::SYS_mknodat, [libc::AT_FDCWD, 0, 0o104_755]),
        ] {
            assert_eq!(other(call, args), REFUSAL, "{call}");
        }
        assert_eq!(other(libc::SYS_fchmod, [3, 0o755, 0]), ALLOWANCE);
    }
}
