//! The limits that a worker puts on itself before it reads its input; none can be lifted again. Not here: the filter of
//! system calls, which it has from its start (`local::process_attachment`).

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The most files that a worker has open.
const MAX_OPEN_FILES: u64 = 64;

/// The files and the resources that a worker may use.
#[derive(Debug)]
pub struct WorkerLimits {
    /// Files and folders that are read; missing ones are left out.
    pub reads: Vec<PathBuf>,
    /// Files and folders that are written.
    pub writes: Vec<PathBuf>,
    /// Address space.
    pub memory_bytes: u64,
    /// The largest file that is written.
    pub file_bytes: u64,
    /// Processor time.
    pub processor_time: Duration,
}

impl WorkerLimits {
    /// Applies them to this thread and to all that it starts, so before there is another thread. A kernel without
    /// Landlock limits the resources only.
    ///
    /// # Errors
    /// The system refuses a limit that it knows.
    pub fn apply_limits(&self) -> io::Result<()> {
        #[cfg(unix)]
        {
            use rustix::process::{Resource, Rlimit, setrlimit};
            let limits = [
                (Resource::As, self.memory_bytes),
                (Resource::Fsize, self.file_bytes),
                (Resource::Nofile, MAX_OPEN_FILES),
                // The runner kills it before; this is for a worker whose runner is gone.
                (Resource::Cpu, self.processor_time.as_secs() + 5),
            ];
            for (resource, limit) in limits {
                // A lower limit that is there already stays.
                let _ = setrlimit(
                    resource,
                    Rlimit {
                        current: Some(limit),
                        maximum: Some(limit),
                    },
                );
            }
        }
        #[cfg(target_os = "linux")]
        punie_sandbox::restrict_thread(&self.reads, &self.writes).map_err(io::Error::other)?;
        Ok(())
    }
}
