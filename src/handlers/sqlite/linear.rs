//! Text functions of SQLite's own, made so that their time grows with their texts and not with the product of their lengths.
//! Not here: which functions may be called (vocabulary).
//!
//! SQLite looks at its guard between the steps of its machine, and a function is one step. Its `instr` and `replace`
//! compare the whole pattern at every place of the text, so that one step may take minutes; these search as fast as they
//! can read. What they answer is the same, for every kind of value. `trim` and its kin compare every character with every one
//! of a list; the list is held short.
#![expect(unsafe_code, reason = "SQLite's conversions of values are C functions only")]

use std::ffi::{CStr, c_int};
use std::ptr;

use memchr::memmem;
use rusqlite::Connection;
use rusqlite::ffi::{self, sqlite3_context, sqlite3_value};

/// The most bytes of the characters that `trim(text, characters)` takes off, and of a pattern of LIKE and GLOB.
pub(super) const MAX_PATTERN: i32 = 200;

/// What SQLite calls a function by.
type Call = unsafe extern "C" fn(*mut sqlite3_context, c_int, *mut *mut sqlite3_value);

/// Puts them in the place of SQLite's own.
pub(super) fn install(connection: &Connection) -> rusqlite::Result<()> {
    let calls: [(&CStr, c_int, Call); 5] = [
        (c"instr", 2, instr),
        (c"replace", 3, replace),
        (c"trim", 2, trim),
        (c"ltrim", 2, ltrim),
        (c"rtrim", 2, rtrim),
    ];
    let flags = ffi::SQLITE_UTF8 | ffi::SQLITE_DETERMINISTIC | ffi::SQLITE_INNOCUOUS;
    for (name, count, call) in calls {
        // SAFETY: the connection is open for as long as it is borrowed. The functions are static and keep nothing.
        let code = unsafe {
            let (data, call) = (ptr::null_mut(), Some(call));
            ffi::sqlite3_create_function_v2(
                connection.handle(),
                name.as_ptr(),
                count,
                flags,
                data,
                call,
                None,
                None,
                None,
            )
        };
        if code != ffi::SQLITE_OK {
            return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        }
    }
    Ok(())
}

/// A value as text, in SQLite's way; none for NULL, and where memory is short.
///
/// # Safety
/// The value is one of a call's that runs, and not looked at in another way while the text is in use.
unsafe fn text<'a>(value: *mut sqlite3_value) -> Option<&'a [u8]> {
    // SAFETY: for the caller to see to. The text is as long as SQLite says, and stays until the value is converted again.
    unsafe {
        let start = ffi::sqlite3_value_text(value);
        if start.is_null() {
            return None;
        }
        let length = usize::try_from(ffi::sqlite3_value_bytes(value)).unwrap_or(0);
        Some(std::slice::from_raw_parts(start, length))
    }
}

/// A value's bytes.
///
/// # Safety
/// As with [`text`]; the value is a blob.
unsafe fn blob<'a>(value: *mut sqlite3_value) -> &'a [u8] {
    // SAFETY: for the caller to see to. An empty blob has no address.
    unsafe {
        let start = ffi::sqlite3_value_blob(value).cast::<u8>();
        let length = usize::try_from(ffi::sqlite3_value_bytes(value)).unwrap_or(0);
        if start.is_null() { &[] } else { std::slice::from_raw_parts(start, length) }
    }
}

/// A copy of a value, which may be converted without changing the caller's.
struct Own(*mut sqlite3_value);

impl Own {
    /// # Safety
    /// The value is one of a call's that runs.
    unsafe fn of(value: *mut sqlite3_value) -> Self {
        // SAFETY: for the caller to see to.
        Self(unsafe { ffi::sqlite3_value_dup(value) })
    }

    fn text(&self) -> Option<&[u8]> {
        // SAFETY: the copy is this one's alone. A null pointer is NULL to SQLite.
        unsafe { text(self.0) }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: made by SQLite, freed once; a null pointer is nothing to free.
        unsafe { ffi::sqlite3_value_free(self.0) };
    }
}

/// # Safety
/// The call runs.
unsafe fn give(context: *mut sqlite3_context, text: &[u8]) {
    // What is longer than a number can say is longer than any limit.
    let length = c_int::try_from(text.len()).unwrap_or(c_int::MAX);
    // SAFETY: SQLite copies the text, or refuses it by its length.
    unsafe { ffi::sqlite3_result_text(context, text.as_ptr().cast(), length, ffi::SQLITE_TRANSIENT()) };
}

unsafe extern "C" fn instr(context: *mut sqlite3_context, _: c_int, values: *mut *mut sqlite3_value) {
    // SAFETY: SQLite calls with as many values as the function was made known with.
    unsafe {
        let (text, pattern) = (*values, *values.add(1));
        let kinds = [text, pattern].map(|value| ffi::sqlite3_value_type(value));
        if kinds.contains(&ffi::SQLITE_NULL) {
            return;
        }
        if ffi::sqlite3_value_bytes(pattern) == 0 {
            return ffi::sqlite3_result_int64(context, 1);
        }
        let found = match kinds.map(|kind| kind == ffi::SQLITE_BLOB) {
            [true, true] => Some(place(blob(text), blob(pattern), true)),
            [false, false] => both(self::text(text), self::text(pattern)),
            // One of them is bytes, and shall stay so for whoever looks at it next.
            _ => both(Own::of(text).text(), Own::of(pattern).text()),
        };
        match found {
            Some(at) => ffi::sqlite3_result_int64(context, at),
            None => ffi::sqlite3_result_error_nomem(context),
        }
    }
}

fn both(text: Option<&[u8]>, pattern: Option<&[u8]>) -> Option<i64> {
    Some(place(text?, pattern?, false))
}

/// Where the pattern begins first, in bytes or in characters from 1; 0 where it does not.
fn place(text: &[u8], pattern: &[u8], bytes: bool) -> i64 {
    let follows = |byte: u8| !bytes && byte & 0xc0 == 0x80;
    let found = match pattern.first() {
        None => return 1,
        // SQLite looks where characters begin, and at the very beginning.
        Some(first) if follows(*first) => text.starts_with(pattern).then_some(0),
        Some(_) => memmem::find(text, pattern),
    };
    let count = |at: usize| text[..=at].iter().skip(1).filter(|byte| !follows(**byte)).count();
    found.map_or(0, |at| i64::try_from(count(at)).unwrap_or(i64::MAX).saturating_add(1))
}

unsafe extern "C" fn replace(context: *mut sqlite3_context, _: c_int, values: *mut *mut sqlite3_value) {
    // SAFETY: SQLite calls with as many values as the function was made known with, each another register.
    unsafe {
        let Some(whole) = text(*values) else { return };
        let Some(pattern) = text(*values.add(1)) else { return };
        // SQLite takes a pattern that begins with NUL for an empty one.
        if pattern.first().is_none_or(|first| *first == 0) {
            return give(context, whole);
        }
        let Some(put) = text(*values.add(2)) else { return };
        let most = ffi::sqlite3_limit(ffi::sqlite3_context_db_handle(context), ffi::SQLITE_LIMIT_LENGTH, -1);
        match replaced(whole, pattern, put, usize::try_from(most).unwrap_or(0)) {
            Some(text) => give(context, &text),
            None => ffi::sqlite3_result_error_toobig(context),
        }
    }
}

/// None where it would be longer than `most` bytes.
fn replaced(whole: &[u8], pattern: &[u8], put: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut from = 0;
    for at in memmem::find_iter(whole, pattern) {
        out.extend_from_slice(&whole[from..at]);
        out.extend_from_slice(put);
        from = at + pattern.len();
        if out.len() > most {
            return None;
        }
    }
    out.extend_from_slice(&whole[from..]);
    (out.len() <= most).then_some(out)
}

unsafe extern "C" fn trim(context: *mut sqlite3_context, _: c_int, values: *mut *mut sqlite3_value) {
    // SAFETY: as SQLite calls.
    unsafe { trim_sides(context, values, true, true) }
}

unsafe extern "C" fn ltrim(context: *mut sqlite3_context, _: c_int, values: *mut *mut sqlite3_value) {
    // SAFETY: as SQLite calls.
    unsafe { trim_sides(context, values, true, false) }
}

unsafe extern "C" fn rtrim(context: *mut sqlite3_context, _: c_int, values: *mut *mut sqlite3_value) {
    // SAFETY: as SQLite calls.
    unsafe { trim_sides(context, values, false, true) }
}

/// # Safety
/// A call runs, with two values.
unsafe fn trim_sides(
    context: *mut sqlite3_context,
    values: *mut *mut sqlite3_value,
    left: bool,
    right: bool,
) {
    // SAFETY: for the caller to see to.
    unsafe {
        let Some(mut rest) = text(*values) else { return };
        let Some(set) = text(*values.add(1)) else { return };
        // SQLite reads it up to the first NUL.
        let set = set.split(|byte| *byte == 0).next().unwrap_or_default();
        if set.len() > usize::try_from(MAX_PATTERN).unwrap_or(0) {
            let why = c"trim() takes off at most 200 bytes of characters";
            return ffi::sqlite3_result_error(context, why.as_ptr(), -1);
        }
        let set = characters(set);
        while left && let Some(shorter) = set.iter().find_map(|one| rest.strip_prefix(*one)) {
            rest = shorter;
        }
        while right && let Some(shorter) = set.iter().find_map(|one| rest.strip_suffix(*one)) {
            rest = shorter;
        }
        give(context, rest);
    }
}

/// As SQLite tells characters apart, in whatever bytes.
fn characters(mut set: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some((first, others)) = set.split_first() {
        let more =
            if *first < 0xc0 { 0 } else { others.iter().take_while(|byte| **byte & 0xc0 == 0x80).count() };
        let (one, rest) = set.split_at(1 + more);
        found.push(one);
        set = rest;
    }
    found
}

#[cfg(test)]
mod tests {
    use rusqlite::types::Value;

    use super::*;

    /// What a connection answers, or its error.
    fn ask(connection: &Connection, sql: &str) -> Result<Value, String> {
        connection.query_row(sql, [], |row| row.get(0)).map_err(|error| error.to_string())
    }

    #[test]
    fn they_answer_as_sqlite_does() {
        let values = [
            "NULL",
            "''",
            "x''",
            "'a'",
            "'ab'",
            "'aab'",
            "'abaabaab'",
            "'ä'",
            "'äöä ab'",
            "'😀ä'",
            "x'80'",
            "x'a4'",
            "x'c3'",
            "x'c3a4'",
            "x'00'",
            "x'6100'",
            "x'610062'",
            "CAST(x'80' AS TEXT)",
            "CAST(x'a461c3' AS TEXT)",
            "CAST(x'c3' AS TEXT)",
            "CAST(x'610061' AS TEXT)",
            "CAST(x'0061' AS TEXT)",
            "1",
            "1.5",
            "-0.1",
            "1e300",
            "9007199254740993",
            "zeroblob(3)",
            "' a '",
        ];
        let halved = ["x'80'", "x'a4'", "x'c3'", "x'00'", "x'610062'", "zeroblob(3)"];
        for encoding in ["UTF-8", "UTF-16"] {
            let [own, usual] = [(); 2].map(|()| {
                let connection = Connection::open_in_memory().expect("a database");
                connection
                    .execute_batch(&format!("PRAGMA encoding = '{encoding}'; CREATE TABLE t (a);"))
                    .expect("a table");
                connection
            });
            install(&own).expect("functions");
            let both = |sql: &str| assert_eq!(ask(&own, sql), ask(&usual, sql), "{encoding}: {sql}");
            for one in values {
                for two in values {
                    for name in ["trim", "ltrim", "rtrim"] {
                        both(&format!("SELECT {name}({one}, {two})"));
                    }
                    // Bytes that end within a UTF-16 unit are no text; SQLite finds them at its own terminator.
                    if encoding == "UTF-8" || ![one, two].iter().any(|value| halved.contains(value)) {
                        both(&format!("SELECT instr({one}, {two})"));
                    }
                    for three in ["NULL", "''", "'xyz'", "x'00'", "2.5", "'ab'"] {
                        both(&format!("SELECT replace({one}, {two}, {three})"));
                        both(&format!("SELECT typeof(replace({one}, {two}, {three}))"));
                    }
                }
            }
        }
    }

    #[test]
    fn a_pattern_of_megabytes_is_looked_for_at_once() {
        let connection = Connection::open_in_memory().expect("a database");
        install(&connection).expect("functions");
        for (sql, found) in [
            ("SELECT instr(zeroblob(16000000), CAST(zeroblob(8000000) || x'01' AS BLOB))", 0),
            ("SELECT length(replace(hex(zeroblob(1000000)), hex(zeroblob(500000)) || '1', ''))", 2_000_000),
            ("SELECT length(replace(hex(zeroblob(4)) || 'x', 'x', 'yy'))", 10),
        ] {
            assert_eq!(ask(&connection, sql), Ok(Value::Integer(found)), "{sql}");
        }
        let refused = ask(&connection, "SELECT trim('a', hex(zeroblob(200)))").expect_err("too many");
        assert!(refused.contains("200 bytes"), "{refused}");
        connection.set_limit(rusqlite::limits::Limit::SQLITE_LIMIT_LENGTH, 1_000).expect("a limit");
        let refused =
            ask(&connection, "SELECT replace(hex(zeroblob(200)), '0', '123')").expect_err("too long");
        assert!(refused.contains("too big"), "{refused}");
    }
}
