//! What ran and how it was set: settings, versions, plugins.

pub(crate) mod plugin;
pub(crate) mod setting;
pub mod version;
