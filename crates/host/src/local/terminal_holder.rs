//! A small process that holds a terminal's master side open while no runner does. It has the terminal as its standard
//! input and a listening socket as its output, and passes the terminal to a runner that connects. Without it, the end
//! of a runner would close the terminal, and the system would hang up its programs.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::child_tracking::ChildTracking;
use super::running_program::running_program;
use super::spawn_plan::SpawnPlan;

/// The first argument with which the runner's program is a holder; the second is the socket's path.
pub const HOLDER_ARGUMENT: &str = "hold-terminal";
/// The time that a holder may take to hand over the terminal.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which a holder whose terminal is hung up checks whether it is still needed.
const HANG_UP_CHECK_INTERVAL: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Plans a holder, and opens the socket that it will listen on.
pub(super) fn prepare_holder(socket: &Path) -> io::Result<(SpawnPlan, OwnedFd)> {
    let listener = UnixListener::bind(socket)?;
    let args = vec![HOLDER_ARGUMENT.to_owned(), socket.display().to_string()];
    let plan = SpawnPlan {
        // It outlives the runner, as its terminal does.
        tracking: ChildTracking {
            fifo: Some(socket.to_owned()),
            ..ChildTracking::default()
        },
        ..SpawnPlan::new(running_program()?, args)
    };
    Ok((plan, listener.into()))
}

/// Holds the terminal on standard input until all programs have closed it. Then goes on until all their output was
/// read, or until a runner that does not need it has removed the socket.
///
/// # Errors
/// The system's, if it refuses to wait.
pub fn hold_terminal(socket: &Path) -> io::Result<()> {
    let input = io::stdin();
    let output = io::stdout();
    let terminal = input.as_fd();
    let listener = output.as_fd();
    let mut is_hung_up = false;
    loop {
        if is_hung_up && (!has_unread_output(terminal)? || !socket.exists()) {
            return Ok(());
        }
        // A terminal that is hung up is always ready; until then, only the hang-up is awaited.
        let mut files = vec![
            PollFd::new(&listener, PollFlags::IN),
            PollFd::new(&terminal, PollFlags::empty()),
        ];
        files.truncate(if is_hung_up { 1 } else { 2 });
        match poll(&mut files, is_hung_up.then_some(&HANG_UP_CHECK_INTERVAL)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
        is_hung_up |= files
            .get(1)
            .is_some_and(|terminal| terminal.revents().contains(PollFlags::HUP));
        if files[0].revents().contains(PollFlags::IN)
            && let Ok(runner) = rustix::net::accept(listener)
        {
            // A runner that is gone may connect again.
            let _ = send_terminal(&runner, terminal);
        }
    }
}

/// Receives the terminal from the holder at this socket.
pub(super) fn take_terminal(socket: &Path) -> io::Result<OwnedFd> {
    let holder = UnixStream::connect(socket)?;
    holder.set_read_timeout(Some(HAND_OVER_TIMEOUT))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut handed = RecvAncillaryBuffer::new(&mut space);
    rustix::net::recvmsg(
        &holder,
        &mut [IoSliceMut::new(&mut [0])],
        &mut handed,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let terminal = handed.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    terminal
        .ok_or_else(|| io::Error::other("the process that holds the terminal did not hand it over"))
}

fn send_terminal(runner: &OwnedFd, terminal: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut handed = SendAncillaryBuffer::new(&mut space);
    let files = [terminal];
    handed.push(SendAncillaryMessage::ScmRights(&files));
    rustix::net::sendmsg(
        runner.as_fd(),
        &[IoSlice::new(b"t")],
        &mut handed,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Returns whether the programs printed output that no runner has read.
fn has_unread_output(terminal: BorrowedFd<'_>) -> io::Result<bool> {
    let mut files = [PollFd::new(&terminal, PollFlags::IN)];
    poll(
        &mut files,
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }),
    )?;
    Ok(files[0].revents().contains(PollFlags::IN))
}
