//! The address of the embedded backend that serves in this home, for commands in other terminals. The file is locked
//! while the backend serves; afterwards it tells the next one which port to take again.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};

use super::error::HomeError;
use super::layout::Home;
use punie_core::durable::{allow_missing, open_lock_file};

/// The published address of a running embedded backend, until it is dropped.
#[derive(Debug)]
pub struct EmbeddedBackendAddress {
    _locked: File,
}

impl EmbeddedBackendAddress {
    /// Publishes the address; `None` if another embedded backend of this home has published its own.
    ///
    /// # Errors
    /// [`HomeError`] if the file cannot be written.
    pub fn publish(home: &Home, url: &str) -> Result<Option<Self>, HomeError> {
        let path = home.embedded_backend_file();
        let written = || -> io::Result<Option<File>> {
            let mut file = open_lock_file(&path)?;
            if file.try_lock().is_err() {
                return Ok(None);
            }
            file.set_len(0)?;
            file.write_all(url.as_bytes())?;
            Ok(Some(file))
        };
        let file = written().map_err(HomeError::unwritable(&path))?;
        Ok(file.map(|locked| Self { _locked: locked }))
    }

    /// Chooses the port of the embedded backend: the given one; for 0 the last one of this home if it is free, so that a
    /// caller that waits finds the backend again, else 0.
    pub fn choose_port(home: &Home, given: u16) -> u16 {
        if given != 0 {
            return given;
        }
        let address = Self::read_text(home).unwrap_or_default();
        let port = address
            .rsplit(':')
            .next()
            .and_then(|port| port.parse().ok());
        port.filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
            .unwrap_or(0)
    }

    fn read_text(home: &Home) -> io::Result<String> {
        let mut text = String::new();
        let mut file = OpenOptions::new()
            .read(true)
            .open(home.embedded_backend_file())?;
        file.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Finds the address of the embedded backend that serves now.
    ///
    /// # Errors
    /// [`HomeError`] if the file is there and cannot be read.
    pub fn find(home: &Home) -> Result<Option<String>, HomeError> {
        let path = home.embedded_backend_file();
        let read = || -> io::Result<Option<String>> {
            let mut file = OpenOptions::new().read(true).open(&path)?;
            if file.try_lock_shared().is_ok() {
                return Ok(None);
            }
            let mut text = String::new();
            // Windows does not let others read a locked file.
            let read = file.read_to_string(&mut text);
            Ok(read.is_ok_and(|bytes| bytes > 0).then_some(text))
        };
        let found = allow_missing(read()).map(Option::flatten);
        found.map_err(HomeError::unreadable(&path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_while_its_backend_serves_and_not_after_it() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let home = Home::open_home(&folder.path().join("home")).expect("a home");
        let find = || EmbeddedBackendAddress::find(&home).expect("readable");
        assert_eq!(find(), None);
        let first = EmbeddedBackendAddress::publish(&home, "http://127.0.0.1:1").expect("written");
        assert_eq!(find().as_deref(), Some("http://127.0.0.1:1"));
        let second = EmbeddedBackendAddress::publish(&home, "http://127.0.0.1:2").expect("asked");
        assert!(first.is_some() && second.is_none());
        drop(first);
        assert_eq!(find(), None);
        // A crash leaves the file without its lock.
        let mut left = open_lock_file(&home.embedded_backend_file()).expect("made");
        left.write_all(b"http://127.0.0.1:1").expect("written");
        assert_eq!(find(), None);
        let third = EmbeddedBackendAddress::publish(&home, "http://127.0.0.1:3").expect("written");
        assert_eq!(find().as_deref(), Some("http://127.0.0.1:3"));
        drop(third);
    }
}
