//! What messages report: the values that the tables have.

/// What a message reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineReport {
    /// What it is about.
    pub class: MachineClass,
    /// What a person has to do.
    pub action: MachineAction,
    /// The number of the driver.
    pub number: Option<ReportNumber>,
    /// Its meaning, a clause.
    pub means: &'static str,
}

/// A number by which a driver reports an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportNumber {
    /// Of a GPU.
    Xid(u32),
    /// Of an NVSwitch.
    SwitchXid(u32),
}

/// Declares an enum; the tables name its values by words.
macro_rules! words {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $value_doc:literal])+ $value:ident = $word:literal,)+ }) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[doc = $value_doc])+ $value,)+
        }

        impl $name {
            pub(super) fn parse_word(word: &str) -> Option<$name> {
                match word {
                    $($word => Some($name::$value),)+
                    _ => None,
                }
            }
        }
    };
}

words! {
    /// What a message is about; the tables describe each.
    MachineClass {
        /// A GPU that failed.
        Gpu = "gpu",
        /// Memory of a GPU.
        Memory = "memory",
        /// NVLink.
        Link = "link",
        /// NVSwitch.
        Switch = "switch",
        /// An error of the host's memory or CPU.
        Ram = "ram",
        /// An error of PCIe.
        Pcie = "pcie",
        /// A NIC or its link.
        Nic = "nic",
        /// A process that was killed for lack of memory.
        Oom = "oom",
        /// A process that crashed.
        Crash = "crash",
        /// An engine of a GPU.
        Engine = "engine",
        /// A program's error on a GPU.
        Program = "program",
        /// A GPU with lowered clocks.
        Slow = "slow",
        /// A process that waits in the kernel.
        Hung = "hung",
        /// A consequence.
        Follows = "follows",
        /// Nothing that ends a job.
        Harmless = "harmless",
        /// A link that is up again.
        Up = "up",
    }
}

impl MachineClass {
    /// True for a failure of a GPU, its memory or its links.
    pub fn is_gpu_failure(self) -> bool {
        matches!(
            self,
            MachineClass::Gpu | MachineClass::Memory | MachineClass::Link
        )
    }
}

words! {
    /// What a person has to do.
    MachineAction {
        /// Find the error of the program.
        Debug = "debug",
        /// Start the job again.
        Restart = "restart",
        /// Reset the GPU.
        Reset = "reset",
        /// Boot the host.
        Boot = "boot",
        /// Check or replace hardware.
        Repair = "repair",
        /// Look at NVLink.
        Link = "link",
        /// Update software.
        Update = "update",
        /// Find what uses the memory.
        Memory = "memory",
        /// Look at the core file.
        Core = "core",
        /// Nothing of these.
        None = "none",
    }
}
