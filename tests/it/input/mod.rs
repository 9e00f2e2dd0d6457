//! What programs are given to read: damaged, torn, wrapped, packed, many.

mod bad;
mod damage;
mod formats;
mod headers;
mod inputs;
mod interrupted;
mod live;
mod torn;
mod ways;
mod wrapped;
