//! What ran and how it was set: settings, versions, plugins.

pub mod plugin;
pub mod setting;
pub mod version;
