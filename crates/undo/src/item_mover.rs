//! The runner's socket by which a shim has an item renamed into the trash. Inside a command's mount namespace each
//! workspace and the trash are mounts of their own, and the kernel renames nothing from one mount to another.
#![expect(
    clippy::disallowed_methods,
    reason = "this file owns the socket among the names of the shims"
)]

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;

use punie_home::Home;
use punie_host::{ReachableFolders, Workspace};

/// Further connections wait until one of these ends.
const MAX_CONNECTIONS: usize = 16;
/// The longest request in bytes: two paths.
const MAX_REQUEST: u64 = 2 * 4096;
/// The time that a shim has to send its request, and to read the answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The time that a shim waits for an answer. It is longer, so that few renames happen after the shim gave up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const MOVED: &[u8] = b"moved";
const REFUSED: &[u8] = b"refused";

/// An open socket for shims, closed and removed on drop.
#[derive(Debug)]
pub(super) struct ItemMover {
    socket: PathBuf,
    _serving: JoinSet<()>,
}

/// The paths between which items may be moved.
#[derive(Debug)]
struct MoveLimits {
    reachable: ReachableFolders,
    /// The folder `incoming` as a root of its own.
    incoming: Workspace,
    /// The paths that commands may not read, without links.
    hidden: Vec<PathBuf>,
}

impl ItemMover {
    /// Opens the socket. A workspace that contains one of the `hidden` paths is not served: in the trash, a command
    /// could read what is hidden from it in the workspace.
    ///
    /// # Errors
    /// The system's error, or that this thread has no async runtime.
    pub fn start_serving(
        home: &Home,
        reachable: &ReachableFolders,
        hidden: &[PathBuf],
    ) -> io::Result<Self> {
        Handle::try_current().map_err(io::Error::other)?;
        remove_sockets_of_ended_processes(home);
        let limits = Arc::new(MoveLimits::for_trash(home, reachable, hidden)?);
        let socket = home.trash_mover_socket();
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket)?;
        let mut serving = JoinSet::new();
        serving.spawn(accept_shims(listener, limits));
        Ok(Self {
            socket,
            _serving: serving,
        })
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for ItemMover {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

fn remove_sockets_of_ended_processes(home: &Home) {
    let folder = home.trash_programs_dir();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let pid = Home::mover_socket_process(&entry.file_name());
        if pid.is_some_and(|pid| fs::metadata(format!("/proc/{pid}")).is_err()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

async fn accept_shims(listener: UnixListener, limits: Arc<MoveLimits>) {
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(), if open.len() < MAX_CONNECTIONS => accepted,
            Some(_) = open.join_next() => continue,
        };
        match accepted {
            Ok((shim, _)) => drop(open.spawn(answer_shim(shim, Arc::clone(&limits)))),
            Err(cause) => {
                tracing::warn!(%cause, "a shim could not reach the trash");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Answers one request, which ends where the shim's side of the connection does: the path of an item, a NUL, and its
/// new path below `incoming`.
async fn answer_shim(mut shim: tokio::net::UnixStream, limits: Arc<MoveLimits>) {
    let view = open_view(&shim);
    let mut request = Vec::new();
    let mut bounded = (&mut shim).take(MAX_REQUEST + 1);
    if !matches!(
        timeout(REQUEST_TIMEOUT, bounded.read_to_end(&mut request)).await,
        Ok(Ok(_))
    ) {
        return;
    }
    let Some(view) = view else {
        return;
    };
    let moved =
        tokio::task::spawn_blocking(move || limits.move_requested_item(&request, &view)).await;
    let answer = match moved {
        Ok(Ok(())) => MOVED,
        Ok(Err(cause)) => {
            tracing::debug!(%cause, "an item was not moved to the trash");
            REFUSED
        }
        Err(_) => return,
    };
    let _ = timeout(REQUEST_TIMEOUT, shim.write_all(answer)).await;
}

/// Opens the root folder of the process at the other end: the files that its command sees.
fn open_view(shim: &tokio::net::UnixStream) -> Option<OwnedFd> {
    let pid = shim.peer_cred().ok()?.pid()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(format!("/proc/{pid}/root"), flags, Mode::empty()).ok()
}

/// Returns the device and the inode at a path of a view. A link on the way is an error: it would be followed outside.
fn find_in_view(view: &OwnedFd, path: &Path) -> io::Result<(u64, u64)> {
    let below = path.strip_prefix("/").map_err(io::Error::other)?;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    let (folder, name) = (
        below.parent().ok_or(Errno::PERM)?,
        below.file_name().ok_or(Errno::PERM)?,
    );
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat2(view, folder, flags, Mode::empty(), resolve)?;
    let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((found.st_dev, found.st_ino))
}

impl MoveLimits {
    fn for_trash(
        home: &Home,
        reachable: &ReachableFolders,
        hidden: &[PathBuf],
    ) -> io::Result<Self> {
        let home_folder = home.root_dir().canonicalize()?;
        Ok(Self {
            reachable: reachable.clone(),
            incoming: Workspace::open_roots(&[home.trash_incoming_dir()])?,
            hidden: hidden.iter().cloned().chain([home_folder]).collect(),
        })
    }

    fn move_requested_item(&self, request: &[u8], view: &OwnedFd) -> io::Result<()> {
        let split = request.iter().position(|byte| *byte == 0);
        let (from, to) = request.split_at(split.ok_or(Errno::INVAL)?);
        let [from, to] = [from, &to[1..]].map(|path| Path::new(OsStr::from_bytes(path)));
        self.move_item(from, to, view)
    }

    /// Renames something in a workspace to a new name in a folder of `incoming`, to which the new path is relative. Both
    /// are opened without following links. The shim must see the same thing at that path in its view.
    fn move_item(&self, from: &Path, to: &Path, view: &OwnedFd) -> io::Result<()> {
        let workspace = self.reachable.current();
        let shows_hidden = workspace.root_paths().any(|root| {
            from.starts_with(root) && self.hidden.iter().any(|path| path.starts_with(root))
        });
        let asked = from;
        let from = workspace
            .path_if_inside(from)
            .filter(|_| !shows_hidden)
            .ok_or(Errno::PERM)?;
        // As the read-only mounts answer that commands find at these paths.
        from.check_writable().map_err(|_| Errno::ROFS)?;
        let to = self
            .incoming
            .path_if_inside(&self.incoming.first_root().join(to));
        let to = to
            .filter(|to| to.relative_path().iter().count() == 2)
            .ok_or(Errno::PERM)?;
        let (source, name) = from.open_parent_folder(false)?;
        let found = source.entry_metadata(&name)?;
        if (found.dev(), found.ino()) != find_in_view(view, asked)? {
            return Err(Errno::PERM.into());
        }
        let (folder, item) = to.open_parent_folder(false)?;
        source.move_without_replacing(&name, &folder, &item)
    }
}

/// Asks the runner to rename an item to a path that is relative to `incoming`, and returns whether it did.
///
/// # Errors
/// The runner did not answer.
pub(super) fn request_move(socket: &Path, from: &Path, to: &Path) -> io::Result<bool> {
    let mut runner = UnixStream::connect(socket)?;
    runner.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    runner.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let request = [
        from.as_os_str().as_bytes(),
        b"\0",
        to.as_os_str().as_bytes(),
    ]
    .concat();
    runner.write_all(&request)?;
    runner.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    runner.take(64).read_to_end(&mut answer)?;
    match answer.as_slice() {
        MOVED => Ok(true),
        REFUSED => Ok(false),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A home and a workspace, with a folder `f` in `incoming` as a shim makes it.
    struct Place {
        dir: tempfile::TempDir,
        home: Home,
        reachable: ReachableFolders,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a folder");
            let top = dir.path().canonicalize().expect("there");
            let home = Home::open_home(&top.join("home")).expect("made");
            fs::create_dir(home.trash_incoming_dir().join("f")).expect("made");
            fs::create_dir_all(top.join("work/folder/.git/hooks")).expect("made");
            fs::create_dir(top.join("work/.git")).expect("made");
            for file in [
                "work/a",
                "work/folder/b",
                "work/folder/.envrc",
                "work/.git/config",
                "outside",
            ] {
                fs::write(top.join(file), "x").expect("written");
            }
            symlink(&top, top.join("work/up")).expect("linked");
            let workspace = Workspace::open_roots(&[top.join("work")]).expect("opened");
            Self {
                dir,
                home,
                reachable: ReachableFolders::new(workspace),
            }
        }

        fn path(&self, below: &str) -> PathBuf {
            self.dir.path().canonicalize().expect("there").join(below)
        }

        fn item(&self, below: &str) -> PathBuf {
            self.home.trash_incoming_dir().join(below)
        }

        fn errno(&self, from: &Path, to: &str, hidden: &[PathBuf]) -> Option<i32> {
            let limits =
                MoveLimits::for_trash(&self.home, &self.reachable, hidden).expect("opened");
            limits
                .move_item(from, Path::new(to), &own_view())
                .err()
                .map(|cause| cause.raw_os_error().unwrap_or(-1))
        }
    }

    /// The files as this process sees them.
    fn own_view() -> OwnedFd {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        rustix::fs::open("/", flags, Mode::empty()).expect("opened")
    }

    #[test]
    fn nothing_is_moved_but_an_unprotected_item_of_a_workspace_to_its_folder() {
        let place = Place::new();
        let [perm, rofs, exist] = [Errno::PERM, Errno::ROFS, Errno::EXIST].map(Errno::raw_os_error);
        let link = [Errno::LOOP.raw_os_error(), Errno::NOTDIR.raw_os_error()];
        for (from, errno) in [
            ("work", perm),
            ("outside", perm),
            ("work/../outside", perm),
            ("work/folder/../a", perm),
            ("home/state/trash/key", perm),
            ("work/.git", rofs),
            ("work/.git/config", rofs),
            ("work/folder/.git", rofs),
            ("work/folder/.git/hooks", rofs),
            ("work/folder/.envrc", rofs),
        ] {
            let is = place.errno(&place.path(from), "f/1", &[]);
            assert_eq!(is, Some(errno), "{from}");
        }
        for from in ["work/up/outside", "work/up/work/a"] {
            let is = place.errno(&place.path(from), "f/1", &[]).expect(from);
            assert!(link.contains(&is), "{from}: {is}");
        }
        symlink(place.path("work"), place.item("led")).expect("linked");
        fs::write(place.item("f/taken"), "old").expect("written");
        for (to, errno) in [
            ("", perm),
            ("1", perm),
            ("f/2/3", perm),
            ("../incoming/f/1", perm),
            ("f/..", perm),
            ("f/../../x", perm),
            ("/tmp/f", perm),
            ("f/taken", exist),
        ] {
            assert_eq!(
                place.errno(&place.path("work/a"), to, &[]),
                Some(errno),
                "{to}"
            );
        }
        let led = place
            .errno(&place.path("work/a"), "led/1", &[])
            .expect("refused");
        assert!(link.contains(&led), "{led}");
        let hidden = [place.path("work/folder/secret")];
        assert_eq!(
            place.errno(&place.path("work/a"), "f/1", &hidden),
            Some(perm)
        );
        assert_eq!(
            place.errno(Path::new("work/a"), "f/1", &[]),
            Some(perm),
            "relative"
        );
        assert_eq!(
            fs::read_to_string(place.item("f/taken")).expect("there"),
            "old"
        );
        assert!(place.path("work/a").exists() && !place.item("f/1").exists());
        // A link goes as it is, and a folder with all that is in it.
        assert_eq!(place.errno(&place.path("work/up"), "f/2", &[]), None);
        assert!(place.item("f/2").is_symlink() && place.path("outside").exists());
        assert_eq!(place.errno(&place.path("work/folder"), "f/1", &[]), None);
        assert!(place.item("f/1/b").exists() && !place.path("work/folder").exists());
    }

    #[tokio::test]
    async fn requests_come_by_the_socket_and_bad_ones_hold_up_no_others() {
        let place = Place::new();
        let stale = place.home.trash_programs_dir().join("mover-4194305.sock");
        fs::write(&stale, "").expect("written");
        let mover = ItemMover::start_serving(&place.home, &place.reachable, &[]).expect("bound");
        assert!(!stale.exists());
        let socket = mover.socket().to_owned();
        // Connections that say nothing.
        let silent: Vec<UnixStream> = (0..MAX_CONNECTIONS - 1)
            .map(|_| UnixStream::connect(&socket).expect("open"))
            .collect();
        let say = |bytes: Vec<u8>| {
            let socket = socket.clone();
            tokio::task::spawn_blocking(move || {
                let mut runner = UnixStream::connect(socket)?;
                // A request that is too long is not read to its end.
                let _ = runner.write_all(&bytes);
                let _ = runner.shutdown(Shutdown::Write);
                let mut answer = Vec::new();
                let _ = runner.read_to_end(&mut answer);
                io::Result::Ok(answer)
            })
        };
        for bad in [
            Vec::new(),
            b"\0".to_vec(),
            b"no nul".to_vec(),
            vec![b'/'; 1 << 20],
        ] {
            let answer = say(bad).await.expect("run").expect("answered");
            assert!(answer == REFUSED || answer.is_empty(), "{answer:?}");
        }
        let (from, to) = (place.path("work/a"), PathBuf::from("f/1"));
        let inode = fs::metadata(&from).expect("there").ino();
        let ask = |from: PathBuf, to: PathBuf| {
            let socket = socket.clone();
            tokio::task::spawn_blocking(move || request_move(&socket, &from, &to))
        };
        assert!(
            ask(from.clone(), to.clone())
                .await
                .expect("run")
                .expect("answered")
        );
        assert_eq!(fs::metadata(place.item("f/1")).expect("there").ino(), inode);
        assert!(
            !ask(from.clone(), to.clone())
                .await
                .expect("run")
                .expect("answered")
        );
        drop((mover, silent));
        assert!(!socket.exists());
        assert!(ask(from, to).await.expect("run").is_err());
    }
}
