//! An export as a database: its tables, columns and rows. Nothing is written beside the file, and a
//! damaged database is read as far as possible.

use super::limits::MAX_FIELD_BYTES;
use crate::error::{Error, Result};
use crate::report::account::Account;
use crate::source::{self, Input, UnpackDamage};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The first bytes of every SQLite database.
pub(crate) const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// An open export.
pub(super) struct NsysExport {
    db: Connection,
    /// The input's name.
    pub(super) name: String,
    /// The tables, by name, and their columns.
    tables: FxHashMap<String, Vec<String>>,
    /// An upper bound of the rows that fit into the file.
    most: u64,
    /// Descriptions of what could not be read.
    lacks: RefCell<Vec<String>>,
    strings: RefCell<FxHashMap<i64, Rc<[u8]>>>,
}

impl std::fmt::Debug for NsysExport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Export").finish_non_exhaustive()
    }
}

/// The fields of a row, in the order of the query's columns.
pub(super) struct ExportFields<'r, 's>(&'r rusqlite::Row<'s>);

impl ExportFields<'_, '_> {
    /// A whole number; `None` for anything else.
    pub(super) fn int(&self, at: usize) -> Option<i64> {
        match self.0.get_ref(at) {
            Ok(ValueRef::Integer(n)) => Some(n),
            _ => None,
        }
    }

    /// A whole number that is not negative.
    pub(super) fn number(&self, at: usize) -> Option<u64> {
        self.int(at).and_then(|n| u64::try_from(n).ok())
    }

    /// A text or a blob.
    pub(super) fn bytes(&self, at: usize) -> Option<&[u8]> {
        match self.0.get_ref(at) {
            Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

impl NsysExport {
    /// Opens the export of an input; one that is packed or comes through a pipe is unpacked to a
    /// temporary file first.
    ///
    /// # Errors
    /// It is no database, or nothing of it can be read.
    pub(super) fn open_export(input: &Input) -> Result<NsysExport> {
        let name = input.name();
        let plain = input.plain_path().filter(|path| is_database(path));
        let copy = match plain {
            Some(_) => None,
            None => Some(copy_input(input)?),
        };
        let path = match (&plain, &copy) {
            (Some(path), _) => path,
            (None, Some(copy)) => copy.path(),
            (None, None) => Path::new(""),
        };
        let mut lacks = Vec::new();
        if plain.is_some() && has_journal(path) {
            lacks.push(
                "a journal of SQLite lies beside the file: the export is still being written, or was \
                 ended, and may lack rows"
                    .to_owned(),
            );
        }
        let size = DatabaseSize::read_size(path);
        let opened = open_database(path, size.is_cut());
        // The open database keeps the copy's bytes after its name is removed.
        let read = opened.and_then(|db| list_tables(&db).map(|tables| (db, tables)));
        let (db, tables) = read.map_err(|why| {
            let why = match size.is_cut() {
                true => format!(
                    "it ends after {} of {} bytes: copy it or export it again",
                    size.is, size.says
                ),
                false => why.to_string(),
            };
            Error::Content(format!("{name}: the database cannot be read: {why}"))
        })?;
        drop(copy);
        if tables.is_empty() {
            return Err(Error::Content(format!(
                "{name}: the database has no tables"
            )));
        }
        if size.is_cut() {
            lacks.push(format!(
                "the database ends too early: it has {} of {} bytes, and lacks what is behind them",
                size.is, size.says
            ));
        }
        Ok(NsysExport {
            db,
            name,
            tables,
            // A row has a length, a key, a header and its place in the page.
            most: size.is / 5,
            lacks: RefCell::new(lacks),
            strings: RefCell::default(),
        })
    }

    /// Returns true if the export has that table.
    pub(super) fn has_table(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// Returns true if that table has that column.
    pub(super) fn has_column(&self, table: &str, column: &str) -> bool {
        let columns = self.tables.get(table);
        columns.is_some_and(|columns| columns.iter().any(|known| known == column))
    }

    /// Returns true if a table is one of Nsight Systems.
    pub(super) fn is_nsys(&self) -> bool {
        let begins = |table: &String| {
            ["TARGET_INFO_", "CUPTI_", "NVTX_"]
                .iter()
                .any(|with| table.starts_with(with))
        };
        self.tables.keys().any(begins)
    }

    /// Hands each row of a table to `each`, with these columns; a column that the table lacks is NULL.
    /// Returns the number of rows, 0 for a missing table. If a row cannot be read, notes that and stops.
    ///
    /// # Errors
    /// Those of `each`.
    pub(super) fn for_each_row(
        &self,
        table: &str,
        columns: &[&str],
        each: &mut dyn FnMut(&ExportFields<'_, '_>) -> Result<()>,
    ) -> Result<u64> {
        let Some(sql) = self.build_select(table, columns) else {
            return Ok(0);
        };
        let mut count = 0;
        let mut failed = None;
        let why = self.run_query(&sql, &mut |fields| {
            if count >= self.most {
                return Ok(false);
            }
            count += 1;
            failed = each(fields).err();
            Ok(failed.is_none())
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let why = match why {
            Err(why) => why.to_string(),
            Ok(true) => return Ok(count),
            Ok(false) => "it has more rows than there is room for in the file".to_owned(),
        };
        self.lacks.borrow_mut().push(format!(
            "the table {table} cannot be read behind row {count}: {why}"
        ));
        Ok(count)
    }

    /// Returns true if `is` holds for a row of a table.
    pub(super) fn any_row(
        &self,
        table: &str,
        columns: &[&str],
        is: &mut dyn FnMut(&ExportFields<'_, '_>) -> bool,
    ) -> bool {
        let mut rows = 0;
        let sql = self.build_select(table, columns);
        let mut each = |fields: &ExportFields<'_, '_>| {
            rows += 1;
            Ok(!is(fields) && rows < self.most)
        };
        let found = sql.map(|sql| self.run_query(&sql, &mut each));
        matches!(found, Some(Ok(false))) && rows < self.most
    }

    /// Builds the query of these columns, if the table exists.
    fn build_select(&self, table: &str, columns: &[&str]) -> Option<String> {
        let column = |name: &&str| match self.has_column(table, name) {
            true => format!("\"{name}\""),
            false => "NULL".to_owned(),
        };
        let columns: Vec<String> = columns.iter().map(column).collect();
        let sql = || format!("SELECT {} FROM \"{table}\"", columns.join(","));
        self.has_table(table).then(sql)
    }

    /// Goes through the rows of a query while `each` returns true; returns true at the end.
    fn run_query(
        &self,
        sql: &str,
        each: &mut dyn FnMut(&ExportFields<'_, '_>) -> rusqlite::Result<bool>,
    ) -> rusqlite::Result<bool> {
        let mut statement = self.db.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if !each(&ExportFields(row))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the text with that number, which an event names. Other texts are never read: the
    /// environment of the processes is among them.
    pub(super) fn text_by_id(&self, id: i64) -> Rc<[u8]> {
        if let Some(known) = self.strings.borrow().get(&id) {
            return Rc::clone(known);
        }
        let text = self.read_text(id).unwrap_or_default();
        self.strings.borrow_mut().insert(id, Rc::clone(&text));
        text
    }

    fn read_text(&self, id: i64) -> Option<Rc<[u8]>> {
        if !self.has_column("StringIds", "id") || !self.has_column("StringIds", "value") {
            return None;
        }
        // By the row's own number: no other search is made.
        let sql = "SELECT value FROM \"StringIds\" WHERE rowid = ?1 AND id = ?1";
        let mut statement = self.db.prepare(sql).ok()?;
        let found = statement.query_row([id], |row| match row.get_ref(0)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(Rc::from(bytes)),
            _ => Ok(Rc::default()),
        });
        let text = match found {
            Ok(text) => return Some(text),
            Err(rusqlite::Error::QueryReturnedNoRows) => {
                "the table StringIds lacks names that events have".to_owned()
            }
            Err(why) => format!("names in the table StringIds cannot be read: {why}"),
        };
        let mut lacks = self.lacks.borrow_mut();
        if !lacks.contains(&text) {
            lacks.push(text);
        }
        None
    }

    /// Opens a text to be read in pieces: it may be a log.
    pub(super) fn open_long_text(&self, id: i64) -> Option<impl Read + '_> {
        let blob = self.db.blob_open("main", "StringIds", "value", id, true);
        blob.ok()
    }

    /// Notes something that the export lacks.
    pub(super) fn note_lack(&self, text: String) {
        self.lacks.borrow_mut().push(text);
    }

    /// Returns all that could not be read as one sentence.
    pub(super) fn describe_damage(&self) -> Option<UnpackDamage> {
        let lacks = self.lacks.borrow();
        (!lacks.is_empty()).then(|| UnpackDamage {
            what: lacks.join("; "),
            is_lost: true,
        })
    }

    /// Moves the descriptions of damage into an account.
    pub(super) fn add_to_account(&self, account: &mut Account) {
        for text in self.lacks.borrow_mut().drain(..) {
            account.count_damaged_line(text, b"");
        }
    }
}

/// Returns true for a file that begins as a database.
fn is_database(path: &Path) -> bool {
    let mut head = [0; SQLITE_MAGIC.len()];
    let is_file = path.metadata().is_ok_and(|meta| meta.is_file());
    let mut read = || source::fill_buffer(&mut File::open(path)?, &mut head);
    is_file && read().is_ok_and(|n| n == SQLITE_MAGIC.len()) && head == SQLITE_MAGIC
}

/// Returns true if SQLite has a journal of the file that is not empty.
fn has_journal(path: &Path) -> bool {
    ["-journal", "-wal"].iter().any(|end| {
        let mut beside = path.as_os_str().to_owned();
        beside.push(end);
        PathBuf::from(beside)
            .metadata()
            .is_ok_and(|meta| meta.len() > 0)
    })
}

/// A copy of an input's bytes.
fn copy_input(input: &Input) -> Result<tempfile::NamedTempFile> {
    let failed = |cause: io::Error| {
        Error::Content(format!(
            "{}: cannot copy the export to a temporary file: {cause} (set TMPDIR to a folder with \
             more space, or unpack the export)",
            input.name()
        ))
    };
    let mut file = tempfile::NamedTempFile::new().map_err(failed)?;
    io::copy(&mut input.open_document()?, &mut file).map_err(failed)?;
    Ok(file)
}

/// The bytes that a database has, and those that its header declares.
#[derive(Debug, Clone, Copy, Default)]
struct DatabaseSize {
    is: u64,
    says: u64,
}

impl DatabaseSize {
    fn read_size(path: &Path) -> DatabaseSize {
        let mut head = [0; 100];
        let Ok(mut file) = File::open(path) else {
            return DatabaseSize::default();
        };
        let is = file.metadata().map_or(0, |meta| meta.len());
        let read = source::fill_buffer(&mut file, &mut head);
        let word = |at: usize| {
            let bytes = head.get(at..at + 4).and_then(|b| b.try_into().ok());
            u64::from(u32::from_be_bytes(bytes.unwrap_or_default()))
        };
        let page = match [head[16], head[17]] {
            [0, 1] => 1 << 16,
            [high, low] => u64::from(high) << 8 | u64::from(low),
        };
        // The number of pages is valid only if the two counters agree.
        let says = match read {
            Ok(100) if word(24) == word(92) => page * word(28),
            _ => is,
        };
        DatabaseSize { is, says }
    }

    fn is_cut(self) -> bool {
        self.is < self.says
    }
}

/// Opens a database that no process changes: without a lock or a journal.
fn open_database(path: &Path, is_cut: bool) -> rusqlite::Result<Connection> {
    use std::fmt::Write;
    use std::os::unix::ffi::OsStrExt;
    let bytes = path.as_os_str().as_bytes();
    let mut uri = match bytes.first() {
        Some(b'/') => "file://".to_owned(),
        _ => "file:./".to_owned(),
    };
    for &b in bytes {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(b.into());
            }
            // Into a string: it cannot fail.
            _ => _ = write!(uri, "%{b:02x}"),
        }
    }
    uri.push_str("?mode=ro&immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(uri, flags)?;
    db.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_FIELD_BYTES)?;
    db.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;")?;
    if is_cut {
        // Otherwise SQLite refuses a file that is shorter than its header declares.
        db.execute_batch("PRAGMA writable_schema = ON;")?;
    }
    Ok(db)
}

/// Lists the stored tables with their columns.
fn list_tables(db: &Connection) -> rusqlite::Result<FxHashMap<String, Vec<String>>> {
    let mut tables = FxHashMap::default();
    let mut statement =
        db.prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let Ok(name) = row.get::<_, String>(0) else {
            continue;
        };
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            continue;
        }
        let mut columns = Vec::new();
        let mut of_table = db.prepare(&format!("PRAGMA table_info(\"{name}\")"))?;
        let mut infos = of_table.query([])?;
        while let Some(info) = infos.next()? {
            columns.extend(info.get::<_, String>(1).ok());
        }
        tables.insert(name, columns);
    }
    Ok(tables)
}
