//! A stub of NCCL's side: the library is opened, and its functions are called as NCCL calls them.
//!
//! Descriptors are filled by the offsets of NCCL's own headers (`offsets.txt`), not by the library's declarations.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Kinds of events.
pub(crate) const GROUP: u64 = 1;
pub(crate) const COLL: u64 = 2;
pub(crate) const P2P: u64 = 4;
pub(crate) const PROXY_OP: u64 = 8;
pub(crate) const PROXY_STEP: u64 = 16;
pub(crate) const KERNEL_CH: u64 = 64;
pub(crate) const GROUP_API: u64 = 256;
pub(crate) const COLL_API: u64 = 512;
pub(crate) const P2P_API: u64 = 1024;

/// The library, by one version of the interface.
#[derive(Clone)]
pub(crate) struct Nccl {
    pub(crate) version: u32,
    library: *mut c_void,
    table: *const Table,
    offsets: HashMap<String, (usize, usize)>,
}

// SAFETY: the table is constant.
unsafe impl Send for Nccl {}
// SAFETY: likewise.
unsafe impl Sync for Nccl {}

#[repr(C)]
struct Table {
    name: *const c_char,
    init: *const c_void,
    start_event: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *const c_void) -> c_int,
    stop_event: unsafe extern "C" fn(*mut c_void) -> c_int,
    record_state: unsafe extern "C" fn(*mut c_void, c_int, *const c_void) -> c_int,
    finalize: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// A communicator's context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context(pub(crate) usize);

/// An event's handle.
pub(crate) type Event = usize;

/// The path of the built library.
pub(crate) fn library() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    here.parent().unwrap().join("libnccl_pipe_profiler.so")
}

impl Nccl {
    /// Opens the library as `ncclOpenProfilerPluginLib` does.
    pub(crate) fn open(version: u32) -> Nccl {
        let path = CString::new(library().as_os_str().as_bytes()).unwrap();
        let symbol = CString::new(format!("ncclProfiler_v{version}")).unwrap();
        // SAFETY: both texts end with 0.
        let (library, table) = unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!library.is_null(), "{:?}", CStr::from_ptr(libc::dlerror()));
            (
                library,
                libc::dlsym(library, symbol.as_ptr()).cast::<Table>(),
            )
        };
        assert!(!table.is_null());
        let prefix = format!("v{version} ");
        let lines = include_str!("offsets.txt").lines();
        let offsets = lines
            .filter_map(|line| line.strip_prefix(&prefix))
            .map(|line| {
                let mut words = line.split(' ');
                let mut next = || words.next().unwrap();
                (
                    next().to_owned(),
                    (next().parse().unwrap(), next().parse().unwrap()),
                )
            });
        Nccl {
            version,
            library,
            table,
            offsets: offsets.collect(),
        }
    }

    fn table(&self) -> &Table {
        // SAFETY: the library stays open.
        unsafe { &*self.table }
    }

    /// Calls `init`; returns the context and the mask.
    pub(crate) fn init(&self, id: u64, nranks: c_int, rank: c_int) -> (Context, u32) {
        let (mut context, mut mask) = (std::ptr::null_mut::<c_void>(), 0 as c_int);
        let (out, to, name) = (&raw mut context, &raw mut mask, c"dp".as_ptr());
        let none = std::ptr::null::<c_void>();
        // SAFETY: the signatures are those of the version.
        let result = unsafe {
            match self.version {
                1..=3 => {
                    let init: unsafe extern "C" fn(*mut *mut c_void, *mut c_int) -> c_int =
                        std::mem::transmute(self.table().init);
                    init(out, to)
                }
                4 => {
                    let init: unsafe extern "C" fn(
                        *mut *mut c_void,
                        *mut c_int,
                        *const c_char,
                        u64,
                        c_int,
                        c_int,
                        c_int,
                        *const c_void,
                    ) -> c_int = std::mem::transmute(self.table().init);
                    init(out, to, name, id, 2, nranks, rank, none)
                }
                _ => {
                    let init: unsafe extern "C" fn(
                        *mut *mut c_void,
                        u64,
                        *mut c_int,
                        *const c_char,
                        c_int,
                        c_int,
                        c_int,
                        *const c_void,
                    ) -> c_int = std::mem::transmute(self.table().init);
                    init(out, id, to, name, 2, nranks, rank, none)
                }
            }
        };
        assert_eq!(result, 0);
        (Context(context as usize), mask as u32)
    }

    /// Closes the library, as NCCL does with its last communicator. Its table stays where it is.
    pub(crate) fn close(&self) {
        // SAFETY: it is open.
        unsafe { libc::dlclose(self.library) };
    }

    /// A descriptor of a kind.
    pub(crate) fn describe(&self, kind: u64, parent: Event) -> Described<'_> {
        let mut made = Described {
            nccl: self,
            bytes: Box::new([0; 256]),
        };
        made.put("type", kind);
        made.put("parentObj", parent as u64);
        made
    }

    pub(crate) fn start(&self, context: Context, of: &Described<'_>) -> Event {
        let mut event = std::ptr::null_mut();
        let descriptor = of.bytes.as_ptr().cast();
        // SAFETY: the descriptor is as the version has it.
        unsafe { (self.table().start_event)(context.0 as *mut c_void, &raw mut event, descriptor) };
        event as Event
    }

    pub(crate) fn stop(&self, event: Event) {
        // SAFETY: it is from `start`, or 0 as early versions may call it.
        unsafe { (self.table().stop_event)(event as *mut c_void) };
    }

    /// Calls `recordEventState`; without a value as for states of groups.
    pub(crate) fn record(&self, event: Event, state: c_int, value: Option<u64>) {
        let args = value.map(|value| [value, 0]);
        let args = args
            .as_ref()
            .map_or(std::ptr::null(), |args| args.as_ptr().cast());
        // SAFETY: the union is 16 bytes at most.
        unsafe { (self.table().record_state)(event as *mut c_void, state, args) };
    }

    pub(crate) fn finalize(&self, context: Context) {
        // SAFETY: it is from `init`.
        unsafe { (self.table().finalize)(context.0 as *mut c_void) };
    }
}

/// A descriptor.
pub(crate) struct Described<'n> {
    nccl: &'n Nccl,
    bytes: Box<[u8; 256]>,
}

impl Described<'_> {
    /// Fills a field.
    pub(crate) fn put(&mut self, field: &str, value: u64) -> &mut Self {
        let &(at, size) = self
            .nccl
            .offsets
            .get(field)
            .unwrap_or_else(|| panic!("{field}"));
        self.bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        self
    }

    /// Fills a field with a name.
    pub(crate) fn put_name(&mut self, field: &str, name: &'static CStr) -> &mut Self {
        self.put(field, name.as_ptr() as u64)
    }

    /// Fills a field if the version has it.
    pub(crate) fn put_if_any(&mut self, field: &str, value: u64) -> &mut Self {
        match self.nccl.offsets.contains_key(field) {
            true => self.put(field, value),
            false => self,
        }
    }
}
