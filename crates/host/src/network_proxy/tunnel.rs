//! Passes bytes between a command and a host, and counts them. A large transfer goes through a pipe, so that the kernel
//! passes it on without copying it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::call_network::HostCounts;

/// The bytes that are read at a time, in each direction.
const CHUNK: usize = 64 << 10;
/// The bytes after which a direction counts as a large transfer.
const LARGE_TRANSFER: u64 = 1 << 20;

/// Passes bytes on until both sides have ended, or one failed, or the client sent more than may follow.
pub(super) async fn copy_both_ways(
    mut client: TcpStream,
    mut host: TcpStream,
    body_left: Option<u64>,
    counts: &HostCounts,
) {
    let (from_client, to_client) = client.split();
    let (from_host, to_host) = host.split();
    let _ = tokio::try_join!(
        copy_one_way(from_client, to_host, body_left, &counts.sent),
        copy_one_way(from_host, to_client, None, &counts.received),
    );
}

async fn copy_one_way(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut most: Option<u64>,
    count: &AtomicU64,
) -> io::Result<()> {
    let mut chunk = Vec::new();
    let mut copied = 0;
    loop {
        if most == Some(0) && from.peek(&mut [0]).await? > 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        from.readable().await?;
        let is_large = copied >= LARGE_TRANSFER && most.is_none();
        if is_large && large_transfer::move_bytes(&from, &to, count).await? {
            break;
        }
        chunk.reserve(CHUNK);
        let room = most.unwrap_or(u64::MAX);
        let read = (&mut from).take(room).read_buf(&mut chunk).await?;
        if read == 0 {
            break;
        }
        to.write_all(&chunk).await?;
        copied += read as u64;
        most = most.map(|most| most - read as u64);
        count.fetch_add(read as u64, Ordering::Relaxed);
        chunk.clear();
    }
    to.shutdown().await
}

#[cfg(target_os = "linux")]
mod large_transfer {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
    use tokio::io::Interest;
    use tokio::net::tcp::{ReadHalf, WriteHalf};

    /// The size of a pipe. All of them stay below what a user may have (16,384 pages).
    const PIPE_SIZE: usize = 1 << 20;
    /// The most pipes at a time. Further transfers are copied.
    const MAX_PIPES: usize = 16;
    static PIPES: AtomicUsize = AtomicUsize::new(0);

    /// A pipe through which bytes are moved.
    struct TransferPipe {
        read: OwnedFd,
        write: OwnedFd,
    }

    impl TransferPipe {
        fn open() -> Option<Self> {
            if PIPES.fetch_add(1, Ordering::Relaxed) >= MAX_PIPES {
                PIPES.fetch_sub(1, Ordering::Relaxed);
                return None;
            }
            let Ok((read, write)) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK) else {
                PIPES.fetch_sub(1, Ordering::Relaxed);
                return None;
            };
            // A smaller one works too.
            let _ = fcntl_setpipe_size(&write, PIPE_SIZE);
            Some(Self { read, write })
        }
    }

    impl Drop for TransferPipe {
        fn drop(&mut self) {
            PIPES.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Moves bytes until the sender ends. Returns false, with nothing moved, if no pipe is free.
    pub(super) async fn move_bytes(
        from: &ReadHalf<'_>,
        to: &WriteHalf<'_>,
        count: &AtomicU64,
    ) -> io::Result<bool> {
        let Some(pipe) = TransferPipe::open() else {
            return Ok(false);
        };
        let from = from.as_ref();
        let to = to.as_ref();
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        loop {
            let fill = || Ok(splice(from, None, &pipe.write, None, PIPE_SIZE, flags)?);
            let mut left = from.async_io(Interest::READABLE, fill).await?;
            if left == 0 {
                return Ok(true);
            }
            while left > 0 {
                let drain = || Ok(splice(&pipe.read, None, to, None, left, flags)?);
                let moved = to.async_io(Interest::WRITABLE, drain).await?;
                left -= moved;
                count.fetch_add(moved as u64, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod large_transfer {
    use std::io;
    use std::sync::atomic::AtomicU64;

    use tokio::net::tcp::{ReadHalf, WriteHalf};

    /// Moves nothing: this system has no such call.
    #[expect(
        clippy::unused_async,
        reason = "as where there is something to wait for"
    )]
    pub(super) async fn move_bytes(
        _from: &ReadHalf<'_>,
        _to: &WriteHalf<'_>,
        _count: &AtomicU64,
    ) -> io::Result<bool> {
        Ok(false)
    }
}
