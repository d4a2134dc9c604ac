//! Statements that are prepared once and kept by their connection.

use rusqlite::{Connection, OptionalExtension as _, Params, Result, Row};

/// The calls of a connection with cached statements.
pub(super) trait SqlCalls {
    /// Runs a statement and returns the number of changed rows.
    fn execute_cached(&self, sql: &str, params: impl Params) -> Result<usize>;

    /// Returns the only row, if there is one.
    fn find_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>>;

    fn read_rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>>;
}

impl SqlCalls for Connection {
    fn execute_cached(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.prepare_cached(sql)?.execute(params)
    }

    fn find_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.prepare_cached(sql)?.query_row(params, read).optional()
    }

    fn read_rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.prepare_cached(sql)?.query_map(params, read)?.collect()
    }
}
