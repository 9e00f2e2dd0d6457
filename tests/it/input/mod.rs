//! What programs are given to read: damaged, torn, wrapped, packed, many.

mod bad;
mod formats;
mod inputs;
mod torn;
mod wrapped;
