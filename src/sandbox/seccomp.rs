//! The system calls that a confined command is refused, as programs for the kernel's filter. Not here: loading them
//! (acp::local::launch).
//!
//! What is listed reaches past the other walls: kernel interfaces with a history of holes, other processes' memory,
//! namespaces, and sockets of every family that the network setting does not name.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use super::level::Network;

/// Refused whatever their arguments.
const REFUSED: &[libc::c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Interfaces into the kernel.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
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
    // Another view of the files, or of the system.
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

/// Said not to exist: programs then do without. A filter cannot see what `clone3` is asked for.
const ABSENT: &[libc::c_long] =
    &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// On x86-64 the kernel may know each call by a second number (the x32 ABI).
#[cfg(target_arch = "x86_64")]
const X32: libc::c_long = 0x4000_0000;
/// Those that have a number of their own there: `ptrace`, `process_vm_readv`, `process_vm_writev`, `kexec_load`.
#[cfg(target_arch = "x86_64")]
const X32_OWN: &[libc::c_long] = &[521, 539, 540, 528];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The filters for this setting; none on a processor for which there are none. Where nothing else keeps files from being
/// cut short by whoever may only read them, that is refused here.
pub(super) fn filters(network: Network, lengths_are_kept: bool) -> Option<[BpfProgram; 2]> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    let program = |rules: Rules, errno: i32| {
        let errno = SeccompAction::Errno(errno.unsigned_abs());
        BpfProgram::try_from(SeccompFilter::new(rules, SeccompAction::Allow, errno, arch).ok()?).ok()
    };
    let (mut refused, mut absent) = (refused(network)?, absent());
    if !lengths_are_kept {
        keep_lengths(&mut refused, &mut absent)?;
    }
    Some([program(refused, libc::EPERM)?, program(absent, libc::ENOSYS)?])
}

fn refused(network: Network) -> Option<Rules> {
    let mut rules = Rules::new();
    for call in REFUSED {
        add(&mut rules, *call, &[]);
    }
    #[cfg(target_arch = "x86_64")]
    for call in X32_OWN {
        rules.insert(*call | X32, Vec::new());
    }
    // Namespaces through clone, each by its bit.
    let mut clones = Vec::new();
    for bit in [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ] {
        let bit = u64::from(bit.cast_unsigned());
        clones.push(SeccompRule::new(vec![is(0, SeccompCmpOp::MaskedEq(bit), bit)?]).ok()?);
    }
    add(&mut rules, libc::SYS_clone, &clones);
    add(&mut rules, libc::SYS_socket, &sockets(network)?);
    // Limits of another process: one of processor time ends it.
    let of_another = is(0, SeccompCmpOp::Ne, 0)?;
    add(&mut rules, libc::SYS_prlimit64, &[SeccompRule::new(vec![of_another]).ok()?]);
    Some(rules)
}

/// By path, or by opening a file for reading and cutting it. What `openat2` is asked for cannot be seen.
fn keep_lengths(refused: &mut Rules, absent: &mut Rules) -> Option<()> {
    let cuts = |argument: u8| {
        let mask = number(libc::O_ACCMODE | libc::O_TRUNC);
        let only_reads = is(argument, SeccompCmpOp::MaskedEq(mask), number(libc::O_RDONLY | libc::O_TRUNC))?;
        SeccompRule::new(vec![only_reads]).ok()
    };
    add(refused, libc::SYS_truncate, &[]);
    add(refused, libc::SYS_openat, &[cuts(2)?]);
    #[cfg(target_arch = "x86_64")]
    add(refused, libc::SYS_open, &[cuts(1)?]);
    add(absent, libc::SYS_openat2, &[]);
    Some(())
}

fn absent() -> Rules {
    let mut rules = Rules::new();
    for call in ABSENT {
        add(&mut rules, *call, &[]);
    }
    rules
}

/// Which sockets are refused.
fn sockets(network: Network) -> Option<Vec<SeccompRule>> {
    let families: &[libc::c_int] = match network {
        Network::None => &[libc::AF_UNIX],
        // Netlink tells a program which addresses there are.
        Network::Loopback | Network::Full => {
            &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]
        }
    };
    let other: Option<Vec<_>> =
        families.iter().map(|family| is(0, SeccompCmpOp::Ne, number(*family))).collect();
    let mut refused = vec![SeccompRule::new(other?).ok()?];
    if network != Network::None {
        let netlink = is(0, SeccompCmpOp::Eq, number(libc::AF_NETLINK))?;
        let not_routes = is(2, SeccompCmpOp::Ne, number(libc::NETLINK_ROUTE))?;
        refused.push(SeccompRule::new(vec![netlink, not_routes]).ok()?);
        for family in [libc::AF_INET, libc::AF_INET6] {
            let family = is(0, SeccompCmpOp::Eq, number(family))?;
            let raw = is(1, SeccompCmpOp::MaskedEq(0xf), number(libc::SOCK_RAW))?;
            refused.push(SeccompRule::new(vec![family, raw]).ok()?);
        }
    }
    Some(refused)
}

fn number(of: libc::c_int) -> u64 {
    u64::from(of.cast_unsigned())
}

fn is(argument: u8, how: SeccompCmpOp, value: u64) -> Option<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value).ok()
}

/// A call with the rules by which it is refused; without any it always is.
fn add(rules: &mut Rules, call: libc::c_long, when: &[SeccompRule]) {
    rules.insert(call, when.to_vec());
    #[cfg(target_arch = "x86_64")]
    rules.insert(call | X32, when.to_vec());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_its_filters_within_the_kernels_limit() {
        for network in [Network::None, Network::Loopback, Network::Full] {
            for kept in [true, false] {
                let filters = filters(network, kept).expect("this processor is known");
                // BPF_MAXINSNS.
                assert!(
                    filters.iter().all(|program| !program.is_empty() && program.len() < 4096),
                    "{network:?}"
                );
            }
        }
    }
}
