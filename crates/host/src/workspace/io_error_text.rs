//! Explains I/O errors of paths with advice, because the system's own text ends in a bare number.

use std::io;

/// Converts an error to one of the same kind with advice in its text. An error that has text of this program stays as
/// it is.
pub(crate) fn explain_io_error(cause: io::Error) -> io::Error {
    if cause.raw_os_error().is_none() {
        return cause;
    }
    let said = match cause.kind() {
        io::ErrorKind::NotFound => "it is not there (any more). List its folder to see what is",
        io::ErrorKind::PermissionDenied => {
            "permission denied: the user that runs this may not do that here. See `ls -la` of its folder, or use \
             another path"
        }
        io::ErrorKind::IsADirectory => "it is a folder. Give the path of a file",
        io::ErrorKind::NotADirectory => {
            "a part of the path is a file, not a folder. Check it with list_files"
        }
        io::ErrorKind::StorageFull => "the disk is full. Free some space, then try again",
        io::ErrorKind::QuotaExceeded => {
            "the disk quota is used up. Free some space, then try again"
        }
        io::ErrorKind::ReadOnlyFilesystem => "its file system is read-only. Use another path",
        io::ErrorKind::FileTooLarge => {
            "it would be larger than its file system takes. Write it in parts"
        }
        io::ErrorKind::InvalidFilename => {
            "its file system does not take such a name. Use a shorter, plainer one"
        }
        io::ErrorKind::AlreadyExists => "something has that name already. Look at it first",
        io::ErrorKind::ResourceBusy | io::ErrorKind::ExecutableFileBusy => {
            "it is in use by another program. Try again when that has ended"
        }
        kind => {
            // The number behind the system's text does not help a reader.
            let text = cause.to_string();
            let text = text
                .rsplit_once(" (os error")
                .map_or(text.as_str(), |(words, _)| words);
            return io::Error::new(
                kind,
                format!("{text}. Look at it with Bash, for example `stat`."),
            );
        }
    };
    io::Error::new(cause.kind(), format!("{said}."))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_the_system_is_left_and_the_kind_stays() {
        for number in 1..=133 {
            let kind = io::Error::from_raw_os_error(number).kind();
            let worded = explain_io_error(io::Error::from_raw_os_error(number));
            assert_eq!(worded.kind(), kind);
            let text = worded.to_string();
            assert!(
                !text.contains("os error") && text.contains(". "),
                "{number}: {text}"
            );
        }
        let ours = explain_io_error(io::Error::new(io::ErrorKind::InvalidInput, "is a FIFO"));
        assert_eq!(ours.to_string(), "is a FIFO");
    }
}
