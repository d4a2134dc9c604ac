//! The self-test of confinement: a script that tries to escape, and the evaluation of its attempts. Available
//! mechanisms may not be enforced, so the test runs like a command.

/// The script. Its arguments are: the folder outside, the ports of a TCP listener and a UDP socket outside, the
/// runner's process id, a free name, and a protected file. It uses shell builtins where possible, so that it takes
/// milliseconds. An escape that cannot be tried counts as successful.
pub const SCRIPT: &str = r#"
echo began
{ : > "$1/made"; } 2>/dev/null
{ echo x >> "$1/rc"; } 2>/dev/null
{ read -r line < "$1/hidden" && echo "read $line"; } 2>/dev/null
if command -v ln >/dev/null; then ln "$1/hidden" "./$5" 2>/dev/null && rm "./$5" && echo linked; else echo linked; fi
(exec 3<>"/dev/tcp/127.0.0.1/$2" && echo "$5" >&3) 2>/dev/null
{ echo "$5" > "/dev/udp/127.0.0.1/$3"; } 2>/dev/null
(exec 3<"/proc/$4/mem") 2>/dev/null && echo traced
kill -0 "$4" 2>/dev/null && echo signalled
{ echo x >> "./$6"; } 2>/dev/null
chmod 600 "$1/shown/file" 2>/dev/null
[ -e "$1/door/inside" ] && echo entered
echo ended
"#;

#[cfg(unix)]
pub use outside::SelfTestTargets;

#[cfg(unix)]
mod outside {
    use std::fs::{self, File, Permissions};
    use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
    use std::iter;
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use crate::{ConfinementLevel, EscapeAttempt, NetworkAccess};

    /// A whole line: the shell's `read` fails on an incomplete one.
    const SECRET: &str = "punie-self-test-secret\n";
    const UNTOUCHED_TEXT: &str = "untouched\n";
    const UNTOUCHED_MODE: u32 = 0o640;
    /// The most connections and datagrams that are looked at, the most bytes of each, and the longest wait for them.
    const MAX_STRANGERS: usize = 16;
    const MAX_LINE: usize = 128;
    const LINE_TIMEOUT: Duration = Duration::from_secs(1);

    /// The targets that the script tries to reach, observed from outside. They are removed on drop.
    #[derive(Debug)]
    pub struct SelfTestTargets {
        folder: PathBuf,
        shown: PathBuf,
        /// This file is in a folder that commands write, so its name is unpredictable.
        protected_file: PathBuf,
        free_name: String,
        tcp: TcpListener,
        udp: UdpSocket,
    }

    impl SelfTestTargets {
        /// Creates the targets in a new subfolder of `folder`, since another test may run at the same time, and a file
        /// to be protected in `inside`, where the script runs.
        ///
        /// # Errors
        /// The system's.
        pub fn create(folder: &Path, inside: &Path) -> io::Result<Self> {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let folder = folder.join(format!("{}-{number}", std::process::id()));
            for name in ["door", "shown"] {
                fs::create_dir_all(folder.join(name))?;
            }
            fs::create_dir_all(inside)?;
            fs::write(folder.join("door/inside"), UNTOUCHED_TEXT)?;
            let shown = folder.join("shown");
            fs::write(shown.join("file"), UNTOUCHED_TEXT)?;
            fs::set_permissions(shown.join("file"), Permissions::from_mode(UNTOUCHED_MODE))?;
            let random = || uuid::Uuid::new_v4().simple().to_string();
            let covered = inside.join(format!("self-test-{}", random()));
            // Create a new file, so that nothing is written through a link that a command left there.
            File::create_new(&covered)?.write_all(UNTOUCHED_TEXT.as_bytes())?;
            fs::write(folder.join("rc"), UNTOUCHED_TEXT)?;
            fs::write(folder.join("hidden"), SECRET)?;
            let _ = fs::remove_file(folder.join("made"));
            let tcp = TcpListener::bind("127.0.0.1:0")?;
            let udp = UdpSocket::bind("127.0.0.1:0")?;
            tcp.set_nonblocking(true)?;
            udp.set_nonblocking(true)?;
            Ok(Self {
                folder,
                shown,
                protected_file: covered,
                free_name: format!("self-test-{}", random()),
                tcp,
                udp,
            })
        }

        /// Returns the script's arguments.
        ///
        /// # Errors
        /// The system's.
        pub fn script_arguments(&self) -> io::Result<Vec<String>> {
            let runner = std::process::id();
            Ok(vec![
                self.folder.display().to_string(),
                self.tcp.local_addr()?.port().to_string(),
                self.udp.local_addr()?.port().to_string(),
                runner.to_string(),
                self.free_name.clone(),
                self.protected_file
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
            ])
        }

        /// Returns the folder that a view also shows: files in it stay as they are all the same.
        pub fn shown_folder(&self) -> &Path {
            &self.shown
        }

        /// Returns the file to be protected.
        pub fn protected_file(&self) -> &Path {
            &self.protected_file
        }

        /// Returns whether the file was protected.
        fn is_file_protected(&self) -> bool {
            if !fs::symlink_metadata(&self.protected_file).is_ok_and(|file| file.is_file()) {
                return false;
            }
            fs::read_to_string(&self.protected_file).ok().as_deref() == Some(UNTOUCHED_TEXT)
        }

        /// Evaluates the attempts; `None` if the script did not complete. Access that the owner allows is no escape.
        pub fn evaluate_output(
            &self,
            said: &str,
            network: NetworkAccess,
        ) -> Option<ConfinementLevel> {
            let lines: Vec<&str> = said.lines().collect();
            if lines.first() != Some(&"began") || lines.last() != Some(&"ended") {
                return None;
            }
            let reached = |escape: EscapeAttempt| match escape {
                EscapeAttempt::Write => self.folder.join("made").exists(),
                EscapeAttempt::Append => {
                    fs::read_to_string(self.folder.join("rc")).ok().as_deref()
                        != Some(UNTOUCHED_TEXT)
                }
                EscapeAttempt::Read => said.contains(SECRET.trim_end()),
                EscapeAttempt::Link => lines.contains(&"linked"),
                EscapeAttempt::Tcp => network != NetworkAccess::Full && self.was_reached_by_tcp(),
                EscapeAttempt::Udp => network != NetworkAccess::Full && self.was_reached_by_udp(),
                EscapeAttempt::Trace => lines.contains(&"traced"),
                EscapeAttempt::Signal => lines.contains(&"signalled"),
                EscapeAttempt::Protected => !self.is_file_protected(),
                EscapeAttempt::Metadata => {
                    let file = fs::metadata(self.shown.join("file"));
                    !file.is_ok_and(|file| file.permissions().mode() & 0o777 == UNTOUCHED_MODE)
                }
                // What lies beside what is listed is there for it: so is the home, and so are the folders of sockets.
                EscapeAttempt::ReadHome | EscapeAttempt::Daemon => lines.contains(&"entered"),
            };
            let open = EscapeAttempt::ALL
                .into_iter()
                .filter(|escape| reached(*escape))
                .collect();
            Some(ConfinementLevel::from_escapes(open))
        }
    }

    // Any program of this machine may reach the two ports, so what is certainly not the free name comes from elsewhere. What
    // cannot be told counts as an escape.
    impl SelfTestTargets {
        fn is_from_script(&self, line: &[u8]) -> bool {
            line == format!("{}\n", self.free_name).as_bytes()
        }

        /// Returns whether the script may have connected.
        fn was_reached_by_tcp(&self) -> bool {
            let connections = iter::from_fn(|| self.tcp.accept().ok());
            connections.enumerate().any(|(earlier, (connection, _))| {
                let mut line = Vec::new();
                let read = connection
                    .set_nonblocking(false)
                    .and_then(|()| connection.set_read_timeout(Some(LINE_TIMEOUT)))
                    .and_then(|()| {
                        BufReader::new(connection.take(MAX_LINE as u64))
                            .read_until(b'\n', &mut line)
                    });
                earlier >= MAX_STRANGERS || read.is_err() || self.is_from_script(&line)
            })
        }

        /// Returns whether the script may have sent a datagram.
        fn was_reached_by_udp(&self) -> bool {
            let datagrams = iter::from_fn(|| {
                let mut bytes = vec![0; MAX_LINE];
                let length = self.udp.recv(&mut bytes).ok()?;
                bytes.truncate(length);
                Some(bytes)
            });
            datagrams
                .enumerate()
                .any(|(earlier, line)| earlier >= MAX_STRANGERS || self.is_from_script(&line))
        }
    }

    impl Drop for SelfTestTargets {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.protected_file);
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

#[cfg(all(unix, test))]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpStream, UdpSocket};

    use super::SelfTestTargets;
    use crate::{ConfinementLevel, EscapeAttempt, NetworkAccess};

    const SAID: &str = "began\nended\n";

    /// The level after lines came to both ports, made of the free name. A line without an end stays open.
    fn level_after(lines: &[fn(&str) -> String]) -> ConfinementLevel {
        let folder = tempfile::tempdir().expect("a folder");
        let inside = folder.path().join("inside");
        let targets = SelfTestTargets::create(folder.path(), &inside).expect("targets");
        let arguments = targets.script_arguments().expect("arguments");
        let tcp = &arguments[1];
        let udp = &arguments[2];
        let name = &arguments[4];
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let open: Vec<_> = lines
            .iter()
            .map(|line| {
                let line = line(name);
                let mut stream = TcpStream::connect(format!("127.0.0.1:{tcp}")).expect("connected");
                stream.write_all(line.as_bytes()).expect("sent");
                let sent = socket.send_to(line.as_bytes(), format!("127.0.0.1:{udp}"));
                assert_eq!(sent.expect("sent"), line.len());
                stream
            })
            .collect();
        let level = targets.evaluate_output(SAID, NetworkAccess::None);
        drop(open);
        level.expect("the script has ended")
    }

    #[test]
    fn only_the_script_escapes_to_the_network_and_what_cannot_be_told_from_it() {
        let stranger: fn(&str) -> String = |_| "GET / HTTP/1.1\r\n\r\n".to_owned();
        let script: fn(&str) -> String = |name| format!("{name}\n");
        let level = |open: &[EscapeAttempt]| ConfinementLevel::from_escapes(open.to_vec());
        let both = level(&[EscapeAttempt::Tcp, EscapeAttempt::Udp]);
        assert_eq!(level_after(&[stranger, stranger]), level(&[]));
        assert_eq!(level_after(&[stranger, script]), both);
        assert_eq!(
            level_after(&[|_| String::new()]),
            level(&[EscapeAttempt::Tcp])
        );
        assert_eq!(level_after(&[stranger; 17]), both);
    }
}
