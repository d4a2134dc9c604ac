//! Attaches a program that the standard library starts to this runner and its request, like a command.
#![expect(
    unsafe_code,
    reason = "the child's side runs between its making and the program's start"
)]

use super::child_log::call_mark;
use super::child_tracking::ChildTracking;
use super::launch::set_up_child;
use super::limit_mark::LimitMark;
use punie_core::ids::RequestId;

/// Gives the program a session of its own, so that it has no terminal to prompt on. Sets the request's mark, by which
/// all its descendants are found, and the parent-death signal.
pub fn attach_to_request(command: &mut tokio::process::Command, request: &RequestId) {
    let ties = ChildTracking {
        limit: LimitMark::from_name(&call_mark(request, 0)),
        ..ChildTracking::default()
    };
    let runner = rustix::process::getpid();
    let knots = ties.prepare();
    // SAFETY: between fork and exec, the closure makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(move || set_up_child(runner, &knots)) };
}

/// Gives a worker process of this program the same, and refuses it the network and what reaches into the kernel.
pub(crate) fn tie_worker(command: &mut tokio::process::Command, request: &RequestId) {
    attach_to_request(command, request);
    #[cfg(target_os = "linux")]
    if let Some(filter) = punie_sandbox::filter_without_network() {
        punie_sandbox::enter_sandbox::filter_calls(command.as_std_mut(), filter);
    }
}
