//! Passes bytes between a command and a host, and counts them. Not here: making the connection.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::call_network::HostCounts;

/// The bytes that are read at a time, in each direction.
const CHUNK: usize = 64 << 10;

/// Passes bytes on until both sides have ended, or one failed.
pub(super) async fn copy_both_ways(
    mut client: TcpStream,
    mut host: TcpStream,
    counts: &HostCounts,
) {
    let (from_client, to_client) = client.split();
    let (from_host, to_host) = host.split();
    let _ = tokio::try_join!(
        copy_one_way(from_client, to_host, &counts.sent),
        copy_one_way(from_host, to_client, &counts.received),
    );
}

async fn copy_one_way(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    count: &AtomicU64,
) -> io::Result<()> {
    let mut chunk = Vec::new();
    loop {
        // A connection that rests holds no memory.
        from.readable().await?;
        chunk.reserve(CHUNK);
        let read = from.read_buf(&mut chunk).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&chunk).await?;
        count.fetch_add(read as u64, Ordering::Relaxed);
        chunk.clear();
    }
}
