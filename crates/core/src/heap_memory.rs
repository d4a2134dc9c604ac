//! The memory that the C library holds for the heap. A runner rests for most of its life, and should leave the memory
//! to others then. Only glibc is told: elsewhere nothing happens.
#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(
        unsafe_code,
        reason = "there is no safe call for the settings of the heap"
    )
)]

/// Lets all threads share one heap. Each thread would get its own, of which a few pages stay in use for ever. To be called
/// while there is one thread.
pub fn share_one_heap() {
    // SAFETY: the call takes numbers only, and changes a setting for later allocations.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives freed memory back to the system.
pub fn return_freed_memory() {
    // SAFETY: the call takes a number only, and leaves alone what is allocated.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}
